import { QuantletError } from '../errors.ts';

/** How the next token is chosen. Names and meanings are llama.cpp's; what is left out takes SAMPLER_DEFAULTS. */
export interface SamplerOptions {
  /** divides the logits; 0 or less takes the most probable token, the lowest id among equals (greedy) */
  temperature?: number;
  /** keep the k most probable tokens; 0 or less: all */
  topK?: number;
  /** keep the most probable tokens whose probabilities add up to p; 1: all */
  topP?: number;
  /** keep tokens at least minP times as probable as the most probable one; 0: all */
  minP?: number;
  /** divides positive and multiplies negative logits of tokens among the last repeatLastN; 1: off */
  repeatPenalty?: number;
  /** subtracted from a logit once for every time the token is among the last repeatLastN; 0: off */
  frequencyPenalty?: number;
  /** subtracted once from the logit of every token among the last repeatLastN; 0: off */
  presencePenalty?: number;
  /** how many of the last tokens the three penalties look at; 0: none, -1: all */
  repeatLastN?: number;
  /** integer 0 .. 2^32 - 1; -1 or left out: drawn by chance */
  seed?: number;
}

/** llama.cpp's defaults (common_params_sampling); -1 as a seed is a random one. */
export const SAMPLER_DEFAULTS: Readonly<Required<SamplerOptions>> = /* @__PURE__ */ Object.freeze({
  temperature: 0.8,
  topK: 40,
  topP: 0.95,
  minP: 0.05,
  repeatPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  repeatLastN: 64,
  seed: -1,
});

type NumberOption = { [K in keyof SamplerOptions]-?: Required<SamplerOptions>[K] extends number ? K : never }[keyof SamplerOptions];

interface Range { readonly least: number; readonly most: number; readonly integer?: true }

const RANGES: Readonly<Record<NumberOption, Range>> = {
  temperature: { least: -Infinity, most: 1e6 },
  topK: { least: -1, most: 2 ** 31 - 1, integer: true },
  topP: { least: 0, most: 1 },
  minP: { least: 0, most: 1 },
  repeatPenalty: { least: 1e-6, most: 1e6 },
  frequencyPenalty: { least: -1e6, most: 1e6 },
  presencePenalty: { least: -1e6, most: 1e6 },
  repeatLastN: { least: -1, most: 2 ** 24, integer: true },
  seed: { least: -1, most: 2 ** 32 - 1, integer: true },
};

/**
 * Options with every gap filled.
 * @throws QuantletError ERR_INVALID_ARGUMENT naming the option, its value and its range
 */
export function resolveSamplerOptions(options: SamplerOptions): Required<SamplerOptions> {
  const resolved: Required<SamplerOptions> = { ...SAMPLER_DEFAULTS };
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined && name in SAMPLER_DEFAULTS) Object.assign(resolved, { [name]: value });
  }
  for (const [name, range] of Object.entries(RANGES) as [NumberOption, Range][]) {
    const value: unknown = resolved[name];
    const fits = typeof value === 'number' && value >= range.least && value <= range.most && (!range.integer || Number.isInteger(value));
    if (!fits) {
      const kind = range.integer ? 'an integer' : 'a number';
      const bounds = range.least === -Infinity ? `of at most ${range.most}` : `from ${range.least} to ${range.most}`;
      throw new QuantletError('ERR_INVALID_ARGUMENT', `${name} is ${typeof value === 'string' ? JSON.stringify(value) : String(value)}: expected ${kind} ${bounds}`);
    }
  }
  return resolved;
}
