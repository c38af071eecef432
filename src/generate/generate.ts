/** Text generation: the loop of computing steps and sampling tokens. */
import type { ModelInternals } from '../run/model-internals.ts';
import { imagesOf, publicIds } from '../run/image-tokens.ts';
import { isSame, type Slot } from '../run/slots.ts';
import { checked, samplerOf, type Request } from './checked.ts';
import { Decoding } from './decoding.ts';
import type { GenerateOptions } from './options.ts';
import { partIds, type Prompt, type PromptPart } from './parts.ts';
import type { GenerationPart, GenerationResult } from './result.ts';
import { createStream, type Stream } from './stream.ts';

export type { GenerateOptions };
export type { FinishReason, GenerationPart, GenerationResult } from './result.ts';
export { draftTimings, predictedPerSecond, type DraftCounts, type Timings } from './timings.ts';

export type Generation = Stream<GenerationPart, GenerationResult>;

/** @internal */
export function createGeneration(model: ModelInternals, prompt: Prompt, options: GenerateOptions | undefined): Generation {
  return createStream('generation', () => run(model, prompt, options));
}

/**
 * The loop of a generation: computes a step, yields the tokens that it brought, until the text is
 * over.
 */
async function* run(
  model: ModelInternals,
  prompt: Prompt,
  asked: GenerateOptions | undefined,
): AsyncGenerator<GenerationPart, GenerationResult> {
  let decoding: Decoding | undefined;
  let seen = 0;
  let isWhole = false;
  let release: (() => void) | undefined;
  try {
    const request = checked(model, await idsOf(model, prompt, asked), asked);
    const { options, promptIds } = request;
    release = model.images?.hold(imagesOf(promptIds));
    decoding = await begin(model, request);
    const { text } = decoding;
    options.watch?.(() => decoding!.timings());
    await decoding.readSource();
    await decoding.readImages();
    while (await decoding.step()) {
      for (let i = 0; i < text.unseen.length; i++) {
        if (i > 0) options.signal?.throwIfAborted();
        seen++;
        yield text.unseen[i];
      }
      text.unseen.length = 0;
    }
    decoding.refuseShortText();
    isWhole = true;
    const timings = decoding.timings();
    const rest = text.end();
    if (rest) yield { id: -1, text: rest };
    const { relaxed } = decoding;
    return { promptIds: publicIds(promptIds), ...text.result(), timings, ...(relaxed.length > 0 ? { relaxed } : {}) };
  } finally {
    release?.();
    const { engine, slots, speculation } = model;
    if (decoding) {
      if (!isWhole) decoding.window.leave(seen);
      slots.release(decoding.slot);
    }
    if (slots.active === 0) {
      engine.executor.rest();
      speculation.rest();
    }
  }
}

/** A prompt of parts as ids; others unchanged. */
async function idsOf(model: ModelInternals, prompt: Prompt, asked: GenerateOptions | undefined): Promise<string | readonly number[]> {
  if (!Array.isArray(prompt) || prompt.every((part) => typeof part === 'number')) return prompt as string | readonly number[];
  const { signal, parseSpecial = true } = asked ?? {};
  signal?.throwIfAborted();
  model.assertUsable();
  return partIds(model, prompt as readonly PromptPart[], { parseSpecial, signal });
}

/** Waits for the grammar and for a slot. */
async function begin(model: ModelInternals, request: Request): Promise<Decoding> {
  const { options, promptIds, start } = request;
  const constraint = model.constraint(options, options.signal);
  const grammar = constraint && (await constraint);
  const { sampler, reader } = samplerOf(model, options, grammar);
  const slot = await model.slots.acquire(options.signal, (free, left) =>
    start === undefined ? slotFor(promptIds, free, left) : encodedSlotFor(promptIds, free),
  );
  try {
    return new Decoding(model, request, slot, sampler, reader);
  } catch (error) {
    model.slots.release(slot);
    throw error;
  }
}

/**
 * A shared beginning of less than this part of the prompt (bos, first words of a system prompt)
 * does not justify taking another conversation's slot.
 */
const WORTH_SHARING = 0.1;

/**
 * Chooses the slot that shares most of the prompt. If none shares enough, takes the slot that was
 * free longest, unless the prompt begins with everything that a slot has computed: then nothing is
 * lost by extending that slot. `left` are slots still in a step whose caller has gone, for example
 * after a timeout; a retry can continue there.
 */
function slotFor(promptIds: readonly number[], free: readonly Slot[], left: readonly Slot[]): Slot {
  let best = free[0];
  let most = 0;
  for (const slot of [...free, ...left]) {
    const n = slot.reusable(promptIds);
    if (n > most && (n > promptIds.length * WORTH_SHARING || n === slot.computed)) [best, most] = [slot, n];
  }
  return best;
}

/** The free slot in which an encoder has read this prompt, else the one that was free longest. */
const encodedSlotFor = (promptIds: readonly number[], free: readonly Slot[]): Slot =>
  free.find(({ encoded }) => isSame(encoded, promptIds)) ?? free[0];
