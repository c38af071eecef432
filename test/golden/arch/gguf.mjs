// A small GGUF v3 writer and the random numbers of the golden models. Plain Node, no dependencies.

/**
 * Random values of mean 0 and deviation 1 (sum of four uniforms). The same on every machine: only
 * integer steps and exact float sums.
 */
export function normal(seed) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return () => (uniform() + uniform() + uniform() + uniform() - 2) * Math.sqrt(3);
}

/** Converts f32 to f16 bits, rounding to nearest even. The models stay inside the finite range. */
export function f16(x) {
  const sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0;
  const a = Math.abs(x);
  if (a >= 65520) throw new RangeError(`${x} does not fit in f16`);
  const even = (v) => {
    const r = Math.floor(v);
    const d = v - r;
    return d > 0.5 || (d === 0.5 && r % 2) ? r + 1 : r;
  };
  if (a < 2 ** -14) return sign | even(a * 2 ** 24);
  const e = Math.floor(Math.log2(a));
  const up = 2 ** e > a ? e - 1 : 2 ** (e + 1) <= a ? e + 1 : e;
  return sign | (((up + 14) << 10) + even(a * 2 ** (10 - up)));
}

const half = (bytes, at, x) => {
  const h = f16(x);
  bytes[at] = h & 255;
  bytes[at + 1] = h >> 8;
};
const trunc = (x) => Math.trunc(x + 0.5);

/** Twice the values of FP4 (E2M1). */
const FP4 = [0, 1, 2, 3, 4, 6, 8, 12];
/** By type: its id in the file, block length, block bytes, and a function that writes a block. */
const types = {
  f32: { id: 0, block: 1, bytes: 4, put: (out, at, x) => new DataView(out.buffer).setFloat32(at, x[0], true) },
  f16: { id: 1, block: 1, bytes: 2, put: (out, at, x) => half(out, at, x[0]) },
  q4_0: {
    id: 2,
    block: 32,
    bytes: 18,
    put(out, at, x) {
      // the value of largest magnitude becomes -8
      const m = x.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a), 0);
      const d = m / -8;
      const q = x.map((v) => Math.min(15, d ? trunc(v / d + 8) : 8));
      half(out, at, d);
      for (let i = 0; i < 16; i++) out[at + 2 + i] = q[i] | (q[i + 16] << 4);
    },
  },
  q8_0: {
    id: 8,
    block: 32,
    bytes: 34,
    put(out, at, x) {
      const d = x.reduce((a, b) => Math.max(a, Math.abs(b)), 0) / 127;
      half(out, at, d);
      for (let i = 0; i < 32; i++) out[at + 2 + i] = (d ? Math.sign(x[i]) * trunc(Math.abs(x[i]) / d) : 0) & 255;
    },
  },
  mxfp4: {
    id: 39,
    block: 32,
    bytes: 17,
    put(out, at, x) {
      // the smallest power of two that brings the largest value to at most 12
      const m = x.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
      let e = 0;
      while (m > 12 * 2 ** (e - 128)) e++;
      const codes = x.map((v) => {
        const a = Math.abs(v) / 2 ** (e - 128);
        const near = FP4.reduce((best, f, i) => (Math.abs(f - a) < Math.abs(FP4[best] - a) ? i : best), 0);
        return near + (v < 0 ? 8 : 0);
      });
      out[at] = e;
      for (let i = 0; i < 16; i++) out[at + 1 + i] = codes[i] | (codes[i + 16] << 4);
    },
  },
};

const text = (s) => {
  const b = Buffer.from(s);
  const n = Buffer.alloc(8);
  n.writeBigUInt64LE(BigInt(b.length));
  return Buffer.concat([n, b]);
};
const fixed = (size, method) => (v) => {
  const b = Buffer.alloc(size);
  b[method](v);
  return b;
};
const u32 = fixed(4, 'writeUInt32LE');
const i32 = fixed(4, 'writeInt32LE');
const f32 = fixed(4, 'writeFloatLE');
const u64 = (v) => {
  const b = Buffer.alloc(8);
  b.writeBigUInt64LE(BigInt(v));
  return b;
};
const kinds = { u32: [4, u32], i32: [5, i32], f32: [6, f32], bool: [7, (v) => Buffer.from([v ? 1 : 0])], str: [8, text] };

/**
 * Bytes of a GGUF file. kv: { key: ['u32' | 'i32' | 'f32' | 'bool' | 'str', value or array] }.
 * tensors: [{ name, ne, type, data }], data in row order.
 */
export function write({ kv, tensors }) {
  const align = 32;
  const head = [Buffer.from('GGUF'), u32(3), u64(tensors.length), u64(Object.keys(kv).length)];
  const body = [];
  for (const [key, [kind, value]] of Object.entries(kv)) {
    const [id, put] = kinds[kind];
    head.push(text(key), ...(Array.isArray(value) ? [u32(9), u32(id), u64(value.length), ...value.map(put)] : [u32(id), put(value)]));
  }
  let offset = 0;
  for (const { name, ne, type, data } of tensors) {
    const { id, block, bytes, put } = types[type];
    if (data.length !== ne.reduce((a, b) => a * b) || ne[0] % block) throw new Error(`${name}: ${data.length} values, ne ${ne}, ${type}`);
    const size = (data.length / block) * bytes;
    const out = new Uint8Array(Math.ceil(size / align) * align);
    for (let i = 0; i < data.length; i += block) put(out, (i / block) * bytes, data.slice(i, i + block));
    head.push(text(name), u32(ne.length), ...ne.map(u64), u32(id), u64(offset));
    body.push(out);
    offset += out.length;
  }
  const start = Buffer.concat(head);
  return Buffer.concat([start, Buffer.alloc((align - (start.length % align)) % align), ...body]);
}
