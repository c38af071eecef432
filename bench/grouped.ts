/**
 * Products by many matrices (mul_mat_id) compared with one dense product of the same multiply-adds,
 * including the quantisation of activations; and the idle time of threads at the end of a product.
 *
 * Usage:
 *
 *   node --import tsx bench/grouped.ts [--types q4_0,q4_K,mxfp4] [--build relaxed-threads]
 *     [--threads 1,2] [--rounds 7] [--write]
 *
 * Matrices are those of Qwen3-30B-A3B's experts, [2048, 768]. Products alternate in rounds, and a
 * figure is the median of the rounds' ratios. Idle time is simulated for any number of threads: the
 * walk of assembly/ops/mul_mat_packed.ts over tiles with the costs measured here.
 */
import { createEngine, mul_mat, mul_mat_id, view, type Engine, type Tensor } from '../src/entry/core-node.ts';
import { columnGroups, tilesOf } from '../src/graph/groups.ts';
import { RANGES } from '../src/graph/layout.ts';
import { TYPE, type TypeName } from '../src/type-traits.ts';
import type { Build } from '../src/wasm/load.ts';
import { describeMachine, flags, machine, machineName, median, numbers, table, warnIfBusy, writeResult } from './support.ts';

const options = flags('products by many matrices against one dense product', {
  types: 'q4_0,q4_K,mxfp4',
  build: '',
  threads: '1,2',
  rounds: '7',
  write: false,
});
const K = 2048;
const R = 768;
const TOKENS = 512;
const USED = 8;

/** Columns of each matrix, and the ratio to the dense product that is the goal. */
interface Case {
  readonly name: string;
  readonly sizes: readonly number[];
  readonly least: number;
}

/**
 * Sizes of n groups that add up to `total`, in mixed order. They are proportional to 1 / (i + 8):
 * from four times the mean to a third of it.
 */
function uneven(n: number, total: number): number[] {
  const share = Array.from({ length: n }, (_, i) => 1 / (((i * 37) % n) + 8));
  const sum = share.reduce((a, b) => a + b);
  const sizes = share.map((s) => Math.floor((s / sum) * total));
  for (let i = 0, left = total - sizes.reduce((a, b) => a + b); left > 0; i++, left--) sizes[i % n]++;
  return sizes;
}
const COLUMNS = USED * TOKENS;
const CASES: readonly Case[] = [
  { name: '8 even groups of 512', sizes: Array.from({ length: 8 }, () => 512), least: 0.97 },
  { name: '128 uneven groups, 32 columns in the mean', sizes: uneven(128, COLUMNS), least: 0.9 },
  {
    name: '8 uneven groups of 128 have columns, 512 in the mean',
    sizes: [...uneven(8, COLUMNS), ...Array.from({ length: 120 }, () => 0)],
    least: 0.9,
  },
  { name: 'one group', sizes: [COLUMNS], least: 0.97 },
];

/** Ids that give these groups, shuffled. */
function idsOf(sizes: readonly number[]): Int32Array {
  const ids = Int32Array.from(sizes.flatMap((n, e) => Array.from({ length: n }, () => e)));
  for (let i = ids.length - 1, state = 1; i > 0; i--) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = state % (i + 1);
    [ids[i], ids[j]] = [ids[j], ids[i]];
  }
  return ids;
}

async function weights(engine: Engine, type: TypeName, matrices: number): Promise<Tensor> {
  const t = engine.tensor(type, [K, R, matrices]);
  const bytes = engine.view(t) as unknown as Uint8Array;
  // 0x2424 as f16 is 0.016. As an E8M0 exponent 0x24 would be 2^-91, so mxfp4 gets 0x72, which is
  // 2^-13. Products stay normal numbers.
  new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength).fill(type === 'mxfp4' ? 0x72 : 0x24);
  if (!(await engine.pack(t))) throw new Error(`${type} is not packed`);
  return t;
}

async function seconds(engine: Engine, plan: ReturnType<Engine['plan']>): Promise<number> {
  const start = performance.now();
  await engine.compute(plan);
  return (performance.now() - start) / 1000;
}

/**
 * Simulates mul_mat_packed_op with nth threads: each takes tiles from the front of its own range,
 * then from the ends of others' ranges.
 * @returns the fraction of all threads' time that is idle
 */
function idle(tiles: readonly number[], nth: number): number {
  const ranges = Math.min(nth, RANGES);
  const dr = Math.ceil(tiles.length / ranges);
  const range = Array.from({ length: ranges }, (_, r) => ({
    front: Math.min(r * dr, tiles.length),
    back: Math.min((r + 1) * dr, tiles.length),
  }));
  const time = Array.from({ length: nth }, () => 0);
  const done = new Set<number>();
  while (done.size < nth) {
    let ith = -1;
    for (let i = 0; i < nth; i++) if (!done.has(i) && (ith < 0 || time[i] < time[ith])) ith = i;
    let tile = -1;
    for (let r = 0; r < ranges && tile < 0; r++) {
      const of = range[(ith + r) % ranges];
      if (of.front < of.back) tile = r === 0 ? of.front++ : --of.back;
    }
    if (tile < 0) done.add(ith);
    else time[ith] += tiles[tile];
  }
  const end = Math.max(...time);
  return 1 - time.reduce((a, b) => a + b) / (nth * end);
}

/** Costs of a product's tiles in the order in which they are taken. */
function costs(sizes: readonly number[], nth: number, cost: (columns: number) => number): number[] {
  const groups = columnGroups(sizes);
  const { rows, perGroup } = tilesOf(groups.length, R, nth);
  return groups.flatMap((n) => Array.from({ length: perGroup }, () => cost(n) * rows));
}

const m = machine();
const said = [`# Products by many matrices\n\n${describeMachine(m)}`];
const say = (text: string): void => {
  console.log(`${text}\n`);
  said.push(text);
};
console.log(`${said[0]}\n`);
warnIfBusy(m);
for (const type of options.types.split(',') as TypeName[]) {
  if (!(type in TYPE)) throw new Error(`there is no type ${type}`);
  const rows: string[][] = [];
  let build = '';
  let cost: ((columns: number) => number) | undefined;
  for (const threads of numbers(options.threads)) {
    const engine = await createEngine({ build: (options.build || undefined) as Build | undefined, threads, memoryBytes: 800 << 20 });
    build = engine.build;
    const as = await weights(engine, type, 128);
    const alone = await weights(engine, type, 1);
    const x = engine.tensor(
      'f32',
      [K, COLUMNS],
      Float32Array.from({ length: K * COLUMNS }, (_, i) => Math.sin(i * 12.9898) * 3),
    );
    const dense = engine.plan(mul_mat(alone, x));
    const plans = CASES.map(({ sizes }) =>
      engine.plan(mul_mat_id(as, view(x, [K, 1, COLUMNS]), engine.tensor('i32', [1, COLUMNS], idsOf(sizes)))),
    );
    const shared = engine.plan(mul_mat_id(as, view(x, [K, 1, TOKENS]), engine.tensor('i32', [USED, TOKENS], idsOf(CASES[1].sizes))));
    const times: number[][] = [dense, ...plans, shared].map(() => []);
    for (let round = -1; round < Number(options.rounds); round++) {
      for (const [i, plan] of [dense, ...plans, shared].entries()) {
        const s = await seconds(engine, plan);
        if (round >= 0) times[i].push(s);
      }
    }
    if (!cost) {
      // Seconds per row of a group of n columns: a product of n columns alone, without the part
      // that does not depend on the rows.
      const known = new Map<number, number>();
      for (const n of [1, 2, 3, 4, 8, 16, 17, 32, 48, 64]) {
        const plan = engine.plan(mul_mat(alone, view(x, [K, n])));
        let best = Infinity;
        for (let i = 0; i < 20; i++) best = Math.min(best, await seconds(engine, plan));
        plan.dispose();
        known.set(n, best / R);
      }
      const at = [...known.keys()];
      cost = (n) => {
        const to = at.find((c) => c >= n)!;
        const from = at.findLast((c) => c <= n)!;
        return from === to ? known.get(n)! : known.get(from)! + ((n - from) / (to - from)) * (known.get(to)! - known.get(from)!);
      };
    }
    const ratio = (i: number): number => median(times[0].map((s, round) => s / times[i][round]));
    const speed = (i: number): string => ((K * R * COLUMNS) / median(times[i]) / 1e9).toFixed(1);
    rows.push(['dense, 4096 columns', `${threads}`, speed(0), '', '']);
    CASES.forEach((c, i) => rows.push([c.name, `${threads}`, speed(i + 1), ratio(i + 1).toFixed(3), c.least.toFixed(2)]));
    rows.push([
      `128 uneven groups, ${USED} for each of ${TOKENS} activations`,
      `${threads}`,
      speed(CASES.length + 1),
      ratio(CASES.length + 1).toFixed(3),
      '',
    ]);
    await engine.dispose();
  }
  say(`## ${type}, ${build}\n\n${table(['product', 'threads', 'GMAC/s', 'of dense', 'goal'], rows)}`);
  const simulated = CASES.map((c) => [
    c.name,
    ...[2, 16, 64].map((nth) => `${(100 * idle(costs(c.sizes, nth, cost!), nth)).toFixed(2)} %`),
  ]);
  say(`Idle time, simulated\n\n${table(['product', '2 threads', '16', '64'], simulated)}`);
}
if (options.write) console.log(writeResult(`grouped-${machineName(m)}-node${Number.parseInt(m.node)}.md`, said.join('\n\n')));
