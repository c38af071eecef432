/**
 * ggml's tensor types: the id stored in GGUF, the elements of one block (`blckSize`) and its bytes (`typeSize`).
 * Source: ggml.h `enum ggml_type` and ggml.c `type_traits`.
 */
export interface TypeTraits<N extends string = string> {
  readonly id: number;
  readonly name: N;
  readonly blckSize: number;
  readonly typeSize: number;
}

const QK_K = 256;

const row = <N extends string>(id: number, name: N, blckSize: number, typeSize: number): TypeTraits<N> => ({ id, name, blckSize, typeSize });

/** Keyed by ggml's own names, lower case but for the K (`q4_0`, `q4_K`, `iq4_nl`). */
export const TYPE = {
  f32: row(0, 'f32', 1, 4),
  f16: row(1, 'f16', 1, 2),
  q4_0: row(2, 'q4_0', 32, 18),
  q4_1: row(3, 'q4_1', 32, 20),
  q5_0: row(6, 'q5_0', 32, 22),
  q5_1: row(7, 'q5_1', 32, 24),
  q8_0: row(8, 'q8_0', 32, 34),
  q8_1: row(9, 'q8_1', 32, 36),
  q2_K: row(10, 'q2_K', QK_K, 84),
  q3_K: row(11, 'q3_K', QK_K, 110),
  q4_K: row(12, 'q4_K', QK_K, 144),
  q5_K: row(13, 'q5_K', QK_K, 176),
  q6_K: row(14, 'q6_K', QK_K, 210),
  q8_K: row(15, 'q8_K', QK_K, 292),
  iq2_xxs: row(16, 'iq2_xxs', QK_K, 66),
  iq2_xs: row(17, 'iq2_xs', QK_K, 74),
  iq3_xxs: row(18, 'iq3_xxs', QK_K, 98),
  iq1_s: row(19, 'iq1_s', QK_K, 50),
  iq4_nl: row(20, 'iq4_nl', 32, 18),
  iq3_s: row(21, 'iq3_s', QK_K, 110),
  iq2_s: row(22, 'iq2_s', QK_K, 82),
  iq4_xs: row(23, 'iq4_xs', QK_K, 136),
  i8: row(24, 'i8', 1, 1),
  i16: row(25, 'i16', 1, 2),
  i32: row(26, 'i32', 1, 4),
  i64: row(27, 'i64', 1, 8),
  f64: row(28, 'f64', 1, 8),
  iq1_m: row(29, 'iq1_m', QK_K, 56),
  bf16: row(30, 'bf16', 1, 2),
  tq1_0: row(34, 'tq1_0', QK_K, 54),
  tq2_0: row(35, 'tq2_0', QK_K, 66),
  mxfp4: row(39, 'mxfp4', 32, 17),
  nvfp4: row(40, 'nvfp4', 64, 36),
  q1_0: row(41, 'q1_0', 128, 18),
  q2_0: row(42, 'q2_0', 64, 18),
} as const satisfies Record<string, TypeTraits>;

export type TypeName = keyof typeof TYPE;

const byId = new Map<number, TypeTraits>(Object.values(TYPE).map((t) => [t.id, t]));

/** The traits of a GGUF type id, or undefined where ggml has none (or has retired it). */
export const typeById = (id: number): TypeTraits | undefined => byId.get(id);

/** The traits of a name, or undefined where there is none of it. */
export const typeNamed = (name: string): TypeTraits | undefined => (Object.hasOwn(TYPE, name) ? TYPE[name as TypeName] : undefined);

/** Bytes of one row of `ne0` elements (ggml_row_size). `ne0` must be a multiple of the block. */
export const rowSize = (type: TypeTraits, ne0: number): number => (ne0 / type.blckSize) * type.typeSize;
