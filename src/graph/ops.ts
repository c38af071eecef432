/**
 * The ops a graph is made of, named as ggml names them (without ggml_). Each returns a node; shapes, types and numbers are checked here,
 * before anything runs: ERR_TENSOR_SHAPE names the op and all shapes (of tensors of two engines too), ERR_UNSUPPORTED_TYPE the types that have kernels.
 */
import { QuantletError } from '../errors.ts';
import { TYPE, type TypeName, type TypeTraits } from '../type-traits.ts';
import { BINARY, UNARY } from './layout.ts';
import { constant, fourDims, isContiguous, must, nelements, node, sameShape, shape, view, type BatchDim, type Ne, type Tensor } from './tensor.ts';
import { mustBeReadable, vecDotType } from './vec-dot-type.ts';

/** Types that rows can be converted to without an importance matrix (assembly/type_traits.ts quantize_row). */
const QUANTIZE_ROW: readonly TypeName[] = ['f32', 'f16', 'bf16', 'q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'mxfp4', 'tq1_0', 'tq2_0'];

const isFloat = (t: Tensor): boolean => t.type === TYPE.f32 || t.type === TYPE.f16 || t.type === TYPE.bf16;

export const mustBe = (op: string, ok: boolean, kinds: string, ...tensors: (Tensor | undefined)[]): void => {
  if (!ok) throw new QuantletError('ERR_UNSUPPORTED_TYPE', `${op}: ${tensors.filter((t) => t !== undefined).map(shape).join(' and ')}: no kernel for these types; expected ${kinds}`);
};

export const mustBeRows = (op: string, a: Tensor): void => mustBe(op, isFloat(a), 'f32, f16 or bf16', a);

const mustBeNumber = (op: string, name: string, value: number, ok: (value: number) => boolean, kind: string, a: Tensor): void =>
  must(typeof value === 'number' && ok(value), op, `${name} is ${String(value)}; expected ${kind}`, a);
const isNumber = (value: number): boolean => !Number.isNaN(value);

/** ggml_get_rows: row ids[i] of a [n, m, ne2, ne3], any type; ids i32 [k, ne2, ne3] -> f32 [n, k, ne2, ne3]. An id outside gives a row of NaN. */
export function get_rows(a: Tensor, ids: Tensor): Tensor {
  mustBe('get_rows', ids.type === TYPE.i32, 'i32 ids', a, ids);
  mustBeReadable('get_rows', a, ids);
  must(ids.ne[1] === a.ne[2] && ids.ne[2] === a.ne[3] && ids.ne[3] === 1, 'get_rows', 'dimensions 1 and 2 of the ids must be dimensions 2 and 3 of the table', a, ids);
  return node('get_rows', [a.ne[0], ids.ne[0], ids.ne[1], ids.ne[2]], { src: [a, ids], batch: ids.batch && { dim: (ids.batch.dim + 1) as BatchDim['dim'], by: ids.batch.by } });
}

/**
 * ggml_set_rows: row i of b goes to row ids[i] of a, in a's type; the result is a. a [n, m, ne2, ne3], b f32 [n, k, ne2, ne3], ids i32 or i64 [k, 1 or ne2, 1 or ne3].
 * An id outside is left out.
 */
export function set_rows(a: Tensor, b: Tensor, ids: Tensor): Tensor {
  mustBe('set_rows', ids.type === TYPE.i32 || ids.type === TYPE.i64, 'i32 or i64 ids', a, b, ids);
  mustBe('set_rows', isFloat(b) && QUANTIZE_ROW.includes(a.type.name as TypeName), `f32, f16 or bf16 into ${QUANTIZE_ROW.join(', ')}`, a, b);
  must(a.ne[0] === b.ne[0] && a.ne[2] === b.ne[2] && a.ne[3] === b.ne[3] && ids.ne[0] === b.ne[1] && b.ne[2] % ids.ne[1] === 0 && b.ne[3] % ids.ne[2] === 0, 'set_rows', 'rows, batches and ids must agree', a, b, ids);
  return node('set_rows', a.ne, { type: a.type, nb: a.nb, src: [b, ids, a], viewOf: a });
}

/**
 * ggml_cpy: the elements of a in order become those of b, in b's type; the result is b. Any strides, any two shapes with as many elements.
 * a of any type, b of the same or f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, mxfp4, tq1_0, tq2_0 (the other formats' quantisers search: quantlet quantize).
 */
export function cpy(a: Tensor, b: Tensor): Tensor {
  must(nelements(a) === nelements(b), 'cpy', 'the numbers of elements differ', a, b);
  mustBe('cpy', a.type === b.type || QUANTIZE_ROW.includes(b.type.name as TypeName), `the same type or ${QUANTIZE_ROW.join(', ')}`, a, b);
  if (a.type !== b.type) mustBeReadable('cpy', a, b);
  return node('cpy', b.ne, { type: b.type, nb: b.nb, src: [a, b], viewOf: b, batch: b.batch ?? (sameShape(a, b) ? a.batch : undefined) });
}

/** ggml_cast: a in another type, contiguous; types as in cpy, rows of whole blocks. */
export function cast(a: Tensor, to: TypeTraits | TypeName): Tensor {
  const type = typeof to === 'string' ? TYPE[to] : to;
  mustBe('cast', type !== undefined && (a.type === type || QUANTIZE_ROW.includes(type.name as TypeName)), `to be cast to ${QUANTIZE_ROW.join(', ')}, not ${type?.name ?? String(to)}`, a);
  if (a.type !== type) mustBeReadable('cast', a);
  must(a.ne[0] % type.blckSize === 0, 'cast', `rows of ${a.ne[0]} are no whole blocks of ${type.name} (${type.blckSize})`, a);
  return node('cpy', a.ne, { type, src: [a], batch: a.batch });
}

/** ggml_cont: a contiguous copy, any type. */
export const cont = (a: Tensor): Tensor => cast(a, a.type);

/** ggml_concat: b behind a in dimension dim, the others agree; both of one unquantised type, which is the result's. */
export function concat(a: Tensor, b: Tensor, dim: number): Tensor {
  must([0, 1, 2, 3].includes(dim) && a.ne.every((n, i) => i === dim || n === b.ne[i]), 'concat', `all dimensions but ${dim} must agree`, a, b);
  mustBe('concat', a.type === b.type && a.type.blckSize === 1, 'two of one unquantised type', a, b);
  must(!a.batch || a.batch.dim !== dim, 'concat', `dimension ${dim} follows the batch`, a, b);
  return node('concat', a.ne.map((n, i) => (i === dim ? n + b.ne[i] : n)) as unknown as Ne, { type: a.type, src: [a, b], params: { dim }, batch: a.batch });
}

export interface MulMatOptions {
  /** 'f32': weights are dequantised and activations stay f32 (ggml_mul_mat_set_prec); default: activations take the weights' vec_dot_type. */
  precision?: 'f32';
}

/** ggml_mul_mat: a [k, n, ne02, ne03] of any type, b [k, m, ne12, ne13] -> f32 [n, m, ne12, ne13]; a repeats over dimensions 2 and 3 of b. */
export function mul_mat(a: Tensor, b: Tensor, options: MulMatOptions = {}): Tensor {
  must(a.ne[0] === b.ne[0], 'mul_mat', `ne0 must agree: ${a.ne[0]} and ${b.ne[0]}`, a, b);
  must(b.ne[2] % a.ne[2] === 0 && b.ne[3] % a.ne[3] === 0, 'mul_mat', 'dimensions 2 and 3 of the first must divide those of the second', a, b);
  mustBeReadable('mul_mat', a, b);
  const want = vecDotType(a.type) ?? TYPE.f32;
  mustBe('mul_mat', isFloat(b) || b.type === want, `activations of f32, f16, bf16 or ${want.name}`, a, b);
  return node('mul_mat', [a.ne[1], b.ne[1], b.ne[2], b.ne[3]], { src: [a, b], params: { f32: options.precision === 'f32' ? 1 : 0 }, batch: b.batch });
}

type BinaryName = Exclude<keyof typeof BINARY, 'repeat'>;

function binary(name: BinaryName, a: Tensor, b: Tensor, inplace: boolean): Tensor {
  mustBe(name, isFloat(a) && isFloat(b), 'f32, f16 or bf16', a, b);
  must(a.ne.every((n, i) => n % b.ne[i] === 0), name, 'every dimension of the second must divide that of the first', a, b);
  must(!inplace || a.type === TYPE.f32, `${name}_inplace`, 'only f32 is changed in place', a, b);
  const init = { name, type: a.type === TYPE.bf16 ? TYPE.f32 : a.type, src: [a, b], params: { kind: BINARY[name] }, batch: a.batch };
  return node('binary', a.ne, inplace ? { ...init, nb: a.nb, viewOf: a } : init);
}

/** ggml_add: a + b; b repeats to a's shape, each of its dimensions dividing a's. f32, f16 and bf16 in any strides; the result is f16 where a is, else f32. */
export const add = (a: Tensor, b: Tensor): Tensor => binary('add', a, b, false);
/** ggml_sub: a - b, as add. */
export const sub = (a: Tensor, b: Tensor): Tensor => binary('sub', a, b, false);
/** ggml_mul: a * b element by element, as add. */
export const mul = (a: Tensor, b: Tensor): Tensor => binary('mul', a, b, false);
/** ggml_div: a / b, as add. */
export const div = (a: Tensor, b: Tensor): Tensor => binary('div', a, b, false);
/** ggml_add_inplace: as add with a of f32, and the result takes a's place in memory; nothing may need a's old values afterwards. */
export const add_inplace = (a: Tensor, b: Tensor): Tensor => binary('add', a, b, true);
/** ggml_sub_inplace, as add_inplace. */
export const sub_inplace = (a: Tensor, b: Tensor): Tensor => binary('sub', a, b, true);
/** ggml_mul_inplace, as add_inplace. */
export const mul_inplace = (a: Tensor, b: Tensor): Tensor => binary('mul', a, b, true);
/** ggml_div_inplace, as add_inplace. */
export const div_inplace = (a: Tensor, b: Tensor): Tensor => binary('div', a, b, true);

/** ggml_repeat: a of f32, f16 or bf16 as often as it takes to have the shape ne (one to four dimensions), each a multiple of a's -> f32. */
export function repeat(a: Tensor, to: readonly number[]): Tensor {
  const ne = fourDims('repeat', to);
  mustBe('repeat', isFloat(a), 'f32, f16 or bf16', a);
  must(ne.every((n, i) => n % a.ne[i] === 0), 'repeat', `[${ne.join(', ')}] is no multiple`, a);
  return node('binary', ne, { name: 'repeat', src: [undefined, a], params: { kind: BINARY.repeat } });
}

const unary = (name: keyof typeof UNARY, a: Tensor, [p1, p2]: readonly [number, number] = [0, 0]): Tensor => {
  mustBeRows(name, a);
  for (const p of [p1, p2]) mustBeNumber(name, 'a parameter', p, isNumber, 'a number', a);
  return node('unary', a.ne, { name, src: [a], params: { kind: UNARY[name], a: p1, b: p2 }, batch: a.batch });
};

/** ggml_silu: x / (1 + e^-x), within 3 ulp. This and the next: element by element, f32, f16 or bf16 -> f32 of the same shape; errors are stated for f32. */
export const silu = (a: Tensor): Tensor => unary('silu', a);
/** ggml_gelu, the tanh form in f32 (ggml rounds argument and value to f16), within 5e-7 of max(1, |value|). */
export const gelu = (a: Tensor): Tensor => unary('gelu', a);
/** ggml_gelu_quick: x / (1 + e^(-1.702 x)), within 4e-7 of max(1, |value|). */
export const gelu_quick = (a: Tensor): Tensor => unary('gelu_quick', a);
/** ggml_gelu_erf: x / 2 (1 + erf(x / sqrt 2)), within 5e-7 of max(1, |value|). */
export const gelu_erf = (a: Tensor): Tensor => unary('gelu_erf', a);
/** ggml_relu: max(x, 0). */
export const relu = (a: Tensor): Tensor => unary('relu', a);
/** ggml_tanh, within 2 ulp. */
export const tanh = (a: Tensor): Tensor => unary('tanh', a);
/** ggml_sigmoid: 1 / (1 + e^-x), within 3 ulp. */
export const sigmoid = (a: Tensor): Tensor => unary('sigmoid', a);
/** ggml_exp, within 1 ulp; subnormal results are 0. */
export const exp = (a: Tensor): Tensor => unary('exp', a);
/** ggml_scale_bias: s a + b. */
export const scale = (a: Tensor, s: number, b = 0): Tensor => unary('scale', a, [s, b]);
/** ggml_clamp: min(max(x, min), max). */
export const clamp = (a: Tensor, min: number, max: number): Tensor => unary('clamp', a, [min, max]);
/** cap * tanh(a / cap): ggml's scale, tanh, scale in one pass. */
export const soft_cap = (a: Tensor, cap: number): Tensor => unary('soft_cap', a, [cap, 0]);

type Gate = 'silu' | 'gelu' | 'gelu_quick' | 'gelu_erf' | 'relu';

function glu(name: string, gate: Gate, a: Tensor, b: Tensor | undefined, swapped: boolean): Tensor {
  mustBeRows(name, a);
  if (b) {
    mustBeRows(name, b);
    must(sameShape(a, b), name, 'gate and up must have one shape', a, b);
  } else must(a.ne[0] % 2 === 0, name, 'a row must hold gate and up, so ne0 is even', a);
  const ne: Ne = b ? a.ne : [a.ne[0] / 2, a.ne[1], a.ne[2], a.ne[3]];
  return node('glu', ne, { name, src: b ? [a, b] : [a], params: { kind: UNARY[gate], swapped: swapped ? 1 : 0 }, batch: a.batch });
}

/**
 * ggml_swiglu_split(gate, up): silu(gate) * up, two of one shape. One argument [2n, ...] -> [n, ...]: ggml_swiglu, the first half of each row is the gate
 * (the second where `swapped`). f32, f16 or bf16 -> f32.
 */
export const swiglu = (gate: Tensor, up?: Tensor, swapped = false): Tensor => glu('swiglu', 'silu', gate, up, swapped);
/** ggml_geglu_split and ggml_geglu: gelu(gate) * up, as swiglu. */
export const geglu = (gate: Tensor, up?: Tensor, swapped = false): Tensor => glu('geglu', 'gelu', gate, up, swapped);
/** ggml_geglu_quick_split and ggml_geglu_quick: gelu_quick(gate) * up, as swiglu. */
export const geglu_quick = (gate: Tensor, up?: Tensor, swapped = false): Tensor => glu('geglu_quick', 'gelu_quick', gate, up, swapped);
/** ggml_geglu_erf_split and ggml_geglu_erf: gelu_erf(gate) * up, as swiglu. */
export const geglu_erf = (gate: Tensor, up?: Tensor, swapped = false): Tensor => glu('geglu_erf', 'gelu_erf', gate, up, swapped);
/** ggml_reglu_split and ggml_reglu: relu(gate) * up, as swiglu. */
export const reglu = (gate: Tensor, up?: Tensor, swapped = false): Tensor => glu('reglu', 'relu', gate, up, swapped);

function normNode(op: 'norm' | 'rms_norm' | 'l2_norm', a: Tensor, eps: number, weight?: Tensor, bias?: Tensor): Tensor {
  mustBeRows(op, a);
  mustBeNumber(op, 'eps', eps, (x) => x >= 0, 'a number of at least 0', a);
  for (const w of [weight, bias]) {
    if (!w) continue;
    mustBe(op, isFloat(w), 'f32, f16 or bf16', a, w);
    must(w.ne[0] === a.ne[0] && nelements(w) === w.ne[0], op, 'weight and bias are one row of the same length', a, w);
  }
  return node(op, a.ne, { src: [a, weight, bias], params: { eps }, batch: a.batch });
}

/** ggml_rms_norm over dimension 0, times the weight [ne0] if there is one. Norms: f32, f16 or bf16 -> f32 of the same shape. */
export const rms_norm = (a: Tensor, weight: Tensor | undefined, eps: number): Tensor => normNode('rms_norm', a, eps, weight);
/** ggml_norm (layer norm) over dimension 0, times the weight [ne0], plus the bias [ne0], where they are given. */
export const norm = (a: Tensor, weight: Tensor | undefined, bias: Tensor | undefined, eps: number): Tensor => normNode('norm', a, eps, weight, bias);
/** ggml_l2_norm: each row divided by the larger of its Euclidean length and eps. */
export const l2_norm = (a: Tensor, eps: number): Tensor => normNode('l2_norm', a, eps);

/** ggml_rope_ext with its angles in `table` f32 [n_dims, n_ctx] (arch/rope-table.ts); a [head_dim, n_head, n_tokens, ne3] f32, f16 or bf16, pos i32 [n_tokens] -> a's shape and type. */
export function rope(a: Tensor, pos: Tensor, table: Tensor, neox: boolean): Tensor {
  mustBeRows('rope', a);
  must(table.ne[0] <= a.ne[0] && table.ne[0] % 2 === 0, 'rope', 'the table rotates an even number of dimensions of at most ne0', a, table);
  must(pos.ne[0] === a.ne[2] && nelements(pos) === pos.ne[0], 'rope', 'one position for each of dimension 2', a, pos);
  mustBe('rope', pos.type === TYPE.i32 && table.type === TYPE.f32 && isContiguous(table), 'i32 positions and a contiguous f32 table', a, pos, table);
  return node('rope', a.ne, { type: a.type, src: [a, pos, table], params: { n_dims: table.ne[0], neox: neox ? 1 : 0 }, batch: a.batch });
}

/** Slopes of ALiBi for n heads (arXiv 2108.12409, as ggml_soft_max_ext has them where n is no power of two). */
export function alibiSlopes(n: number, maxBias: number): Float32Array {
  const log2 = 2 ** Math.floor(Math.log2(n));
  return Float32Array.from({ length: n }, (_, h) => (h < log2 ? 2 ** ((-maxBias / log2) * (h + 1)) : 2 ** ((-maxBias / 2 / log2) * (2 * (h - log2) + 1))));
}

export const slopesOf = (n: number, maxBias: number): Tensor => constant('ALiBi slopes', TYPE.f32, [n, 1, 1, 1], new Uint8Array(alibiSlopes(n, maxBias).buffer));

/** ggml_soft_max_ext: softmax(scale * a + slope * mask) over dimension 0, f32, f16 or bf16 -> f32. mask f32 or f16 [ne0, at least ne1, divides ne2, divides ne3]; max_bias > 0: ALiBi over dimension 2. */
export function soft_max(a: Tensor, mask?: Tensor, s = 1, maxBias = 0): Tensor {
  mustBeRows('soft_max', a);
  if (mask) {
    mustBe('soft_max', mask.type === TYPE.f32 || mask.type === TYPE.f16, 'a mask of f32 or f16', a, mask);
    must(mask.ne[0] === a.ne[0] && mask.ne[1] >= a.ne[1] && a.ne[2] % mask.ne[2] === 0 && a.ne[3] % mask.ne[3] === 0, 'soft_max', 'the mask has ne0 columns, at least ne1 rows, and divides dimensions 2 and 3', a, mask);
  }
  mustBeNumber('soft_max', 'scale', s, isNumber, 'a number', a);
  mustBeNumber('soft_max', 'max_bias', maxBias, (x) => x >= 0, 'a number of at least 0', a);
  must(maxBias === 0 || mask !== undefined, 'soft_max', 'max_bias scales a mask, and there is none', a);
  return node('soft_max', a.ne, { src: [a, mask, maxBias > 0 ? slopesOf(a.ne[2], maxBias) : undefined], params: { scale: s }, batch: a.batch });
}

/** ggml_diag_mask_inf: -Infinity where i0 > n_past + i1, f32, f16 or bf16 -> f32. */
export function diag_mask_inf(a: Tensor, nPast: number): Tensor {
  mustBeRows('diag_mask_inf', a);
  mustBeNumber('diag_mask_inf', 'n_past', nPast, Number.isSafeInteger, 'a whole number', a);
  return node('diag_mask_inf', a.ne, { src: [a], params: { n_past: nPast }, batch: a.batch });
}

const rowsTo = (op: 'sum_rows' | 'argmax' | 'top_k' | 'pool_1d', name: string, a: Tensor, ne: Ne, params: Record<string, number>, type = TYPE.f32 as TypeTraits): Tensor => {
  mustBeRows(name, a);
  return node(op, ne, { name, type, src: [a], params, batch: a.batch });
};

/** ggml_sum_rows: f32, f16 or bf16 -> f32 [1, ne1, ne2, ne3]. */
export const sum_rows = (a: Tensor): Tensor => rowsTo('sum_rows', 'sum_rows', a, [1, a.ne[1], a.ne[2], a.ne[3]], { scale: 1 });
/** ggml_mean, as sum_rows. */
export const mean = (a: Tensor): Tensor => rowsTo('sum_rows', 'mean', a, [1, a.ne[1], a.ne[2], a.ne[3]], { scale: 1 / a.ne[0] });
/** ggml_argsort of each row of f32, f16 or bf16 -> i32 indices, the largest first (or the smallest); equal elements keep their order. */
export const argsort = (a: Tensor, order: 'asc' | 'desc' = 'desc'): Tensor => rowsTo('top_k', 'argsort', a, a.ne, { ascending: order === 'asc' ? 1 : 0 }, TYPE.i32);

/** ggml_top_k of each row of f32, f16 or bf16 -> i32 [k, ne1, ne2, ne3]: indices of the k largest, the largest first, the first of equals. */
export function top_k(a: Tensor, k: number): Tensor {
  must(Number.isInteger(k) && k >= 1 && k <= a.ne[0], 'top_k', `k = ${k} of ${a.ne[0]}`, a);
  return rowsTo('top_k', 'top_k', a, [k, a.ne[1], a.ne[2], a.ne[3]], { ascending: 0 }, TYPE.i32);
}

/** ggml_argmax -> i32 [ne1]: the first index of the largest of each row of a matrix of f32, f16 or bf16. */
export function argmax(a: Tensor): Tensor {
  mustBeRows('argmax', a);
  must(a.ne[2] === 1 && a.ne[3] === 1, 'argmax', 'expected a matrix', a);
  return node('argmax', [a.ne[1], 1, 1, 1], { type: TYPE.i32, src: [a], batch: a.batch && { dim: 0, by: a.batch.by } });
}

/** ggml_pool_1d without padding: the largest or the average of k elements, every s; f32, f16 or bf16 [n, ...] -> f32 [(n - k) / s + 1, ...]. */
export function pool_1d(a: Tensor, kind: 'max' | 'avg', k: number, s: number): Tensor {
  must(Number.isInteger(k) && Number.isInteger(s) && k >= 1 && s >= 1 && k <= a.ne[0], 'pool_1d', `k = ${k}, s = ${s} do not fit`, a);
  must(kind === 'max' || kind === 'avg', 'pool_1d', `kind is ${String(kind)}; expected max or avg`, a);
  return rowsTo('pool_1d', 'pool_1d', a, [Math.floor((a.ne[0] - k) / s) + 1, a.ne[1], a.ne[2], a.ne[3]], { avg: kind === 'avg' ? 1 : 0, k, s });
}

/** Embeddings by mean pooling: row i of the result is the mean of rows from[i] .. from[i] + count[i] of a [n, n_tokens]; from and count i32 [k] -> f32 [n, k]. Rows outside give a row of NaN. */
export function mean_of_rows(a: Tensor, from: Tensor, count: Tensor): Tensor {
  mustBeRows('mean_of_rows', a);
  mustBe('mean_of_rows', from.type === TYPE.i32 && count.type === TYPE.i32, 'i32 rows and counts', a, from, count);
  must(sameShape(from, count) && nelements(from) === from.ne[0] && a.ne[2] === 1 && a.ne[3] === 1, 'mean_of_rows', 'expected a matrix, and one first row and one count for each result', a, from, count);
  return node('mean_of_rows', [a.ne[0], from.ne[0], 1, 1], { src: [a, from, count], batch: from.batch && { dim: 1, by: from.batch.by } });
}

/** Columns [from, from + n) of every row: the way to the parts of fused weights (q, k and v in one product). */
export const columns = (a: Tensor, from: number, n: number): Tensor => view(a, [n, a.ne[1], a.ne[2], a.ne[3]], a.nb.slice(1), from * a.type.typeSize);
