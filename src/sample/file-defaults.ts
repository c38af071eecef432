/**
 * Defaults of sampler options in a model file: `general.sampling.*`, as read by llama.cpp's
 * common_init_sampler_from_model.
 */
import { QuantletError } from '../errors.ts';
import type { HasMetadata } from '../gguf/metadata.ts';
import type { GGUFValue } from '../gguf/types.ts';
import { samplerOfWord } from './names.ts';
import { SAMPLER_NUMBERS, type NumberOption, type SamplerName, type SamplerOptions } from './options.ts';

/** Keys after `general.sampling.`, and the options whose defaults they set. */
const KEYS: Readonly<Record<string, NumberOption>> = {
  top_k: 'topK',
  top_p: 'topP',
  min_p: 'minP',
  xtc_probability: 'xtcProbability',
  xtc_threshold: 'xtcThreshold',
  temp: 'temperature',
  penalty_last_n: 'repeatLastN',
  penalty_repeat: 'repeatPenalty',
  mirostat: 'mirostat',
  mirostat_tau: 'mirostatTau',
  mirostat_eta: 'mirostatEta',
};

/**
 * Options for which a number outside the bounds has no meaning. For all others, a bound is where
 * the step does nothing or has its full effect, so numbers are clamped.
 */
const STRICT: ReadonlySet<NumberOption> = new Set<NumberOption>(['mirostat', 'repeatPenalty']);

/**
 * Samplers of llama.cpp that quantlet does not have. adaptive_p draws as usual unless it has a
 * target, which files cannot set.
 */
const WITHOUT_EFFECT: ReadonlySet<string> = new Set(['adaptive_p', 'adaptive-p', 'adaptivep']);
const NOT_RUN: ReadonlySet<string> = new Set(['infill']);

export interface FileSampling {
  readonly defaults: SamplerOptions;
  readonly warnings: readonly string[];
}

/**
 * Defaults in a file, and warnings for entries that are ignored.
 * @throws QuantletError ERR_GGUF_INVALID naming the key, for numbers without meaning and for
 * samplers that quantlet does not have
 */
export function fileSampling({ metadata }: HasMetadata): FileSampling {
  const defaults: { -readonly [name in NumberOption]?: number } & { samplers?: readonly SamplerName[] } = {};
  const warnings: string[] = [];
  for (const [name, option] of Object.entries(KEYS)) {
    const value = numberOf(metadata.get(`general.sampling.${name}`));
    if (value !== undefined) defaults[option] = bounded(`general.sampling.${name}`, option, value);
  }
  const samplers = sequenceOf(metadata.get('general.sampling.sequence'), warnings);
  if (samplers) defaults.samplers = samplers;
  return { defaults, warnings };
}

/**
 * A number, or the number at the start of a text, because llama.cpp parses the value's text; else
 * undefined.
 */
function numberOf(value: GGUFValue | undefined): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value === 'bigint') return Number(value);
  if (typeof value !== 'string') return undefined;
  const number = parseFloat(value);
  return Number.isNaN(number) ? undefined : number;
}

function bounded(key: string, option: NumberOption, given: number): number {
  const { least, most, integer } = SAMPLER_NUMBERS[option];
  const value = integer ? Math.trunc(given) : given;
  if (Number.isNaN(value) || (STRICT.has(option) && !(value >= least && value <= most)))
    throw new QuantletError(
      'ERR_GGUF_INVALID',
      `metadata "${key}" is ${given}; expected ${integer ? 'a whole number' : 'a number'} from ${least} to ${most}: set another with overrideKv`,
    );
  // llama.cpp has no "-1: all" here: a negative number turns the penalties off.
  if (option === 'repeatLastN' && value < 0) return 0;
  return Math.max(least, Math.min(most, value));
}

/**
 * Parses a list like `top_k;top_p;temperature`. Unknown names are ignored with a warning, as in
 * llama.cpp.
 */
function sequenceOf(value: GGUFValue | undefined, warnings: string[]): readonly SamplerName[] | undefined {
  if (typeof value !== 'string' || value === '') return undefined;
  const names: SamplerName[] = [];
  for (const word of value.split(';')) {
    const given = word.toLowerCase();
    const name = samplerOfWord(given);
    if (name) names.push(name);
    else if (NOT_RUN.has(given))
      throw new QuantletError(
        'ERR_GGUF_INVALID',
        `metadata "general.sampling.sequence" has the sampler ${JSON.stringify(word)}, which quantlet does not have; set another sequence with overrideKv`,
      );
    else if (!WITHOUT_EFFECT.has(given))
      warnings.push(`general.sampling.sequence has ${JSON.stringify(word)}, which is not a sampler; left out`);
  }
  return names;
}
