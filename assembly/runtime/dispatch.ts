// Generated from src/graph/kernels.ts by `npm run generate`: edit that table and run it again.
/** Dispatch from the codes of records to kernels. */
import { attention, attention_merge } from '../ops/attention';
import { axpy } from '../ops/axpy';
import { add_id, binary } from '../ops/binary';
import { cpy, get_rows, quantize, set_rows } from '../ops/copy';
import { fwht } from '../ops/fwht';
import { group_ids, group_list, quantize_groups } from '../ops/groups';
import { im2col } from '../ops/im2col';
import { kv_store } from '../ops/kv_cache';
import { mul_mat, mul_mat_parts } from '../ops/mul_mat';
import { mul_mat_packed_op, repack_op } from '../ops/mul_mat_packed';
import { l2_norm, norm, rms_norm } from '../ops/norm';
import { gated_delta_net, ssm_conv, ssm_scan } from '../ops/recurrent';
import { argmax, in_sum2, mean_of_rows, pool_1d, sum_rows, top_k, weighted_sum } from '../ops/reduce';
import { rope } from '../ops/rope';
import { diag_mask_inf, soft_max } from '../ops/soft_max';
import { inverse_lookup, mul_mat_sparse } from '../ops/sparse';
import { glu, unary } from '../ops/unary';
import { Op } from './tensor';

const GET_ROWS: u32 = 1;
const QUANTIZE: u32 = 2;
const MUL_MAT: u32 = 3;
const MUL_MAT_PACKED: u32 = 4;
const REPACK: u32 = 5;
const RMS_NORM: u32 = 6;
const NORM: u32 = 7;
const L2_NORM: u32 = 8;
const FWHT: u32 = 9;
const ROPE: u32 = 10;
const KV_STORE: u32 = 11;
const ATTENTION: u32 = 12;
const ATTENTION_MERGE: u32 = 13;
const BINARY: u32 = 14;
const UNARY: u32 = 15;
const GLU: u32 = 16;
const CPY: u32 = 17;
const SET_ROWS: u32 = 18;
const SOFT_MAX: u32 = 19;
const DIAG_MASK_INF: u32 = 20;
const SUM_ROWS: u32 = 21;
const ARGMAX: u32 = 22;
const TOP_K: u32 = 23;
const POOL_1D: u32 = 24;
const MEAN_OF_ROWS: u32 = 25;
const WEIGHTED_SUM: u32 = 26;
const IM2COL: u32 = 27;
const SSM_CONV: u32 = 28;
const SSM_SCAN: u32 = 29;
const GATED_DELTA_NET: u32 = 30;
const IN_SUM2: u32 = 31;
const GROUP_LIST: u32 = 32;
const MUL_MAT_PARTS: u32 = 33;
const GROUP_IDS: u32 = 34;
const QUANTIZE_GROUPS: u32 = 35;
const ADD_ID: u32 = 36;
const INVERSE_LOOKUP: u32 = 37;
const MUL_MAT_SPARSE: u32 = 38;
const AXPY: u32 = 39;

/**
 * Runs a record as thread ith of nth, with this thread's scratch. cursor_bytes: from an op's cursor
 * for one range to that for the next.
 */
export function run(op: Op, ith: i32, nth: i32, cursor_bytes: usize, scratch: usize): void {
  // prettier-ignore
  switch (op.code) {
    case GET_ROWS: get_rows(op, ith, nth, scratch); break;
    case QUANTIZE: quantize(op, ith, nth, scratch); break;
    case MUL_MAT: mul_mat(op, nth); break;
    case MUL_MAT_PACKED: mul_mat_packed_op(op, ith, nth, cursor_bytes, scratch); break;
    case REPACK: repack_op(op, scratch); break;
    case RMS_NORM: rms_norm(op, ith, nth); break;
    case NORM: norm(op, ith, nth); break;
    case L2_NORM: l2_norm(op, ith, nth); break;
    case FWHT: fwht(op, ith, nth, scratch); break;
    case ROPE: rope(op, ith, nth); break;
    case KV_STORE: kv_store(op, ith, nth, scratch); break;
    case ATTENTION: attention(op, ith, nth, cursor_bytes, scratch); break;
    case ATTENTION_MERGE: attention_merge(op, ith, nth, scratch); break;
    case BINARY: binary(op, ith, nth); break;
    case UNARY: unary(op, ith, nth, scratch); break;
    case GLU: glu(op, ith, nth, scratch); break;
    case CPY: cpy(op, ith, nth, scratch); break;
    case SET_ROWS: set_rows(op, ith, nth, scratch); break;
    case SOFT_MAX: soft_max(op, ith, nth); break;
    case DIAG_MASK_INF: diag_mask_inf(op, ith, nth); break;
    case SUM_ROWS: sum_rows(op, ith, nth); break;
    case ARGMAX: argmax(op, ith, nth); break;
    case TOP_K: top_k(op, ith, nth); break;
    case POOL_1D: pool_1d(op, ith, nth); break;
    case MEAN_OF_ROWS: mean_of_rows(op, ith, nth); break;
    case WEIGHTED_SUM: weighted_sum(op, ith, nth); break;
    case IM2COL: im2col(op, ith, nth); break;
    case SSM_CONV: ssm_conv(op, ith, nth, scratch); break;
    case SSM_SCAN: ssm_scan(op, ith, nth); break;
    case GATED_DELTA_NET: gated_delta_net(op, ith, nth, scratch); break;
    case IN_SUM2: in_sum2(op, ith, nth); break;
    case GROUP_LIST: group_list(op, ith); break;
    case MUL_MAT_PARTS: mul_mat_parts(op); break;
    case GROUP_IDS: group_ids(op, ith, scratch); break;
    case QUANTIZE_GROUPS: quantize_groups(op, ith, nth); break;
    case ADD_ID: add_id(op, ith, nth); break;
    case INVERSE_LOOKUP: inverse_lookup(op, ith); break;
    case MUL_MAT_SPARSE: mul_mat_sparse(op, ith, nth, cursor_bytes, scratch); break;
    case AXPY: axpy(op, ith, nth, scratch); break;
    default: unreachable();
  }
}
