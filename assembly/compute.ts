/**
 * ggml_graph_compute: the plan's interpreter. Every thread runs it on the same records; start reading the engine here.
 * A step = begin() once, then compute() on all threads. serve() is a thread's life: step after step until it is sent home.
 */
import { attention, attention_merge } from './attention';
import { kv_store } from './kv_cache';
import { mul_mat } from './mul_mat';
import { mul_mat_packed_op, repack_op } from './mul_mat_packed';
import { rms_norm } from './norm';
import { rope } from './rope';
import { add, get_rows, quantize, swiglu } from './rows';
import { GO_ON, LOST, await_step, barrier, finish_step, step_from, step_plan, step_threads, step_to } from './sync';
import { OP_BARRIER, OP_SIZE, Op, Plan } from './tensor';

// Op codes: src/graph/layout.ts has the same list, a test compares them.
const GET_ROWS: u32 = 1;
const QUANTIZE: u32 = 2;
const MUL_MAT: u32 = 3;
const RMS_NORM: u32 = 4;
const ROPE: u32 = 5;
const KV_STORE: u32 = 6;
const ATTENTION: u32 = 7;
const ATTENTION_MERGE: u32 = 8;
const ADD: u32 = 9;
const SWIGLU: u32 = 10;
const MUL_MAT_PACKED: u32 = 11;
const REPACK: u32 = 12;

/** Before a step: the dimensions that follow the batch, and all chunk cursors at zero. No thread may be computing. */
export function begin(plan: usize, n_tokens: i32, n_outputs: i32): void {
  const p = changetype<Plan>(plan);
  for (let i = 0; i < p.n_dims; i++) {
    const dim = p.dims + (<usize>i << 3);
    store<i32>(load<usize>(dim), load<i32>(dim, 4) == 0 ? n_tokens : n_outputs);
  }
  memory.fill(p.cursors, 0, <usize>p.n_cursors << 2);
}

/** Runs records [from, to) as thread ith of nth. Returns GO_ON, CANCELLED or LOST (sync.ts). */
export function compute(plan: usize, sync: usize, ith: i32, nth: i32, from: i32, to: i32): i32 {
  const p = changetype<Plan>(plan);
  const scratch = p.scratch + <usize>ith * p.scratch_size;
  for (let i = from; i < to; i++) {
    const op = changetype<Op>(p.ops + <usize>i * OP_SIZE);
    if (op.flags & OP_BARRIER) {
      const met = barrier(sync, nth);
      if (met != GO_ON) return met;
    }
    const code = op.code;
    if (code == MUL_MAT_PACKED) mul_mat_packed_op(op, nth, scratch);
    else if (code == MUL_MAT) mul_mat(op, nth);
    else if (code == QUANTIZE) quantize(op, ith, nth);
    else if (code == RMS_NORM) rms_norm(op, ith, nth);
    else if (code == ROPE) rope(op, ith, nth);
    else if (code == KV_STORE) kv_store(op, ith, nth);
    else if (code == ATTENTION) attention(op, scratch);
    else if (code == ATTENTION_MERGE) attention_merge(op, ith, nth, scratch);
    else if (code == ADD) add(op, ith, nth);
    else if (code == SWIGLU) swiglu(op, ith, nth);
    else if (code == GET_ROWS) get_rows(op, ith, nth);
    else if (code == REPACK) repack_op(op, scratch);
    else unreachable();
  }
  return GO_ON;
}

/**
 * Thread ith's life: waits for steps and computes them; returns when sent home, when a worker was lost, or after idle_ns without work
 * (then the first thread to time out closes for all). The host posts steps through the sync block (sync.ts).
 */
export function serve(sync: usize, ith: i32, last: i32, idle_ns: i64): void {
  for (;;) {
    const step = await_step(sync, last, idle_ns);
    if (step == 0) return;
    last = step;
    const nth = step_threads(step);
    if (ith >= nth) continue;
    if (compute(step_plan(sync), sync, ith, nth, step_from(sync), step_to(sync)) == LOST) return;
    if (barrier(sync, nth) == LOST) return;
    if (ith == 0) finish_step(sync, step);
  }
}
