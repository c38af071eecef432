/** ggml_rope_ext over ordinary tensors: angles are computed here, in f64, into a table that the graph brings along. */
import { ropeTable, ROPE_DEFAULTS, type RopeParams } from '../arch/rope-table.ts';
import { ints, isTensor, mustBeTensor, ROW, type Operand } from '../graph/operands.ts';
import { rope, ROPE_MODE, type RopeMode } from '../graph/rope.ts';
import { constant, must, type Tensor } from '../graph/tensor.ts';
import { checkOptions, KIND, type Kind, type Kinds } from '../options.ts';
import { TYPE } from '../type-traits.ts';

const MAX_ANGLES = 2 ** 28;

export interface RopeExtOptions {
  /** Dimensions rotated, even; the others are copied. Default: ne0. */
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
  /** Positions the model was first trained for, for YaRN. */
  nCtxOrig?: number | undefined;
  /** Divisors of the pairs' frequencies, nDims / 2 of them. */
  factors?: ArrayLike<number> | undefined;
  /** Positions the table of angles has; those of the tokens are nearer to 0, on either side. Default 4096. */
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
 * Rotary position embedding: a [head_dim, n_head, n_tokens, ne3] f32, f16 or bf16, positions i32 [n_tokens] -> a's shape and type.
 * @throws ERR_TENSOR_SHAPE; compute() throws ERR_INVALID_ARGUMENT for a position that is nCtx or more away from 0, in a tensor of the caller's; one that the
 * graph computes gives rows of NaN, as an id of get_rows does. Below 0 it turns the other way
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

/** Tables by engine and parameters: calls that agree share one, which an engine keeps in memory once. They hold no angles before a plan wants them. */
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

/** Without the options that are undefined. */
const given = <P extends object>(p: P): { [K in keyof P]: Exclude<P[K], undefined> } =>
  Object.fromEntries(Object.entries(p).filter(([, v]) => v !== undefined)) as never;
