/** Arithmetic on finished vectors: norms, fewer dimensions, fewer bits, similarity, search. */
import { QuantletError, tell } from '../errors.ts';
import { checkOptions, oneOf } from '../options.ts';

/**
 * Numbers of a vector. `int8`: the largest magnitude becomes 127. `ubinary`: a bit for each
 * number, 1 if it is above 0, eight to a byte from the highest bit. `binary`: these bytes minus 128.
 */
export type Precision = 'float32' | 'int8' | 'ubinary' | 'binary';
export const PRECISIONS: readonly Precision[] = ['float32', 'int8', 'ubinary', 'binary'];

/** The vector that a precision gives. */
export type VectorOf<P> = P extends 'int8' | 'binary' ? Int8Array : P extends 'ubinary' ? Uint8Array : Float32Array;

/**
 * Scales a vector like llama.cpp's --embd-normalize. -1: unchanged; 0: the largest magnitude
 * becomes 32760; p: divided by the p-norm (2: its length). A vector of zeros stays as it is.
 */
export function normalized(row: Float32Array, p: number): Float32Array {
  if (p === -1) return row;
  const size = p === 0 ? largest(row) / 32760 : p === 2 ? Math.hypot(...row) : row.reduce((sum, x) => sum + Math.abs(x) ** p, 0) ** (1 / p);
  return size > 0 ? row.map((x) => x / size) : row;
}

const largest = (row: Float32Array): number => row.reduce((most, x) => Math.max(most, Math.abs(x)), 0);

/**
 * The first `dimensions` numbers, as models with Matryoshka representations allow. The caller
 * normalizes afterwards.
 * @throws ERR_INVALID_ARGUMENT if the vector has fewer
 */
export function shortened(row: Float32Array, dimensions: number | undefined): Float32Array {
  if (dimensions === undefined || dimensions === row.length) return row;
  if (dimensions > row.length)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `dimensions is ${dimensions}; expected 1 to ${row.length}, the length of this model's vectors`,
    );
  return row.slice(0, dimensions);
}

/**
 * A vector in fewer bits. It depends on the vector alone, unlike a calibration over a batch. `ubinary`
 * and `binary` are those of sentence-transformers and transformers.js.
 * @throws ERR_LOGITS for NaN and Infinity, which fewer bits cannot express
 */
export function quantized<P extends Precision>(row: Float32Array, precision: P): VectorOf<P>;
export function quantized(row: Float32Array, precision: Precision): Float32Array | Int8Array | Uint8Array {
  if (precision === 'float32') return row;
  const most = largest(row);
  if (!Number.isFinite(most))
    throw new QuantletError('ERR_LOGITS', `the vector has ${most} among its numbers, which ${precision} cannot express; take float32`);
  if (precision === 'int8') {
    const scale = 127 / (most || 1);
    return Int8Array.from(row, (x) => Math.round(x * scale));
  }
  const bits = new Uint8Array(Math.ceil(row.length / 8));
  row.forEach((x, i) => (bits[i >> 3] |= Number(x > 0) << (7 - (i & 7))));
  return precision === 'ubinary' ? bits : Int8Array.from(bits, (x) => x - 128);
}

/** A vector, as an array of any type. */
export type VectorLike = ArrayLike<number>;

/** Cosine of two vectors. Two of zeros count as equal; one of zeros and any other have 0. */
export function cosine(a: VectorLike, b: VectorLike): number {
  let ab = 0;
  let aa = 0;
  let bb = 0;
  for (let i = 0; i < a.length; i++) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa === 0 || bb === 0 ? Number(aa === bb) : ab / Math.sqrt(aa * bb);
}

/** Number of bits set in a byte. */
const ones = Uint8Array.from({ length: 256 }, (_, byte) => byte.toString(2).replaceAll('0', '').length);

/** Cosine of vectors of signs: 1 if all bits are equal, -1 if none is. Both layouts have the same bits. */
function ofSigns(a: VectorLike, b: VectorLike, flip: number): number {
  let different = 0;
  for (let i = 0; i < a.length; i++) different += ones[((a[i] + flip) ^ (b[i] + flip)) & 0xff];
  return 1 - (2 * different) / (8 * a.length || 1);
}

export interface SimilarityOptions {
  /** Kind of the vectors. Default: ubinary for a Uint8Array, else numbers. */
  precision?: Precision | undefined;
}
const SIMILARITY_OPTIONS = { precision: oneOf(...PRECISIONS) };

function measure(where: string, a: VectorLike, options: SimilarityOptions | undefined): (b: VectorLike, name: string) => number {
  const { precision = a instanceof Uint8Array ? 'ubinary' : 'float32' } = checkOptions(where, options, SIMILARITY_OPTIONS);
  const flip = precision === 'binary' ? 128 : 0;
  const isBits = precision === 'binary' || precision === 'ubinary';
  return (b, name) => {
    if (b.length !== a.length || a.length === 0)
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `${where}: ${name} has ${b.length} numbers and the first vector ${a.length}; expected vectors of one model, of the same length`,
      );
    return isBits ? ofSigns(a, b, flip) : cosine(a, b);
  };
}

/**
 * Cosine similarity of two vectors, from -1 to 1. That of binary vectors is the share of equal bits
 * minus the share of different ones.
 * @throws ERR_INVALID_ARGUMENT if they have different lengths
 */
export function similarity(a: VectorLike, b: VectorLike, options?: SimilarityOptions): number {
  return measure(
    'similarity',
    checkedVector('similarity', 'the first vector', a),
    options,
  )(checkedVector('similarity', 'the second vector', b), 'the second vector');
}

function checkedVector(where: string, name: string, vector: VectorLike): VectorLike {
  if (Array.isArray(vector) || (ArrayBuffer.isView(vector) && !(vector instanceof DataView))) return vector;
  throw new QuantletError('ERR_INVALID_ARGUMENT', `${where}: ${name} is ${tell(vector)}; expected a vector`);
}

/** A vector that topK() found: its place among the vectors, and its similarity to the query. */
export interface Match {
  readonly index: number;
  readonly score: number;
}

/**
 * The `k` vectors that are most similar to a query, the most similar one first. Of equal ones the
 * first wins.
 * @throws ERR_INVALID_ARGUMENT for a vector of another length than the query's
 */
export function topK(query: VectorLike, vectors: Iterable<VectorLike>, k = 10, options?: SimilarityOptions): Match[] {
  if (!Number.isInteger(k) || k < 1)
    throw new QuantletError('ERR_INVALID_ARGUMENT', `topK: k is ${tell(k)}; expected a whole number of at least 1`);
  const scoreOf = measure('topK', checkedVector('topK', 'the query', query), options);
  const best: Match[] = [];
  let index = 0;
  for (const vector of vectors) {
    const name = `vector ${index + 1}`;
    const score = scoreOf(checkedVector('topK', name, vector), name);
    if (best.length < k || score > best[k - 1].score) {
      let at = best.length;
      while (at > 0 && best[at - 1].score < score) at--;
      best.splice(at, 0, { index, score });
      best.length = Math.min(best.length, k);
    }
    index++;
  }
  return best;
}
