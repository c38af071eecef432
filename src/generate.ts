/** Prompt in, text out: the loop of sampling and decoding around the scheduler. */
import { QuantletError, typeName } from './errors.ts';
import type { ConstraintOptions } from './grammar/constraint.ts';
import type { ModelState } from './model.ts';
import { logprobs, type Logprobs } from './sample/logprobs.ts';
import { createSampler, type SamplerOptions } from './sample/sampler.ts';
import { sharedLength } from './state.ts';
import { createStopMatcher } from './stop.ts';
import { createStream, type Stream } from './stream.ts';
import { createDetokenizer } from './tokenize/stream.ts';

export interface GenerateOptions extends SamplerOptions, ConstraintOptions {
  /** New tokens at most; undefined or -1: until the model ends the text or the context is full. */
  maxTokens?: number;
  /** Texts that end the generation; they are not part of its text. */
  stop?: string | readonly string[];
  /** Ends the generation with signal.reason; the model is usable again. */
  signal?: AbortSignal;
  /** Read the text of control tokens (`<|im_start|>`) in the prompt as those tokens, as llama-completion does. Default true. */
  parseSpecial?: boolean;
  /** Go on after end-of-generation tokens. Default false. */
  ignoreEos?: boolean;
  /** Give each part the log probability of its token and of this many most probable ones. Undefined: none. */
  logprobs?: number;
  /** Control tokens come out as text, except those that end it. Default false. */
  special?: boolean;
}

export interface GenerationPart {
  /** The token; -1 for the last part where only held-back text is left. */
  readonly id: number;
  /** Text that became complete with it, maybe ''. */
  readonly text: string;
  /** Where options.logprobs asked for them. */
  readonly logprobs?: Logprobs;
}

export interface Timings {
  /** Prompt tokens that were computed; those that the cache still held are not among them. */
  readonly promptTokens: number;
  readonly promptMs: number;
  readonly predictedTokens: number;
  readonly predictedMs: number;
}

export interface GenerationResult {
  readonly promptIds: readonly number[];
  readonly ids: readonly number[];
  readonly text: string;
  /** `eog`: the model ended it, or its grammar did; `stop`: a stop text; `length`: maxTokens; `context`: the context is full (only without maxTokens). */
  readonly finishReason: 'eog' | 'stop' | 'length' | 'context';
  /** The stop text that ended it. */
  readonly stopText?: string;
  readonly timings: Timings;
}

export type Generation = Stream<GenerationPart, GenerationResult>;

export function createGeneration(state: ModelState, prompt: string | readonly number[], options: GenerateOptions): Generation {
  return createStream('generation', () => run(state, prompt, options));
}

async function* run(state: ModelState, prompt: string | readonly number[], options: GenerateOptions): AsyncGenerator<GenerationPart, GenerationResult> {
  const { engine, tokenizer, scheduler } = state;
  const { signal } = options;
  const ids: number[] = [];
  let text = '';
  let slot: number | undefined;
  try {
    state.assertUsable();
    signal?.throwIfAborted();
    const promptIds = typeof prompt === 'string' ? tokenizer.encode(prompt, { parseSpecial: options.parseSpecial ?? true }) : checkIds('the prompt', prompt, tokenizer.nVocab);
    if (promptIds.length === 0) throw new QuantletError('ERR_INVALID_ARGUMENT', 'the prompt has no tokens and the model adds none; give at least one');
    const room = engine.contextLength - promptIds.length;
    if (room < 0) throw new QuantletError('ERR_CONTEXT_FULL', `the prompt has ${promptIds.length} tokens, the context ${engine.contextLength}; shorten the prompt or load the model with a larger contextLength (it was trained for ${engine.hparams.nCtxTrain})`);
    const maxTokens = checkCount('maxTokens', options.maxTokens, Infinity), nLogprobs = checkCount('logprobs', options.logprobs, -1);
    const constraint = state.constraint(options, signal), grammar = constraint && (await constraint);
    const sampler = createSampler(options, engine.hparams.nVocab, { ...(grammar ? { grammar } : {}), pieceBytes: (id) => tokenizer.pieceBytes(id) });
    const detokenizer = createDetokenizer(tokenizer, { special: options.special ?? false });
    const stop = createStopMatcher(typeof options.stop === 'string' ? [options.stop] : (options.stop ?? []));

    slot = await scheduler.acquire(signal, (free) => placeFor(state, promptIds, free));
    const cache = state.slots[slot].tokens;
    // What the slot computed before and this prompt begins with is not computed again, but for the prompt's last token.
    const reused = sharedPrefix(cache, promptIds);
    // Which tokens may come first is found out while the prompt is computed, in case the model's own choice is refused.
    let firstMask = maxTokens > 0 ? grammar?.prepare() : undefined;
    firstMask?.catch(() => {}); // thrown where the mask is awaited
    let next = -1, nextLogprobs: Logprobs | undefined, refused: Float32Array | undefined;
    const choose = (id: number, logits: Float32Array): void => {
      next = id;
      if (nLogprobs >= 0) nextLogprobs = logprobs(logits, id, nLogprobs);
    };
    const decode = async (tokens: readonly number[], at: number): Promise<void> => {
      cache.length = at;
      refused = undefined;
      await scheduler.submit(slot!, at, tokens, tokens.length - 1, (logits) => {
        const id = sampler.sampleFreely(logits);
        if (id >= 0) choose(id, logits);
        else refused = logits.slice();
      }, signal);
      for (const id of tokens) cache.push(id);
      if (!refused) return;
      // The grammar allows something else. What it allows may take a while to find out: meanwhile others go on.
      await (firstMask ?? grammar!.prepare());
      signal?.throwIfAborted();
      choose(sampler.sampleMasked(refused), refused);
    };

    const begin = performance.now();
    let promptMs = 0, finishReason: GenerationResult['finishReason'] = 'length', stopText: string | undefined;
    if (maxTokens > 0) {
      for (const id of promptIds) sampler.accept(id, false);
      await decode(promptIds.slice(reused), reused);
      firstMask = undefined;
      promptMs = performance.now() - begin;
    }
    while (ids.length < maxTokens) {
      const id = next;
      const ends = tokenizer.isEog(id);
      if (ends && !options.ignoreEos) {
        finishReason = 'eog';
        break;
      }
      ids.push(id);
      sampler.accept(id);
      const shown = stop.push(ends ? '' : detokenizer.push(id));
      text += shown.text;
      stopText = shown.stopped;
      yield { id, text: shown.text, ...(nextLogprobs ? { logprobs: nextLogprobs } : {}) };
      if (stopText !== undefined) finishReason = 'stop';
      else if (grammar?.isFinished()) finishReason = 'eog';
      if (finishReason !== 'length' || ids.length >= maxTokens) break;
      if (promptIds.length + ids.length > engine.contextLength) {
        if (maxTokens !== Infinity) throw new QuantletError('ERR_CONTEXT_FULL', `the context of ${engine.contextLength} tokens is full after ${ids.length} of ${maxTokens} new tokens; load the model with a larger contextLength or ask for fewer`);
        finishReason = 'context';
        break;
      }
      await decode([id], promptIds.length + ids.length - 1);
    }
    const predictedMs = performance.now() - begin - promptMs;
    const rest = finishReason === 'stop' ? '' : stop.push(detokenizer.end()).text + stop.end();
    text += rest;
    if (rest) yield { id: -1, text: rest };
    return {
      promptIds, ids, text, finishReason, ...(stopText === undefined ? {} : { stopText }),
      timings: { promptTokens: promptIds.length - reused, promptMs, predictedTokens: ids.length, predictedMs },
    };
  } finally {
    if (slot !== undefined) scheduler.release(slot);
    if (scheduler.active === 0) engine.executor.rest();
  }
}

/** How many tokens of a prompt a slot's cache has; the last one is always computed, for its logits. */
const sharedPrefix = (cache: readonly number[], promptIds: readonly number[]): number => Math.min(sharedLength(cache, promptIds), promptIds.length - 1);

/** Less than this part of a prompt in common (its bos, a system prompt's first words) is not worth another conversation's cache. */
const WORTH_SHARING = 0.1;

/** The free slot that has most of the prompt already; if none has much, the one that was free longest. */
function placeFor({ slots }: ModelState, promptIds: readonly number[], free: readonly number[]): number {
  let best = free[0], most = promptIds.length * WORTH_SHARING;
  for (const slot of free) {
    const n = sharedPrefix(slots[slot].tokens, promptIds);
    if (n > most) [best, most] = [slot, n];
  }
  return best;
}

/** @throws ERR_INVALID_ARGUMENT where `what` is no list of token ids of the vocabulary */
export function checkIds(what: string, ids: readonly number[], nVocab: number): readonly number[] {
  if (!Array.isArray(ids)) throw new QuantletError('ERR_INVALID_ARGUMENT', `${what} is ${typeName(ids)}; expected a text or an array of token ids`);
  const bad = ids.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= nVocab);
  if (bad >= 0) throw new QuantletError('ERR_INVALID_ARGUMENT', `${what} has the id ${ids[bad]} at ${bad}, outside the vocabulary of ${nVocab}`);
  return ids;
}

function checkCount(name: string, n: number | undefined, none: number): number {
  if (n === undefined || n === -1 || n === Infinity) return none;
  if (!Number.isInteger(n) || n < 0) throw new QuantletError('ERR_INVALID_ARGUMENT', `${name} is ${n}; expected a whole number from 0, or -1 for ${name === 'logprobs' ? 'none' : 'no limit'}`);
  return n;
}
