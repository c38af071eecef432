/**
 * A ReGLU feed-forward that computes only selected neurons (mul_mat_sparse, axpy), compared with
 * the same layer by packed dense products.
 *
 * Usage:
 *
 *   node --import tsx bench/sparse.ts [--types q4_0,q8_0] [--build relaxed-threads] [--threads 1,2]
 *     [--rounds 100] [--shape 1024x2816] [--layers 16] [--bundle] [--native] [--model]
 *     [--text FILE] [--write]
 *
 * As with a predictor, idx selects neurons, at random for each sparsity. The last product uses the
 * neurons with other values than 0. There are as many such layers as in a model, each with weights
 * of its own, so that weights come from memory (--layers 1: from the cache). Variants alternate,
 * and a figure is a layer's median. Goals: a third of the dense time at 90 % sparsity, a fifth at
 * 95 %, and 1.05 of it at 0 %. At 0 % dense weights are used.
 *
 * With --bundle, the three rows of a neuron lie side by side (views of one tensor) and are
 * prefetched together.
 *
 * With --native, the table also has the times of code with AVX2 and prefetch instructions for the
 * same rows (bench/peers/sparse.c; needs gcc): to fetch them, and to compute with them.
 *
 * With --model, it compares generation with a model of 190 million random parameters (make-model.ts
 * --gate-bias -1.28: 90 % of the neurons are 0) with the same dense model. It also counts the bytes
 * of feed-forwards read for the tokens of a text, with neurons in the file and a window of 5
 * tokens. Goals: 1.5 times the speed, 0.25 of the bytes.
 */
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import {
  axpy,
  cpy,
  createEngine,
  mul_mat,
  mul_mat_sparse,
  reglu,
  view,
  type Engine,
  type Plan,
  type Tensor,
} from '../src/entry/core-node.ts';
import { TYPE, rowSize, type TypeName } from '../src/type-traits.ts';
import type { Build } from '../src/wasm/load.ts';
import { loadModel, type Model } from '../src/entry/node.ts';
import {
  benchModel,
  cache,
  describeMachine,
  flags,
  machine,
  machineName,
  median,
  numbers,
  root,
  run,
  show,
  table,
  warnIfBusy,
  writeResult,
} from './support.ts';

const options = flags('feed-forwards of which some neurons count against dense ones', {
  types: 'q4_0,q8_0',
  build: '',
  threads: '1,2',
  rounds: '100',
  shape: '1024x2816',
  layers: '16',
  bundle: false,
  native: false,
  model: false,
  text: resolve(root, 'README.md'),
  write: false,
});
const text = options.model ? readFileSync(options.text, 'utf8') : '';
const [N_EMBD, N_FF] = options.shape.split('x').map(Number);
const LAYERS = Array.from({ length: Number(options.layers) }, (_, il) => il);
type Part = 'gate' | 'up' | 'down';
/** Sparsity, and the largest fraction of the dense time that is the goal. */
const CASES: readonly (readonly [sparsity: number, most: number])[] = [
  [0, 1.05],
  [0.5, NaN],
  [0.8, NaN],
  [0.9, 1 / 3],
  [0.95, 1 / 5],
];

/** The numbers of an f32 matrix as a matrix of a type. */
async function weights(engine: Engine, type: TypeName, f32: Tensor, pack: boolean): Promise<Tensor> {
  const t = engine.tensor(type, f32.ne);
  const plan = engine.plan(cpy(f32, t));
  await engine.compute(plan);
  plan.dispose();
  if (pack && !(await engine.pack(t))) throw new Error(`${type} is not packed`);
  return t;
}

/** Selects exactly this fraction of neurons at random. */
function active(share: number, il: number): Float32Array {
  let state = 1 + il;
  const order = Array.from({ length: N_FF }, (_, i) => [(state = (Math.imul(state, 1664525) + 1013904223) >>> 0), i]).sort(
    (a, b) => a[0] - b[0],
  );
  const idx = new Float32Array(N_FF);
  for (const [, i] of order.slice(0, Math.round(share * N_FF))) idx[i] = 1;
  return idx;
}

async function microseconds(engine: Engine, plan: Plan): Promise<number> {
  const start = performance.now();
  await engine.compute(plan);
  return ((performance.now() - start) * 1000) / LAYERS.length;
}

interface NativeTimes {
  readonly share: number;
  /** Microseconds per layer. */
  readonly fetched: number;
  readonly computed: number;
}

/** Times of native code for the cases with few rows. */
async function nativeTimes(type: TypeName, threads: number): Promise<readonly NativeTimes[]> {
  const [source, program] = [resolve(root, 'bench/peers/sparse.c'), resolve(cache, 'peers/sparse')];
  if (!existsSync(program) || statSync(program).mtimeMs < statSync(source).mtimeMs) {
    mkdirSync(resolve(cache, 'peers'), { recursive: true });
    await run('gcc', ['-O3', '-mavx2', '-mfma', '-mf16c', '-Wall', '-o', program, source, '-lpthread']);
  }
  const shares = CASES.flatMap(([sparsity]) => (sparsity < 0.8 ? [] : [(1 - sparsity).toFixed(2)]));
  const lines = await run(program, [type, N_EMBD, N_FF, LAYERS.length, threads, 20, Number(options.bundle), ...shares].map(String));
  return lines
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as NativeTimes);
}

const m = machine();
const said = [
  `# Feed-forwards of which some neurons count, ${options.shape}, ${LAYERS.length} layers${options.bundle ? ', rows of a neuron side by side' : ''}\n\n${describeMachine(m)}`,
];
console.log(`${said[0]}\n`);
warnIfBusy(m);
/**
 * Computes this many tokens of the text, one by one. (Generated text of a model with random weights
 * soon repeats itself, and so do its neurons.)
 */
async function steps(model: Model, tokens: number): Promise<{ readonly perSecond: number }> {
  const {
    scheduler,
    slots: {
      all: [slot],
    },
  } = model.internals;
  slot.truncate(0);
  const ids = model.tokenize(text).slice(0, tokens);
  if (ids.length < tokens) throw new Error(`--text has ${ids.length} tokens; expected ${tokens}`);
  const start = performance.now();
  for (const id of ids) await scheduler.submit(slot, [id], 0, () => {});
  return { perSecond: (1000 * tokens) / (performance.now() - start) };
}

/**
 * A row for each number of threads: speeds of the dense and the sparse model, alternating, and
 * bytes read with neurons in the file.
 */
async function models(type: TypeName): Promise<string> {
  const rows: string[][] = [];
  const files = [await benchModel({ type }), await benchModel({ type, gateBias: -1.28 })];
  for (const threads of numbers(options.threads)) {
    const load = (path: string, neuronWindow?: number): Promise<Model> =>
      loadModel(path, { threads, contextLength: 512, ...(options.build && { build: options.build as Build }), neuronWindow });
    const both = [await load(files[0]), await load(files[1])];
    const speeds = both.map((): number[] => []);
    for (let round = -1; round < Math.ceil(Number(options.rounds) / 10); round++)
      for (const [i, model] of both.entries()) {
        const { perSecond } = await steps(model, 64);
        if (round >= 0) speeds[i].push(perSecond);
      }
    for (const model of both) await model.dispose();
    const [dense, sparse] = speeds.map(median);
    const cells = [`${threads}`, show(dense), show(sparse), (sparse / dense).toFixed(2)];
    for (const window of [0, 5]) {
      const flash = await load(files[1], window);
      await steps(flash, 256);
      const { bytes, tokens } = flash.internals.engine.neurons!;
      await flash.dispose();
      cells.push((bytes / tokens / (16 * 3 * rowSize(TYPE[type], 1024) * 2816)).toFixed(3));
    }
    rows.push(cells);
  }
  const head = [
    'threads',
    'dense tokens/s',
    '90 % sparse tokens/s',
    'of dense (1.5)',
    'feed-forward read a token, no window',
    'window of 5 (0.25)',
  ];
  return `## Generation, ${type}\n\n${table(head, rows)}`;
}

for (const type of options.types.split(',') as TypeName[]) {
  if (options.model) {
    said.push(await models(type));
    console.log(`${said.at(-1)}\n`);
    continue;
  }
  if (!(type in TYPE)) throw new Error(`there is no type ${type}`);
  const rows: string[][] = [];
  let build = '';
  for (const threads of numbers(options.threads)) {
    const bytes = 6 * LAYERS.length * rowSize(TYPE[type], N_EMBD) * N_FF;
    const engine = await createEngine({
      build: (options.build || undefined) as Build | undefined,
      threads,
      memoryBytes: bytes + 20 * N_EMBD * N_FF + (64 << 20),
    });
    build = engine.build;
    const numbersOf = (ne: readonly number[]): Tensor =>
      engine.tensor(
        'f32',
        ne,
        Float32Array.from({ length: ne[0] * ne[1] }, (_, i) => Math.sin(i * 12.9898)),
      );
    const bundled = async (): Promise<Record<Part, Tensor>> => {
      const f32 = numbersOf([3 * N_EMBD, N_FF]);
      const all = await weights(engine, type, f32, false);
      engine.free(f32);
      const part = (i: number): Tensor => view(all, [N_EMBD, N_FF], { nb: [all.nb[1]], offset: i * rowSize(TYPE[type], N_EMBD) });
      return { gate: part(0), up: part(1), down: part(2) };
    };
    const [wide, high] = [numbersOf([N_EMBD, N_FF]), numbersOf([N_FF, N_EMBD])];
    const x = engine.tensor(
      'f32',
      [N_EMBD, 1],
      Float32Array.from({ length: N_EMBD }, (_, i) => Math.sin(i)),
    );
    const layers: { readonly packed: Record<Part, Tensor>; readonly rows: Record<Part, Tensor> }[] = [];
    for (const _ of LAYERS) {
      const made = async (pack: boolean): Promise<Record<Part, Tensor>> => ({
        gate: await weights(engine, type, wide, pack),
        up: await weights(engine, type, wide, pack),
        down: await weights(engine, type, pack ? high : wide, pack),
      });
      layers.push({ packed: await made(true), rows: options.bundle ? await bundled() : await made(false) });
    }
    [wide, high].forEach((t) => engine.free(t));
    const dense = engine.plan(...layers.map(({ packed: { gate, up, down } }) => mul_mat(down, reglu(mul_mat(gate, x), mul_mat(up, x)))));
    const sparse = CASES.map(([sparsity]) =>
      engine.plan(
        ...layers.flatMap(({ packed, rows }, il) => {
          const idx = engine.tensor('f32', [N_FF, 1], active(1 - sparsity, il));
          const product = (part: Part, times?: Tensor): Tensor =>
            mul_mat_sparse(rows[part], x, idx, { threshold: 0.5, dense: packed[part], times });
          // The gate's own product is timed, but idx selects: a ReLU of random numbers would drop
          // selected neurons.
          const h = product('up', idx);
          return [product('gate'), axpy(rows.down, h, h, { dense: packed.down })];
        }),
      ),
    );
    const times: number[][] = [dense, ...sparse].map(() => []);
    for (let round = -10; round < Number(options.rounds); round++)
      for (const [i, plan] of [dense, ...sparse].entries()) {
        const t = await microseconds(engine, plan);
        if (round >= 0) times[i].push(t);
      }
    const whole = median(times[0]);
    rows.push(['dense', `${threads}`, whole.toFixed(0), '', '']);
    const add = (what: string, us: number, most = NaN): void => {
      rows.push([what, `${threads}`, us.toFixed(0), (us / whole).toFixed(3), Number.isNaN(most) ? '' : most.toFixed(2)]);
    };
    CASES.forEach(([sparsity, most], i) => add(`${100 * sparsity} % sparse`, median(times[i + 1]), most));
    await engine.dispose();
    for (const { share, fetched, computed } of options.native ? await nativeTimes(type, threads) : []) {
      const sparsity = `${100 - 100 * share} %`;
      add(`native, ${sparsity}, rows fetched`, fetched);
      add(`native, ${sparsity}, computed`, computed);
    }
  }
  const figures = `## ${type}, ${build}\n\n${table(['feed-forward', 'threads', 'us', 'of dense', 'goal'], rows)}`;
  console.log(`${figures}\n`);
  said.push(figures);
}
if (options.write)
  console.log(
    writeResult(
      `sparse-${options.model ? 'model-' : options.bundle ? 'bundle-' : ''}${machineName(m)}-node${Number.parseInt(m.node)}.md`,
      said.join('\n\n'),
    ),
  );
