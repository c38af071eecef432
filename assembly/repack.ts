/**
 * Plain rows of blocks, as GGUF has them, to packed groups of 16 rows, in place: 16 rows take the same bytes either way.
 * The last group's missing rows become zero rows: a packed tensor of nrows rows has room for ceil(nrows / 16) * 16.
 */
import { DotI16, DotWide, row_bytes } from './dot';
import { GEMM_SCRATCH, mul_mat_of } from './gemm';
import { Format } from './packed/format';
import { G0, ROWS } from './packed/group';
import { Q4_0 } from './packed/q4_0';
import { HAS_RELAXED_DOT } from './simd';

// ggml's type ids.
const TYPE_Q4_0: i32 = 2;

function repack_of<F extends Format>(w: usize, ne00: i32, nrows: i32, group0: i32, group1: i32, scratch: usize): void {
  const f = changetype<F>(0);
  const bytes = f.bytes() / ROWS, blocks = ne00 / (f.subs() << 5);
  const stride = <usize>blocks * bytes;
  for (let group = group0; group < group1; group++) {
    const rows = w + <usize>group * ROWS * stride, n = min(ROWS, nrows - group * ROWS);
    memory.copy(scratch, rows, <usize>n * stride);
    memory.fill(scratch + <usize>n * stride, 0, <usize>(ROWS - n) * stride);
    for (let b = 0; b < blocks; b++) f.pack(scratch + <usize>b * bytes, stride, rows + <usize>b * f.bytes());
  }
}

function row_of<F extends Format>(w: usize, ne00: i32, row: i32, y: usize): void {
  const f = changetype<F>(0);
  const blocks = ne00 / (f.subs() << 5), m = f.mask(), m2 = f.mask2();
  const half: usize = f.is_w16() ? 8 : 16, group: usize = (row & 15) >> 2, lane = row & 3;
  const center = f32x4.splat(f.center());
  let p = w + <usize>(row / ROWS) * blocks * f.bytes();
  for (let b = 0; b < blocks; b++) {
    for (let sub = 0; sub < f.subs(); sub++) {
      const d = lane_f32(f.d<G0>(p + (group << 3)), lane);
      let q = f.quads(p, sub) + (group << 4);
      const h = f.high(p, sub) + (group << 4);
      for (let t = 0; t < 4; t++) {
        const v = f.load<G0>(q), bits = f.bits<G0>(h, t);
        v128.store(y, value(row_bytes(f.lo(v, bits, m, m2), lane), center, d));
        v128.store(y + (half << 2), value(row_bytes(f.hi(f.load2<G0>(q, v), bits, m, m2), lane), center, d));
        q += f.quad_bytes();
        y += 16;
      }
      y += 64;
    }
    p += f.bytes();
  }
}

/** Four codes (u8 in the first four lanes) as (code - center) * d. */
// @ts-ignore: decorator
@inline
function value(codes: v128, center: v128, d: v128): v128 {
  const x = f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(i16x8.extend_low_i8x16_u(codes)));
  return f32x4.mul(f32x4.sub(x, center), d);
}

/** Lane i of v in all lanes. */
// @ts-ignore: decorator
@inline
function lane_f32(v: v128, i: i32): v128 {
  return i8x16.swizzle(v, i8x16.add(i8x16.splat(<i8>(i << 2)), i32x4.splat(0x03020100)));
}

/** Rows in a packed group: nrows of a packed tensor is padded to a multiple of it, and row ranges start at one. */
export function packed_rows(): i32 {
  return ROWS;
}

/** Bytes of scratch mul_mat_packed needs, per thread. */
export function mul_mat_packed_scratch(): usize {
  return GEMM_SCRATCH;
}

/** Whether tensors of this ggml type can be packed. */
export function is_packable(type: i32): bool {
  return type == TYPE_Q4_0;
}

/**
 * Packs row groups [group0, group1) of the nrows x ne00 tensor at w, in place. Groups are independent: threads may share a tensor.
 * scratch: 16 rows' bytes.
 */
export function repack(type: i32, w: usize, ne00: i32, nrows: i32, group0: i32, group1: i32, scratch: usize): void {
  if (type == TYPE_Q4_0) repack_of<Q4_0>(w, ne00, nrows, group0, group1, scratch);
}

/** Row `row` of a packed tensor as ne00 f32 at y (get_rows of a tied token_embd): the bits of dequantize_row. */
export function packed_row(type: i32, w: usize, ne00: i32, row: i32, y: usize): void {
  if (type == TYPE_Q4_0) row_of<Q4_0>(w, ne00, row, y);
}

/**
 * dst[col * dst_stride + row * 4] = row . activation row col, for rows [row0, row1) and ncols columns.
 * row0 is a multiple of 16, row1 one too or the tensor's number of rows. act: rows made by quantize_act, act_stride bytes apart.
 * dst is f32, dst_stride in bytes. scratch: mul_mat_packed_scratch() bytes of this thread's own.
 * Each output has the same bits for any ncols, row0 and row1.
 */
export function mul_mat_packed(type: i32, w: usize, ne00: i32, row0: i32, row1: i32, act: usize, act_stride: usize, ncols: i32, dst: usize, dst_stride: usize, scratch: usize): void {
  if (type == TYPE_Q4_0) dispatch<Q4_0>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
}

// @ts-ignore: decorator
@inline
function dispatch<F extends Format>(w: usize, ne00: i32, row0: i32, row1: i32, act: usize, act_stride: usize, ncols: i32, dst: usize, dst_stride: usize, scratch: usize): void {
  if (HAS_RELAXED_DOT) mul_mat_of<F, DotI16>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
  else mul_mat_of<F, DotWide>(w, ne00, row0, row1, act, act_stride, ncols, dst, dst_stride, scratch);
}
