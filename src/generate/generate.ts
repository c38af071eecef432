/** Text generation: the loop of computing steps and sampling tokens. */
import { QuantletError } from '../errors.ts';
import type { ModelInternals } from '../engine/model-internals.ts';
import { isSame, type Slot } from '../engine/slots.ts';
import type { GenerateOptions } from './options.ts';
import { logprobs, type Logprobs } from '../sample/logprobs.ts';
import { checked, samplerOf, withoutMiddle } from './checked.ts';
import { createStopMatcher } from './stop.ts';
import { createStream, type Stream } from './stream.ts';
import type { DraftCounts, Timings } from './timings.ts';
import { createDetokenizer } from '../tokenize/stream.ts';

export type { GenerateOptions };
export { draftTimings, predictedPerSecond, type DraftCounts, type Timings } from './timings.ts';

/**
 * Reason for the end of a text or an answer. `stop`: the model, its grammar or a text of `stop`
 * ended it; `length`: maxTokens or the context cut it; `tool_calls`: it ended in calls of tools.
 */
export type FinishReason = 'stop' | 'length' | 'tool_calls';

export interface GenerationPart {
  /** The token; -1 for a last part that has only text that was held back. */
  readonly id: number;
  /** Text completed by this token, possibly ''. */
  readonly text: string;
  /** Present if options.logprobs asks for it. */
  readonly logprobs?: Logprobs;
}

export interface GenerationResult {
  readonly promptIds: readonly number[];
  readonly ids: readonly number[];
  readonly text: string;
  /**
   * `stop`: ended by the model, its grammar, or a text of `stop` (stopText); `length`: maxTokens
   * reached, or the context is full.
   */
  readonly finishReason: Exclude<FinishReason, 'tool_calls'>;
  /** The text of `stop` that ended the generation. */
  readonly stopText?: string;
  /** One for each of ids; present if options.logprobs asks for them. */
  readonly logprobs?: readonly Logprobs[];
  readonly timings: Timings;
}

export type Generation = Stream<GenerationPart, GenerationResult>;

/** @internal */
export function createGeneration(
  model: ModelInternals,
  prompt: string | readonly number[],
  options: GenerateOptions | undefined,
): Generation {
  return createStream('generation', () => run(model, prompt, options));
}

async function* run(
  model: ModelInternals,
  prompt: string | readonly number[],
  asked: GenerateOptions | undefined,
): AsyncGenerator<GenerationPart, GenerationResult> {
  const { engine, tokenizer, scheduler, slots } = model;
  const { contextLength } = engine;
  const ids: number[] = [];
  const probabilities: Logprobs[] = [];
  let text = '';
  let slot: Slot | undefined;
  /** Number of parts yielded, length of the prompt, and whether everything was yielded. */
  let given = 0;
  let nPrompt = 0;
  let whole = false;
  /** Tokens of prompt and text that were dropped from the slot (onContextFull: 'shift'). */
  let forgotten = 0;
  try {
    const { options, promptIds, maxTokens, shifts, start, keep } = checked(model, prompt, asked);
    const { signal } = options;
    const nLogprobs = options.logprobs === Infinity ? -1 : options.logprobs;
    // With an encoder, the decoder's text begins with a start token.
    const beginning = start === undefined ? promptIds : [start];
    nPrompt = beginning.length;
    const constraint = model.constraint(options, signal);
    const grammar = constraint && (await constraint);
    const sampler = samplerOf(model, options, grammar);
    const detokenizer = createDetokenizer(tokenizer, { special: options.special });
    const stop = createStopMatcher(typeof options.stop === 'string' ? [options.stop] : options.stop);

    slot = await slots.acquire(signal, (free, left) =>
      start === undefined ? placeFor(promptIds, free, left) : placeRead(promptIds, free),
    );
    let drafting = model.speculation.start(options.speculation, slot, signal);
    const toRead = start === undefined || maxTokens === 0 || isSame(slot.encoded, promptIds) ? [] : promptIds;
    if (toRead.length > 0) slot.encode([]);
    const reused = maxTokens > 0 ? slot.begin(beginning) : slot.reusable(beginning);
    // Compute the mask for the first token while the prompt is computed, in case the unmasked
    // choice is refused.
    const firstMask = maxTokens > 0 ? grammar?.prepare() : undefined;
    firstMask?.catch(() => {}); // thrown where the mask is awaited

    let finishReason = (maxTokens > 0 ? undefined : 'length') as GenerationResult['finishReason'] | undefined;
    let stopText: string | undefined;
    /** Tokens of the text that are not yet yielded. A step that verifies a draft adds several. */
    const parts: GenerationPart[] = [];
    /** True if the context has no room for the last token. */
    const isFull = (): boolean => nPrompt + ids.length - forgotten > contextLength;
    /** Appends a chosen token to the text. Returns false at the end of the text. */
    const take = (id: number, logits: Float32Array): boolean => {
      const ends = tokenizer.isEog(id);
      if (ends && !options.ignoreEos) {
        finishReason = 'stop';
        return false;
      }
      ids.push(id);
      sampler.accept(id);
      const shown = stop.push(ends ? '' : detokenizer.push(id));
      text += shown.text;
      stopText = shown.stopped;
      const probability = nLogprobs >= 0 ? logprobs(logits, id, nLogprobs) : undefined;
      if (probability) probabilities.push(probability);
      parts.push({ id, text: shown.text, ...(probability ? { logprobs: probability } : {}) });
      if (stopText !== undefined || grammar?.isFinished()) finishReason = 'stop';
      else if (ids.length >= maxTokens || (isFull() && !shifts)) finishReason = 'length';
      return finishReason === undefined;
    };

    /**
     * Tokens of the next step: the prompt, later the last token, followed by a draft. Logits are
     * wanted from index `last` on.
     */
    const tokens = beginning.slice(reused);
    let last = tokens.length - 1;
    let refused: Float32Array | undefined, failed: { readonly error: unknown } | undefined;
    let drafted = 0;
    let draftSteps = 0;
    const acceptedAt: number[] = [];
    /**
     * Chooses the token after tokens[index]. Returns true if it equals the drafted token: the next
     * row of logits then belongs to the text, too.
     */
    const choose = (logits: Float32Array, index: number): boolean => {
      try {
        const id = sampler.sampleFreely(logits);
        if (id < 0) {
          refused = logits.slice();
          return false;
        }
        const n = ids.length;
        const goesOn = take(id, logits);
        const right = tokens[index + 1] === id;
        if (right && ids.length > n) acceptedAt[index - last] = (acceptedAt[index - last] ?? 0) + 1;
        return goesOn && right;
      } catch (error) {
        if (parts.length === 0) throw error;
        failed = { error }; // yield the parts before it first
        return false;
      }
    };

    const begin = performance.now();
    let promptMs = 0;
    let neuronBytes = 0;
    const timings = (): Timings => {
      const ms = performance.now() - begin;
      const draft: DraftCounts = { tokens: drafted, accepted: acceptedAt.reduce((a, b) => a + b, 0), steps: draftSteps, acceptedAt };
      return {
        promptTokens: toRead.length + nPrompt - reused,
        promptMs: promptMs || ms,
        predictedTokens: ids.length,
        predictedMs: promptMs && ms - promptMs,
        ...(drafted > 0 ? { draft } : {}),
        ...(engine.neurons ? { neuronBytes: engine.neurons.bytes - neuronBytes } : {}),
      };
    };
    options.watch?.(timings);
    if (maxTokens > 0) for (const id of beginning) sampler.accept(id, false);
    let sequence = drafting ? beginning.slice() : [];
    if (toRead.length > 0) await scheduler.encode(slot, toRead, signal);
    for (;;) {
      if ((parts.length > 0 || finishReason !== undefined) && promptMs === 0) {
        promptMs = performance.now() - begin;
        neuronBytes = engine.neurons?.bytes ?? 0;
      }
      for (let i = 0; i < parts.length; i++) {
        if (i > 0) signal?.throwIfAborted();
        given++;
        yield parts[i];
      }
      parts.length = 0;
      if (failed) throw failed.error;
      if (refused) {
        // The grammar refused the choice. Computing its mask may take a while, so yield to others
        // meanwhile.
        await (ids.length === 0 ? firstMask : grammar?.prepare());
        signal?.throwIfAborted();
        const logits = refused;
        refused = undefined;
        take(sampler.sampleMasked(logits), logits);
        continue;
      }
      if (finishReason !== undefined) break;
      let begins = ids.length === 0;
      if (!begins) {
        tokens.length = last = 0;
        tokens.push(ids[ids.length - 1]);
      }
      if (isFull()) {
        // Shift: the rest of the sequence moves to earlier positions. Keys depend on positions, so
        // it is computed again.
        const all = [...slot.tokens, ids[ids.length - 1]];
        const kept = start === undefined ? keep : 1;
        sequence = withoutMiddle(all, kept, kept + ((all.length - kept) >> 1));
        forgotten += all.length - sequence.length;
        tokens.length = 0;
        for (let i = slot.begin(sequence); i < sequence.length; i++) tokens.push(sequence[i]);
        last = tokens.length - 1;
        drafting &&= model.speculation.start(options.speculation, slot, signal);
        begins = true;
      }
      if (drafting) {
        while (sequence.length + forgotten < nPrompt + ids.length) sequence.push(ids[sequence.length + forgotten - nPrompt]);
        const n = tokens.length;
        const most = Math.min(maxTokens - ids.length, contextLength + 1 - sequence.length, engine.maxOutputs) - 1;
        const asked = drafting.propose(sequence, most, tokens);
        if (asked) await asked;
        drafted += tokens.length - n;
        if (tokens.length > n) draftSteps++;
      }
      try {
        await scheduler.submit(slot, tokens, last, choose, signal);
      } catch (error) {
        if (parts.length === 0) throw error;
        failed = { error }; // yield the parts from the first part of the draft
      }
      if (begins && drafting && !finishReason && !failed) await drafting.begin(sequence);
    }
    if (finishReason === 'length' && options.onContextFull === 'error' && maxTokens !== Infinity && ids.length < maxTokens)
      throw new QuantletError(
        'ERR_CONTEXT_FULL',
        `the context of ${contextLength} tokens is full after ${ids.length} of ${maxTokens} new tokens; load the model with a larger contextLength or ask for fewer`,
      );
    whole = true;
    const took = timings();
    const rest = stopText !== undefined ? '' : stop.end();
    text += rest;
    if (rest) yield { id: -1, text: rest };
    return {
      promptIds,
      ids,
      text,
      finishReason,
      ...(stopText === undefined ? {} : { stopText }),
      ...(nLogprobs >= 0 ? { logprobs: probabilities } : {}),
      timings: took,
    };
  } finally {
    if (slot) {
      // If the caller stops early, truncate the slot to what was yielded.
      if (!whole) slot.truncate(nPrompt + Math.max(given - 1, 0) - forgotten);
      slots.release(slot);
    }
    if (slots.active === 0) {
      engine.executor.rest();
      model.speculation.rest();
    }
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
function placeFor(promptIds: readonly number[], free: readonly Slot[], left: readonly Slot[]): Slot {
  let best = free[0];
  let most = 0;
  for (const slot of [...free, ...left]) {
    const n = slot.reusable(promptIds);
    if (n > most && (n > promptIds.length * WORTH_SHARING || n === slot.computed)) [best, most] = [slot, n];
  }
  return best;
}

/** The free slot in which an encoder has read this prompt, else the one that was free longest. */
const placeRead = (promptIds: readonly number[], free: readonly Slot[]): Slot =>
  free.find(({ encoded }) => isSame(encoded, promptIds)) ?? free[0];
