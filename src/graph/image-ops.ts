/**
 * Ops for images and sound: padding with zeros, norms over groups of channels, convolutions as
 * products. @see ops.ts
 */
import { checkOptions, checkValue, KIND, oneOf, required, type Kind, type Kinds } from '../options.ts';
import { TYPE, type TypeTraits } from '../type-traits.ts';
import { EPS, isFloat, mustBe, mustBeRows, mustBeTensor, operand, ROW, type Operand } from './operands.ts';
import { concat, cont, mul_mat } from './ops.ts';
import { norm } from './row-ops.ts';
import { NOT_FIXED, fourDims, isContiguous, must, node, type Tensor } from './tensor.ts';
import { permute, reshape } from './views.ts';

/** Refuses tensors that follow a batch; the shapes of these ops do not. */
const mustStand = (op: string, a: Tensor): void => must(!a.batch, op, NOT_FIXED, a);
const dense = <T extends string>(a: Tensor<T>): Tensor<T> => (isContiguous(a) ? a : cont(a));

const PADS: Kind = {
  is: (v) => Array.isArray(v) && v.length >= 1 && v.length <= 4,
  expected: 'a list of one to four whole numbers of at least 0',
};
const checkPads = (name: string, pads: readonly number[]): void =>
  pads.forEach((n, i) => checkValue('pad', `${name}[${i}]`, n, KIND.count));

export interface PadOptions {
  /**
   * Zeros before the first element of each dimension (ggml_pad_ext), for one to four dimensions.
   * Default: none.
   */
  left?: readonly number[] | undefined;
}

/**
 * ggml_pad: right[i] zeros after the last element of dimension i; none for dimensions that are not
 * given. Any unquantised type, which the result keeps.
 */
export function pad<T extends string>(a: Tensor<T>, right: readonly number[], options?: PadOptions): Tensor<T> {
  mustBeTensor('pad', 'a', a);
  checkValue('pad', 'right', right, PADS);
  const { left = [] } = checkOptions<PadOptions>('pad', options, { left: PADS });
  checkPads('right', right);
  checkPads('left', left);
  mustBe('pad', a.type.blckSize === 1, 'an unquantised type', a);
  mustStand('pad', a);
  const [l0, l1, l2, l3] = [0, 1, 2, 3].map((i) => left[i] ?? 0);
  return node(
    'pad',
    fourDims(
      'pad',
      a.ne.map((n, i) => n + (left[i] ?? 0) + (right[i] ?? 0)),
    ),
    { type: a.type, src: [a], params: { l0, l1, l2, l3 } },
  );
}

export interface GroupNormOptions {
  /**
   * Groups that the channels (dimension 2) are divided into. If they do not divide evenly, the last
   * group is smaller.
   */
  groups: number;
  /** Added to the variance before the square root. */
  eps: number;
}

/**
 * ggml_group_norm: a [w, h, channels, n]; normalises each group of channels of each of n to mean 0
 * and variance 1. f32, f16 or bf16 -> f32 of the same shape.
 */
export function group_norm(a: Tensor, options: GroupNormOptions): Tensor<'f32'> {
  const { groups, eps } = checkOptions<GroupNormOptions>('group_norm', options, { groups: required(KIND.size), eps: EPS });
  mustBeRows('group_norm', a);
  mustStand('group_norm', a);
  const [w, h, channels, n] = a.ne;
  const size = Math.ceil(channels / groups);
  const whole = channels - (channels % size);
  /** Channels [from, to) in groups of `of` channels: each group becomes one row. */
  const part = (from: number, to: number, of: number): Tensor<'f32'> => {
    const x = dense(to - from === channels ? a : channelsOf(a, from, to));
    return reshape(norm(reshape(x, [w * h * of, (to - from) / of, 1, n]), { eps }), x.ne);
  };
  return whole === channels ? part(0, channels, size) : concat(part(0, whole, size), part(whole, channels, channels - whole), 2);
}

const channelsOf = (a: Tensor, from: number, to: number): Tensor =>
  node('view', [a.ne[0], a.ne[1], to - from, a.ne[3]], { type: a.type, nb: a.nb, viewOf: a, viewOffset: from * a.nb[2], src: [a] });

/** One number for both dimensions, or [width, height]. */
export type Pair = number | readonly [number, number];

export type ColumnType = 'f16' | 'f32';

/**
 * Options of conv_1d, conv_2d and im2col. `P` is the type of a position: a number, or one per
 * dimension.
 */
export interface Conv<P, T extends ColumnType = ColumnType> {
  /** Step of the kernel. Default 1. */
  stride?: P | undefined;
  /** Zeros on either side. Default 0. */
  padding?: P | undefined;
  /** Distance between two elements of the kernel. Default 1. */
  dilation?: P | undefined;
  /**
   * Type of the columns: f16 as in ggml, or f32 to lose nothing. Default f16, or f32 if the kernel
   * is bf16.
   */
  type?: T | undefined;
}
export type Conv1dOptions = Conv<number>;
export type Conv2dOptions = Conv<Pair>;

export interface Im2colOptions<T extends ColumnType = ColumnType> extends Conv<Pair, T> {
  /** True if the kernel moves over two dimensions. Default true. */
  is2D?: boolean | undefined;
}

const COLUMNS = oneOf('f16', 'f32');
const pair = (kind: Kind): Kind => ({
  is: (v) => kind.is(v) || (Array.isArray(v) && v.length === 2 && v.every(kind.is)),
  expected: `${kind.expected}, or two of them, [width, height]`,
});
const CONV_1D: Kinds<Conv1dOptions> = { stride: KIND.size, padding: KIND.count, dilation: KIND.size, type: COLUMNS };
const CONV_2D: Kinds<Conv2dOptions> = { stride: pair(KIND.size), padding: pair(KIND.count), dilation: pair(KIND.size), type: COLUMNS };

const both = (p: Pair): readonly [number, number] => (typeof p === 'number' ? [p, p] : p);
/** Number of positions of a kernel of k elements among n. */
const places = (n: number, k: number, stride: number, padding: number, dilation: number): number =>
  Math.floor((n + 2 * padding - dilation * (k - 1) - 1) / stride) + 1;

/**
 * x [w, h, channels, n] under a kernel of kw x kh -> [kw * kh * channels, positions in w, in h, n].
 */
function columns<T extends ColumnType>(
  op: string,
  kernel: Tensor,
  x: Tensor,
  [kw, kh]: readonly [number, number],
  p: Conv2dOptions,
  type: T,
): Tensor<T> {
  const [s0, s1] = both(p.stride ?? 1);
  const [p0, p1] = both(p.padding ?? 0);
  const [d0, d1] = both(p.dilation ?? 1);
  const ow = places(x.ne[0], kw, s0, p0, d0);
  const oh = places(x.ne[1], kh, s1, p1, d1);
  must(ow > 0 && oh > 0, op, 'the kernel is larger than the tensor with its padding; expected at most its size', kernel, x);
  return node('im2col', [kw * kh * x.ne[2], ow, oh, x.ne[3]], {
    type: TYPE[type] as TypeTraits<T>,
    src: [x],
    params: { kw, kh, s0, s1, p0, p1, d0, d1 },
  });
}

/** Turns one dimension into two, of which the second has one element. */
const flat = (x: Tensor): Tensor => permute(x, 0, 2, 3, 1);

/**
 * ggml_im2col: the elements of x under the kernel, for each of its positions.
 * `kernel` [kw, kh, channels, any] is used for its shape alone.
 * `x` [w, h, channels, n], f32, f16 or bf16.
 * The result is [kw * kh * channels, positions in w, positions in h, n].
 *
 * With { is2D: false }: kernel [kw, channels, any], x [w, channels, n]
 * -> [kw * channels, positions, n].
 */
export function im2col<T extends ColumnType = 'f16'>(kernel: Tensor, x: Tensor, options?: Im2colOptions<T>): Tensor<T> {
  // Over one dimension, options are single numbers.
  const kinds = options?.is2D === false ? CONV_1D : CONV_2D;
  const { is2D = true, ...p } = checkOptions<Im2colOptions<T>>('im2col', options, { ...kinds, is2D: KIND.boolean });
  const type = p.type ?? ('f16' as T);
  mustBeMoved('im2col', kernel, x, is2D);
  if (is2D) return columns('im2col', kernel, x, [kernel.ne[0], kernel.ne[1]], p, type);
  const y = columns('im2col', kernel, flat(x), [kernel.ne[0], 1], { ...p, padding: [both(p.padding ?? 0)[0], 0] }, type);
  return reshape(y, [y.ne[0], y.ne[1], y.ne[3]]);
}

function mustBeMoved(op: string, kernel: Tensor, x: Tensor, is2D: boolean): void {
  mustBeTensor(op, 'kernel', kernel);
  mustBeRows(op, x, 'x');
  mustStand(op, x);
  if (is2D) must(kernel.ne[2] === x.ne[2], op, 'expected kernel and tensor with the same ne2, the channels', kernel, x);
  else
    must(
      kernel.ne[1] === x.ne[1] && x.ne[3] === 1,
      op,
      'expected kernel and tensor with the same ne1, the channels, and ne3 of the tensor to be 1',
      kernel,
      x,
    );
}

/** Columns times kernels: [positions, kernels], each product in f32. */
const convolve = (cols: Tensor, kernel: Tensor, kernels: number): Tensor<'f32'> =>
  mul_mat(reshape(cols, [cols.ne[0], cols.ne[1] * cols.ne[2] * cols.ne[3]]), reshape(dense(kernel), [cols.ne[0], kernels]));

/** A tensor, or lists of lists of numbers. */
function kernelOf(op: string, given: Operand): Tensor {
  checkValue(op, 'kernel', given, ROW);
  const kernel = operand(op, 'kernel', given);
  mustBe(op, isFloat(kernel), 'a kernel of f32, f16 or bf16', kernel);
  return kernel;
}

const columnsFor = (kernel: Tensor, type: ColumnType | undefined): ColumnType => type ?? (kernel.type === TYPE.bf16 ? 'f32' : 'f16');

/**
 * ggml_conv_1d: kernel [k, channels, out] and x [w, channels, n], both f32, f16 or bf16 -> f32
 * [positions, out, n]. Runs im2col and mul_mat. The kernel may be lists of numbers. Differs from
 * ggml for n > 1, where ggml reshapes the result as if there were one sequence.
 */
export function conv_1d(filter: Operand, x: Tensor, options?: Conv1dOptions): Tensor<'f32'> {
  const p = checkOptions<Conv1dOptions>('conv_1d', options, CONV_1D);
  const kernel = kernelOf('conv_1d', filter);
  mustBeMoved('conv_1d', kernel, x, false);
  must(kernel.ne[3] === 1, 'conv_1d', 'expected a kernel with three dimensions', kernel, x);
  const cols = im2col(kernel, x, { ...p, type: columnsFor(kernel, p.type), is2D: false });
  const [, places, n] = cols.ne;
  const out = kernel.ne[2];
  const y = convolve(cols, kernel, out);
  return n === 1 ? reshape(y, [places, out]) : cont(permute(reshape(y, [places, n, out]), 0, 2, 1, 3));
}

/**
 * ggml_conv_2d: kernel [kw, kh, channels, out] and x [w, h, channels, n], both f32, f16 or bf16 ->
 * f32 [positions in w, positions in h, out, n]. Runs im2col and mul_mat.
 */
export function conv_2d(filter: Operand, x: Tensor, options?: Conv2dOptions): Tensor<'f32'> {
  const p = checkOptions<Conv2dOptions>('conv_2d', options, CONV_2D);
  const kernel = kernelOf('conv_2d', filter);
  mustBeMoved('conv_2d', kernel, x, true);
  const cols = im2col(kernel, x, { ...p, type: columnsFor(kernel, p.type) });
  const [, ow, oh, n] = cols.ne;
  const out = kernel.ne[3];
  const y = convolve(cols, kernel, out);
  return n === 1 ? reshape(y, [ow, oh, out]) : cont(permute(reshape(y, [ow, oh, n, out]), 0, 1, 3, 2));
}
