/** Plans of a tensor engine: the graph of their results, lowered, with memory of their own. */
import { QuantletError, tell } from '../errors.ts';
import type { Layout } from '../graph/layout.ts';
import { lower, type OpRecord } from '../graph/lower.ts';
import { isDense, readsPacked } from '../graph/packing.ts';
import { createGraphPlan, expand, placePlan, planBytes, type GraphPlan } from '../graph/plan.ts';
import { baseOf, refuse, type Tensor } from '../graph/tensor.ts';
import type { Executor } from '../threads/executor.ts';
import { isaOf, type Build } from '../wasm/load.ts';
import { arrayOver, type TensorData } from './data.ts';
import type { ComputeOptions, Plan } from './engine.ts';
import { explainPlan } from './explain.ts';
import { checkIndices, indexChecks, type IndexCheck } from './indices.ts';
import { PACKED, type TensorMemory } from './tensor-memory.ts';
import type { Turns } from './turns.ts';

/** Parts of a run whose progress is told. */
const PARTS = 64;

/**
 * Records in memory: their intermediate tensors and constants have addresses, and threads can run
 * them.
 */
export interface AllocatedRecords {
  readonly graph: GraphPlan;
  readonly at: number;
  readonly bytes: number;
  readonly planAt: number;
}

interface PlanState extends AllocatedRecords {
  readonly checks: readonly IndexCheck[];
  /** Leaves that the plan reads, with the layout that they had when the plan was made. */
  readonly leaves: readonly (readonly [Tensor, Layout])[];
  readonly results: ReadonlyMap<Tensor, number>;
  /** Calls of compute() that have not ended. */
  computing: number;
}

export class Plans {
  private readonly states = new Map<Plan, PlanState>();
  private readonly memory: TensorMemory;
  private readonly executor: Executor;
  private readonly turns: Turns;
  private readonly build: Build;

  constructor(memory: TensorMemory, executor: Executor, turns: Turns, build: Build) {
    this.memory = memory;
    this.executor = executor;
    this.turns = turns;
    this.build = build;
  }

  /**
   * Allocates memory for records and writes them there.
   * @throws ERR_OUT_OF_MEMORY, after which none is allocated
   */
  allocate(records: readonly OpRecord[], keep: readonly Tensor[]): AllocatedRecords {
    const { memory } = this;
    const { threads } = this.executor;
    const graph = createGraphPlan(records, keep);
    const bytes = planBytes(graph, threads);
    const at = memory.take(bytes, 'the plan');
    try {
      memory.allocateConstants(graph.constants);
    } catch (error) {
      memory.give(at, bytes);
      throw error;
    }
    const plan = placePlan(graph, at, threads);
    memory.bytes(plan.at).set(plan.encode());
    return { graph, at, bytes, planAt: plan.at };
  }

  /** Undoes allocate(). */
  remove({ graph, at, bytes }: AllocatedRecords): void {
    this.memory.dropConstants(graph.constants);
    this.memory.give(at, bytes);
  }

  /** Runs all records: as one step, or as several if the caller wants to hear of the progress. */
  async run({ planAt, graph }: AllocatedRecords, { signal, onProgress }: ComputeOptions = {}): Promise<void> {
    const { length } = graph.records;
    const most = onProgress ? Math.max(1, Math.ceil(length / PARTS)) : length;
    for (let from = 0; from < length; from += most) {
      const to = Math.min(length, from + most);
      await this.executor.run({ passes: [{ plan: planAt, from, to }], nTokens: 0, nOutputs: 0 }, signal);
      onProgress?.(to / length);
    }
  }

  /** @see Engine.plan */
  create(wanted: readonly Tensor[]): Plan {
    const { memory } = this;
    for (const t of wanted) memory.mustOwn('plan', t);
    const nodes = expand(wanted);
    for (const t of nodes) {
      memory.mustOwn('plan', t);
      mustSuitLayouts(t);
    }
    const records = this.allocate(lower(nodes, { isa: isaOf(this.build) }), wanted);
    const plan: Plan = {
      explain: () => explainPlan(records.graph, { threads: this.executor.threads, ints: (t) => memory.intsOf(t) }),
      dispose: () => this.dispose(plan),
    };
    const computed = wanted.map(baseOf).filter((t) => t.op !== 'leaf');
    const results = new Map(computed.map((t) => [t, t.data]));
    memory.results.add(results);
    const leaves = nodes.filter((t) => t.op === 'leaf' && !t.values).map((t) => [t, t.layout] as const);
    this.states.set(plan, { ...records, results, computing: 0, checks: indexChecks(nodes), leaves });
    return plan;
  }

  /** @see Engine.compute */
  async compute(plan: Plan, options: ComputeOptions): Promise<void> {
    const state = this.states.get(plan);
    if (!state)
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        typeof plan?.explain === 'function'
          ? 'compute: the plan was disposed of or belongs to another engine'
          : `compute: expected a plan, got ${tell(plan)}`,
      );
    state.computing++;
    try {
      await this.turns.take(async () => {
        this.mustBeComputable(state);
        await this.run(state, options);
      });
    } finally {
      state.computing--;
    }
  }

  private dispose(plan: Plan): void {
    const state = this.states.get(plan);
    if (this.memory.disposed || !state) return;
    if (state.computing > 0) throw new QuantletError('ERR_BUSY', 'dispose: the plan is running; await compute() first');
    this.states.delete(plan);
    this.memory.results.delete(state.results);
    this.remove(state);
  }

  /** Checks what may have changed since the plan was made: its leaves, and the indices in them. */
  private mustBeComputable({ leaves, checks }: PlanState): void {
    const { memory } = this;
    memory.mustLive('compute');
    for (const [t, layout] of leaves) {
      memory.mustOwn('compute', t);
      if (t.layout !== layout) refuse('compute', 'was packed after the plan was made; make the plan again', t);
    }
    const valuesOf = (t: Tensor): TensorData => arrayOver(t, memory.bytesOf('compute', t));
    for (const check of checks) checkIndices(check, valuesOf(check.indices), check.counts && valuesOf(check.counts));
  }
}

/**
 * @throws ERR_TENSOR_SHAPE if an operand is packed and the op cannot read that, or is not packed
 * and must be
 */
function mustSuitLayouts(t: Tensor): void {
  t.src.forEach((s, i) => {
    if (s?.layout === 'packed' && !readsPacked(t, i)) refuse(t.op, PACKED, s);
    if (s?.layout === 'plain' && isDense(t.op, i))
      refuse(t.op, 'expected packed weights for dense; pack() them before the plan is made', s);
  });
}
