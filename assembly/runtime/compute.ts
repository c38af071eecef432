/**
 * ggml_graph_compute: the plan's interpreter. Every thread runs it over the same op records. Start
 * reading the engine here.
 *
 * A step is one begin() and then compute() on all threads; the main loop of a thread is serve() in
 * src/threads/serve.ts.
 */
import { BATCH_COUNT_OUTPUTS, BATCH_COUNT_TOKENS, END_GO_ON, OP_BARRIER, Op, Plan, RANGES } from '../layout';
import { run } from './dispatch';
import { barrier, reached } from './sync';

/**
 * Prepares a step: sets the dimensions that follow the batch and zeroes all chunk cursors. No
 * thread may be computing.
 */
export function begin(plan: usize, n_tokens: i32, n_outputs: i32): void {
  const p = changetype<Plan>(plan);
  for (let i = 0; i < p.n_dims; i++) {
    const dim = p.dims + (<usize>i << 3);
    const by = load<i32>(dim, 4);
    store<i32>(load<usize>(dim), by == BATCH_COUNT_TOKENS ? n_tokens : by == BATCH_COUNT_OUTPUTS ? n_outputs : n_tokens - n_outputs);
  }
  memory.fill(p.cursors, 0, <usize>p.cursor_bytes * RANGES);
}

/**
 * Runs op records [from, to) of the plan as thread ith of nth. Returns END_GO_ON, END_CANCELLED or
 * END_LOST.
 */
export function compute(plan: usize, sync: usize, ith: i32, nth: i32, from: i32, to: i32): i32 {
  const p = changetype<Plan>(plan);
  const scratch = p.scratch + <usize>ith * p.scratch_size;
  for (let i = from; i < to; i++) {
    const op = changetype<Op>(p.ops + <usize>i * offsetof<Op>());
    if (op.flags & OP_BARRIER) {
      reached(sync, ith, i << 1);
      const met = barrier(sync, nth);
      if (met != END_GO_ON) return met;
    }
    reached(sync, ith, (i << 1) | 1);
    run(op, ith, nth, p.cursor_bytes, scratch);
  }
  return END_GO_ON;
}
