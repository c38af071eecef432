/** Options of the sampler: meaning, defaults, bounds. */
import { QuantletError } from '../errors.ts';
import { hintOf } from '../nearest.ts';

/**
 * Options for the choice of the next token. Names and meanings are llama.cpp's. Omitted ones take
 * SAMPLER_DEFAULTS.
 */
export interface SamplerOptions {
  /**
   * divides the logits; 0 or less chooses the most probable token, of equals the lowest id (greedy)
   */
  temperature?: number | undefined;
  /** keep the k most probable tokens; 0 or less: all */
  topK?: number | undefined;
  /** keep the most probable tokens whose probabilities add up to p; 1: all */
  topP?: number | undefined;
  /** keep tokens at least minP times as probable as the most probable one; 0: all */
  minP?: number | undefined;
  /**
   * divides positive and multiplies negative logits of tokens among the last repeatLastN; 1: off
   */
  repeatPenalty?: number | undefined;
  /** subtracted from a logit once for every time the token is among the last repeatLastN; 0: off */
  frequencyPenalty?: number | undefined;
  /** subtracted once from the logit of every token among the last repeatLastN; 0: off */
  presencePenalty?: number | undefined;
  /** number of last tokens that the three penalties apply to; 0: none, -1: all */
  repeatLastN?: number | undefined;
  /** DRY: penalty = dryMultiplier * dryBase^(repeated tokens - dryAllowedLength); 0: off */
  dryMultiplier?: number | undefined;
  dryBase?: number | undefined;
  /** DRY: a token is penalised if it makes a repetition longer than this many tokens */
  dryAllowedLength?: number | undefined;
  /** DRY: number of last tokens searched for repetitions; 0: none, -1: all */
  dryPenaltyLastN?: number | undefined;
  /** DRY: strings that end a repetition; it is not followed back across them */
  drySequenceBreakers?: readonly string[] | undefined;
  /** keep logits within n standard deviations of the largest; 0 or less: all */
  topNSigma?: number | undefined;
  /**
   * locally typical sampling: keep tokens whose surprise is nearest to the expected one, until
   * their probabilities exceed p; 1: off
   */
  typicalP?: number | undefined;
  /** XTC: probability of removing the most probable tokens if several are likely; 0: off */
  xtcProbability?: number | undefined;
  /** XTC: probability from which a token is likely; above 0.5: off */
  xtcThreshold?: number | undefined;
  /**
   * dynamic temperature: temperature varies by this much up and down, with the entropy of the
   * candidates; 0: off
   */
  dynatempRange?: number | undefined;
  dynatempExponent?: number | undefined;
  /** 1 or 2: version of Mirostat, which replaces all steps except logitBias and temperature */
  mirostat?: number | undefined;
  /** Mirostat: target surprise, in bits */
  mirostatTau?: number | undefined;
  /** Mirostat: learning rate */
  mirostatEta?: number | undefined;
  /** least number of tokens that top_p, min_p, typical and XTC keep */
  minKeep?: number | undefined;
  /** added to the logits of these tokens first; -Infinity bans a token */
  logitBias?: Readonly<Record<number, number>> | ReadonlyMap<number, number> | undefined;
  /** steps to apply, in this order, by llama.cpp's names (SAMPLER_NAMES). Others have no effect */
  samplers?: readonly SamplerName[] | undefined;
  /** integer 0 .. 2^32 - 1; -1 or omitted: random */
  seed?: number | undefined;
}

/** Steps of a sampler by llama.cpp's names, in llama.cpp's order. */
export const SAMPLER_NAMES = ['penalties', 'dry', 'top_n_sigma', 'top_k', 'typ_p', 'top_p', 'min_p', 'xtc', 'temperature'] as const;
export type SamplerName = (typeof SAMPLER_NAMES)[number];

export type NumberOption = { [K in keyof SamplerOptions]-?: Required<SamplerOptions>[K] extends number ? K : never }[keyof SamplerOptions];

interface NumberRow {
  readonly standard: number;
  readonly least: number;
  readonly most: number;
  readonly integer?: true;
}

const number = (standard: number, least: number, most: number): NumberRow => ({ standard, least, most });
const integer = (standard: number, least: number, most: number): NumberRow => ({ standard, least, most, integer: true });

/**
 * All options that are numbers: llama.cpp's default (common_params_sampling), the least and the
 * greatest value. Requests have these names in snake case (server/protocols/sampling.ts). The row of a flag
 * in cli/flags/ names the option that the flag sets.
 */
export const SAMPLER_NUMBERS: Readonly<Record<NumberOption, NumberRow>> = {
  temperature: number(0.8, -Infinity, 1e6),
  topK: integer(40, -1, 2 ** 31 - 1),
  topP: number(0.95, 0, 1),
  minP: number(0.05, 0, 1),
  repeatPenalty: number(1, 1e-6, 1e6),
  frequencyPenalty: number(0, -1e6, 1e6),
  presencePenalty: number(0, -1e6, 1e6),
  repeatLastN: integer(64, -1, 2 ** 24),
  dryMultiplier: number(0, 0, 1e6),
  dryBase: number(1.75, 1, 1e6),
  dryAllowedLength: integer(2, 0, 2 ** 24),
  dryPenaltyLastN: integer(64, -1, 2 ** 24),
  topNSigma: number(-1, -Infinity, 1e6),
  typicalP: number(1, 0, 1),
  xtcProbability: number(0, 0, 1),
  xtcThreshold: number(0.1, 0, 1),
  dynatempRange: number(0, 0, 1e6),
  dynatempExponent: number(1, 0, 1e6),
  mirostat: integer(0, 0, 2),
  mirostatTau: number(5, 0, 1e6),
  mirostatEta: number(0.1, 0, 1e6),
  minKeep: integer(0, 0, 2 ** 31 - 1),
  seed: integer(-1, -1, 2 ** 32 - 1),
};

/** llama.cpp's defaults. A seed of -1 means a random one. */
export const SAMPLER_DEFAULTS: Readonly<Required<SamplerOptions>> = /* @__PURE__ */ Object.freeze({
  ...(Object.fromEntries(Object.entries(SAMPLER_NUMBERS).map(([name, { standard }]) => [name, standard])) as Record<NumberOption, number>),
  drySequenceBreakers: Object.freeze(['\n', ':', '"', '*']),
  logitBias: Object.freeze({}),
  samplers: SAMPLER_NAMES,
});

/**
 * Fills omitted options from `defaults`, else from llama.cpp's defaults.
 * @throws QuantletError ERR_INVALID_ARGUMENT naming the option, its value and its range
 */
export function resolveSamplerOptions(options: SamplerOptions, defaults: SamplerOptions = {}): Required<SamplerOptions> {
  const resolved: Required<SamplerOptions> = { ...SAMPLER_DEFAULTS, ...defaults };
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined && name in SAMPLER_DEFAULTS) Object.assign(resolved, { [name]: value });
  }
  for (const [name, range] of Object.entries(SAMPLER_NUMBERS) as [NumberOption, NumberRow][]) {
    const value: unknown = resolved[name];
    const fits = typeof value === 'number' && value >= range.least && value <= range.most && (!range.integer || Number.isInteger(value));
    if (!fits) {
      const kind = range.integer ? 'an integer' : 'a number';
      const bounds = range.least === -Infinity ? `of at most ${range.most}` : `from ${range.least} to ${range.most}`;
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `${name} is ${typeof value === 'string' ? JSON.stringify(value) : String(value)}; expected ${kind} ${bounds}`,
      );
    }
  }
  checkSamplers(resolved.samplers);
  const breakers: unknown = resolved.drySequenceBreakers;
  if (!Array.isArray(breakers) || !breakers.every((b) => typeof b === 'string' && b !== '')) {
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      'drySequenceBreakers has a value that is not a non-empty string; expected an array of those, or [] for none',
    );
  }
  return resolved;
}

function checkSamplers(samplers: unknown): void {
  if (!Array.isArray(samplers))
    throw new QuantletError('ERR_INVALID_ARGUMENT', `samplers is ${String(samplers)}; expected a list of ${SAMPLER_NAMES.join(', ')}`);
  const unknown: unknown = samplers.find((name: unknown) => !(SAMPLER_NAMES as readonly unknown[]).includes(name));
  if (unknown !== undefined)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `samplers is ${JSON.stringify(samplers)}; ${hintOf(unknown, SAMPLER_NAMES)} a list of ${SAMPLER_NAMES.join(', ')}`,
    );
}

/**
 * Token ids and the numbers added to their logits.
 * @throws QuantletError ERR_INVALID_ARGUMENT for an id outside the vocabulary, NaN or +Infinity
 */
export function resolveLogitBias(logitBias: Required<SamplerOptions>['logitBias'], nVocab: number): [id: number, bias: number][] {
  if (typeof logitBias !== 'object' || logitBias === null)
    throw new QuantletError('ERR_INVALID_ARGUMENT', `logitBias is ${String(logitBias)}; expected an object or a Map of token id to number`);
  const entries =
    logitBias instanceof Map
      ? ([...logitBias] as [number, number][])
      : Object.entries(logitBias).map(([id, bias]) => [Number(id), bias as number] as [number, number]);
  for (const [id, bias] of entries) {
    if (!Number.isInteger(id) || id < 0 || id >= nVocab)
      throw new QuantletError('ERR_INVALID_ARGUMENT', `logitBias names token ${id}; expected an id from 0 to ${nVocab - 1}`);
    if (typeof bias !== 'number' || !(bias < Infinity))
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `logitBias of token ${id} is ${String(bias)}; expected a number, or -Infinity to ban the token`,
      );
  }
  return entries;
}
