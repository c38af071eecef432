/**
 * PowerInfer's predictors of the neurons that fire: idx = fc2 relu(fc1 x), without biases. Trained
 * by logistic regression. The engine computes the network and its gradients as f32 products; the
 * host applies Adam (Kingma and Ba, arXiv 1412.6980) to the weights.
 */
import type { Engine } from '../core/engine.ts';
import { mul, relu, sigmoid, step, sub } from '../graph/elementwise-ops.ts';
import { cont, mul_mat } from '../graph/ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import { transpose } from '../graph/views.ts';
import { randomNumbers } from '../rotate/random.ts';
import type { Firing } from './firing.ts';
import type { Scores } from './scores.ts';

/** Tokens of a training step. */
const BATCH = 256;
/** Learning rate of the first step. It falls linearly to 0. */
const RATE = 4e-3;
const [BETA1, BETA2, EPSILON] = [0.9, 0.99, 1e-8];

export interface Predictor {
  /** f32 [n_embd, rank] and [rank, neurons]. */
  readonly fc1: Float32Array;
  readonly fc2: Float32Array;
}

/** Tokens of a text. The first `trained` are for training, the others for evaluation. */
export interface Examples {
  /** Input of the predictor, f32 [n_embd, tokens]. */
  readonly x: Float32Array;
  readonly firing: Firing;
  /** Number of first tokens used for training. */
  readonly trained: number;
}

export interface Trainer {
  /** Trains a predictor. @throws signal.reason */
  train(examples: Examples, onStep: (part: number) => void, signal: AbortSignal): Promise<Predictor>;
  /**
   * Records the scores that a predictor gives these neurons, for the examples not used in training.
   */
  judge(predictor: Predictor, examples: Examples, of: Uint32Array, scores: Scores, signal: AbortSignal): Promise<void>;
  dispose(): void;
}

export interface TrainerShape {
  readonly nEmbd: number;
  readonly rank: number;
  readonly neurons: number;
}

/**
 * Bytes of an engine for a trainer: its tensors, plus the results and transposed copies of a step.
 */
export const trainerBytes = ({ nEmbd, rank, neurons }: TrainerShape): number =>
  (16 << 20) + 4 * (6 * BATCH * (nEmbd + rank + neurons) + 4 * rank * (nEmbd + neurons));

/** Random numbers with mean 0 and this standard deviation, the same for the same stream. */
function noise(n: number, deviation: number, stream: number): Float32Array {
  const next = randomNumbers(0, stream);
  return Float32Array.from({ length: n }, () => deviation * Math.sqrt(3) * (next() / 2 ** 31 - 1));
}

/** Creates an optimiser that applies Adam's steps to w. */
function adam(w: Float32Array): (gradient: Float32Array, t: number, rate: number) => void {
  const m = new Float32Array(w.length);
  const v = new Float32Array(w.length);
  return (gradient, t, rate) => {
    const by = (rate * Math.sqrt(1 - BETA2 ** t)) / (1 - BETA1 ** t);
    for (let i = 0; i < w.length; i++) {
      const g = gradient[i];
      m[i] += (1 - BETA1) * (g - m[i]);
      v[i] += (1 - BETA2) * (g * g - v[i]);
      w[i] -= (by * m[i]) / (Math.sqrt(v[i]) + EPSILON);
    }
  };
}

/**
 * 1 / root mean square of each element of x over the tokens. It equalises the channels of the
 * residual stream, which differ by orders of magnitude.
 */
function evening(x: Float32Array, nEmbd: number, tokens: number): Float32Array {
  const squares = new Float64Array(nEmbd);
  for (let i = 0; i < tokens * nEmbd; i++) squares[i % nEmbd] += x[i] * x[i];
  return Float32Array.from(squares, (s) => 1 / Math.sqrt(s / tokens || 1));
}

/** @param steps number of training steps, of 256 tokens each */
export function createTrainer(engine: Engine, { nEmbd, rank, neurons }: TrainerShape, steps: number): Trainer {
  const xs = engine.tensor('f32', [nEmbd, BATCH]);
  const labels = engine.tensor('f32', [neurons, BATCH]);
  const costs = engine.tensor('f32', [neurons, BATCH]);
  const w1 = engine.tensor('f32', [nEmbd, rank]);
  const w2 = engine.tensor('f32', [rank, neurons]);
  const turned = (t: Tensor): Tensor => cont(transpose(t));
  const inner = mul_mat(w1, xs);
  const hidden = relu(inner);
  const error = mul(sub(sigmoid(mul_mat(w2, hidden)), labels), costs);
  const gradient2 = mul_mat(turned(hidden), turned(error));
  const gradient1 = mul_mat(turned(xs), turned(mul(mul_mat(turned(w2), error), step(inner))));
  const training = engine.plan(gradient1, gradient2);
  const given = mul_mat(w2, relu(mul_mat(w1, xs)));
  const judging = engine.plan(given);

  return {
    async train({ x, firing, trained }, onStep, signal) {
      const even = evening(x, nEmbd, trained);
      const fc1 = noise(nEmbd * rank, nEmbd ** -0.5, 0);
      const fc2 = noise(rank * neurons, rank ** -0.5, 1);
      const [next1, next2] = [adam(fc1), adam(fc2)];
      // The cost of missing a neuron is its mean activation, relative to that of all neurons.
      const size = firing.sums.map((sum, r) => sum / Math.max(1, firing.counts[r]));
      const mean = size.reduce((sum, s) => sum + s, 0) / neurons || 1;
      const batch = new Float32Array(nEmbd * BATCH);
      const fired = new Float32Array(neurons * BATCH);
      const cost = new Float32Array(neurons * BATCH);
      const random = randomNumbers(1, 0);
      for (let t = 1; t <= steps; t++) {
        for (let i = 0; i < BATCH; i++) {
          const token = random() % trained;
          for (let c = 0; c < nEmbd; c++) batch[i * nEmbd + c] = x[token * nEmbd + c] * even[c];
          for (let r = 0; r < neurons; r++) {
            const is = firing.fires(r, token);
            fired[i * neurons + r] = Number(is);
            cost[i * neurons + r] = is ? size[r] / mean : 1;
          }
        }
        engine.write(xs, batch);
        engine.write(labels, fired);
        engine.write(costs, cost);
        engine.write(w1, fc1);
        engine.write(w2, fc2);
        await engine.compute(training, { signal });
        const rate = RATE * (1 - (t - 1) / steps);
        next1(engine.read(gradient1), t, rate);
        next2(engine.read(gradient2), t, rate);
        onStep(t / steps);
      }
      return { fc1: fc1.map((w, i) => w * even[i % nEmbd]), fc2 };
    },
    async judge({ fc1, fc2 }, { x, firing, trained }, of, scores, signal) {
      engine.write(w1, fc1);
      engine.write(w2, fc2);
      const batch = new Float32Array(nEmbd * BATCH);
      for (let from = trained; from < firing.tokens; from += BATCH) {
        const n = Math.min(BATCH, firing.tokens - from);
        batch.fill(0);
        batch.set(x.subarray(from * nEmbd, (from + n) * nEmbd));
        engine.write(xs, batch);
        await engine.compute(judging, { signal });
        const idx = engine.read(given);
        for (let i = 0; i < n; i++) for (const r of of) scores.add(idx[i * neurons + r], firing.fires(r, from + i));
      }
    },
    dispose() {
      training.dispose();
      judging.dispose();
      for (const t of [xs, labels, costs, w1, w2]) engine.free(t);
    },
  };
}
