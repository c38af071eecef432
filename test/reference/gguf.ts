// Slow, obvious reading of trusted GGUF files (the golden models): metadata, and tensors as f64
// rows.

export type MetaValue = number | boolean | string | MetaValue[];
export interface RefTensor {
  readonly name: string;
  readonly ne: readonly number[];
  /** ggml's type number: 0 f32, 1 f16, 2 q4_0, 8 q8_0, 39 mxfp4 */
  readonly type: number;
  /** Row i, counted over all higher dimensions, dequantised. */
  row(i: number): Float64Array;
}
export interface RefGguf {
  readonly meta: ReadonlyMap<string, MetaValue>;
  readonly tensors: ReadonlyMap<string, RefTensor>;
}

/** Value of f16 bits. */
export function fromHalf(h: number): number {
  const e = (h >> 10) & 31;
  const m = h & 1023;
  const sign = h & 0x8000 ? -1 : 1;
  if (e === 31) return m ? NaN : sign * Infinity;
  return sign * (e ? 2 ** (e - 15) * (1 + m / 1024) : 2 ** -24 * m);
}

/** x rounded to the nearest f16 (ties to even), as a number. */
export function roundHalf(x: number): number {
  const a = Math.abs(x);
  if (a === 0 || !Number.isFinite(x)) return x;
  if (a >= 65520) return Math.sign(x) * Infinity;
  const step = 2 ** (Math.max(Math.floor(Math.log2(a)), -14) - 10);
  const down = Math.floor(a / step);
  const rest = a / step - down;
  return Math.sign(x) * (rest > 0.5 || (rest === 0.5 && down % 2 === 1) ? down + 1 : down) * step;
}

const blockOf: Record<number, readonly [length: number, bytes: number]> = { 0: [1, 4], 1: [1, 2], 2: [32, 18], 8: [32, 34], 39: [32, 17] };
/** Twice the values of FP4 (E2M1). */
const fp4 = [0, 1, 2, 3, 4, 6, 8, 12];

function dequantize(type: number, view: DataView, at: number, out: Float64Array, to: number): void {
  if (type === 0) out[to] = view.getFloat32(at, true);
  else if (type === 1) out[to] = fromHalf(view.getUint16(at, true));
  else if (type === 39) {
    for (let i = 0; i < 32; i++) {
      const code = (view.getUint8(at + 1 + (i & 15)) >> (i < 16 ? 0 : 4)) & 15;
      out[to + i] = 2 ** (view.getUint8(at) - 128) * fp4[code & 7] * (code & 8 ? -1 : 1);
    }
  } else {
    const d = fromHalf(view.getUint16(at, true));
    for (let i = 0; i < 32; i++) {
      if (type === 8) out[to + i] = d * view.getInt8(at + 2 + i);
      else out[to + i] = d * (((view.getUint8(at + 2 + (i & 15)) >> (i < 16 ? 0 : 4)) & 15) - 8);
    }
  }
}

/** Reads a whole file without checking it. */
export function readGguf(bytes: Uint8Array): RefGguf {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const utf8 = new TextDecoder();
  let at = 8;
  const u32 = () => view.getUint32((at += 4) - 4, true);
  const u64 = () => Number(view.getBigUint64((at += 8) - 8, true));
  const text = () => {
    const n = u64();
    return utf8.decode(bytes.subarray(at, (at += n)));
  };
  const value = (kind: number): MetaValue => {
    if (kind === 4) return u32();
    if (kind === 5) return view.getInt32((at += 4) - 4, true);
    if (kind === 6) return view.getFloat32((at += 4) - 4, true);
    if (kind === 7) return view.getUint8(at++) !== 0;
    if (kind === 8) return text();
    if (kind !== 9) throw new Error(`metadata kind ${kind} does not occur in the golden models`);
    const inner = u32();
    const n = u64();
    return Array.from({ length: n }, () => value(inner));
  };
  const nTensors = u64();
  const nMeta = u64();
  const meta = new Map<string, MetaValue>();
  for (let i = 0; i < nMeta; i++) {
    const key = text();
    meta.set(key, value(u32()));
  }
  const infos = Array.from({ length: nTensors }, () => {
    const name = text();
    const ne = Array.from({ length: u32() }, u64);
    return { name, ne, type: u32(), offset: u64() };
  });
  const start = Math.ceil(at / 32) * 32;
  const tensors = new Map<string, RefTensor>();
  for (const { name, ne, type, offset } of infos) {
    const [length, size] = blockOf[type];
    const n = ne[0] / length;
    const row = (i: number) => {
      const out = new Float64Array(ne[0]);
      for (let b = 0; b < n; b++) dequantize(type, view, start + offset + (i * n + b) * size, out, b * length);
      return out;
    };
    tensors.set(name, { name, ne, type, row });
  }
  return { meta, tensors };
}
