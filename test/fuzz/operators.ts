/**
 * Every operator of quantlet/core over operands of all layouts (operator-graphs.ts), chained so
 * that they fuse. Results are compared with f64 (test/reference), nothing else may be written, and
 * any number of threads gives the same bits.
 */
import { createEngine, type Engine, type Tensor } from 'quantlet/core';
import { random } from '../kernel/harness.ts';
import { numbers } from '../ops/graph.ts';
import { difference, execute, reset, wholeOf } from '../reference/memory.ts';
import { runCases, type CampaignOptions, type CampaignResult } from './campaign.ts';
import { createGraph, describe, type Graph, type MadeStep, type Operand } from './operator-graphs.ts';

const MEMORY = 24 << 20;
const GUARD = new Int32Array(16).fill(0x5a5a5a5a);

/** Steps in the order in which ggml_build_forward_expand visits the results. */
function orderOf(graph: Graph, engine: Engine, wanted: readonly MadeStep[]): MadeStep[] {
  const steps = new Map<Tensor, MadeStep>(graph.steps.map((s) => [graph.on(engine, s.result), s]));
  const seen = new Set<Tensor>();
  const order: MadeStep[] = [];
  const visit = (t: Tensor): void => {
    if (seen.has(t)) return;
    seen.add(t);
    t.src.forEach((s) => s && visit(s));
    if (steps.has(t)) order.push(steps.get(t)!);
  };
  wanted.forEach((s) => visit(graph.on(engine, s.result)));
  return order;
}

/** Results and leaves of a run, and a description of the plan. */
interface Ran {
  readonly results: readonly Float64Array[];
  readonly leaves: readonly (Float64Array | undefined)[];
  readonly plan: string;
  readonly guard: string;
}

async function run(engine: Engine, graph: Graph, wanted: readonly MadeStep[]): Promise<Ran> {
  const tensor = (o: Operand): Tensor => graph.on(engine, o);
  const guards: Tensor[] = [];
  for (const o of graph.leaves) {
    guards.push(engine.tensor('i32', [16], GUARD));
    tensor(o);
    if (o.packed) await engine.pack(tensor(o));
  }
  const plan = engine.plan(...wanted.map((s) => tensor(s.result)));
  guards.push(engine.tensor('i32', [16], GUARD));
  await engine.compute(plan);
  const ran: Ran = {
    results: wanted.map((s) => numbers(engine, tensor(s.result))),
    leaves: graph.leaves.map((o) => (o.packed ? undefined : numbers(engine, tensor(o)))),
    plan: plan.explain(),
    guard:
      guards.findIndex((t) => (engine.read(t) as Int32Array).some((v) => v !== GUARD[0])) < 0
        ? ''
        : 'bytes beside the tensors were written',
  };
  plan.dispose();
  for (const t of [...guards, ...graph.leaves.map(tensor)]) engine.free(t);
  return ran;
}

const sameBits = (a: Float64Array | undefined, b: Float64Array | undefined): boolean => !a || a.every((v, i) => Object.is(v, b![i]));

async function one(engines: readonly Engine[], seed: number): Promise<void> {
  const next = random(seed ^ 0x5eed);
  const engine = engines[seed % engines.length];
  const free = engine.freeBytes;
  const graph = createGraph(seed, engine);
  // Either keep every result, in order, or keep some, so that the memory of others is reused.
  // Convolutions are several nodes: if a step writes in between, only keeping everything defines
  // what they read.
  const apart =
    graph.steps.some((s) => s.op.startsWith('conv_')) &&
    graph.steps.some((s) => graph.steps.some((t) => t !== s && t.dst.buffer === s.dst.buffer) || s.dst.buffer.init);
  const all = apart || next() < 0.5 || graph.steps.length < 2;
  const wanted = all
    ? graph.steps
    : graph.steps
        .map((s) => ({ s, at: next() }))
        .filter(({ at }, i) => at < 0.4 || i === graph.steps.length - 1)
        .sort((a, b) => a.at - b.at)
        .map(({ s }) => s);
  if (!wanted.length) return;
  if (!all) {
    reset(graph.buffers);
    for (const s of orderOf(graph, engine, wanted)) execute(s, next);
  }
  const fail = (what: string, plan: string): never => {
    throw new Error(
      `${what}\n${engine.threads} threads, results ${wanted.map((s) => graph.steps.indexOf(s)).join(' ')} of\n${describe(graph)}\nplanned as\n${plan}`,
    );
  };
  const ran = await run(engine, graph, wanted);
  if (ran.guard) fail(ran.guard, ran.plan);
  wanted.forEach((s, i) => {
    const wrong = difference(s.dst, ran.results[i]);
    if (wrong) fail(`result ${graph.steps.indexOf(s)}, ${wrong}`, ran.plan);
  });
  graph.leaves.forEach((o, i) => {
    const wrong = ran.leaves[i] && difference(wholeOf(o.window.buffer, o.window.ne), ran.leaves[i]);
    if (wrong) fail(`leaf #${[...graph.buffers].indexOf(o.window.buffer)}, ${wrong}`, ran.plan);
  });
  if (engine.freeBytes !== free) fail(`${free - engine.freeBytes} bytes were not given back`, ran.plan);
  if (engine === engines[0]) return;
  const alone = await run(engines[0], graph, wanted);
  const i = alone.results.findIndex((r, k) => !sameBits(r, ran.results[k]));
  const j = alone.leaves.findIndex((r, k) => !sameBits(r, ran.leaves[k]));
  if (i >= 0 || j >= 0)
    fail(`${i >= 0 ? `result ${graph.steps.indexOf(wanted[i])}` : `leaf ${j}`}: other bits than with one thread`, ran.plan);
}

export async function campaign(options: CampaignOptions): Promise<CampaignResult> {
  const open = (): Promise<Engine[]> =>
    Promise.all(
      Array.from({ length: options.threads }, (_, i) => createEngine({ build: options.build, threads: i + 1, memoryBytes: MEMORY })),
    );
  let engines = await open();
  try {
    return await runCases(options, async (seed) => {
      try {
        await one(engines, seed);
      } catch (error) {
        // A failed case must not leave its memory to the next.
        await Promise.all(engines.map((e) => e.dispose()));
        engines = await open();
        throw error;
      }
    });
  } finally {
    await Promise.all(engines.map((e) => e.dispose()));
  }
}
