/** Prompt in, text out: the loop of sampling and decoding around the scheduler. */
import { QuantletError } from './errors.ts';
import type { ModelState } from './model.ts';
import { createSampler, type SamplerOptions } from './sample/sampler.ts';
import { createStopMatcher } from './stop.ts';
import { createDetokenizer } from './tokenize/stream.ts';

export interface GenerateOptions extends SamplerOptions {
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
}

export interface GenerationPart {
  /** The token; -1 for the last part where only held-back text is left. */
  readonly id: number;
  /** Text that became complete with it, maybe ''. */
  readonly text: string;
}

export interface Timings {
  readonly promptTokens: number;
  readonly promptMs: number;
  readonly predictedTokens: number;
  readonly predictedMs: number;
}

export interface GenerationResult {
  readonly promptIds: readonly number[];
  readonly ids: readonly number[];
  readonly text: string;
  /** `eog`: the model ended it; `stop`: a stop text; `length`: maxTokens; `context`: the context is full (only without maxTokens). */
  readonly finishReason: 'eog' | 'stop' | 'length' | 'context';
  readonly timings: Timings;
}

export interface Generation extends AsyncIterable<GenerationPart> {
  /** Runs to the end (or waits for the iteration that does) and gives the whole. */
  result(): Promise<GenerationResult>;
}

export function createGeneration(state: ModelState, prompt: string | readonly number[], options: GenerateOptions): Generation {
  let started = false;
  let settle: { resolve(r: GenerationResult): void; reject(e: unknown): void };
  const result = new Promise<GenerationResult>((resolve, reject) => (settle = { resolve, reject }));
  result.catch(() => {}); // whoever iterates hears of the error there

  const start = (): AsyncGenerator<GenerationPart, void> => {
    if (started) throw new QuantletError('ERR_INVALID_ARGUMENT', 'this generation is already being iterated over; call generate() again');
    started = true;
    return run(state, prompt, options, settle);
  };
  return {
    [Symbol.asyncIterator]: start,
    result() {
      if (!started) void (async () => { for await (const _ of start()); })().catch(() => {});
      return result;
    },
  };
}

async function* run(
  state: ModelState,
  prompt: string | readonly number[],
  options: GenerateOptions,
  settle: { resolve(r: GenerationResult): void; reject(e: unknown): void },
): AsyncGenerator<GenerationPart, void> {
  const { engine, tokenizer, scheduler } = state;
  const { signal } = options;
  const ids: number[] = [];
  let text = '';
  let slot: number | undefined;
  let done = false;
  try {
    state.assertUsable();
    signal?.throwIfAborted();
    const promptIds = typeof prompt === 'string' ? tokenizer.encode(prompt, { parseSpecial: options.parseSpecial ?? true }) : checkIds(prompt, tokenizer.nVocab);
    if (promptIds.length === 0) throw new QuantletError('ERR_INVALID_ARGUMENT', 'the prompt has no tokens and the model adds none; give at least one');
    const room = engine.contextLength - promptIds.length;
    if (room < 0) throw new QuantletError('ERR_CONTEXT_FULL', `the prompt has ${promptIds.length} tokens, the context ${engine.contextLength}; shorten the prompt or load the model with a larger contextLength (it was trained for ${engine.hparams.nCtxTrain})`);
    const maxTokens = checkMaxTokens(options.maxTokens);
    const sampler = createSampler(options, engine.hparams.nVocab);
    const detokenizer = createDetokenizer(tokenizer);
    const stop = createStopMatcher(typeof options.stop === 'string' ? [options.stop] : (options.stop ?? []));

    slot = await scheduler.acquire(signal);
    const cache = state.slots[slot].tokens;
    // The cache still holds what it computed before: the part that this prompt begins with needs no second time, but for its last token.
    let reused = 0;
    while (reused < promptIds.length - 1 && cache[reused] === promptIds[reused]) reused++;
    let next = -1;
    const decode = async (tokens: readonly number[], at: number): Promise<void> => {
      cache.length = at;
      await scheduler.submit(slot!, at, tokens, tokens.length - 1, (logits) => (next = sampler.sample(logits)), signal);
      cache.push(...tokens);
    };

    const begin = performance.now();
    let promptMs = 0;
    const finish = (finishReason: GenerationResult['finishReason']): GenerationResult => ({
      promptIds, ids, text, finishReason,
      timings: { promptTokens: promptIds.length - reused, promptMs, predictedTokens: ids.length, predictedMs: performance.now() - begin - promptMs },
    });
    let finishReason: GenerationResult['finishReason'] = 'length';
    if (maxTokens > 0) {
      for (const id of promptIds) sampler.accept(id);
      await decode(promptIds.slice(reused), reused);
      promptMs = performance.now() - begin;
    }
    while (ids.length < maxTokens) {
      const id = next;
      if (tokenizer.isEog(id) && !options.ignoreEos) {
        finishReason = 'eog';
        break;
      }
      ids.push(id);
      sampler.accept(id);
      const shown = stop.push(detokenizer.push(id));
      text += shown.text;
      if (shown.stopped !== undefined) finishReason = 'stop';
      yield { id, text: shown.text };
      if (shown.stopped !== undefined || ids.length >= maxTokens) break;
      if (promptIds.length + ids.length > engine.contextLength) {
        if (maxTokens !== Infinity) throw new QuantletError('ERR_CONTEXT_FULL', `the context of ${engine.contextLength} tokens is full after ${ids.length} of ${maxTokens} new tokens; load the model with a larger contextLength or ask for fewer`);
        finishReason = 'context';
        break;
      }
      await decode([id], promptIds.length + ids.length - 1);
    }
    const rest = finishReason === 'stop' ? '' : stop.push(detokenizer.end()).text + stop.end();
    text += rest;
    if (rest) yield { id: -1, text: rest };
    done = true;
    settle.resolve(finish(finishReason));
  } catch (error) {
    done = true;
    settle.reject(error);
    throw error;
  } finally {
    if (slot !== undefined) scheduler.release(slot);
    if (scheduler.active === 0) engine.executor.rest();
    // The consumer left the loop early: result() has what there was.
    if (!done) settle.reject(new DOMException('the generation was left before its end', 'AbortError'));
  }
}

function checkIds(ids: readonly number[], nVocab: number): readonly number[] {
  if (!Array.isArray(ids)) throw new QuantletError('ERR_INVALID_ARGUMENT', `the prompt is ${ids === null ? 'null' : typeof ids}; expected a text or an array of token ids`);
  const bad = ids.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= nVocab);
  if (bad >= 0) throw new QuantletError('ERR_INVALID_ARGUMENT', `prompt id ${ids[bad]} at ${bad} is outside the vocabulary of ${nVocab}`);
  return ids;
}

function checkMaxTokens(n: number | undefined): number {
  if (n === undefined || n === -1 || n === Infinity) return Infinity;
  if (!Number.isInteger(n) || n < 0) throw new QuantletError('ERR_INVALID_ARGUMENT', `maxTokens is ${n}; expected a whole number from 0, or -1 for no limit`);
  return n;
}
