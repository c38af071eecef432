/** Options of speculation, for loading a model and for one generation. */
import { QuantletError, tell } from '../../errors.ts';
import type { KvType } from '../../graph/attention-ops.ts';
import type { ModelSource } from '../../io/model-files.ts';
import { checkOptions, KIND, type Kind, type Kinds } from '../../options.ts';

export interface DraftSimpleOptions {
  /** Maximum number of tokens of a draft. Default 3. */
  nMax?: number | undefined;
  /** Shorter drafts are not used. Default 0. */
  nMin?: number | undefined;
  /** Probability below which drafting stops before a token. Default 0. */
  pMin?: number | undefined;
}

export interface NgramSimpleOptions {
  /** Number of last tokens that must have occurred before. Default 12. */
  sizeN?: number | undefined;
  /** Maximum number of tokens of a draft, taken from after the earlier occurrence. Default 48. */
  sizeM?: number | undefined;
  /** Minimum number of earlier occurrences. Default 1. */
  minHits?: number | undefined;
}

export interface NgramModOptions {
  /** Number of last tokens that are looked up. Default 24. */
  nMatch?: number | undefined;
  /** Drafts that cannot reach this length are not used. Default 48. */
  nMin?: number | undefined;
  /** Maximum number of tokens of a draft. Default 64. */
  nMax?: number | undefined;
}

/** Types in llama.cpp's order. If several are enabled, the first that has a draft is used. */
export const SPECULATION_TYPES = ['ngram-simple', 'ngram-mod', 'draft-simple'] as const;
export type SpeculationType = (typeof SPECULATION_TYPES)[number];

/**
 * Speculation of one generation: it can use fewer types or shorter drafts than the model was loaded
 * for.
 */
export interface GenerateSpeculation {
  /** `none`, or one or more of `ngram-simple`, `ngram-mod`, `draft-simple`. */
  type?: SpeculationType | 'none' | readonly (SpeculationType | 'none')[] | undefined;
  draft?: DraftSimpleOptions | undefined;
  ngramSimple?: NgramSimpleOptions | undefined;
  ngramMod?: Pick<NgramModOptions, 'nMin' | 'nMax'> | undefined;
}

export interface DraftModelOptions extends DraftSimpleOptions {
  /**
   * The draft model (GGUF): a small one with the same vocabulary. If given, the default of `type`
   * is `draft-simple`.
   */
  model?: ModelSource | readonly ModelSource[] | undefined;
  /** Threads of the draft model. Default: those of the model. */
  threads?: number | undefined;
  /** Type of the draft model's KV cache. Default `f16`. */
  cacheTypeK?: KvType | undefined;
  cacheTypeV?: KvType | undefined;
}

/**
 * Speculation that a model is loaded with. It applies to every generation that does not set its
 * own.
 */
export interface SpeculationOptions extends GenerateSpeculation {
  draft?: DraftModelOptions | undefined;
  ngramMod?: NgramModOptions | undefined;
}

/** Resolved options. */
export interface SpeculationLimits {
  readonly types: readonly SpeculationType[];
  readonly draft: Required<DraftSimpleOptions>;
  readonly ngramSimple: Required<NgramSimpleOptions>;
  readonly ngramMod: Required<NgramModOptions>;
}

/** llama.cpp's defaults. */
const DEFAULTS: SpeculationLimits = {
  types: [],
  draft: { nMax: 3, nMin: 0, pMin: 0 },
  ngramSimple: { sizeN: 12, sizeM: 48, minHits: 1 },
  ngramMod: { nMatch: 24, nMin: 48, nMax: 64 },
};

/** Limit of a draft's and of an n-gram's length in tokens. */
const MOST = 1024;
const wholeFrom = (least: number): Kind => ({
  is: (v) => Number.isInteger(v) && (v as number) >= least && (v as number) <= MOST,
  expected: `a whole number from ${least} to ${MOST}`,
});
const probability: Kind = { is: (v) => typeof v === 'number' && v >= 0 && v <= 1, expected: 'a number from 0 to 1' };
const kindsOfDraft: Kinds<DraftSimpleOptions> = { nMax: wholeFrom(0), nMin: wholeFrom(0), pMin: probability };
const kindsOfModel: Kinds<DraftModelOptions> = {
  ...kindsOfDraft,
  model: KIND.any,
  threads: KIND.any,
  cacheTypeK: KIND.any,
  cacheTypeV: KIND.any,
};
const kindsOfSimple: Kinds<NgramSimpleOptions> = { sizeN: wholeFrom(1), sizeM: wholeFrom(1), minHits: wholeFrom(1) };
const kindsOfMod: Kinds<Pick<NgramModOptions, 'nMin' | 'nMax'>> = { nMin: wholeFrom(0), nMax: wholeFrom(0) };
const kinds: Kinds<GenerateSpeculation> = { type: KIND.any, draft: KIND.any, ngramSimple: KIND.any, ngramMod: KIND.any };

function typesOf(type: unknown): SpeculationType[] {
  const given: readonly unknown[] = Array.isArray(type) ? type : [type];
  const known: readonly unknown[] = SPECULATION_TYPES;
  const unknown = given.findIndex((one) => one !== 'none' && !known.includes(one));
  if (unknown >= 0)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `speculation: type is ${tell(given[unknown])}; expected none, or one or more of ${SPECULATION_TYPES.join(', ')}`,
    );
  return SPECULATION_TYPES.filter((one) => given.includes(one));
}

/** The options that are set, over `base`. */
const over = <T extends object>(base: T, options: Partial<T> | undefined): T => ({
  ...base,
  ...Object.fromEntries(Object.entries(options ?? {}).filter(([key, value]) => key in base && value !== undefined)),
});

/**
 * Resolves the options of loading a model.
 * @throws ERR_INVALID_ARGUMENT for an unknown option, an unknown type, or draft-simple without a
 * draft model
 */
export function loadLimits(options: SpeculationOptions | undefined): SpeculationLimits {
  const { type, draft, ngramSimple, ngramMod } = checkOptions('speculation', options, kinds) as SpeculationOptions;
  checkOptions('speculation.draft', draft, kindsOfModel);
  checkOptions('speculation.ngramSimple', ngramSimple, kindsOfSimple);
  checkOptions('speculation.ngramMod', ngramMod, { ...kindsOfMod, nMatch: wholeFrom(1) });
  const types = typesOf(type ?? (draft?.model === undefined ? 'none' : 'draft-simple'));
  if (types.includes('draft-simple') && draft?.model === undefined)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      'speculation: draft-simple needs a draft model; give a small model of the same vocabulary as draft.model (--model-draft)',
    );
  return {
    types,
    draft: over(DEFAULTS.draft, draft),
    ngramSimple: over(DEFAULTS.ngramSimple, ngramSimple),
    ngramMod: over(DEFAULTS.ngramMod, ngramMod),
  };
}

/**
 * Resolves the options of one generation, over those that the model was loaded with.
 * @throws ERR_INVALID_ARGUMENT for a type or a length that the model was not loaded for
 */
export function generateLimits(loaded: SpeculationLimits | undefined, options: GenerateSpeculation | false | undefined): SpeculationLimits {
  const base = loaded ?? DEFAULTS;
  if (options === undefined) return base;
  if (options === false) return DEFAULTS;
  const { type, draft, ngramSimple, ngramMod } = checkOptions('speculation', options, kinds);
  checkOptions('speculation.draft', draft, kindsOfDraft);
  checkOptions('speculation.ngramSimple', ngramSimple, kindsOfSimple);
  checkOptions('speculation.ngramMod', ngramMod, kindsOfMod);
  const types = type === undefined ? base.types : typesOf(type);
  const other = types.find((one) => !base.types.includes(one));
  if (other !== undefined)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `speculation: the model was loaded ${base.types.length === 0 ? 'without speculation' : `for ${base.types.join(' and ')}`}; give ${other} to loadModel`,
    );
  const limits = {
    types,
    draft: over(base.draft, draft),
    ngramSimple: over(base.ngramSimple, ngramSimple),
    ngramMod: over(base.ngramMod, ngramMod),
  };
  if (longestDraft(limits) > longestDraft(base))
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `speculation: a draft would have ${longestDraft(limits)} tokens; expected at most ${longestDraft(base)}, as the model was loaded: ask for fewer, or load it for more`,
    );
  return limits;
}

/** Maximum number of tokens of a draft. */
export function longestDraft({ types, draft, ngramSimple, ngramMod }: SpeculationLimits): number {
  return Math.max(
    0,
    ...types.map((type) => ({ 'draft-simple': draft.nMax, 'ngram-simple': ngramSimple.sizeM, 'ngram-mod': ngramMod.nMax })[type]),
  );
}
