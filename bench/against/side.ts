/**
 * One of the two revisions of bench/against.ts: a process that loads that revision's quantlet/core
 * and measures the requested cases. It only uses functions that this entry has always had (tensor,
 * pack, plan, compute), so that older revisions can be measured.
 */
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type * as Core from '../../src/entry/core-node.ts';
import { TYPE, rowSize, type TypeName } from '../../src/type-traits.ts';

export interface Case {
  build: string;
  /**
   * 64 columns, 8 columns, one column in cache, one column from memory; attention of a prompt over
   * itself.
   */
  kind: 'gemm' | 'narrow' | 'gemv' | 'memory' | 'attention';
  type: string;
}

/** ms: duration of the measurement; 0: free the case's memory. */
export type Request = Case & { ms: number };

/**
 * Multiply-adds of a piece and the seconds of the fastest one, or the reason why this revision has
 * no kernel for the case.
 */
export type Answer = { work: number; seconds: number; lacks?: undefined } | { lacks: string };

const [folder] = process.argv.slice(2);
const core = (await import(pathToFileURL(resolve(folder, 'dist/entry/core-node.js')).href)) as typeof Core;

interface Made {
  readonly engine: Core.Engine;
  readonly plan: Core.Plan;
  readonly work: number;
}

/**
 * ne0, rows, columns, and the products in a piece: enough to make the cost of posting a plan
 * negligible.
 */
const SHAPES = { gemm: [2048, 1024, 64, 1], narrow: [2048, 1024, 8, 4], gemv: [2048, 512, 1, 24], memory: [2048, 4096, 1, 40] } as const;

const wave = (n: number): Float32Array => Float32Array.from({ length: n }, (_, i) => Math.sin(i * 12.9898) * 3);

async function make({ build, kind, type }: Case): Promise<Made> {
  const engine = await core.createEngine({ build: build as never, threads: 1, memoryBytes: 640 << 20 });
  if (kind === 'attention') {
    const heads = 8;
    const n = 512;
    const q = engine.tensor('f32', [64, n, heads], wave(64 * n * heads));
    const [k, v] = [1, 2].map(() => core.cast(engine.tensor('f32', [64, n, heads / 2], wave(32 * n * heads)), 'f16'));
    // The fifth argument became part of the fourth. An older revision takes an object there for a
    // mask and refuses it.
    const ask = core.flash_attn_ext as unknown as (...a: unknown[]) => Core.Tensor;
    const causal = { causal: true };
    let y: Core.Tensor;
    try {
      y = ask(q, k, v, causal);
    } catch {
      y = ask(q, k, v, undefined, causal);
    }
    return { engine, plan: engine.plan(y), work: n * n * 64 * heads };
  }
  const [ne0, rows, columns, count] = SHAPES[kind];
  const name = type as TypeName;
  const size = rowSize(TYPE[name], ne0);
  const x = engine.tensor('f32', [ne0, columns], wave(ne0 * columns));
  const matrix = async (): Promise<Core.Tensor> => {
    const bytes = new Uint8Array(size * rows);
    // 0x2424 as f16 is 0.016, a usual scale. Sums stay normal numbers (subnormal ones would be
    // slower).
    bytes.fill(0x24);
    const w = engine.tensor(name, [ne0, rows]);
    engine.write(w, bytes as never);
    await engine.pack(w);
    return w;
  };
  const weights = [await matrix()];
  const distinct = kind === 'memory' ? Math.min(count, Math.ceil((192 * 2 ** 20) / (size * rows))) : 1;
  while (weights.length < distinct) weights.push(await matrix());
  const products = Array.from({ length: Math.max(distinct, kind === 'memory' ? 1 : count) }, (_, i) =>
    core.mul_mat(weights[i % distinct], x),
  );
  return { engine, plan: engine.plan(...products), work: ne0 * rows * columns * products.length };
}

const made = new Map<string, Promise<Made>>();

async function answer({ ms, ...c }: Request): Promise<Answer> {
  const key = JSON.stringify(c);
  const known = made.get(key) ?? make(c);
  made.set(key, known);
  const { engine, plan, work } = await known.catch((error: Error & { code?: string }) => {
    made.delete(key);
    if (error.code !== 'ERR_UNSUPPORTED_TYPE') throw error;
    return { engine: undefined, plan: error.message, work: 0 };
  });
  if (!engine) return { lacks: plan };
  if (ms === 0) {
    made.delete(key);
    await engine.dispose();
    return { work, seconds: NaN };
  }
  let best = Infinity;
  for (let start = performance.now(), end = start + ms; (start = performance.now()) < end || best === Infinity;) {
    await engine.compute(plan);
    best = Math.min(best, performance.now() - start);
  }
  return { work, seconds: best / 1000 };
}

process.on('message', (request: Request) => void answer(request).then((a) => process.send!(a)));
