/**
 * Ops element by element: sums and products with broadcasting, activations, gated units.
 * @see ops.ts
 */
import { checkOptions, checkValue, isPlain, KIND } from '../options.ts';
import { TYPE } from '../type-traits.ts';
import { BINARY, GLU, UNARY } from './layout.ts';
import { isFloat, isTensor, mustBe, mustBeRows, mustBeTensor, mustBeWritable, operand, type Numbers, type Operand } from './operands.ts';
import { fourDims, list, must, node, sameShape, type Ne, type Tensor } from './tensor.ts';

type BinaryName = Exclude<keyof typeof BINARY, 'repeat'>;

/** Result type of an element-wise op whose first operand has type T. */
export type SumType<T extends string> = string extends T ? 'f32' | 'f16' : T extends 'f16' ? 'f16' : 'f32';

function binary(name: BinaryName, x: Operand, y: Operand, inplace: boolean): Tensor<'f32' | 'f16'> {
  const op = inplace ? `${name}_inplace` : name;
  if (inplace || (!isTensor(x) && !isTensor(y))) mustBeTensor(op, 'a', x);
  const b = operand(op, 'b', y);
  const a = isTensor(x) ? x : spread(op, operand(op, 'a', x), b);
  mustBe(op, isFloat(a) && isFloat(b), 'f32, f16 or bf16', a, b);
  must(
    a.ne.every((n, i) => n % b.ne[i] === 0),
    op,
    'expected every dimension of the second tensor to divide that of the first',
    a,
    b,
  );
  must(!inplace || a.type === TYPE.f32, op, 'expected f32, because the first tensor is changed in place', a, b);
  if (inplace) mustBeWritable(op, a);
  const init = { name: op, type: a.type === TYPE.f16 ? TYPE.f16 : TYPE.f32, src: [a, b], params: { kind: BINARY[name] }, batch: a.batch };
  return node<'f32' | 'f16'>('binary', a.ne, inplace ? { ...init, nb: a.nb, viewOf: a } : init);
}

/** Repeats numbers that are the first operand to the second's shape, which they must divide. */
const spread = (op: string, a: Tensor, b: Tensor): Tensor => {
  must(
    b.ne.every((n, i) => n % a.ne[i] === 0),
    op,
    'expected every dimension of the numbers to divide that of the tensor',
    a,
    b,
  );
  return sameShape(a, b) ? a : repeat(a, b.ne);
};

/** An op of two operands, element by element. Plain numbers may replace either operand. */
export interface Binary {
  <T extends string>(a: Tensor<T>, b: Operand): Tensor<SumType<T>>;
  (a: Numbers, b: Tensor): Tensor<'f32'>;
}
/** An op of two operands, element by element, that writes its result to a's memory. */
export type InPlace = (a: Tensor, b: Operand) => Tensor<'f32'>;

const plain = (name: BinaryName): Binary => ((a: Operand, b: Operand) => binary(name, a, b, false)) as Binary;
const inPlace = (name: BinaryName): InPlace => ((a: Tensor, b: Operand) => binary(name, a, b, true)) as InPlace;

/**
 * ggml_add: a + b; b repeats to a's shape, so each dimension of b divides that of a. f32, f16 and
 * bf16 in any strides. The result is f16 if a is, else f32. If a is numbers, they repeat to b's
 * shape.
 */
export const add = plain('add');
/** ggml_sub: a - b, as add. */
export const sub = plain('sub');
/** ggml_mul: a * b element by element, as add. */
export const mul = plain('mul');
/** ggml_div: a / b, as add. */
export const div = plain('div');
/**
 * ggml_add_inplace: add with a of f32, whose memory gets the result; no op may need a's old values
 * afterwards. a has no repeats; b may lie in a.
 */
export const add_inplace = inPlace('add');
/** ggml_sub_inplace, as add_inplace. */
export const sub_inplace = inPlace('sub');
/** ggml_mul_inplace, as add_inplace. */
export const mul_inplace = inPlace('mul');
/** ggml_div_inplace, as add_inplace. */
export const div_inplace = inPlace('div');

/**
 * ggml_repeat: repeats a of f32, f16 or bf16 to the shape ne (one to four dimensions, each a
 * multiple of a's) -> f32.
 */
export function repeat(a: Tensor, to: readonly number[]): Tensor<'f32'> {
  mustBeTensor('repeat', 'a', a);
  const ne = fourDims('repeat', to);
  mustBe('repeat', isFloat(a), 'f32, f16 or bf16', a);
  must(
    ne.every((n, i) => n % a.ne[i] === 0),
    'repeat',
    () => `ne is ${list(ne)}; expected a multiple of the tensor's in every dimension`,
    a,
  );
  return node('binary', ne, { name: 'repeat', src: [undefined, a], params: { kind: BINARY.repeat } });
}

const unary = (name: keyof typeof UNARY, a: Tensor, params: { readonly [name: string]: number } = {}): Tensor<'f32'> => {
  mustBeRows(name, a);
  for (const [p, value] of Object.entries(params)) checkValue(name, p, value, KIND.number);
  const [p1 = 0, p2 = 0, p3 = 0, p4 = 0] = Object.values(params);
  return node('unary', a.ne, { name, src: [a], params: { kind: UNARY[name], a: p1, b: p2, c: p3, d: p4 }, batch: a.batch });
};

/**
 * ggml_silu: x / (1 + e^-x), within 3 ulp. All functions from here on work element by element: f32,
 * f16 or bf16 -> f32 of the same shape. Errors are stated for f32.
 */
export const silu = (a: Tensor): Tensor<'f32'> => unary('silu', a);
/**
 * ggml_gelu, the tanh form, within 5e-7 of max(1, |value|). In f32; ggml rounds argument and value
 * to f16.
 */
export const gelu = (a: Tensor): Tensor<'f32'> => unary('gelu', a);
/** ggml_gelu_quick: x / (1 + e^(-1.702 x)), within 4e-7 of max(1, |value|). */
export const gelu_quick = (a: Tensor): Tensor<'f32'> => unary('gelu_quick', a);
/** ggml_gelu_erf: x / 2 (1 + erf(x / sqrt 2)), within 5e-7 of max(1, |value|). */
export const gelu_erf = (a: Tensor): Tensor<'f32'> => unary('gelu_erf', a);
/** ggml_relu: max(x, 0). */
export const relu = (a: Tensor): Tensor<'f32'> => unary('relu', a);
/** ggml_tanh, within 2 ulp. */
export const tanh = (a: Tensor): Tensor<'f32'> => unary('tanh', a);
/** ggml_sigmoid: 1 / (1 + e^-x), within 3 ulp. */
export const sigmoid = (a: Tensor): Tensor<'f32'> => unary('sigmoid', a);
/** ggml_softplus: ln(1 + e^x), within 4 ulp unless e^x is subnormal. */
export const softplus = (a: Tensor): Tensor<'f32'> => unary('softplus', a);
/** ggml_exp, within 1 ulp; subnormal results are 0. */
export const exp = (a: Tensor): Tensor<'f32'> => unary('exp', a);
/** ggml_sqr: x * x. */
export const sqr = (a: Tensor): Tensor<'f32'> => unary('sqr', a);
/** ggml_sqrt; NaN below 0. */
export const sqrt = (a: Tensor): Tensor<'f32'> => unary('sqrt', a);
/** ggml_log, the natural logarithm, within 1 ulp; -Infinity at 0, NaN below. */
export const log = (a: Tensor): Tensor<'f32'> => unary('log', a);
/** ggml_neg: -x. */
export const neg = (a: Tensor): Tensor<'f32'> => unary('neg', a);
/** ggml_abs. */
export const abs = (a: Tensor): Tensor<'f32'> => unary('abs', a);
/** ggml_step: 1 where x > 0, else 0 (NaN too). */
export const step = (a: Tensor): Tensor<'f32'> => unary('step', a);

export interface ScaleOptions {
  /** Added to every product. Default 0. */
  bias?: number | undefined;
}

/** ggml_scale, ggml_scale_bias: s a + bias. */
export function scale(a: Tensor, s: number, options?: ScaleOptions): Tensor<'f32'> {
  const { bias = 0 } = checkOptions<ScaleOptions>('scale', options, { bias: KIND.number });
  return unary('scale', a, { s, bias });
}
/** ggml_clamp: min(max(x, min), max). */
export const clamp = (a: Tensor, min: number, max: number): Tensor<'f32'> => unary('clamp', a, { min, max });
/** cap * tanh(a / cap): ggml's scale, tanh, scale in one pass. */
export const soft_cap = (a: Tensor, cap: number): Tensor<'f32'> => unary('soft_cap', a, { cap });

const softplusOf = (x: number): number => (x > 20 ? x : Math.log1p(Math.exp(x)));

/**
 * ggml_xielu (arXiv 2411.13010): beta x + softplus(alphaP) x^2 if x > 0, else
 * beta x + (beta + softplus(alphaN)) (e^min(x, eps) - 1 - x).
 * Within 5e-7 of max(1, |value|) for factors around 1.
 */
export const xielu = (a: Tensor, alphaN: number, alphaP: number, beta: number, eps: number): Tensor<'f32'> => {
  for (const [name, value] of Object.entries({ alphaN, alphaP, beta, eps })) checkValue('xielu', name, value, KIND.number);
  return unary('xielu', a, { n: beta + softplusOf(alphaN), p: softplusOf(alphaP), beta, eps });
};

export interface GluOptions {
  /** True: the gate is the second half of a row, for gate and up in one tensor. Default false. */
  swapped?: boolean | undefined;
}

/** A gated unit over the halves of each row of one tensor, or over the rows of two. */
export interface Glu {
  (gate: Tensor, up?: Operand, options?: GluOptions): Tensor<'f32'>;
  (both: Tensor, options?: GluOptions): Tensor<'f32'>;
}

const glu =
  (name: string, kind: keyof typeof GLU): Glu =>
  (a: Tensor, second?: Operand | GluOptions, third?: GluOptions): Tensor<'f32'> => {
    const alone = second === undefined || (third === undefined && isPlain(second));
    const { swapped = false } = checkOptions<GluOptions>(name, (alone ? (second ?? third) : third) as GluOptions | undefined, {
      swapped: KIND.boolean,
    });
    mustBeRows(name, a);
    const b = alone ? undefined : operand(name, 'up', second);
    if (b) {
      mustBeRows(name, b);
      must(sameShape(a, b), name, 'expected gate and up of one shape', a, b);
      must(!swapped, name, 'swapped is true, and gate and up are two tensors; expected one tensor with both, or no swapped', a, b);
    } else must(a.ne[0] % 2 === 0, name, 'expected an even ne0, because a row has gate and up', a);
    const ne: Ne = b ? a.ne : [a.ne[0] / 2, a.ne[1], a.ne[2], a.ne[3]];
    return node('glu', ne, { name, src: b ? [a, b] : [a], params: { kind: GLU[kind], swapped: swapped ? 1 : 0 }, batch: a.batch });
  };

/**
 * ggml_swiglu_split(gate, up): silu(gate) * up, for two tensors of one shape. For one tensor [2n,
 * ...] -> [n, ...]: ggml_swiglu, where the gate is the first half of each row (the second with {
 * swapped: true }). f32, f16 or bf16 -> f32.
 */
export const swiglu = glu('swiglu', 'silu');
/** ggml_geglu_split and ggml_geglu: gelu(gate) * up, as swiglu. */
export const geglu = glu('geglu', 'gelu');
/** ggml_geglu_quick_split and ggml_geglu_quick: gelu_quick(gate) * up, as swiglu. */
export const geglu_quick = glu('geglu_quick', 'gelu_quick');
/** ggml_geglu_erf_split and ggml_geglu_erf: gelu_erf(gate) * up, as swiglu. */
export const geglu_erf = glu('geglu_erf', 'gelu_erf');
/** ggml_reglu_split and ggml_reglu: relu(gate) * up, as swiglu. */
export const reglu = glu('reglu', 'relu');
/**
 * ggml_swiglu_oai with alpha 1.702 and limit 7 as in gpt-oss; operands as for swiglu. With x =
 * min(gate, 7): x / (1 + e^(-1.702 x)) * (clamp(up, -7, 7) + 1). The error is that of gelu_quick,
 * times up + 1.
 */
export const swiglu_oai = glu('swiglu_oai', 'swiglu_oai');
