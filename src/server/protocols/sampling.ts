/** Conversion of a request's sampling fields to options of a generation. */
import { isRecord } from '../../chat/json.ts';
import type { GenerateOptions } from '../../generate/generate.ts';
import type { ResponseFormat } from '../../grammar/schema-source.ts';
import { SAMPLER_LETTERS, samplerOfLetter, samplerOfWord } from '../../sample/names.ts';
import { SAMPLER_NAMES, SAMPLER_NUMBERS, type NumberOption, type SamplerName, type SamplerOptions } from '../../sample/options.ts';
import type { Context } from '../context.ts';
import { booleanField, invalid, numberField, recordField, stringField, stringsField, type Body } from './fields.ts';
import { HttpError } from '../http/http-error.ts';

/**
 * Request fields and their sampler options, in OpenAI's and llama-server's spelling. `seed` has its
 * own conversion below.
 */
const numbers = (Object.keys(SAMPLER_NUMBERS) as NumberOption[])
  .filter((option) => option !== 'seed')
  .map((option) => [option.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), option] as const);

/** Limits for stop strings, because each costs time at every token. */
const maxStops = 32;
const maxStopLength = 1000;

/**
 * Options from the fields that all generating endpoints share.
 * @param stopField the protocol's name for stop strings
 */
export function textOptions(context: Context, body: Body, stopField = 'stop'): GenerateOptions {
  const options: GenerateOptions & Record<string, unknown> = { ...context.options.defaults };
  for (const [field, option] of numbers) {
    const value = numberField(body, field);
    if (value !== undefined) options[option] = value;
  }
  if (options.temperature !== undefined && options.temperature < 0) throw invalid('temperature', 'a number from 0 on', options.temperature);
  // OpenAI's seeds have 64 bits and may be negative; the sampler's have 32 bits. -1 means no seed.
  const seed = numberField(body, 'seed', { integer: true, most: Infinity });
  if (seed === -1) delete options.seed;
  else if (seed !== undefined) options.seed = Number(BigInt.asUintN(32, BigInt(seed)));
  const stop = stringsField(body, stopField, maxStops) ?? stringsField(body, 'stop', maxStops);
  if (stop?.includes('')) throw invalid(stopField, 'strings of at least one character', stop);
  if (stop?.some((one) => one.length > maxStopLength)) throw invalid(stopField, `strings of at most ${maxStopLength} characters`, stop);
  if (stop) options.stop = stop;
  const ignoreEos = booleanField(body, 'ignore_eos');
  if (ignoreEos !== undefined) options.ignoreEos = ignoreEos;
  const samplers = samplersField(body);
  if (samplers) options.samplers = samplers;
  const breakers = stringsField(body, 'dry_sequence_breakers', maxStops);
  if (breakers) options.drySequenceBreakers = breakers;
  const bias = logitBias(context, body);
  if (bias) options.logitBias = bias;
  const grammar = stringField(body, 'grammar');
  if (grammar) {
    options.grammar = grammar;
    delete options.responseFormat;
  }
  return options;
}

/** Default settings of a generation by field name, for /props. */
export function settingsOf(resolved: Required<SamplerOptions>, { maxTokens = -1, ignoreEos = false, stop = [] }: GenerateOptions): object {
  return {
    ...Object.fromEntries(numbers.map(([field, option]) => [field, resolved[option]])),
    // Like llama-server, shows -1 (random) as an unsigned 32-bit number.
    seed: resolved.seed >>> 0,
    dry_sequence_breakers: resolved.drySequenceBreakers,
    samplers: resolved.samplers,
    max_tokens: maxTokens,
    n_predict: maxTokens,
    ignore_eos: ignoreEos,
    stop: [stop].flat(),
  };
}

/**
 * Context shift for an answer that fills the context, from `--context-shift` and the request's
 * `n_keep`; undefined: the answer ends.
 */
export function shiftOf({ options: { contextShift } }: Context, body: Body): { readonly keep: number } | undefined {
  const keep = numberField(body, 'n_keep', { least: -1, integer: true }) ?? contextShift?.keep;
  return contextShift && keep !== undefined ? { keep } : undefined;
}

/**
 * Number of tokens to generate of `asked`: limited by the room after the prompt, unless the context
 * shifts.
 */
export function lengthOf(
  context: Context,
  body: Body,
  asked: number,
  room: number,
): Pick<GenerateOptions, 'maxTokens' | 'onContextFull' | 'keep'> {
  const shift = shiftOf(context, body);
  return shift ? { maxTokens: asked, onContextFull: 'shift', ...shift } : { maxTokens: Math.min(asked, room) };
}

/** Fields for the length of an answer; like llama-server, every endpoint accepts them. */
const LENGTHS = ['max_completion_tokens', 'max_tokens', 'n_predict'];

/**
 * Maximum number of tokens that a request asks for. -1: no limit, as in llama-server.
 * @param own the protocol's name for the field, which has priority
 */
export function lengthField(body: Body, ...own: readonly string[]): number | undefined {
  const lengths = [...own, ...LENGTHS].map((name) => numberField(body, name, { least: -1, integer: true }));
  return lengths.find((length) => length !== undefined);
}

/**
 * Sets the request's format, or llama-server's `json_schema`. It replaces a default grammar, but
 * not one in the request.
 * @param asked the format from the protocol's own field, if that is not OpenAI's `response_format`
 */
export function setFormat(options: GenerateOptions, body: Body, asked?: ResponseFormat): void {
  const own = asked ?? formatOf(recordField(body, 'response_format'), 'response_format');
  const schema = recordField(body, 'json_schema');
  const format: ResponseFormat | undefined = schema && own?.type !== 'json_schema' ? { type: 'json_schema', schema } : own;
  if (!format) return;
  options.responseFormat = format;
  if (!stringField(body, 'grammar')) delete options.grammar;
}

/** Samplers in order, as a list of names or a text of letters. */
function samplersField(body: Body): readonly SamplerName[] | undefined {
  const value = body.samplers ?? undefined;
  if (value === undefined) return undefined;
  const words: unknown[] | undefined = typeof value === 'string' ? [...value] : Array.isArray(value) ? value : undefined;
  const of = typeof value === 'string' ? samplerOfLetter : samplerOfWord;
  const names = words?.map((word) => (typeof word === 'string' ? of(word) : undefined));
  if (!names || names.length > maxStops || !names.every((name) => name !== undefined))
    throw invalid('samplers', `a list of ${SAMPLER_NAMES.join(', ')}, or letters of ${SAMPLER_LETTERS}`, value);
  return names;
}

/**
 * Maximum characters of all texts in a request's biases, since they are tokenized without a pause.
 */
const maxBiasText = 10_000;

/**
 * Reads OpenAI's object of id to bias, or llama-server's list of [id, bias] with false for a ban. A
 * text applies to each of its tokens.
 */
function logitBias({ backend }: Context, body: Body): Record<number, number> | undefined {
  const value = body.logit_bias ?? undefined;
  if (value === undefined) return undefined;
  const shape = `an object of token id or text to number, or a list of [id or text, number], with at most ${maxBiasText} characters of text`;
  const entries: unknown[] | undefined = Array.isArray(value) ? value : isRecord(value) ? Object.entries(value).map(withId) : undefined;
  let characters = 0;
  const biases = entries?.flatMap((entry): (readonly [id: number, bias: number])[] => {
    const [of, given] = Array.isArray(entry) && entry.length === 2 ? (entry as unknown[]) : [];
    if (typeof given !== 'number' && given !== false) throw invalid('logit_bias', shape, value);
    // In OpenAI's protocol, -100 bans a token.
    const bias = given === false || given === -100 ? -Infinity : given;
    if (typeof of === 'number' && Number.isInteger(of) && of >= 0) return [[of, bias]];
    if (typeof of !== 'string' || (characters += of.length) > maxBiasText) throw invalid('logit_bias', shape, value);
    return Array.from(backend.tokenize(of, { addSpecial: false }), (id) => [id, bias] as const);
  });
  if (!biases) throw invalid('logit_bias', shape, value);
  return Object.fromEntries(biases);
}

/** Treats a numeric key of an object as an id. */
const withId = ([key, bias]: [string, unknown]): readonly [id: string | number, bias: unknown] => [
  /^-?\d+$/.test(key) ? Number(key) : key,
  bias,
];

/**
 * Reads a format in OpenAI's form. The schema is in `json_schema` or, as in llama-server, next to
 * the type.
 * @param param name of the format's field
 */
export function formatOf(format: Body | undefined, param: string): ResponseFormat | undefined {
  if (!format) return undefined;
  const { type } = format;
  if (type === 'text') return { type };
  if (type === 'json_object') return isRecord(format.schema) ? { type: 'json_schema', schema: format.schema } : { type };
  const schema = isRecord(format.json_schema) ? format.json_schema.schema : format.schema;
  if (type === 'json_schema' && isRecord(schema)) return { type, schema };
  if (type === 'json_schema')
    throw new HttpError(
      400,
      `'${param}' has no schema; expected ${param === 'response_format' ? 'json_schema.schema' : 'schema'}, an object.`,
      {
        param,
        code: 'invalid_value',
      },
    );
  throw invalid(param, '{"type": "text" | "json_object" | "json_schema"}', format);
}
