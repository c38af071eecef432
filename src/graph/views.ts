/** Views: other shapes of the same memory. Nothing is copied. */
import { QuantletError, tell } from '../errors.ts';
import { checkOptions, KIND, type Kinds } from '../options.ts';
import { mustBeTensor } from './operands.ts';
import {
  contiguousNb,
  fourDims,
  isContiguous,
  list,
  must,
  nbytes,
  nelements,
  node,
  type BatchDim,
  type Ne,
  type Tensor,
} from './tensor.ts';

export interface ViewOptions {
  /** Strides of dimensions 1 to 3 in bytes; 0 repeats a row. Missing ones are contiguous. */
  nb?: readonly number[] | undefined;
  /** Bytes from the first element of the tensor. Default 0. */
  offset?: number | undefined;
}

const VIEW_OPTIONS: Kinds<ViewOptions> = {
  nb: {
    is: (v) => Array.isArray(v) && v.length <= 3 && v.every((n) => typeof n === 'number'),
    expected: 'a list of up to three strides in bytes',
  },
  offset: KIND.number,
};

/**
 * ggml_set_name: sets the tensor's name in messages and explain(), and returns the tensor.
 * @throws ERR_INVALID_ARGUMENT
 */
export function set_name<T extends Tensor>(t: T, name: string): T {
  mustBeTensor('set_name', 't', t);
  if (typeof name !== 'string') throw new QuantletError('ERR_INVALID_ARGUMENT', `set_name: the name is ${tell(name)}; expected a string`);
  (t as { name: string }).name = name;
  return t;
}

/**
 * ggml_reshape: the same contiguous elements, of any type, with one to four other dimensions. The
 * batch dimension, if any, is the last of both.
 * @throws ERR_TENSOR_SHAPE if the numbers of elements differ or `a` has gaps (use cont() first)
 */
export function reshape<T extends string>(a: Tensor<T>, to: readonly number[], batch: BatchDim | undefined = a?.batch): Tensor<T> {
  mustBeTensor('reshape', 'a', a);
  const ne = fourDims('reshape', to);
  must(
    ne.reduce((p, n) => p * n) === nelements(a),
    'reshape',
    () => `${list(ne)} has ${ne.reduce((p, n) => p * n)} elements; expected ${nelements(a)}`,
    a,
  );
  must(isContiguous(a), 'reshape', 'expected a contiguous tensor; use cont first', a);
  must(ne[0] % a.type.blckSize === 0, 'reshape', `ne0 is ${ne[0]}; expected a multiple of ${a.type.blckSize}, the elements of a block`, a);
  return node('view', ne, { type: a.type, batch, viewOf: a, src: [a] });
}

/**
 * ggml_view_4d: a window of one to four dimensions into the memory of `a`, of any type.
 * @throws ERR_TENSOR_SHAPE if the window reaches beyond `a` or cuts a block
 */
export function view<T extends string>(
  a: Tensor<T>,
  window: readonly number[],
  options?: ViewOptions,
  batch: BatchDim | undefined = a?.batch,
): Tensor<T> {
  mustBeTensor('view', 'a', a);
  const { nb = [], offset = 0 } = checkOptions<ViewOptions>('view', options, VIEW_OPTIONS);
  const ne = fourDims('view', window);
  const dense = contiguousNb(a.type, ne);
  const strides: Ne = [
    a.type.typeSize,
    nb[0] ?? dense[1],
    nb[1] ?? (nb[0] ?? dense[1]) * ne[1],
    nb[2] ?? (nb[1] ?? (nb[0] ?? dense[1]) * ne[1]) * ne[2],
  ];
  must(
    ne[0] % a.type.blckSize === 0 && offset % a.type.typeSize === 0 && strides.every((n) => n >= 0 && n % a.type.typeSize === 0),
    'view',
    () =>
      `ne is ${list(ne)}, nb ${list(strides)}, offset ${offset}; expected nb and offset that are multiples of ${a.type.typeSize} bytes, and a ne0 of whole blocks`,
    a,
  );
  const v = node('view', ne, { type: a.type, nb: strides, batch, viewOf: a, viewOffset: offset, src: [a] });
  must(
    offset >= 0 && offset + nbytes(v) <= nbytes(a),
    'view',
    () => `ne ${list(ne)} with nb ${list(strides)} at offset ${offset} ends at byte ${offset + nbytes(v)}; expected at most ${nbytes(a)}`,
    a,
  );
  return v;
}

/**
 * ggml_permute: dimension i becomes dimension axes[i]. Any type; block types keep dimension 0 in
 * place.
 * @throws ERR_TENSOR_SHAPE
 */
export function permute<T extends string>(a: Tensor<T>, ...axes: readonly [number, number, number, number]): Tensor<T> {
  mustBeTensor('permute', 'a', a);
  must(
    axes.length === 4 && [0, 1, 2, 3].every((i) => axes.includes(i)),
    'permute',
    () => `axes are ${list(axes)}; expected 0, 1, 2 and 3 in any order`,
    a,
  );
  must(
    a.type.blckSize === 1 || axes[0] === 0,
    'permute',
    `axes begin with ${axes[0]}; expected 0, because blocks of ${a.type.blckSize} elements lie along dimension 0`,
    a,
  );
  const ne = [0, 0, 0, 0];
  const nb = [0, 0, 0, 0];
  axes.forEach((to, i) => ([ne[to], nb[to]] = [a.ne[i], a.nb[i]]));
  const batch = a.batch && { dim: axes[a.batch.dim] as BatchDim['dim'], by: a.batch.by };
  return node('view', ne as unknown as Ne, { type: a.type, nb: nb as unknown as Ne, batch, viewOf: a, src: [a] });
}

/**
 * ggml_transpose: [n, m, ne2, ne3] of unquantised elements -> [m, n, ne2, ne3].
 * @throws ERR_TENSOR_SHAPE for block types
 */
export const transpose = <T extends string>(a: Tensor<T>): Tensor<T> => {
  mustBeTensor('transpose', 'a', a);
  return permute(a, 1, 0, 2, 3);
};
