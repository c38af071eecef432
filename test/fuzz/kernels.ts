/**
 * Kernels called directly, with random shapes, addresses and numbers, compared with f64. Guard
 * bytes surround all their operands. Covered are packed products of every format and form, plain
 * products, and conversions between f32 and blocks. A packed product of any columns and rows must
 * have the bits of each column and row computed alone.
 */
import { vecDotType } from '../../src/graph/vec-dot-type.ts';
import { TYPE, namesOf, rowSize, typesWith } from '../../src/type-traits.ts';
import type { TypeKernels, TypeName, TypeTraits } from '../../src/type-traits.ts';
import { randomBlocks } from '../golden/formats-rows.ts';
import { instantiate, quantized, random, type Kernels } from '../kernel/harness.ts';
import { CASES, ROUNDINGS, setScales, type Case } from '../kernel/packed-blocks.ts';
import { pack, quantize } from '../kernel/packed-ways.ts';
import { dequantize, vecDot } from '../reference/blocks.ts';
import { numberToF16 } from '../reference/f16.ts';
import { dotPacked, quantizeAct } from '../reference/packed.ts';
import { runCases, type CampaignOptions, type CampaignResult } from './campaign.ts';

/**
 * Rounding errors below the normal numbers are half a step of 2^-149. In blocks of 32, and in
 * formats of 1 and 2 bits with activation scales per 64, the product of two scales may be
 * subnormal. An integer sum of up to 32 * 127 * 128 then multiplies its error, as in ggml. In
 * super-blocks, with activation scales per 256, only the result may be subnormal.
 */
const STEP = 2 ** -149;
const SCALES_STEP = 32 * 127 * 128 * 2 ** -150;
/**
 * Relative error of a chain of multiply-adds (one or two roundings each), as a fraction of the sum
 * of magnitudes.
 */
const ROUNDING = 2 * 2 ** -24;
/** Above this, a partial sum may overflow f32. */
const LARGEST = 2 ** 120;

const FLOATS = ['f32', 'f16', 'bf16'] as const;
const BLOCKS = Object.values(TYPE)
  .filter((t) => dequantize[t.name] && t.blckSize > 1)
  .map((t) => t.name as TypeName);
const PLAIN = Object.values(TYPE)
  .filter((t) => vecDotType(t))
  .map((t) => t.name as TypeName);
/** Types that rows are quantised to. Some use a search that needs a work area. */
const QUANTIZED = namesOf(typesWith((k, { name }) => k.quantizer && name !== 'f32'));

export interface Dice {
  /** Uniform in [0, 1). */
  readonly next: () => number;
  /** An integer in [from, to]. */
  readonly int: (from: number, to: number) => number;
  readonly pick: <T>(list: readonly T[]) => T;
}

export function dice(seed: number): Dice {
  const next = random(seed);
  const int = (from: number, to: number): number => from + Math.floor(next() * (to - from + 1));
  next(); // the first numbers of neighbouring seeds are alike
  return { next, int, pick: (list) => list[int(0, list.length - 1)] };
}

/** Activations, usual and unusual: of one magnitude, of many, of one sign, zeros, tiny, large. */
function numbers(d: Dice, n: number): Float32Array {
  const style = d.int(0, 7);
  const size = style === 0 ? 2 ** d.int(-140, 100) : 2 ** d.int(-8, 8);
  const out = new Float32Array(n);
  for (let i = 0; i < n; i++) {
    const u = d.next() - 0.5;
    const x = u * 2 * size;
    if (style === 1) out[i] = d.next() < 0.9 ? 0 : x;
    else if (style === 2) out[i] = Math.abs(x);
    else if (style === 3) out[i] = x * 2 ** d.int(-30, 30);
    else if (style === 4) out[i] = u < 0 ? size : -size;
    else out[i] = style === 5 ? -0 : x;
  }
  return out;
}

function bytes(d: Dice, n: number): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array((n + 3) >> 2);
  for (let i = 0; i < words.length; i++) words[i] = d.next() * 2 ** 32;
  return new Uint8Array(words.buffer).slice(0, n);
}

/**
 * Blocks with finite scales of any or of ordinary magnitude. Codes are random or all the same byte.
 */
function blocks(d: Dice, c: Case, n: number): Uint8Array {
  const { blckSize, typeSize } = TYPE[c.type];
  const style = d.int(0, 4);
  const fill = d.int(0, 255);
  const out = style === 0 ? new Uint8Array((n / blckSize) * typeSize).fill(fill) : bytes(d, (n / blckSize) * typeSize);
  setScales(c, out, {
    // Exponent 31 would be Inf or NaN, which packing refuses.
    f16: () =>
      style === 1 ? d.int(0, 0x7bff) | (d.int(0, 1) << 15) : style === 2 && d.next() < 0.3 ? 0 : numberToF16((d.next() - 0.3) * 0.05),
    e8m0: () => (style === 1 ? d.int(60, 190) : d.int(118, 124)),
    ue4m3: () => (style === 1 ? d.int(0, 255) : d.int(1, 30)),
  });
  return out;
}

/** First index at which two rows have different bits, or -1. */
const differs = (a: Float32Array, b: Float32Array): number => {
  const x = new Uint32Array(a.buffer, a.byteOffset, a.length);
  const y = new Uint32Array(b.buffer, b.byteOffset, b.length);
  // NaNs are equal: their bits depend on the processor.
  for (let i = 0; i < x.length; i++) if (x[i] !== y[i] && !(Number.isNaN(a[i]) && Number.isNaN(b[i]))) return i;
  return -1;
};

const near = (got: number, want: number, limit: number, where: string): void => {
  if (!(Math.abs(got - want) <= limit)) throw new Error(`${where}: got ${got}, want ${want} within ${limit}`);
};

interface Product {
  readonly k: Kernels;
  readonly type: TypeTraits;
  readonly w: number;
  readonly ne00: number;
  /** Makes n activation columns in the form that the product takes. */
  readonly columns: (from: number, n: number) => { readonly act: number; readonly stride: number };
}

/**
 * Multiplies rows [row0, row1) by `columns` columns. Rows of dst lie `gap` floats apart; the gaps
 * must stay untouched.
 */
function multiply(
  { k, type, w, ne00 }: Product,
  row0: number,
  row1: number,
  { act, stride }: { readonly act: number; readonly stride: number },
  columns: number,
  gap: number,
  scratch: number,
): Float32Array[] {
  const n = row1 - row0;
  const dst = k.arena.alloc((n + gap) * columns * 4, 4);
  k.call('mul_mat_packed', type.id, w, ne00, row0, row1, act, stride, columns, dst - row0 * 4, (n + gap) * 4, scratch);
  const all = k.arena.readF32(dst, (n + gap) * columns);
  const raw = new Uint8Array(all.buffer);
  for (let c = 0; c < columns; c++) {
    const odd = raw.subarray(((n + gap) * c + n) * 4, (n + gap) * (c + 1) * 4).findIndex((b) => b !== 0xa5);
    if (odd >= 0) throw new Error(`${odd} bytes behind column ${c} of ${columns}, rows ${row0} to ${row1}, something was written`);
  }
  return Array.from({ length: columns }, (_, c) => all.subarray((n + gap) * c, (n + gap) * c + n));
}

/**
 * Checks that a product of all columns has the bits of each column computed alone, in any groups of
 * rows, and that any range of rows and columns is part of it.
 */
function oneProductForAll(d: Dice, p: Product, nrows: number, columns: number): Float32Array[] {
  const { k } = p;
  const R = k.call('packed_rows');
  const scratch = k.arena.alloc(k.call('mul_mat_packed_scratch'));
  const gap = d.int(0, 3);
  const together = multiply(p, 0, nrows, p.columns(0, columns), columns, gap, scratch);
  const same = (got: Float32Array, want: Float32Array, what: string): void => {
    const at = differs(got, want);
    if (at >= 0) throw new Error(`${what}, row ${at}: got ${got[at]}, want ${want[at]}`);
  };
  k.arena.checkGuards();
  for (let c = 0; c < columns; c++) {
    const group = d.int(1, 3) * R;
    const alone = p.columns(c, 1);
    for (let row = 0; row < nrows; row += group)
      same(
        multiply(p, row, Math.min(row + group, nrows), alone, 1, 0, scratch)[0],
        together[c].subarray(row, row + group),
        `column ${c} of ${columns} alone`,
      );
  }
  const from = d.int(0, columns - 1);
  const few = d.int(1, columns - from);
  const row0 = d.int(0, Math.floor((nrows - 1) / R)) * R;
  const row1 = Math.min(nrows, row0 + d.int(1, 3) * R);
  const part = multiply(p, row0, row1, p.columns(from, few), few, gap, scratch);
  for (let c = 0; c < few; c++)
    same(part[c], together[from + c].subarray(row0, row1), `rows ${row0} to ${row1}, column ${c} of ${few} from ${from}`);
  k.arena.checkGuards();
  return together;
}

/** Number of outputs of a product that are compared with f64, which is slow. */
const JUDGED = 8;

function packedProduct(k: Kernels, d: Dice): void {
  const c = d.pick(CASES);
  const { blckSize } = TYPE[c.type];
  const most = d.next() < 0.01 ? 18 * 1024 : 1280;
  const ne00 = d.int(1, Math.ceil((most / blckSize) * d.next())) * blckSize;
  const nrows = d.int(1, most > 1280 ? 17 : 70);
  const columns = d.int(1, most > 1280 ? 5 : 40);
  const { fast } = TYPE[c.type].kernels as TypeKernels;
  const type: TypeTraits = fast && d.next() < 0.5 ? fast : TYPE[c.type];
  const where = `${c.type} as ${type.name}, ne00 ${ne00}, ${nrows} rows, ${columns} columns`;
  const plain = blocks(d, c, ne00 * nrows);
  const x = Array.from({ length: columns }, () => numbers(d, ne00));
  const odd = d.next() < 0.1 ? d.int(0, columns - 1) : -1;
  if (odd >= 0) x[odd][d.int(0, ne00 - 1)] = d.pick([NaN, Infinity, -Infinity]);
  const { w, bad } = pack(k, c.type, plain, ne00, nrows, type);
  if (bad) throw new Error(`${where}: ${bad} blocks are said to have scales that are not finite`);
  const got = named(where, () =>
    oneProductForAll(d, { k, type, w, ne00, columns: (from, n) => quantize(k, type, x.slice(from, from + n)) }, nrows, columns),
  );
  const stride = rowSize(TYPE[c.type], ne00);
  const row = d.int(0, nrows - 1);
  const y = k.arena.alloc(ne00 * 4, 4);
  const weights = (r: number): Float64Array => dequantize[c.type](plain.subarray(r * stride, (r + 1) * stride), ne00);
  for (let i = 0; i < Math.min(JUDGED, nrows * columns); i++) {
    const r = d.int(0, nrows - 1);
    const column = d.int(0, columns - 1);
    const at = `${where}, row ${r}, column ${column}`;
    if (column === odd) {
      if (!Number.isNaN(got[column][r])) throw new Error(`${at}: got ${got[column][r]} of activations that are not finite`);
      continue;
    }
    const act = quantizeAct(x[column], c.type);
    const { dot, abs } = dotPacked(weights(r), act);
    if (abs < LARGEST) near(got[column][r], dot, (ne00 / 32) * (ROUNDINGS * abs + (act.block === 256 ? STEP : SCALES_STEP)), at);
  }
  k.call('packed_row', type.id, w, ne00, row, y, k.arena.alloc(k.call('mul_mat_packed_scratch')));
  k.arena.checkGuards();
  const want = weights(row);
  k.arena.readF32(y, ne00).forEach((v, i) => near(v, Math.fround(want[i]), 0, `${where}, element ${i} of row ${row}`));
}

function packedFloats(k: Kernels, d: Dice): void {
  const type = d.pick(FLOATS);
  const ne00 = d.int(1, d.pick([8, 70, 600]));
  const nrows = d.int(1, 40);
  const columns = d.int(1, 20);
  const where = `${type}, ne00 ${ne00}, ${nrows} rows, ${columns} columns`;
  const values = Float32Array.from({ length: ne00 * nrows }, () => d.next() - 0.5);
  const bits = new Uint32Array(values.buffer);
  const plain =
    type === 'f32'
      ? new Uint8Array(values.buffer)
      : new Uint8Array(Uint16Array.from(values, (v, i) => (type === 'f16' ? numberToF16(v) : bits[i] >>> 16)).buffer);
  const x = Array.from({ length: columns }, () => Float32Array.from({ length: ne00 }, () => d.next() - 0.5));
  const { w } = pack(k, type, plain, ne00, nrows);
  const act = k.arena.f32(
    x.flatMap((row) => [...row]),
    d.int(0, 3) * 4,
  );
  const got = named(where, () =>
    oneProductForAll(
      d,
      { k, type: TYPE[type], w, ne00, columns: (from) => ({ act: act + from * ne00 * 4, stride: ne00 * 4 }) },
      nrows,
      columns,
    ),
  );
  const r = d.int(0, nrows - 1);
  const c = d.int(0, columns - 1);
  const row = dequantize[type](plain.subarray((r * plain.length) / nrows, ((r + 1) * plain.length) / nrows), ne00);
  const abs = row.reduce((s, v, i) => s + Math.abs(v * x[c][i]), 0);
  near(
    got[c][r],
    row.reduce((s, v, i) => s + v * x[c][i], 0),
    ROUNDING * ne00 * abs,
    `${where}, row ${r}, column ${c}`,
  );
}

/**
 * Tolerance of f32 sums of partial sums in any order, as a fraction of the sum of magnitudes. Each
 * rounding is 2^-24.
 */
const SUM_ORDER = 64 * 2 ** -24;

function plainProduct(k: Kernels, d: Dice): void {
  const type = d.pick(PLAIN);
  const act = vecDotType(TYPE[type])!;
  const step = Math.max(TYPE[type].blckSize, act.blckSize);
  const n = step === 1 ? d.int(1, 600) : step * d.int(1, 1 + Math.floor(1024 / step));
  const where = `vec_dot of ${type}, n ${n}`;
  const a = FLOATS.includes(type as 'f32')
    ? bytesOf(
        k,
        type,
        Float32Array.from({ length: n }, () => d.next() - 0.5),
      )
    : randomBlocks(type, TYPE[type].typeSize, n / TYPE[type].blckSize, d.int(0, 2 ** 31));
  const b = bytesOf(
    k,
    act.name as TypeName,
    Float32Array.from({ length: n }, () => (d.next() - 0.5) * 4),
  );
  const got = k.call('vec_dot', TYPE[type].id, n, k.arena.bytes(a, d.int(0, 15)), k.arena.bytes(b, d.int(0, 15)));
  const { dot, abs } = vecDot(type, a, act.name, b, n);
  k.arena.checkGuards();
  near(got, dot, SUM_ORDER * abs, where);
}

/** A row converted to `type` by its kernel. */
function bytesOf(k: Kernels, type: TypeName, x: Float32Array): Uint8Array {
  const n = rowSize(TYPE[type], x.length);
  if (type === 'f32') return new Uint8Array(x.slice().buffer);
  const y = k.arena.alloc(n);
  k.call('quantize_row', TYPE[type].id, k.arena.f32(x), y, x.length);
  return k.arena.readBytes(y, n);
}

/**
 * Checks conversions: from blocks to f32 as f64 says, and from f32 to the same bytes at any address
 * and with any content of the work area.
 */
function blocksAndRows(k: Kernels, d: Dice): void {
  const type = d.pick(BLOCKS);
  const n = TYPE[type].blckSize * d.int(1, 6);
  const a = randomBlocks(type, TYPE[type].typeSize, n / TYPE[type].blckSize, d.int(0, 2 ** 31));
  const y = k.arena.alloc(n * 4, d.int(0, 15));
  k.call('dequantize_row', TYPE[type].id, k.arena.bytes(a, d.int(0, 15)), y, n);
  k.arena.checkGuards();
  const want = dequantize[type](a, n);
  const largest = want.reduce((m, v) => Math.max(m, Math.abs(v)), 0);
  k.arena.readF32(y, n).forEach((v, i) => near(v, want[i], 2 ** -23 * largest, `dequantize_row of ${type}, element ${i} of ${n}`));

  const to = d.pick(QUANTIZED);
  const m = TYPE[to].blckSize * d.int(1, 3);
  const nrows = d.int(1, 3);
  const x = numbers(d, m * nrows);
  const weights = d.next() < 0.5 ? Float32Array.from({ length: m }, () => d.next() + 0.01) : undefined;
  // Again after rows of another type, which leave other bytes in the work area.
  const made = [d.pick(QUANTIZED), to].map((before) => {
    quantized(before, numbers(d, TYPE[before].blckSize), TYPE[before].blckSize);
    return quantized(to, x, m, weights);
  });
  const at = made[0].findIndex((b, i) => b !== made[1][i]);
  if (at >= 0) throw new Error(`quantized to ${to}, ${nrows} rows of ${m}: byte ${at} is ${made[0][at]} and then ${made[1][at]}`);
}

function named<T>(where: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new Error(`${where}: ${(error as Error).message}`, { cause: error });
  }
}

export function campaign(options: CampaignOptions): Promise<CampaignResult> {
  const k = instantiate(options.build, 256);
  return runCases(options, (seed) => {
    const d = dice(seed);
    const of = d.next();
    k.arena.reset();
    if (of < 0.55) packedProduct(k, d);
    else if (of < 0.65) packedFloats(k, d);
    else if (of < 0.8) plainProduct(k, d);
    else blocksAndRows(k, d);
  });
}
