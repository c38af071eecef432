/**
 * The quantisers of IQ1, IQ2 and IQ3 (quantize.wasm) compared with hashes of native ggml's results
 * in test/golden/formats.json, hostile rows included. With ../shared also with its bytes in
 * quant-golden.gguf and quant-golden-lowbit.gguf.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { readGGUF } from '../../src/gguf/read.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE, namesOf, rowSize, typesWith } from '../../src/type-traits.ts';
import type { QuantizerExports } from '../../src/wasm/abi.ts';
import { createQuantizer } from '../../src/wasm/quantizer.ts';
import { IMATRIX, N, ROWS } from '../golden/formats-rows.ts';
import { gaussian, quantized, quantizerModule, random } from './harness.ts';

/**
 * Hashes by type, by use of importance weights, and by row. null: native ggml ended the process.
 */
type Golden = Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, string | null>>>>>>;
const golden = (JSON.parse(readFileSync(new URL('../golden/formats.json', import.meta.url), 'utf8')) as { grid: Golden }).grid;
const hash = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex').slice(0, 16);

const TYPES = namesOf(typesWith((k) => k.gridQuantizer));
const quantizer = createQuantizer(quantizerModule);
it.each(TYPES)("native ggml's bytes of %s, and no bytes where it ends the process", (type) => {
  const ways = golden[type];
  expect(Object.keys(ways)).toEqual(TYPE[type].kernels!.gridQuantizer === 'plain' ? ['plain', 'imatrix'] : ['imatrix']);
  for (const [how, rows] of Object.entries(ways)) {
    expect(Object.keys(rows)).toEqual(Object.keys(ROWS));
    for (const [name, want] of Object.entries(rows)) {
      const got = quantizer.quantize(TYPE[type], ROWS[name], N, how === 'imatrix' ? IMATRIX : undefined);
      expect(typeof got === 'number' ? null : hash(got), `row "${name}" (${how})`).toBe(want);
    }
  }
});

describe('several rows', () => {
  const floats = gaussian(4 * 512, 5, 0.02);
  const rows = [0, 1, 2, 3].map((r) => floats.subarray(512 * r, 512 * r + 512));
  const imatrix = gaussian(512, 6).map((v) => v * v);

  it.each(TYPES)('%s: the bytes of each row alone, whatever was quantised before', (type) => {
    const all = quantized(type, floats, 512, imatrix);
    // Another instance, which makes its tables in another order.
    const other = createQuantizer(quantizerModule);
    for (const before of TYPES.filter((t) => t !== type).reverse()) other.quantize(TYPE[before], rows[0], 512, imatrix);
    const alone = rows.map((row) => other.quantize(TYPE[type], row, 512, imatrix) as Uint8Array);
    expect(all).toEqual(Uint8Array.from(alone.flatMap((bytes) => [...bytes])));
  });

  it.each(TYPES)('%s: returns the first row that native ggml would not quantise', (type) => {
    const refused = Object.entries(golden[type].imatrix).find(([, bytes]) => bytes === null)![0];
    const some = floats.slice();
    some.set(ROWS[refused], 2 * N);
    expect(quantizer.quantize(TYPE[type], some, N, IMATRIX), refused).toBe(2);
    expect(typeof quantizer.quantize(TYPE[type], floats, N, IMATRIX)).toBe('object');
  });

  it.each(TYPES)('%s of random bits, including NaN and infinities, returns bytes or a row', (type) => {
    const r = random(TYPE[type].id);
    const bits = (): Float32Array => new Float32Array(Uint32Array.from({ length: 512 }, () => r() * 2 ** 32).buffer);
    // Exponents near 1, so that some rows can be quantised.
    const numbers = (): Float32Array => new Float32Array(Uint32Array.from({ length: 512 }, () => 0x3c000000 + r() * 2 ** 27).buffer);
    for (let i = 0; i < 40; i++) {
      const result = quantizer.quantize(TYPE[type], i % 2 ? bits() : numbers(), 512, i % 4 < 2 ? bits() : numbers());
      expect(typeof result === 'number' ? result : result.length).toBe(typeof result === 'number' ? 0 : rowSize(TYPE[type], 512));
    }
  });

  it.each(TYPES)('%s writes nothing but its rows', (type) => {
    const memory = new WebAssembly.Memory({ initial: 1 });
    const k = new WebAssembly.Instance(quantizerModule, { env: { memory } }).exports as unknown as QuantizerExports;
    const end = k.prepare(TYPE[type].id);
    expect(k.prepare(TYPE[type].id)).toBe(end);
    const bytes = rowSize(TYPE[type], 512);
    const source = (end + 15) & ~15;
    const target = source + 4 * 1024 + 33;
    if (target + bytes + 64 > memory.buffer.byteLength) memory.grow(1);
    const u8 = new Uint8Array(memory.buffer);
    u8.fill(0xa5, end);
    new Float32Array(memory.buffer, source).set(rows[0]);
    new Float32Array(memory.buffer, source + 2048).set(imatrix);
    const before = u8.slice(end);
    expect(k.quantize_chunk(TYPE[type].id, source, target, 1, 512, source + 2048)).toBe(1);
    expect(u8.slice(target, target + bytes)).toEqual(quantized(type, rows[0], 512, imatrix));
    u8.fill(0xa5, target, target + bytes);
    expect(Buffer.compare(u8.subarray(end), before)).toBe(0);
  });
});

describe.each(
  ['quant-golden.gguf', 'quant-golden-lowbit.gguf']
    .map((name) => ({ name, path: fileURLToPath(new URL(`../../../shared/quant-golden/${name}`, import.meta.url)) }))
    .filter(({ path }) => existsSync(path)),
)('$name', ({ path }) => {
  const file = new Uint8Array(readFileSync(path));

  it.each(TYPES)('quantize_chunk of %s, without and with an imatrix', async (type) => {
    const { tensors } = await readGGUF(toBytes(file));
    const tensor = (name: string): Uint8Array<ArrayBuffer> | undefined => {
      const t = tensors.get(name);
      return t && file.slice(t.offset, t.offset + t.byteLength);
    };
    const floats = (name: string): Float32Array => new Float32Array(tensor(name)!.buffer);
    const variants = ['', '.imat', '.imat2'].filter((v) => tensors.has(type + v));
    expect(variants.length).toBeGreaterThan(0);
    for (const variant of variants) {
      const imatrix = variant ? floats(variant.replace('.imat', 'imatrix')) : undefined;
      expect(Buffer.compare(quantized(type, floats('src'), 512, imatrix), tensor(type + variant)!), type + variant).toBe(0);
    }
  });
});
