/** Sampler defaults of a model file: `general.sampling.*`, as llama.cpp's common_init_sampler_from_model reads them. */
import { QuantletError } from '../errors.ts';
import type { HasMetadata } from '../gguf/metadata.ts';
import type { GGUFValue } from '../gguf/types.ts';
import { samplerOfWord } from './names.ts';
import { SAMPLER_NUMBERS, type NumberOption, type SamplerName, type SamplerOptions } from './options.ts';

/** Keys below `general.sampling.` and the options that they are defaults of. */
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

/** Options for which a number beyond the bounds has no meaning. The bounds of all others are where a step does nothing, or all it can. */
const STRICT: ReadonlySet<NumberOption> = new Set<NumberOption>(['mirostat', 'repeatPenalty']);

/** llama.cpp's samplers that quantlet does not have. Without a target, which files cannot set, adaptive_p draws as usual. */
const WITHOUT_EFFECT: ReadonlySet<string> = new Set(['adaptive_p', 'adaptive-p', 'adaptivep']);
const NOT_RUN: ReadonlySet<string> = new Set(['infill']);

export interface FileSampling {
  readonly defaults: SamplerOptions;
  readonly warnings: readonly string[];
}

/**
 * @throws QuantletError ERR_GGUF_INVALID naming the key, for numbers that mean nothing and for samplers that quantlet does not have
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

/** A number, or the number that a text begins with: llama.cpp reads the value's text. Undefined for anything else. */
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
  // llama.cpp has no "-1: all" here: a negative number of tokens turns the penalties off.
  if (option === 'repeatLastN' && value < 0) return 0;
  return Math.max(least, Math.min(most, value));
}

/** `top_k;top_p;temperature`: names that mean no sampler are left out with a warning, as in llama.cpp. */
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
        `metadata "general.sampling.sequence" has the sampler ${JSON.stringify(word)}, which quantlet does not have: set another sequence with overrideKv`,
      );
    else if (!WITHOUT_EFFECT.has(given))
      warnings.push(`general.sampling.sequence has ${JSON.stringify(word)}, which is not a sampler; left out`);
  }
  return names;
}
