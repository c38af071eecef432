/**
 * ggml_graph_compute: the plan's interpreter. Every thread runs it on the same records; start reading the engine here.
 * A step = begin() once, then compute() on all threads. serve() is a thread's life: step after step until it is sent home.
 */
import { mul_mat } from './mul_mat';
import { mul_mat_packed_op, repack_op } from './mul_mat_packed';
import { attention, attention_merge } from './ops/attention';
import { binary } from './ops/binary';
import { cpy, get_rows, quantize, set_rows } from './ops/copy';
import { im2col } from './ops/im2col';
import { kv_store } from './ops/kv_cache';
import { l2_norm, norm, rms_norm } from './ops/norm';
import { argmax, mean_of_rows, pool_1d, sum_rows, top_k } from './ops/reduce';
import { rope } from './ops/rope';
import { diag_mask_inf, soft_max } from './ops/soft_max';
import { glu, unary } from './ops/unary';
import { GO_ON, LOST, NO_STEP, await_step, barrier, finish_step, reached, step_from, step_plan, step_threads, step_to } from './sync';
import { OP_BARRIER, OP_SIZE, Op, Plan, RANGES } from './tensor';

// Op codes: src/graph/layout.ts has the same list, a test compares them.
const GET_ROWS: u32 = 1;
const QUANTIZE: u32 = 2;
const MUL_MAT: u32 = 3;
const RMS_NORM: u32 = 4;
const ROPE: u32 = 5;
const KV_STORE: u32 = 6;
const ATTENTION: u32 = 7;
const ATTENTION_MERGE: u32 = 8;
const BINARY: u32 = 9;
const GLU: u32 = 10;
const UNARY: u32 = 11;
const NORM: u32 = 12;
const L2_NORM: u32 = 13;
const CPY: u32 = 14;
const SET_ROWS: u32 = 15;
const SOFT_MAX: u32 = 16;
const DIAG_MASK_INF: u32 = 17;
const SUM_ROWS: u32 = 18;
const ARGMAX: u32 = 19;
const TOP_K: u32 = 20;
const POOL_1D: u32 = 21;
const MEAN_OF_ROWS: u32 = 22;
const MUL_MAT_PACKED: u32 = 23;
const REPACK: u32 = 24;
const IM2COL: u32 = 25;

/** Before a step: the dimensions that follow the batch, and all chunk cursors at zero. No thread may be computing. */
export function begin(plan: usize, n_tokens: i32, n_outputs: i32): void {
  const p = changetype<Plan>(plan);
  for (let i = 0; i < p.n_dims; i++) {
    const dim = p.dims + (<usize>i << 3);
    store<i32>(load<usize>(dim), load<i32>(dim, 4) == 0 ? n_tokens : n_outputs);
  }
  memory.fill(p.cursors, 0, <usize>p.cursor_bytes * RANGES);
}

/** Runs records [from, to) as thread ith of nth. Returns GO_ON, CANCELLED or LOST (sync.ts). */
export function compute(plan: usize, sync: usize, ith: i32, nth: i32, from: i32, to: i32): i32 {
  const p = changetype<Plan>(plan);
  const scratch = p.scratch + <usize>ith * p.scratch_size;
  for (let i = from; i < to; i++) {
    const op = changetype<Op>(p.ops + <usize>i * OP_SIZE);
    if (op.flags & OP_BARRIER) {
      reached(sync, ith, i << 1);
      const met = barrier(sync, nth);
      if (met != GO_ON) return met;
    }
    reached(sync, ith, (i << 1) | 1);
    switch (op.code) {
      case GET_ROWS: get_rows(op, ith, nth); break;
      case QUANTIZE: quantize(op, ith, nth, scratch); break;
      case MUL_MAT: mul_mat(op, nth); break;
      case RMS_NORM: rms_norm(op, ith, nth); break;
      case ROPE: rope(op, ith, nth); break;
      case KV_STORE: kv_store(op, ith, nth, scratch); break;
      case ATTENTION: attention(op, ith, nth, p.cursor_bytes, scratch); break;
      case ATTENTION_MERGE: attention_merge(op, ith, nth, scratch); break;
      case BINARY: binary(op, ith, nth); break;
      case GLU: glu(op, ith, nth, scratch); break;
      case UNARY: unary(op, ith, nth, scratch); break;
      case NORM: norm(op, ith, nth); break;
      case L2_NORM: l2_norm(op, ith, nth); break;
      case CPY: cpy(op, ith, nth, scratch); break;
      case SET_ROWS: set_rows(op, ith, nth, scratch); break;
      case SOFT_MAX: soft_max(op, ith, nth); break;
      case DIAG_MASK_INF: diag_mask_inf(op, ith, nth); break;
      case SUM_ROWS: sum_rows(op, ith, nth); break;
      case ARGMAX: argmax(op, ith, nth); break;
      case TOP_K: top_k(op, ith, nth); break;
      case POOL_1D: pool_1d(op, ith, nth); break;
      case MEAN_OF_ROWS: mean_of_rows(op, ith, nth); break;
      case MUL_MAT_PACKED: mul_mat_packed_op(op, ith, nth, p.cursor_bytes, scratch); break;
      case REPACK: repack_op(op, scratch); break;
      case IM2COL: im2col(op, ith, nth); break;
      default: unreachable();
    }
  }
  return GO_ON;
}

/**
 * Thread ith's life: waits for steps and computes them; returns when sent home, when a worker was lost, or after idle_ns without work
 * (then the first thread to time out closes for all). The host posts steps through the sync block (sync.ts).
 */
export function serve(sync: usize, ith: i32, last: i32, idle_ns: i64): void {
  for (;;) {
    reached(sync, ith, NO_STEP);
    const step = await_step(sync, last, idle_ns);
    if (step == 0) return;
    last = step;
    const nth = step_threads(step);
    if (ith >= nth) continue;
    const to = step_to(sync);
    if (compute(step_plan(sync), sync, ith, nth, step_from(sync), to) == LOST) return;
    reached(sync, ith, to << 1);
    if (barrier(sync, nth) == LOST) return;
    if (ith == 0) finish_step(sync, step);
  }
}
