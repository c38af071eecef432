/**
 * Structures that the host writes for the kernels: tensors, op records, the plan. `npm run
 * generate` writes them as classes to assembly/layout.ts, with these comments; the host takes the
 * offsets below. Every field has four bytes.
 */

type FieldType = 'i32' | 'u32' | 'f32' | 'usize' | 'Tensor';
/** [type, n]: n fields of that type, whose names end in 0 to n - 1. */
type Field = FieldType | readonly [type: FieldType, n: number];
type Fields = { readonly [name: string]: Field };

export const STRUCTURES = {
  /** ggml's view of memory: ne elements and nb bytes of stride in each dimension, ne0 fastest. */
  Tensor: {
    type: 'u32',
    layout: 'u32',
    ne: ['i32', 4],
    nb: ['u32', 4],
    data: 'usize',
    /** Next cast of an op's output (Op.casts), or 0. */
    next: 'Tensor',
  },

  /** One call of a kernel. */
  Op: {
    code: 'u32',
    flags: 'u32',
    dst: 'Tensor',
    src: ['Tensor', 9],
    /**
     * dst in further types, written together with it: the first of a list linked by `next`, or 0
     * (ops/casts.ts).
     */
    casts: 'Tensor',
    /**
     * The op's counter of chunks taken (sync.ts), zeroed by begin(). The counters of its further
     * ranges follow, cursor_bytes apart.
     */
    cursor: 'usize',
    p: ['i32', 18],
  },

  Plan: {
    n_ops: 'i32',
    ops: 'usize',
    /** Dimensions that follow the batch: pairs (address of an ne, a BATCH_COUNT). */
    n_dims: 'i32',
    dims: 'usize',
    /**
     * Bytes from an op's cursor to the cursor of its next range: all ops' cursors for one range lie
     * side by side.
     */
    cursor_bytes: 'u32',
    cursors: 'usize',
    /** scratch_size bytes for each thread; thread ith's begin at scratch + ith * scratch_size. */
    scratch: 'usize',
    scratch_size: 'u32',
  },

  /** Parameters p0, p1 ... of a record of attention. */
  AttentionParams: {
    /** Factor of the scores. */
    scale: 'f32',
    /** Padded head_dim of K. */
    hd_k: 'i32',
    /** Cells of the cache. */
    cells: 'i32',
    n_head_kv: 'i32',
    /**
     * Maximum number of keys that a token sees, itself included; 0: all; negative: -window - 1 keys
     * on each side of it.
     */
    window: 'i32',
    /** Scores become cap * tanh(score / cap); 0: none. */
    soft_cap: 'f32',
    /** KV splits that a row of src5 has room for. */
    splits: 'i32',
    /** Padded head_dim of V. */
    hd_v: 'i32',
    /** head_dim of V: the number of outputs of a head. */
    hd_out: 'i32',
    /** Not 0: all splits take phi as their maximum (FlashDecoding++). */
    unified: 'i32',
    phi: 'f32',
    /**
     * Number of elements of a query, and of an output, that are rotated together (fwht.ts), as the
     * cache's keys and values are; 0: none.
     */
    rot_k: 'i32',
    rot_v: 'i32',
  },
} as const satisfies { readonly [name: string]: Fields };

const words = (field: Field): number => (typeof field === 'string' ? 1 : field[1]);

/** Offset of each field, in 32-bit words; for several fields that of the first. */
function offsets<F extends Fields>(fields: F): { readonly [name in keyof F]: number } {
  let at = 0;
  const entries = Object.entries(fields).map(([name, field]) => [name, (at += words(field)) - words(field)]);
  return Object.fromEntries(entries) as { [name in keyof F]: number };
}

const bytes = (fields: Fields): number => 4 * Object.values(fields).reduce((sum, field) => sum + words(field), 0);

export const TENSOR = offsets(STRUCTURES.Tensor);
export const TENSOR_SIZE = bytes(STRUCTURES.Tensor);
export const OP = offsets(STRUCTURES.Op);
export const OP_SIZE = bytes(STRUCTURES.Op);
export const PLAN = offsets(STRUCTURES.Plan);
export const PLAN_SIZE = bytes(STRUCTURES.Plan);

/** Values of a structure that is the parameters of a record, in order (OpRecord.params). */
export const wordsOf = <F extends Fields>(fields: F, values: { readonly [name in keyof F]: number }): (number | { f: number })[] =>
  Object.entries(fields).map(([name, type]) => (type === 'f32' ? { f: values[name] } : values[name]));
