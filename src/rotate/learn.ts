/**
 * Learned rotations (SpinQuant, arXiv 2405.16406): R1 and R2 with which a network of 4-bit weights
 * is closest to the model.
 */
import type { Engine, Plan } from '../core/engine.ts';
import { rope_ext } from '../core/rope.ts';
import type { HParams } from '../arch/hparams.ts';
import { QuantletError } from '../errors.ts';
import type { Tensor } from '../graph/tensor.ts';
import { cayleyStep } from './cayley.ts';
import { lossOf, type LayerMatrices } from './loss.ts';
import { randomNumbers } from './random.ts';
import { rounded } from './rounded.ts';

/** An orthogonal matrix by rows, the momentum of its steps, and its best value so far. */
export interface LearnedMatrix {
  readonly x: Float32Array;
  readonly momentum: Float32Array;
  readonly best: Float32Array;
}

export interface Learned {
  /** Steps taken. */
  step: number;
  /**
   * Distance of the network with the best matrices from the model, in nats a token, on the held-out
   * part of the text.
   */
  loss: number;
  readonly r1: LearnedMatrix;
  /** For each layer. */
  readonly r2: readonly LearnedMatrix[];
}

/** f32 tensors of the engine, with the norms' weights folded into the matrices after them. */
export interface LearnWeights {
  readonly embeddings: Tensor;
  readonly output: Tensor;
  readonly layers: readonly LayerMatrices[];
  readonly ropeFactors?: Float32Array | undefined;
}

export interface LearnOptions {
  readonly r4: number;
  /** The text, and the token before each piece of it. */
  readonly ids: readonly number[];
  readonly bos: number | undefined;
  /** Tokens of a sequence, and sequences of a step. */
  readonly window: number;
  readonly sequences: number;
  readonly steps: number;
  /** The angle of the first step, in radians; it falls linearly to 0. */
  readonly rate: number;
  readonly seed: number;
  readonly signal?: AbortSignal | undefined;
}

/** Maximum number of tokens of a sequence. */
const MOST_WINDOW = 256;
const MOST_SEQUENCES = 4;
/**
 * Every JUDGE_EVERY steps, the matrices are evaluated on JUDGED_BATCHES fixed batches of a held-out
 * part of the text.
 */
export const JUDGE_EVERY = 10;
const JUDGED_BATCHES = 3;
const JUDGED_PART = 1 / 8;

/**
 * Size and number of a step's sequences, and bytes of an engine for them: fewer sequences if memory
 * is short.
 * @throws ERR_OUT_OF_MEMORY
 */
export function roomFor(hp: HParams, matrixElements: number, largest: number): { window: number; sequences: number; bytes: number } {
  const window = Math.min(MOST_WINDOW, hp.nCtxTrain);
  for (let sequences = MOST_SEQUENCES; sequences > 0; sequences--) {
    const tokens = window * sequences;
    // Three copies of the matrices (original, rotated, and rotated on one side or transposed); the
    // values of each token in each layer, and its logits.
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
 * Continues with the best of `starts`, which it changes, for the remaining steps. Rounded weights
 * jump where steps are smooth. So the best matrices are not always the last and may be the first.
 *
 * @returns a generator of the learned matrices, after each step
 * @throws ERR_INVALID_ARGUMENT if the text is too short, or signal.reason
 */
export async function* learnRotations(
  engine: Engine,
  { headDim, nHead, nHeadKv, eps, rope }: HParams,
  { embeddings, output, layers, ropeFactors }: LearnWeights,
  starts: readonly Learned[],
  { r4, ids: text, bos, window, sequences, steps, rate, seed, signal }: LearnOptions,
): AsyncGenerator<Learned> {
  const judged = Math.max(window, Math.floor(text.length * JUDGED_PART));
  const parts = { learned: text.slice(0, -judged), judged: text.slice(-judged) };
  if (parts.learned.length < window)
    throw new QuantletError('ERR_INVALID_ARGUMENT', `the text has ${text.length} tokens; expected at least two windows of ${window}`);
  const tokens = window * sequences;
  const positions = Array.from({ length: tokens }, (_, i) => i % window);
  const ids = engine.tensor('i32', [tokens]);
  const tensorOf = ({ x }: LearnedMatrix): Tensor<'f32'> => engine.tensor('f32', [Math.sqrt(x.length), Math.sqrt(x.length)]);
  const [r1, r2] = [tensorOf(starts[0].r1), starts[0].r2.map(tensorOf)];
  const { nDims, freqBase, freqScale, extFactor, attnFactor, betaFast, betaSlow, nCtxOrig } = rope;
  const angles = { nDims, freqBase, freqScale, extFactor, attnFactor, betaFast, betaSlow, nCtxOrig, factors: ropeFactors, nCtx: window };
  const turn = (x: Tensor, back: boolean): Tensor => rope_ext(x, back ? positions.map((p) => -p) : positions, angles);
  const shape = { headDim, nHead, nHeadKv, eps, r4, window, rope: turn, round: rounded } as const;
  const loss = lossOf({ ...shape, embeddings, output, layers, r1, r2, ids });
  const learning = engine.plan(loss.divergence, loss.r1, ...loss.r2);
  const judging = engine.plan(loss.divergence);
  /** The learned matrices, with their tensors in the graph and their gradients. */
  const matricesOf = (learned: Learned): readonly (readonly [LearnedMatrix, Tensor, Tensor])[] => [
    [learned.r1, r1, loss.r1],
    ...learned.r2.map((m, i) => [m, r2[i], loss.r2[i]] as const),
  ];

  /** Computes a plan for some pieces of a part of the text. */
  const run = async (plan: Plan, learned: Learned, part: readonly number[], stream: number): Promise<void> => {
    const random = randomNumbers(seed, stream);
    const pieces = Array.from({ length: sequences }, () => {
      const from = random() % (part.length - window + 1);
      return [bos ?? part[from], ...part.slice(from + 1, from + window)];
    });
    engine.write(ids, pieces.flat());
    for (const [{ x }, t] of matricesOf(learned)) engine.write(t, x);
    await engine.compute(plan, { signal });
  };
  const judge = async (learned: Learned): Promise<void> => {
    let mean = 0;
    for (let i = 0; i < JUDGED_BATCHES; i++) {
      await run(judging, learned, parts.judged, -2 - i);
      mean += engine.read(loss.divergence)[0] / JUDGED_BATCHES;
    }
    if (!(mean < learned.loss)) return;
    learned.loss = mean;
    for (const [{ x, best }] of matricesOf(learned)) best.set(x);
  };

  if (starts.length > 1) for (const start of starts) await judge(start);
  const learned = starts.reduce((a, b) => (b.loss < a.loss ? b : a));
  while (learned.step < steps) {
    if (learned.step % JUDGE_EVERY === 0) await judge(learned);
    await run(learning, learned, parts.learned, learned.step);
    for (const [{ x, momentum }, , gradient] of matricesOf(learned))
      cayleyStep(x, momentum, engine.view(gradient) as Float32Array, rate * (1 - learned.step / steps));
    learned.step++;
    if (learned.step === steps) await judge(learned);
    yield learned;
  }
  for (const plan of [learning, judging]) plan.dispose();
}
