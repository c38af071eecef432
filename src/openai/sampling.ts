/** Sampling fields of a request as options of a generation. */
import { isRecord } from '../chat/json.ts';
import type { GenerateOptions } from '../generate/generate.ts';
import type { ResponseFormat } from '../grammar/schema-source.ts';
import { SAMPLER_LETTERS, samplerOfLetter, samplerOfWord } from '../sample/names.ts';
import { SAMPLER_NAMES, SAMPLER_NUMBERS, type NumberOption, type SamplerName, type SamplerOptions } from '../sample/options.ts';
import type { Context } from './context.ts';
import { booleanField, invalid, numberField, recordField, stringField, stringsField, type Body } from './fields.ts';
import { HttpError } from './http-error.ts';

/** Request field -> sampler option: OpenAI's and llama-server's spellings. A seed is no plain number (below). */
const numbers = (Object.keys(SAMPLER_NUMBERS) as NumberOption[])
  .filter((option) => option !== 'seed')
  .map((option) => [option.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), option] as const);

/** More stop strings, and longer ones, than anyone needs: each costs time at every token. */
const maxStops = 32;
const maxStopLength = 1000;

/**
 * The fields that all generating endpoints share.
 * @param stopField the name that the protocol has for stop strings
 */
export function textOptions(context: Context, body: Body, stopField = 'stop'): GenerateOptions {
  const options: GenerateOptions & Record<string, unknown> = { ...context.options.defaults };
  for (const [field, option] of numbers) {
    const value = numberField(body, field);
    if (value !== undefined) options[option] = value;
  }
  if (options.temperature !== undefined && options.temperature < 0) throw invalid('temperature', 'a number from 0 on', options.temperature);
  // OpenAI's seeds are 64-bit and may be negative; the sampler's are 32-bit. -1 is none.
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

/** What a generation does that is asked for nothing, by the names of the fields: /props. */
export function settingsOf(resolved: Required<SamplerOptions>, { maxTokens = -1, ignoreEos = false, stop = [] }: GenerateOptions): object {
  return {
    ...Object.fromEntries(numbers.map(([field, option]) => [field, resolved[option]])),
    // llama-server shows the seed that stands for a random one as what it is in 32 bits.
    seed: resolved.seed >>> 0,
    dry_sequence_breakers: resolved.drySequenceBreakers,
    samplers: resolved.samplers,
    max_tokens: maxTokens,
    n_predict: maxTokens,
    ignore_eos: ignoreEos,
    stop: [stop].flat(),
  };
}

/** Where an answer goes on that fills the context, as `--context-shift` and a request's `n_keep` say; undefined: it ends there. */
export function shiftOf({ options: { contextShift } }: Context, body: Body): { readonly keep: number } | undefined {
  const keep = numberField(body, 'n_keep', { least: -1, integer: true }) ?? contextShift?.keep;
  return contextShift && keep !== undefined ? { keep } : undefined;
}

/** How many tokens follow a prompt, of which `asked` are wanted: those that it leaves room for, or more where the context shifts. */
export function lengthOf(
  context: Context,
  body: Body,
  asked: number,
  room: number,
): Pick<GenerateOptions, 'maxTokens' | 'onContextFull' | 'keep'> {
  const shift = shiftOf(context, body);
  return shift ? { maxTokens: asked, onContextFull: 'shift', ...shift } : { maxTokens: Math.min(asked, room) };
}

/** Names of an answer's length, which llama-server takes at every endpoint. */
const LENGTHS = ['max_completion_tokens', 'max_tokens', 'n_predict'];

/**
 * How many tokens a request wants at most; -1 is llama-server's word for no limit.
 * @param own the name that the protocol has for it, which goes first
 */
export function lengthField(body: Body, ...own: readonly string[]): number | undefined {
  const lengths = [...own, ...LENGTHS].map((name) => numberField(body, name, { least: -1, integer: true }));
  return lengths.find((length) => length !== undefined);
}

/**
 * A request's format, or llama-server's `json_schema`, in place of a grammar that it did not ask for itself.
 * @param asked the format in the protocol's own field, where that is not OpenAI's `response_format`
 */
export function setFormat(options: GenerateOptions, body: Body, asked?: ResponseFormat): void {
  const own = asked ?? formatOf(recordField(body, 'response_format'), 'response_format');
  const schema = recordField(body, 'json_schema');
  const format: ResponseFormat | undefined = schema && own?.type !== 'json_schema' ? { type: 'json_schema', schema } : own;
  if (!format) return;
  options.responseFormat = format;
  if (!stringField(body, 'grammar')) delete options.grammar;
}

/** Names of samplers in their order, or a letter each. */
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

/** Characters of all texts in a request's biases: they are tokenized in one go. */
const maxBiasText = 10_000;

/** OpenAI's object of id -> bias, or llama-server's list of [id, bias] with false for a ban. A text stands for each of its tokens. */
function logitBias({ backend }: Context, body: Body): Record<number, number> | undefined {
  const value = body.logit_bias ?? undefined;
  if (value === undefined) return undefined;
  const shape = `an object of token id or text to number, or a list of [id or text, number], with at most ${maxBiasText} characters of text`;
  const entries: unknown[] | undefined = Array.isArray(value) ? value : isRecord(value) ? Object.entries(value).map(withId) : undefined;
  let characters = 0;
  const biases = entries?.flatMap((entry): (readonly [id: number, bias: number])[] => {
    const [of, given] = Array.isArray(entry) && entry.length === 2 ? (entry as unknown[]) : [];
    if (typeof given !== 'number' && given !== false) throw invalid('logit_bias', shape, value);
    // -100 is OpenAI's way to ban a token.
    const bias = given === false || given === -100 ? -Infinity : given;
    if (typeof of === 'number' && Number.isInteger(of) && of >= 0) return [[of, bias]];
    if (typeof of !== 'string' || (characters += of.length) > maxBiasText) throw invalid('logit_bias', shape, value);
    return Array.from(backend.tokenize(of, { addSpecial: false }), (id) => [id, bias] as const);
  });
  if (!biases) throw invalid('logit_bias', shape, value);
  return Object.fromEntries(biases);
}

/** A key of an object is an id where it is a number. */
const withId = ([key, bias]: [string, unknown]): readonly [id: string | number, bias: unknown] => [
  /^-?\d+$/.test(key) ? Number(key) : key,
  bias,
];

/** A format of OpenAI's: its schema in `json_schema` or, as llama-server has it, next to the type. `param`: the name of its field. */
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
