/**
 * Parts of a loaded model, for generation, vectors, saved sequences, the command line and benches.
 * Not part of the public API.
 */
import type { ConstraintOptions } from '../grammar/constraint.ts';
import type { Grammar } from '../grammar/grammar.ts';
import type { Speculation } from '../generate/draft/drafter.ts';
import type { SamplerOptions } from '../sample/options.ts';
import type { Tokenizer } from '../tokenize/tokenizer.ts';
import type { ImageReader, ImageTokens } from './image-tokens.ts';
import type { ModelEngine } from './model-engine.ts';
import type { Scheduler } from './scheduler.ts';
import type { Slots } from './slots.ts';

export interface ModelInternals {
  readonly engine: ModelEngine;
  readonly tokenizer: Tokenizer;
  readonly slots: Slots;
  readonly scheduler: Scheduler;
  readonly speculation: Speculation;
  /** Images in sequences, and the reader of images; undefined without a projector. */
  readonly images: ImageTokens | undefined;
  readonly vision: ImageReader | undefined;
  /** Defaults of the sampler that the file sets. */
  readonly samplerDefaults: SamplerOptions;
  /** Compiles the grammar that a generation's options ask for. */
  constraint(options: ConstraintOptions, signal?: AbortSignal): Promise<Grammar> | undefined;
  /** @throws ERR_DISPOSED */
  assertUsable(): void;
}
