/** Rotations that are learned (SpinQuant, arXiv 2405.16406): R1 and R2 of the least loss that the network has with 4-bit weights. */
import type { Engine } from '../core/engine.ts';
import { rope_ext } from '../core/rope.ts';
import type { HParams } from '../arch/hparams.ts';
import { QuantletError } from '../errors.ts';
import type { Tensor } from '../graph/tensor.ts';
import { cayleyStep } from './cayley.ts';
import { lossOf, type LayerMatrices } from './loss.ts';
import { randomNumbers } from './random.ts';

/** An orthogonal matrix by rows, and what is left of the steps that it took. */
export interface LearnedMatrix {
  readonly x: Float32Array;
  readonly momentum: Float32Array;
}

export interface Learned {
  /** Steps taken. */
  step: number;
  readonly r1: LearnedMatrix;
  /** For each layer. */
  readonly r2: readonly LearnedMatrix[];
}

/** f32 tensors of the engine, the norms' weights folded into what is behind them. */
export interface LearnWeights {
  readonly embeddings: Tensor;
  readonly output: Tensor;
  readonly layers: readonly LayerMatrices[];
  readonly ropeFactors?: Float32Array | undefined;
}

export interface LearnOptions {
  readonly r4: number;
  /** The text, and what stands before each piece of it. */
  readonly ids: readonly number[];
  readonly bos: number | undefined;
  /** Tokens of a sequence, and sequences of a step. */
  readonly window: number;
  readonly sequences: number;
  readonly steps: number;
  /** Of the first step; it falls to 0 in equal parts. */
  readonly rate: number;
  readonly seed: number;
  readonly signal?: AbortSignal | undefined;
}

/** Tokens of a sequence at most. */
const MOST_WINDOW = 256;
const MOST_SEQUENCES = 4;

/** Sequences of a step, and bytes of an engine for them: fewer where there is not so much memory. @throws ERR_OUT_OF_MEMORY */
export function roomFor(hp: HParams, matrixElements: number, largest: number): { window: number; sequences: number; bytes: number } {
  const window = Math.min(MOST_WINDOW, hp.nCtxTrain);
  for (let sequences = MOST_SEQUENCES; sequences > 0; sequences--) {
    const tokens = window * sequences;
    // Matrices as they are, rotated, and rotated by half or turned; what each token has in each layer, and its logits.
    const layer = 12 * hp.nEmbd + 8 * hp.nFf + 3 * hp.nHead * window;
    const bytes = 2 ** 25 + 4 * (3 * matrixElements + 3 * hp.nEmbd ** 2 + tokens * (layer * hp.nLayer + 4 * hp.nVocab));
    if (bytes <= largest) return { window, sequences, bytes };
  }
  throw new QuantletError(
    'ERR_OUT_OF_MEMORY',
    `learning rotations of a model of ${(matrixElements / 1e6).toFixed(0)} million weights needs more than the 4 GiB of a WebAssembly memory; rotate it without --learn`,
  );
}

/**
 * Takes the steps that are left, changing `learned`.
 * @returns a generator of the loss in nats a token that each step started from
 * @throws ERR_INVALID_ARGUMENT where the text is too short, or signal.reason
 */
export async function* learnRotations(
  engine: Engine,
  { headDim, nHead, nHeadKv, eps, rope, nVocab }: HParams,
  { embeddings, output, layers, ropeFactors }: LearnWeights,
  learned: Learned,
  { r4, ids: text, bos, window, sequences, steps, rate, seed, signal }: LearnOptions,
): AsyncGenerator<number> {
  if (text.length <= window)
    throw new QuantletError('ERR_INVALID_ARGUMENT', `the text has ${text.length} tokens; expected more than a window of ${window}`);
  const tokens = window * sequences;
  const positions = Array.from({ length: tokens }, (_, i) => i % window);
  const [ids, targets] = [0, 0].map(() => engine.tensor('i32', [tokens]));
  const tensorOf = ({ x }: LearnedMatrix): Tensor<'f32'> => engine.tensor('f32', [Math.sqrt(x.length), Math.sqrt(x.length)]);
  const [r1, r2] = [tensorOf(learned.r1), learned.r2.map(tensorOf)];
  const { nDims, freqBase, freqScale, extFactor, attnFactor, betaFast, betaSlow, nCtxOrig } = rope;
  const angles = { nDims, freqBase, freqScale, extFactor, attnFactor, betaFast, betaSlow, nCtxOrig, factors: ropeFactors, nCtx: window };
  const turn = (x: Tensor, back: boolean): Tensor => rope_ext(x, back ? positions.map((p) => -p) : positions, angles);
  const shape = { headDim, nHead, nHeadKv, eps, r4, type: 'q4_0', window, rope: turn } as const;
  const loss = lossOf({ ...shape, embeddings, output, layers, r1, r2, ids, targets });
  const plan = engine.plan(loss.probabilities, loss.r1, ...loss.r2);
  const matrices = [[learned.r1, r1, loss.r1], ...learned.r2.map((m, i) => [m, r2[i], loss.r2[i]] as const)] as const;

  for (; learned.step < steps; learned.step++) {
    const random = randomNumbers(seed, learned.step);
    const pieces = Array.from({ length: sequences }, () => {
      const from = random() % (text.length - window);
      return text.slice(from, from + window + 1);
    });
    engine.write(
      ids,
      pieces.flatMap((piece) => [bos ?? piece[0], ...piece.slice(1, window)]),
    );
    const next = pieces.flatMap((piece) => piece.slice(1));
    engine.write(targets, next);
    for (const [{ x }, t] of matrices) engine.write(t, x);
    await engine.compute(plan, { signal });
    const probabilities = engine.view(loss.probabilities) as Float32Array;
    yield next.reduce((sum, id, i) => sum - Math.log(probabilities[i * nVocab + id]), 0) / tokens;
    for (const [{ x, momentum }, , gradient] of matrices)
      cayleyStep(x, momentum, engine.view(gradient) as Float32Array, rate * (1 - learned.step / steps));
  }
  plan.dispose();
}
