/** Checks of a generation's prompt and options, before anything waits or is computed. */
import { imagesOf } from '../run/image-tokens.ts';
import type { ModelInternals } from '../run/model-internals.ts';
import { QuantletError, typeName } from '../errors.ts';
import type { Grammar } from '../grammar/grammar.ts';
import { internal, KIND, oneOf, or, resolveOptions, type Kind, type Kinds } from '../options.ts';
import { SAMPLER_DEFAULTS, type SamplerOptions } from '../sample/options.ts';
import { createBegunCalls, type ConstraintReader } from '../sample/begun-calls.ts';
import { createSampler, type Sampler, type TokenConstraint } from '../sample/sampler.ts';
import { createSpanBudget } from '../sample/span-budget.ts';
import { createWaiting } from '../sample/waiting.ts';
import type { GenerateOptions } from './options.ts';
import { createStopMatcher } from './stop.ts';

const countOr = (what: string): Kind => ({
  is: (v) => v === Infinity || v === -1 || (Number.isSafeInteger(v) && (v as number) >= 0),
  expected: `a whole number from 0, or -1 for ${what}`,
});
/**
 * Every option of generate. Options of the sampler, grammars and speculation are checked where they
 * are used.
 */
export const GENERATE_OPTIONS = {
  ...(Object.fromEntries<Kind>(Object.keys(SAMPLER_DEFAULTS).map((name) => [name, KIND.any])) as Record<keyof SamplerOptions, Kind>),
  grammar: KIND.any,
  responseFormat: KIND.any,
  maxTokens: or(countOr('no limit'), Infinity),
  stop: or(KIND.any, [] as readonly string[]),
  signal: KIND.signal,
  onProgress: KIND.function,
  parseSpecial: or(KIND.boolean, true),
  ignoreEos: or(KIND.boolean, false),
  logprobs: or(countOr('none'), -1),
  special: or(KIND.boolean, false),
  onContextFull: or(oneOf('error', 'shift', 'truncate-middle'), 'error'),
  keep: or(countOr('all'), 0),
  speculation: KIND.any,
  spanBudget: internal(KIND.object),
  grammarAfter: internal(KIND.string),
  calls: internal(KIND.object),
  callStarts: internal(KIND.object),
  begun: internal(KIND.string),
  watch: internal(KIND.function),
} satisfies Kinds<GenerateOptions>;

/**
 * Checks options and the prompt, and returns both, the prompt as token ids. The grammar is compiled
 * later.
 * @throws ERR_DISPOSED, signal.reason, ERR_INVALID_ARGUMENT, ERR_CONTEXT_FULL
 */
export function checked(
  { engine, tokenizer, assertUsable }: ModelInternals,
  prompt: string | readonly number[],
  asked: GenerateOptions | undefined,
) {
  const options = resolveOptions<GenerateOptions, typeof GENERATE_OPTIONS>('generate', asked, GENERATE_OPTIONS);
  assertUsable();
  options.signal?.throwIfAborted();
  const { contextLength } = engine;
  const allIds =
    typeof prompt === 'string'
      ? tokenizer.encode(prompt, { parseSpecial: options.parseSpecial })
      : checkIds('the prompt', prompt, tokenizer.nVocab);
  if (allIds.length === 0)
    throw new QuantletError('ERR_INVALID_ARGUMENT', 'the prompt has no tokens, and the model adds none; expected at least one');
  const maxTokens = options.maxTokens === -1 ? Infinity : options.maxTokens;
  const shifts = options.onContextFull === 'shift';
  const start = engine.hparams.decoder && startOf({ engine, tokenizer });
  const begun = Number(start !== undefined || allIds[0] === tokenizer.special.bos);
  const keep = Math.min(options.keep === -1 ? allIds.length : options.keep + begun, contextLength >> 1);
  // With an encoder, the prompt takes no room from the text.
  const most = start === undefined ? contextLength - reserved(maxTokens, contextLength) : contextLength;
  if (shifts && imagesOf(allIds).length > 0)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      'onContextFull is "shift", and the prompt has images, whose tokens cannot be moved; expected "error", or a prompt of text',
    );
  const fits = imagesOf(allIds).length > 0 || options.onContextFull === 'error' || allIds.length <= (shifts ? contextLength : most);
  const promptIds = fits ? allIds : withoutMiddle(allIds, shifts ? keep : most >> 1, most);
  if (promptIds.length > contextLength)
    throw new QuantletError(
      'ERR_CONTEXT_FULL',
      `the prompt has ${promptIds.length} tokens, and the context ${contextLength}; shorten the prompt, or load the model with a larger contextLength (it was trained for ${engine.hparams.nCtxTrain})`,
    );
  const stop = createStopMatcher(typeof options.stop === 'string' ? [options.stop] : options.stop);
  return { options, promptIds, maxTokens, shifts, start, keep, stop };
}

/** A generation as it was asked for, checked. */
export type Request = ReturnType<typeof checked>;

/**
 * Creates the sampler for these options, and the grammar as far as it constrains the text.
 * @throws ERR_INVALID_ARGUMENT
 */
export function samplerOf(
  { engine, tokenizer, samplerDefaults }: ModelInternals,
  options: Pick<GenerateOptions, keyof SamplerOptions | 'spanBudget' | 'grammarAfter' | 'callStarts'>,
  grammar: Grammar | undefined,
): { readonly sampler: Sampler; readonly reader: ConstraintReader | undefined } {
  const pieceBytes = (id: number): Uint8Array => tokenizer.pieceBytes(id, true);
  const isEog = (id: number): boolean => tokenizer.isEog(id);
  const budget = options.spanBudget && createSpanBudget(options.spanBudget, pieceBytes);
  const { grammarAfter: mark, callStarts } = options;
  const begun = grammar && callStarts && createBegunCalls(grammar, callStarts, { budget, pieceBytes, isEog });
  const rules: TokenConstraint | undefined =
    begun ?? (grammar && mark !== undefined ? createWaiting(grammar, { mark, budget, pieceBytes, isEog }) : (grammar ?? budget));
  const sampler = createSampler(options, engine.hparams.nVocab, {
    ...(rules ? { grammar: rules } : {}),
    pieceBytes: (id) => tokenizer.pieceBytes(id),
    defaults: samplerDefaults,
    suppressed: tokenizer.suppressed,
  });
  return { sampler, reader: begun ?? grammar };
}

/**
 * Checks everything about a generation without computing anything.
 * @throws as createGeneration's result does
 */
export async function checkGeneration(model: ModelInternals, prompt: readonly number[], asked: GenerateOptions): Promise<void> {
  const { options } = checked(model, prompt, asked);
  samplerOf(model, options, await model.constraint(options, options.signal));
}

/**
 * First token of a decoder's text.
 * @throws ERR_MISSING_METADATA, ERR_GGUF_INVALID
 */
function startOf({ engine, tokenizer }: Pick<ModelInternals, 'engine' | 'tokenizer'>): number {
  const { arch, decoder, nVocab } = engine.hparams;
  const key = `${arch}.decoder_start_token_id`;
  const start = decoder?.start ?? tokenizer.special.bos;
  if (start === undefined)
    throw new QuantletError(
      'ERR_MISSING_METADATA',
      `the model's metadata has neither "${key}" nor a bos token; expected one of them, because the decoder begins with it`,
    );
  if (start >= nVocab)
    throw new QuantletError('ERR_GGUF_INVALID', `metadata "${key}" is ${start}, outside the vocabulary of ${nVocab}: the file is damaged`);
  return start;
}

/** @throws ERR_INVALID_ARGUMENT if `what` is not a list of token ids in the vocabulary */
export function checkIds(what: string, ids: readonly number[], nVocab: number): readonly number[] {
  if (!Array.isArray(ids))
    throw new QuantletError('ERR_INVALID_ARGUMENT', `${what} is ${typeName(ids)}; expected a text or an array of token ids`);
  const withImages = imagesOf(ids).length > 0;
  const bad = ids.findIndex((id) => !Number.isInteger(id) || (id < 0 && !withImages) || id >= nVocab);
  if (bad >= 0)
    throw new QuantletError('ERR_INVALID_ARGUMENT', `${what} has the id ${ids[bad]} at ${bad}, outside the vocabulary of ${nVocab}`);
  return ids;
}

/**
 * Tokens kept free for the text if the prompt is cut: maxTokens, but at most a quarter of the
 * context.
 */
export const reserved = (maxTokens: number, contextLength: number): number => Math.max(1, Math.min(maxTokens, contextLength >> 2));

/**
 * Cuts the middle out of a prompt: keeps the first `keep` tokens, and the last ones up to `n` in
 * total.
 */
export const withoutMiddle = (ids: readonly number[], keep: number, n: number): number[] => [
  ...ids.slice(0, keep),
  ...ids.slice(ids.length - (n - keep)),
];
