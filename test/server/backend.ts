import type { Generation, GenerateOptions, GenerationPart, GenerationResult } from '../../src/generate/generate.ts';
import { createChatTemplate } from '../../src/chat/template.ts';
import { QuantletError } from '../../src/errors.ts';
import type { Backend } from '../../src/server/backend.ts';
import { createStopMatcher } from '../../src/generate/stop.ts';
import { ownTemplates } from '../chat/templates.ts';

/** The scripted model's answer to a prompt. */
export type Script = (prompt: string, options: GenerateOptions) => string;

export interface ScriptedBackend extends Backend {
  /**
   * Counts of running generations, of the most at once and of aborted ones, and the options of all.
   */
  readonly seen: { now: number; most: number; aborted: number; options: GenerateOptions[] };
}

const bos = 256;
const encoder = new TextEncoder();

export interface ScriptedOptions {
  contextLength?: number;
  parallel?: number;
  template?: string;
  msPerToken?: number;
}

/** Separates the options of a scripted model from those of its server. */
export function apart<T extends ScriptedOptions>(options: T): { scripted: ScriptedOptions; others: Omit<T, keyof ScriptedOptions> } {
  const { contextLength, parallel, template, msPerToken, ...others } = options;
  const given = Object.entries({ contextLength, parallel, template, msPerToken }).filter(([, value]) => value !== undefined);
  return { scripted: Object.fromEntries(given) as ScriptedOptions, others };
}

/**
 * A model for tests of the protocols alone. A token is one byte, and a script gives the answer. It
 * keeps the contract of generate(): parts, stop strings, limits, abort, log probabilities.
 */
export function scriptedBackend(script: Script, options: ScriptedOptions = {}): ScriptedBackend {
  const { contextLength = 4096, parallel = 4, msPerToken = 0 } = options;
  const seen: ScriptedBackend['seen'] = { now: 0, most: 0, aborted: 0, options: [] };
  const text = (ids: Iterable<number>): string => new TextDecoder().decode(Uint8Array.from([...ids].filter((id) => id < bos)));

  const check = (given: GenerateOptions): void => {
    if (given.grammar === 'bad') throw new QuantletError('ERR_GRAMMAR', 'line 1, column 1: expected a rule');
  };

  async function* run(
    ids: readonly number[],
    given: GenerateOptions,
    settle: (result: GenerationResult) => void,
  ): AsyncGenerator<GenerationPart, void> {
    seen.options.push(given);
    seen.most = Math.max(seen.most, ++seen.now);
    const done: number[] = [];
    let said = '';
    let finishReason: GenerationResult['finishReason'] = 'stop';
    let stopText: string | undefined;
    let complete = false;
    try {
      check(given);
      const stop = createStopMatcher([given.stop ?? []].flat());
      const decoder = new TextDecoder();
      const bytes = encoder.encode(script(text(ids), given));
      for (const id of bytes) {
        if (done.length >= (given.maxTokens ?? Infinity)) {
          finishReason = 'length';
          break;
        }
        await new Promise((resolve) => (msPerToken > 0 ? setTimeout(resolve, msPerToken) : setImmediate(resolve)));
        given.signal?.throwIfAborted();
        done.push(id);
        const shown = stop.push(decoder.decode(Uint8Array.of(id), { stream: true }));
        said += shown.text;
        const top = [id, (id + 1) % 256, (id + 2) % 256].map((other, i) => ({ id: other, logprob: -(i + 1) / 4 }));
        yield {
          id,
          text: shown.text,
          ...(given.logprobs === undefined ? {} : { logprobs: { id, logprob: -0.25, top: top.slice(0, given.logprobs) } }),
        };
        if (shown.stopped !== undefined) {
          [finishReason, stopText] = ['stop', shown.stopped];
          break;
        }
      }
      const rest = stopText === undefined ? stop.end() : '';
      said += rest;
      if (rest !== '') yield { id: -1, text: rest };
      complete = true;
      settle({
        promptIds: ids,
        ids: done,
        text: said,
        finishReason,
        ...(stopText === undefined ? {} : { stopText }),
        timings: { promptTokens: ids.length - 1, promptMs: 1, predictedTokens: done.length, predictedMs: 2 },
      });
    } finally {
      seen.now--;
      if (!complete) seen.aborted++;
    }
  }

  return {
    seen,
    name: 'scripted',
    contextLength,
    parallel,
    bos: '<s>',
    eos: '</s>',
    chatTemplate: createChatTemplate(options.template ?? ownTemplates.hermes),
    tokenize: (content, { addSpecial = true } = {}) => [...(addSpecial ? [bos] : []), ...encoder.encode(content)],
    detokenize: text,
    tokenBytes: (id) => (id === bos ? encoder.encode('<s>') : Uint8Array.of(id)),
    generate(ids, given): Generation {
      let settle: (result: GenerationResult) => void = () => undefined;
      const result = new Promise<GenerationResult>((resolve) => (settle = resolve));
      return { [Symbol.asyncIterator]: () => run(ids, given, settle), result: () => result };
    },
    checkGenerate: async (_, given) => check(given),
    embed: (inputs) =>
      Promise.resolve(inputs.map((input) => Float32Array.of(typeof input === 'string' ? input.length : input[0], 3, 4, 0.1))),
    rank: (query, documents) =>
      Promise.resolve(documents.map((document) => (document.includes(query) ? document.length : -document.length))),
  };
}

/**
 * The same model, but its answers fail after their first part, with an error that no client may
 * see.
 */
export const breaking = (backend: Backend): Backend => ({
  ...backend,
  generate: () => ({
    result: () => Promise.reject(new Error('secret')),
    async *[Symbol.asyncIterator]() {
      yield { id: 1, text: 'a' };
      throw new Error('secret');
    },
  }),
});
