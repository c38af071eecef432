/**
 * Attention alone, in the shape of a 189 M model: 16 layers, 16 heads, 8 KV heads of 64.
 *
 * Usage:
 *
 *   node --import tsx bench/attention.ts [build=relaxed-threads] [threads=1,2] [decode,prompt]
 *
 * Generation: one token at 2048 keys in the caches of all layers, so that they come from memory,
 * with a maximum per KV split (FlashDecoding) and with a unified one (FlashDecoding++). Prompts:
 * 1024 tokens over themselves, compared with mul_mat, soft_max and mul_mat over permuted tensors.
 */
import {
  createEngine,
  cont,
  flash_attn_ext,
  mul_mat,
  permute,
  soft_max,
  transpose,
  type Engine,
  type Tensor,
} from '../src/entry/core-node.ts';
import { attention } from '../src/graph/attention-ops.ts';
import { constant } from '../src/graph/tensor.ts';
import { TYPE } from '../src/type-traits.ts';

const [build = 'relaxed-threads', threads = '1,2', what = 'decode,prompt'] = process.argv.slice(2);
const LAYERS = 16;
const HEADS = 16;
const KV_HEADS = 8;
const HEAD = 64;
const DEPTH = 2048;
const PROMPT = 1024;

let state = 1;
const random = (n: number): Float32Array =>
  Float32Array.from({ length: n }, () => ((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 31 - 1) * 1.7);
const ints = (n: number, f: (i: number) => number): Tensor =>
  constant('', TYPE.i32, [n, 1, 1, 1], () => new Uint8Array(Int32Array.from({ length: n }, (_, i) => f(i)).buffer));

/**
 * Milliseconds of these results: each is timed separately, round after round, and the fastest times
 * are added. Other work on the machine only adds time. A round over all layers evicts each layer's
 * cache before its next turn.
 */
async function time(engine: Engine, rounds: number, ...results: Tensor[]): Promise<number> {
  const plans = results.map((t) => engine.plan(t));
  const best = plans.map(() => Infinity);
  for (let i = 0; i < rounds; i++) {
    for (const [j, plan] of plans.entries()) {
      const start = performance.now();
      await engine.compute(plan);
      best[j] = Math.min(best[j], performance.now() - start);
    }
  }
  plans.forEach((p) => p.dispose());
  return best.reduce((sum, ms) => sum + ms, 0);
}

/** Fills a leaf of any float type with random halves: only the bits matter. */
function fill(engine: Engine, type: 'f16' | 'f32' | 'q8_0' | 'q4_0', ne: [number, number, number]): Tensor {
  const t = engine.tensor(type, ne);
  const bytes = engine.view(t);
  const u8 = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (type === 'f32') engine.write(t, random(ne[0] * ne[1] * ne[2]));
  else if (type === 'f16')
    new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 2).forEach(
      (_, i, a) => (a[i] = 0x3000 + (Math.imul(i, 40503) & 0x8bff)),
    );
  // scales near 1e-3, small quants
  else u8.forEach((_, i) => (u8[i] = 0x14 + ((Math.imul(i, 40503) >>> 12) & 7)));
  return t;
}

const row = (name: string, ms: number, note: string): void => console.log(`${name.padEnd(44)} ${ms.toFixed(3).padStart(9)} ms  ${note}`);

for (const nth of threads.split(',').map(Number)) {
  const engine = await createEngine({ build: build as never, threads: nth, memoryBytes: 700 << 20 });
  console.log(`${engine.build}, ${nth} threads, node ${process.versions.node}`);
  if (what.includes('decode')) {
    const q = engine.tensor('f32', [HEAD, HEADS, 1], random(HEAD * HEADS));
    const first = ints(1, () => 0);
    const visible = ints(1, () => DEPTH);
    for (const type of ['f16', 'q8_0', 'q4_0', 'f32'] as const) {
      const caches = Array.from({ length: LAYERS }, () => [
        fill(engine, type, [HEAD, DEPTH, KV_HEADS]),
        fill(engine, type, [HEAD, DEPTH, KV_HEADS]),
      ]);
      const all = (unifiedMax?: number): Tensor[] =>
        caches.map(([k, v]) => attention(q, k, v, first, visible, { scale: 1 / 8, unifiedMax }));
      const safe = await time(engine, 40, ...all());
      const unified = await time(engine, 40, ...all(0));
      const again = await time(engine, 40, ...all());
      const gib = (LAYERS * 2 * DEPTH * KV_HEADS * HEAD * TYPE[type].typeSize) / TYPE[type].blckSize / 2 ** 30;
      row(
        `generation, ${type} cache, own maxima`,
        Math.min(safe, again),
        `a token; ${(gib / (Math.min(safe, again) / 1000)).toFixed(1)} GiB/s`,
      );
      row(`generation, ${type} cache, unified maximum`, unified, `${(Math.min(safe, again) / unified).toFixed(2)} x`);
      caches.flat().forEach((t) => engine.free(t));
    }
  }
  if (what.includes('prompt')) {
    const q = engine.tensor('f32', [HEAD, HEADS, PROMPT], random(HEAD * HEADS * PROMPT));
    const k = fill(engine, 'f16', [HEAD, KV_HEADS, PROMPT]);
    const v = fill(engine, 'f16', [HEAD, KV_HEADS, PROMPT]);
    const byHead = (t: Tensor): Tensor => permute(t, 0, 2, 1, 3);
    const mask = engine.tensor(
      'f32',
      [PROMPT, PROMPT],
      Float32Array.from({ length: PROMPT * PROMPT }, (_, i) => (i % PROMPT <= Math.floor(i / PROMPT) ? 0 : -Infinity)),
    );
    const flash = await time(engine, 7, flash_attn_ext(byHead(q), byHead(k), byHead(v), { causal: true }));
    const plain = await time(
      engine,
      3,
      mul_mat(cont(transpose(byHead(v))), soft_max(mul_mat(byHead(k), byHead(q)), { mask, scale: 1 / 8 })),
    );
    const gmac = (((PROMPT * (PROMPT + 1)) / 2) * HEADS * HEAD * 2) / 1e9;
    row(`prompt of ${PROMPT}, one layer, flash_attn_ext`, flash, `${(gmac / (flash / 1000)).toFixed(1)} GMAC/s of the causal half`);
    row(`prompt of ${PROMPT}, one layer, mul_mat + soft_max`, plain, `${(plain / flash).toFixed(2)} x the time`);
  }
  await engine.dispose();
}
