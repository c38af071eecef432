/** Options of the sampler: meanings, defaults, bounds. */
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
  /** DRY: penalty = dryMultiplier * dryBase^(repeated tokens - dryAllowedLength); 0: off */
  dryMultiplier?: number;
  dryBase?: number;
  /** DRY: repetitions up to this many tokens cost nothing extra */
  dryAllowedLength?: number;
  /** DRY: how many of the last tokens are searched for repetitions; 0: none, -1: all */
  dryPenaltyLastN?: number;
  /** DRY: strings that a repetition is not followed across */
  drySequenceBreakers?: readonly string[];
  /** keep logits within n standard deviations of the largest; 0 or less: all */
  topNSigma?: number;
  /** locally typical sampling: tokens whose surprise is nearest to the expected one, until their probabilities pass p; 1: off */
  typicalP?: number;
  /** XTC: how often the most probable of several likely tokens are left out; 0: off */
  xtcProbability?: number;
  /** XTC: a token is likely from this probability on; above 0.5: off */
  xtcThreshold?: number;
  /** dynamic temperature: temperature -+ this, by the entropy of the candidates; 0: off */
  dynatempRange?: number;
  dynatempExponent?: number;
  /** 1 or 2: Mirostat in place of every other step but logitBias and temperature */
  mirostat?: number;
  /** Mirostat: target surprise, in bits */
  mirostatTau?: number;
  /** Mirostat: learning rate */
  mirostatEta?: number;
  /** top_p, min_p, typical and XTC leave at least so many tokens */
  minKeep?: number;
  /** added to the logits of these tokens before all else; -Infinity bans a token */
  logitBias?: Readonly<Record<number, number>> | ReadonlyMap<number, number>;
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
  dryMultiplier: 0,
  dryBase: 1.75,
  dryAllowedLength: 2,
  dryPenaltyLastN: -1,
  drySequenceBreakers: Object.freeze(['\n', ':', '"', '*']),
  topNSigma: -1,
  typicalP: 1,
  xtcProbability: 0,
  xtcThreshold: 0.1,
  dynatempRange: 0,
  dynatempExponent: 1,
  mirostat: 0,
  mirostatTau: 5,
  mirostatEta: 0.1,
  minKeep: 0,
  logitBias: Object.freeze({}),
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
  dryMultiplier: { least: 0, most: 1e6 },
  dryBase: { least: 1, most: 1e6 },
  dryAllowedLength: { least: 0, most: 2 ** 24, integer: true },
  dryPenaltyLastN: { least: -1, most: 2 ** 24, integer: true },
  topNSigma: { least: -Infinity, most: 1e6 },
  typicalP: { least: 0, most: 1 },
  xtcProbability: { least: 0, most: 1 },
  xtcThreshold: { least: 0, most: 1 },
  dynatempRange: { least: 0, most: 1e6 },
  dynatempExponent: { least: 0, most: 1e6 },
  mirostat: { least: 0, most: 2, integer: true },
  mirostatTau: { least: 0, most: 1e6 },
  mirostatEta: { least: 0, most: 1e6 },
  minKeep: { least: 0, most: 2 ** 31 - 1, integer: true },
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
  const breakers: unknown = resolved.drySequenceBreakers;
  if (!Array.isArray(breakers) || !breakers.every((b) => typeof b === 'string' && b !== '')) {
    throw new QuantletError('ERR_INVALID_ARGUMENT', 'drySequenceBreakers holds something else than non-empty strings: expected an array of those, or [] for none');
  }
  return resolved;
}

/**
 * Token ids and what is added to their logits.
 * @throws QuantletError ERR_INVALID_ARGUMENT for an id outside the vocabulary, NaN or +Infinity
 */
export function resolveLogitBias(logitBias: Required<SamplerOptions>['logitBias'], nVocab: number): [id: number, bias: number][] {
  if (typeof logitBias !== 'object' || logitBias === null) throw new QuantletError('ERR_INVALID_ARGUMENT', `logitBias is ${String(logitBias)}: expected an object or a Map of token id to number`);
  const entries = logitBias instanceof Map ? [...logitBias] as [number, number][] : Object.entries(logitBias).map(([id, bias]) => [Number(id), bias as number] as [number, number]);
  for (const [id, bias] of entries) {
    if (!Number.isInteger(id) || id < 0 || id >= nVocab) throw new QuantletError('ERR_INVALID_ARGUMENT', `logitBias names token ${id}: expected an id from 0 to ${nVocab - 1}`);
    if (typeof bias !== 'number' || !(bias < Infinity)) throw new QuantletError('ERR_INVALID_ARGUMENT', `logitBias of token ${id} is ${String(bias)}: expected a number, or -Infinity to ban the token`);
  }
  return entries;
}
