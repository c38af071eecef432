/** Operands of ops: tensors, and numbers and arrays if an operand may be a constant. */
import { QuantletError, tell } from '../errors.ts';
import { KIND, required, type Kind } from '../options.ts';
import { TYPE, type TypeTraits } from '../type-traits.ts';
import { constant, list, must, overlapsItself, shape, type Ne, type Tensor } from './tensor.ts';

/**
 * A number, a typed array or a list (one dimension), lists of lists (the innermost is dimension 0).
 */
export type Numbers = number | ArrayLike<number> | readonly Numbers[];

/**
 * A tensor, or numbers that become a constant of the graph: a number repeats, a list is a row,
 * lists of rows are a matrix.
 */
export type Operand = Tensor | Numbers;

/**
 * Recognised by shape, because tensors are plain objects and two copies of the package may meet.
 */
export const isTensor = (value: unknown): value is Tensor =>
  typeof value === 'object' &&
  value !== null &&
  Array.isArray((value as Tensor).ne) &&
  typeof (value as Tensor).type === 'object' &&
  typeof (value as Tensor).op === 'string';

/**
 * Name of a typed array's class, of this realm or another, such as 'Float32Array'; undefined for
 * anything else.
 */
export const arrayName = (value: unknown): string | undefined =>
  ArrayBuffer.isView(value) ? Object.prototype.toString.call(value).slice(8, -1) : undefined;

const MAX_DIMS = 4;
const isList = (value: unknown): value is ArrayLike<unknown> => Array.isArray(value) || (arrayName(value)?.endsWith('Array') ?? false);
const isNumbers = (value: unknown): value is Numbers => typeof value === 'number' || isList(value);

/** Number that a norm adds before it divides, or the smallest that it divides by. */
export const EPS: Kind = required({ ...KIND.atLeast0, expected: 'a number of at least 0; models bring their own, mostly 1e-5 or 1e-6' });

export const OPERAND: Kind = { is: (v) => isTensor(v) || isNumbers(v), expected: 'a tensor, a number or a list of numbers' };
/** An operand for which a single number makes no sense. */
export const ROW: Kind = { is: (v) => isTensor(v) || isList(v), expected: 'a tensor or a list of numbers' };

export const TENSOR: Kind = { is: isTensor, expected: 'a tensor' };

/** @throws ERR_INVALID_ARGUMENT if the value is not a tensor */
export function mustBeTensor(op: string, name: string, value: unknown): asserts value is Tensor {
  if (!isTensor(value)) throw new QuantletError('ERR_INVALID_ARGUMENT', `${op}: ${name} is ${tell(value)}; expected a tensor`);
}

/**
 * Numbers in ne order, and dimensions from their nesting.
 * @throws ERR_INVALID_ARGUMENT for lists of different lengths, nested more than four deep, or with
 * anything but numbers
 */
export function flatten(where: string, given: unknown): { readonly ne: Ne; readonly values: ArrayLike<number | bigint> } {
  const fail = (why: string): never => {
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `${where}: ${why}; expected numbers, or lists of one length of them, at most ${MAX_DIMS} deep`,
    );
  };
  let level = (isList(given) ? given : [given]) as ArrayLike<unknown>;
  const lengths = [level.length];
  while (level.length > 0 && isList(level[0])) {
    const lists = Array.from(level);
    const n = level[0].length;
    const odd = lists.findIndex((l) => !isList(l) || l.length !== n);
    if (odd >= 0)
      fail(`the lists differ: one has ${n} elements, another is ${isList(lists[odd]) ? `${lists[odd].length} long` : tell(lists[odd])}`);
    if (lengths.push(n) > MAX_DIMS) fail('the lists are nested too deeply');
    // Also joins lists of typed arrays.
    level = (lists as ArrayLike<unknown>[]).flatMap((l) => Array.from(l));
  }
  if (lengths.includes(0)) fail('a list is empty');
  if (!ArrayBuffer.isView(level)) {
    const at = Array.prototype.findIndex.call(level, (v) => typeof v !== 'number' && typeof v !== 'bigint');
    if (at >= 0) fail(`element ${at} is ${tell(level[at])}`);
  }
  const ne = lengths.reverse();
  return { ne: [ne[0], ne[1] ?? 1, ne[2] ?? 1, ne[3] ?? 1], values: level as ArrayLike<number | bigint> };
}

/**
 * Returns a tensor as it is, and numbers as a constant.
 * @throws ERR_INVALID_ARGUMENT for anything else
 */
export function operand(op: string, name: string, value: unknown, type: TypeTraits<'f32'> | TypeTraits<'i32'> = TYPE.f32): Tensor {
  if (isTensor(value)) return value;
  if (!isNumbers(value)) throw new QuantletError('ERR_INVALID_ARGUMENT', `${op}: ${name} is ${tell(value)}; expected ${OPERAND.expected}`);
  const { ne, values } = flatten(`${op}: ${name}`, value);
  const numbers = Array.from(values, Number);
  const far = type === TYPE.i32 ? numbers.findIndex((v) => (v | 0) !== v) : -1;
  if (far >= 0)
    throw new QuantletError('ERR_INVALID_ARGUMENT', `${op}: ${name}: element ${far} is ${numbers[far]}; expected whole numbers of 32 bits`);
  const bytes = new Uint8Array((type === TYPE.i32 ? Int32Array.from(numbers) : Float32Array.from(numbers)).buffer);
  return constant(name, type, ne, () => bytes);
}

/** operand() for an option, which may be undefined. */
export const optional = (op: string, name: string, value: Operand | undefined): Tensor | undefined =>
  value === undefined ? undefined : operand(op, name, value);

/** Indices, positions and counts. */
export const ints = (op: string, name: string, value: unknown): Tensor => operand(op, name, value, TYPE.i32);

export const isFloat = (t: Tensor): boolean => t.type === TYPE.f32 || t.type === TYPE.f16 || t.type === TYPE.bf16;

/** @throws ERR_UNSUPPORTED_TYPE naming the op, the tensors and the types that have kernels */
export function mustBe(op: string, ok: boolean, kinds: string, ...tensors: (Tensor | undefined)[]): void {
  if (!ok)
    throw new QuantletError(
      'ERR_UNSUPPORTED_TYPE',
      `${op}: ${tensors
        .filter((t) => t !== undefined)
        .map(shape)
        .join(' and ')}: no kernel for these types; expected ${kinds}`,
    );
}

/**
 * Checks a tensor that an op writes.
 * @throws ERR_TENSOR_SHAPE if elements share memory, because chance would decide which of them
 * stays
 */
export const mustBeWritable = (op: string, t: Tensor): void =>
  must(
    !overlapsItself(t),
    op,
    () => `strides are ${list(t.nb)}; expected a tensor or a view whose elements do not overlap, because it is written`,
    t,
  );

/** Checks a tensor whose rows a kernel reads. */
export function mustBeRows(op: string, a: Tensor, name = 'a'): void {
  mustBeTensor(op, name, a);
  mustBe(op, isFloat(a), 'f32, f16 or bf16', a);
}
