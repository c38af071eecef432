/** Sampling fields of a request as options of a generation. */
import { isRecord } from '../chat/json.ts';
import type { GenerateOptions } from '../generate.ts';
import type { ResponseFormat } from '../grammar/constraint.ts';
import { booleanField, invalid, numberField, recordField, stringField, stringsField, type Body } from './fields.ts';
import { HttpError } from './http-error.ts';

/** Request field -> sampler option: OpenAI's and llama-server's spellings. */
const numbers = {
  temperature: 'temperature',
  top_k: 'topK',
  top_p: 'topP',
  min_p: 'minP',
  typical_p: 'typicalP',
  top_n_sigma: 'topNSigma',
  repeat_penalty: 'repeatPenalty',
  repeat_last_n: 'repeatLastN',
  presence_penalty: 'presencePenalty',
  frequency_penalty: 'frequencyPenalty',
  xtc_probability: 'xtcProbability',
  xtc_threshold: 'xtcThreshold',
  dynatemp_range: 'dynatempRange',
  dynatemp_exponent: 'dynatempExponent',
  dry_multiplier: 'dryMultiplier',
  dry_base: 'dryBase',
  dry_allowed_length: 'dryAllowedLength',
  dry_penalty_last_n: 'dryPenaltyLastN',
  mirostat: 'mirostat',
  mirostat_tau: 'mirostatTau',
  mirostat_eta: 'mirostatEta',
  min_keep: 'minKeep',
} as const;

/** More stop strings than anyone needs; each costs time at every token. */
const maxStops = 32;

/** The fields that all generating endpoints share. */
export function textOptions(body: Body): GenerateOptions {
  const options: GenerateOptions & Record<string, unknown> = {};
  for (const [field, option] of Object.entries(numbers)) {
    const value = numberField(body, field);
    if (value !== undefined) options[option] = value;
  }
  if (options.temperature !== undefined && options.temperature < 0) throw invalid('temperature', 'a number from 0 on', options.temperature);
  // OpenAI's seeds are 64-bit and may be negative; the sampler's are 32-bit.
  const seed = numberField(body, 'seed', { integer: true });
  if (seed !== undefined && seed !== -1) options.seed = Number(BigInt.asUintN(32, BigInt(seed)));
  const stop = stringsField(body, 'stop', maxStops);
  if (stop?.includes('')) throw invalid('stop', 'strings of at least one character', stop);
  if (stop && stop.length > 0) options.stop = stop;
  if (booleanField(body, 'ignore_eos')) options.ignoreEos = true;
  const bias = logitBias(body);
  if (bias) options.logitBias = bias;
  const grammar = stringField(body, 'grammar');
  if (grammar) options.grammar = grammar;
  return options;
}

/** OpenAI's object of id -> bias, or llama-server's list of [id, bias] with false for a ban. */
function logitBias(body: Body): Record<number, number> | undefined {
  const value = body.logit_bias ?? undefined;
  if (value === undefined) return undefined;
  const entries: unknown[][] | undefined = Array.isArray(value) ? (value as unknown[][]) : isRecord(value) ? Object.entries(value) : undefined;
  const fits = entries?.every((entry) => Array.isArray(entry) && entry.length === 2 && /^\d+$/.test(String(entry[0])) && (typeof entry[1] === 'number' || entry[1] === false));
  if (!entries || !fits) throw invalid('logit_bias', 'an object of token id to number, or a list of [id, number]', value);
  // -100 is OpenAI's way to ban a token.
  return Object.fromEntries(entries.map(([id, bias]) => [Number(id), bias === false || bias === -100 ? -Infinity : Number(bias)]));
}

/** `response_format` of OpenAI, also with llama-server's `json_object` plus `schema`. */
export function responseFormat(body: Body): ResponseFormat | undefined {
  const format = recordField(body, 'response_format');
  if (!format) return undefined;
  const { type } = format;
  if (type === 'text') return { type };
  if (type === 'json_object') return isRecord(format.schema) ? { type: 'json_schema', schema: format.schema } : { type };
  const schema = isRecord(format.json_schema) ? format.json_schema.schema : format.schema;
  if (type === 'json_schema' && isRecord(schema)) return { type, schema };
  if (type === 'json_schema') throw new HttpError(400, "'response_format' has no schema; expected json_schema.schema, an object.", { param: 'response_format', code: 'invalid_value' });
  throw invalid('response_format', '{"type": "text" | "json_object" | "json_schema"}', format);
}
