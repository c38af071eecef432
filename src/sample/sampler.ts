/** A sampler: chain of steps from logits to a token, in llama.cpp's order. */
import { QuantletError } from '../errors.ts';
import { createCandidates, dropBanned, indexedById, loadCandidates, pick, softmax } from './candidates.ts';
import type { SamplerStep } from './candidates.ts';
import { createDry } from './dry.ts';
import { createHistory } from './history.ts';
import { createMirostat } from './mirostat.ts';
import { resolveLogitBias, resolveSamplerOptions } from './options.ts';
import type { SamplerName, SamplerOptions } from './options.ts';
import { logitBiasStep, penaltiesStep } from './penalties.ts';
import { createRandom } from './random.ts';
import type { Random } from './random.ts';
import { dynamicTemperatureStep, greedyStep, temperatureStep } from './temperature.ts';
import { minPStep, topKStep, topNSigmaStep, topPStep, typicalStep, xtcStep } from './truncate.ts';

export { SAMPLER_DEFAULTS } from './options.ts';
export type { SamplerOptions } from './options.ts';

/**
 * Chooses the tokens of one sequence. The same options, seed, logits and accepted tokens give the
 * same choices on every platform.
 */
export interface Sampler {
  /** seed in use, also if it was chosen at random */
  readonly seed: number;
  /**
   * @param logits ne [n_vocab], never written
   * @returns a token id, not yet accepted
   * @throws QuantletError ERR_LOGITS if the logits give no distribution (NaN, +Infinity, all
   * -Infinity); ERR_GRAMMAR if the grammar allows no token
   */
  sample(logits: Float32Array): number;
  /**
   * First half of sample(): the choice without the grammar, or -1 if the grammar refuses it. In
   * that case sampleMasked() with the same logits is the second half. It may be called later, when
   * the grammar is prepared.
   */
  sampleFreely(logits: Float32Array): number;
  sampleMasked(logits: Float32Array): number;
  /**
   * Appends a token of the sequence to the history that penalties read.
   * @param acceptGrammar false for tokens of the prompt, which the grammar does not describe
   */
  accept(id: number, acceptGrammar?: boolean): void;
  /** Forgets the sequence and restarts the random numbers. */
  reset(): void;
}

/** A rule that excludes tokens, such as a grammar. */
export interface TokenConstraint {
  allows(id: number): boolean;
  /**
   * Sets the logits of tokens that are not allowed to -Infinity.
   * @throws QuantletError ERR_GRAMMAR if no token is allowed
   */
  mask(logits: Float32Array): void;
  accept(id: number): void;
  reset(): void;
}

export interface SamplerContext {
  /** options set by the model's file, used for those that are omitted */
  readonly defaults?: SamplerOptions;
  /** tokens that are never chosen, even if logitBias raises them */
  readonly suppressed?: readonly number[];
  readonly grammar?: TokenConstraint;
  /** bytes of a token, in which DRY searches its sequence breakers */
  readonly pieceBytes?: (id: number) => Uint8Array;
}

/** Part of a sampler that remembers the tokens of the sequence. */
interface Memory {
  accept(id: number): void;
  reset(): void;
}

/**
 * Steps on the whole vocabulary (ids[i] = i), steps on the remaining candidates, and the final
 * draw.
 */
interface Chain {
  readonly whole: SamplerStep[];
  readonly rest: SamplerStep[];
  readonly memories: Memory[];
  draw: typeof drawFrom;
}

/**
 * @param nVocab length of the logits
 * @throws QuantletError ERR_INVALID_ARGUMENT
 */
export function createSampler(options: SamplerOptions, nVocab: number, context: SamplerContext = {}): Sampler {
  const o = resolveSamplerOptions(options, context.defaults);
  const random = createRandom(o.seed);
  const candidates = createCandidates(nVocab);
  const { whole, rest, memories, draw } = buildChain(o, nVocab, random, context);
  const { grammar } = context;

  function run(logits: Float32Array, masked: boolean): number {
    loadCandidates(candidates, logits);
    if (masked) {
      grammar!.mask(candidates.logits);
      candidates.banned = true;
    }
    for (const step of whole) step(candidates);
    dropBanned(candidates);
    for (const step of rest) step(candidates);
    return candidates.ids[draw(candidates, random)];
  }

  // Try the unrestricted choice first: usually the grammar allows it, and testing one token is far
  // cheaper than masking the vocabulary.
  const sampleFreely = (logits: Float32Array): number => {
    const id = run(logits, false);
    return !grammar || grammar.allows(id) ? id : -1;
  };
  const sampleMasked = (logits: Float32Array): number => run(logits, grammar !== undefined);

  return {
    seed: random.seed,
    sample(logits) {
      const id = sampleFreely(logits);
      return id >= 0 ? id : sampleMasked(logits);
    },
    sampleFreely,
    sampleMasked,
    accept(id, acceptGrammar = true) {
      if (grammar && acceptGrammar) grammar.accept(id);
      for (const memory of memories) memory.accept(id);
    },
    reset() {
      grammar?.reset();
      for (const memory of memories) memory.reset();
      random.reset();
    },
  };
}

function drawFrom(candidates: Parameters<SamplerStep>[0], random: Random): number {
  if (candidates.size === 1) return 0;
  softmax(candidates);
  return pick(candidates, random.next());
}

/** Builds the chain: logit bias, then either Mirostat or the steps of `samplers`. */
function buildChain(o: Required<SamplerOptions>, nVocab: number, random: Random, context: SamplerContext): Chain {
  const chain: Chain = { whole: [], rest: [], memories: [], draw: drawFrom };
  const { whole, rest, memories } = chain;

  const banned = (context.suppressed ?? []).map((id): [number, number] => [id, -Infinity]);
  const bias = [...resolveLogitBias(o.logitBias, nVocab), ...banned];
  if (bias.length > 0) whole.push(logitBiasStep(bias));
  if (o.mirostat !== 0) {
    const mirostat = createMirostat(o.mirostat, o.mirostatTau, o.mirostatEta, nVocab, random);
    rest.push(o.temperature > 0 ? temperatureStep(o.temperature) : greedyStep());
    memories.push({ accept: () => undefined, reset: mirostat.reset });
    chain.draw = mirostat.draw;
    return chain;
  }

  const has = (name: SamplerName): boolean => o.samplers.includes(name);
  const typical = has('typ_p') && o.typicalP < 1;
  const xtc = has('xtc') && o.xtcProbability > 0 && o.xtcThreshold <= 0.5;
  const greedy = has('temperature') && o.temperature <= 0 && o.dynatempRange === 0;
  // Greedy choice needs no cuts in general. It needs them if a step can remove the most probable
  // token (typical, xtc), or if a penalty follows a cut and so chooses from what the cut left.
  const cuts = !greedy || typical || xtc || penaltiesAreLate(o.samplers);
  // Penalties and DRY index logits by id. After another step, that needs a copy of the logits.
  const addById = (step: SamplerStep): void => void (rest.length === 0 ? whole.push(step) : rest.push(indexedById(step, nVocab)));
  const steps: { readonly [name in SamplerName]: () => void } = {
    penalties: () => {
      if (o.repeatLastN === 0 || (o.repeatPenalty === 1 && o.frequencyPenalty === 0 && o.presencePenalty === 0)) return;
      const history = createHistory(o.repeatLastN, nVocab);
      addById(penaltiesStep(history, o.repeatPenalty, o.frequencyPenalty, o.presencePenalty));
      memories.push({ accept: history.push, reset: history.reset });
    },
    dry: () => {
      if (o.dryMultiplier <= 0 || o.dryPenaltyLastN === 0) return;
      const dry = createDryStep(o, nVocab, context);
      addById(dry.step);
      memories.push(dry);
    },
    top_n_sigma: () => void (cuts && o.topNSigma > 0 && rest.push(topNSigmaStep(o.topNSigma))),
    top_k: () => void (cuts && o.topK > 0 && rest.push(topKStep(o.topK))),
    typ_p: () => void (typical && rest.push(typicalStep(o.typicalP, o.minKeep, nVocab))),
    top_p: () => void (cuts && o.topP < 1 && rest.push(topPStep(o.topP, o.minKeep))),
    min_p: () => void (cuts && o.minP > 0 && rest.push(minPStep(o.minP, o.minKeep))),
    xtc: () => void (xtc && rest.push(xtcStep(o.xtcProbability, o.xtcThreshold, o.minKeep, random))),
    temperature: () => {
      if (greedy) rest.push(greedyStep());
      else if (o.dynatempRange > 0) rest.push(dynamicTemperatureStep(o.temperature, o.dynatempRange, o.dynatempExponent));
      else if (o.temperature !== 1) rest.push(temperatureStep(o.temperature));
    },
  };
  for (const name of o.samplers) steps[name]();
  return chain;
}

function penaltiesAreLate(samplers: readonly SamplerName[]): boolean {
  const isPenalty = (name: SamplerName): boolean => name === 'penalties' || name === 'dry';
  const first = samplers.findIndex((name) => !isPenalty(name));
  return first >= 0 && samplers.slice(first).some(isPenalty);
}

function createDryStep(o: Required<SamplerOptions>, nVocab: number, context: SamplerContext): ReturnType<typeof createDry> {
  if (!context.pieceBytes && o.drySequenceBreakers.length > 0) {
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      'dryMultiplier is set, but the text of the tokens is not known here; pass pieceBytes, or drySequenceBreakers: []',
    );
  }
  return createDry(
    {
      multiplier: o.dryMultiplier,
      base: o.dryBase,
      allowedLength: o.dryAllowedLength,
      lastN: o.dryPenaltyLastN,
      sequenceBreakers: o.drySequenceBreakers,
    },
    nVocab,
    context.pieceBytes ?? (() => new Uint8Array()),
  );
}
