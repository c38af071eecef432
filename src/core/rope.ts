/**
 * ggml_rope_ext over ordinary tensors. The angles are computed here, in f64, as a constant of the
 * graph.
 */
import { ropeTable, ROPE_DEFAULTS, type RopeParams } from '../arch/rope-table.ts';
import { ints, isTensor, mustBeTensor, ROW, type Operand } from '../graph/operands.ts';
import { rope, ROPE_MODE, type RopeMode } from '../graph/rope.ts';
import { constant, must, type Tensor } from '../graph/tensor.ts';
import { checkOptions, KIND, type Kind, type Kinds } from '../options.ts';
import { TYPE } from '../type-traits.ts';

const MAX_ANGLES = 2 ** 28;

export interface RopeExtOptions {
  /** Dimensions to rotate, an even number; the others are copied. Default: ne0. */
  nDims?: number | undefined;
  /** 'normal': pairs (i, i + 1); 'neox': pairs (i, i + nDims / 2). Default 'normal'. */
  mode?: RopeMode | undefined;
  /** Default 10000. */
  freqBase?: number | undefined;
  /** 1 / factor of linear scaling. Default 1. */
  freqScale?: number | undefined;
  /** YaRN (arXiv 2309.00071): 0 none, 1 full. Default 0. */
  extFactor?: number | undefined;
  /** Default 1. */
  attnFactor?: number | undefined;
  /** Default 32. */
  betaFast?: number | undefined;
  /** Default 1. */
  betaSlow?: number | undefined;
  /** Positions that the model was trained for at first, for YaRN. */
  nCtxOrig?: number | undefined;
  /** Divisors of the frequencies of the nDims / 2 pairs. */
  factors?: ArrayLike<number> | undefined;
  /**
   * Positions in the table of angles; positions of tokens must be nearer to 0 than this, on either
   * side. Default 4096.
   */
  nCtx?: number | undefined;
}

const FACTORS: Kind = {
  is: (v) => ROW.is(v) && !isTensor(v) && Array.prototype.every.call(v, (f) => KIND.positive.is(f)),
  expected: 'a list of finite numbers above 0',
};
const OPTIONS: Kinds<RopeExtOptions> = {
  nDims: KIND.size,
  mode: ROPE_MODE,
  freqBase: KIND.positive,
  freqScale: KIND.positive,
  extFactor: KIND.finite,
  attnFactor: KIND.finite,
  betaFast: KIND.positive,
  betaSlow: KIND.positive,
  nCtxOrig: KIND.count,
  factors: FACTORS,
  nCtx: KIND.size,
};

/**
 * Rotary position embedding: a [head_dim, n_head, n_tokens, ne3] f32, f16 or bf16, positions i32
 * [n_tokens] -> a's shape and type. Positions below 0 rotate the other way.
 * @throws ERR_TENSOR_SHAPE. If a position is nCtx or more away from 0, compute() throws
 * ERR_INVALID_ARGUMENT. Positions that the graph computes are not checked: such a position then
 * gives rows of NaN, as in get_rows.
 */
export function rope_ext<T extends string>(a: Tensor<T>, positions: Operand, options?: RopeExtOptions): Tensor<T> {
  mustBeTensor('rope_ext', 'a', a);
  const p = checkOptions<RopeExtOptions>('rope_ext', options, OPTIONS);
  const pos = ints('rope_ext', 'positions', positions);
  const { nDims = a.ne[0], nCtx = 4096, mode, factors, freqBase = 10000, ...scaling } = p;
  must(nDims % 2 === 0 && nDims <= a.ne[0], 'rope_ext', `nDims is ${nDims}; expected an even number of at most ne0`, a, pos);
  must(nCtx * nDims < MAX_ANGLES, 'rope_ext', `nCtx is ${nCtx}; expected a table of angles of less than 1 GiB`, a, pos);
  must(!factors || factors.length === nDims / 2, 'rope_ext', `${factors?.length} factors for ${nDims / 2} pairs`, a, pos);
  const table = tableOf(a.owner, { nDims, freqBase, ...ROPE_DEFAULTS, ...given(scaling), factors: factors && Array.from(factors) }, nCtx);
  return rope(a, pos, table, { mode });
}

/**
 * Tables by engine and parameters. Calls with the same parameters share one, which the engine keeps
 * in memory once. Angles are only computed when a plan needs them.
 */
const tables = new WeakMap<object, Map<string, Tensor>>();
const NO_ENGINE = {};

function tableOf(engine: object = NO_ENGINE, params: RopeParams, nCtx: number): Tensor {
  const known = tables.get(engine) ?? new Map<string, Tensor>();
  const key = JSON.stringify([nCtx, params]);
  const table =
    known.get(key) ?? constant('rope angles', TYPE.f32, [params.nDims, nCtx, 1, 1], () => new Uint8Array(ropeTable(params, nCtx).buffer));
  tables.set(engine, known.set(key, table));
  return table;
}

/** Drops options that are undefined. */
const given = <P extends object>(p: P): { [K in keyof P]: Exclude<P[K], undefined> } =>
  Object.fromEntries(Object.entries(p).filter(([, v]) => v !== undefined)) as never;
