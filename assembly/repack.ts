/**
 * Plain rows of blocks, as GGUF has them, to packed groups of 16 rows, in place: 16 rows take the same bytes either way.
 * The last group's missing rows become zero rows: a packed tensor of nrows rows has room for ceil(nrows / 16) * 16.
 */
import { row_bytes } from './dot';
import * as fmt from './packed/format';
import { G0, G1, G2, G3, ROWS } from './packed/group';
import { code } from './packed/w16';
import { flipped } from './packed/wide';

/** Packs groups [group0, group1); returns how many packed blocks have a scale that is not finite. */
export function repack_of<F>(w: usize, ne00: i32, nrows: i32, group0: i32, group1: i32, scratch: usize): i32 {
  const f = changetype<F>(0);
  const bytes = f.bytes() / ROWS, blocks = ne00 / (fmt.subs<F>() << 5);
  const stride = <usize>blocks * bytes;
  let bad = 0;
  for (let group = group0; group < group1; group++) {
    const rows = w + <usize>group * ROWS * stride, n = min(ROWS, nrows - group * ROWS);
    memory.copy(scratch, rows, <usize>n * stride);
    memory.fill(scratch + <usize>n * stride, 0, <usize>(ROWS - n) * stride);
    if (isDefined(f.before_pack)) f.before_pack(scratch, scratch + <usize>ROWS * stride);
    for (let b = 0; b < blocks; b++) {
      const block = rows + <usize>b * f.bytes();
      f.pack(scratch + <usize>b * bytes, stride, block);
      let infinite = i32x4.splat(0);
      for (let head = 0; head < fmt.heads<F>() * 2; head++) {
        const h = v128.and(v128.load(block + (<usize>head << 4)), i16x8.splat(0x7c00));
        infinite = v128.or(infinite, i16x8.eq(h, i16x8.splat(0x7c00)));
      }
      bad += v128.any_true(infinite) ? 1 : 0;
    }
  }
  return bad;
}

/** Row `row` as f32 at y. */
export function row_of<F>(w: usize, ne00: i32, row: i32, y: usize): void {
  const f = changetype<F>(0);
  const blocks = ne00 / (fmt.subs<F>() << 5), m = fmt.mask<F>(), m2 = fmt.mask2<F>(), center = f32x4.splat(fmt.center<F>());
  const in_group: usize = row & 15, lane = row & 3;
  const group: usize = (row >> 2) & 3;
  let p = w + <usize>(row / ROWS) * blocks * f.bytes();
  for (let b = 0; b < blocks; b++) {
    const d = lane_f32(group < 2 ? group == 0 ? f.d<G0>(p) : f.d<G1>(p) : group == 2 ? f.d<G2>(p) : f.d<G3>(p), lane);
    const dmin = lane_f32(group < 2 ? group == 0 ? fmt.dmin<F, G0>(p) : fmt.dmin<F, G1>(p) : group == 2 ? fmt.dmin<F, G2>(p) : fmt.dmin<F, G3>(p), lane);
    for (let sub = 0; sub < fmt.subs<F>(); sub++) {
      let q = f.quads(p, sub) + (group << 4);
      const h = fmt.high<F>(p, sub) + (group << 4), i = fmt.w16<F>() ? sub << 1 : sub;
      const x = f32x4.mul(d, fmt.scale_of_row<F>(p, i, in_group)), z = f32x4.mul(dmin, fmt.min_of_row<F>(p, i, in_group));
      const x1 = fmt.w16<F>() ? f32x4.mul(d, fmt.scale_of_row<F>(p, i + 1, in_group)) : x;
      const z1 = fmt.w16<F>() ? f32x4.mul(dmin, fmt.min_of_row<F>(p, i + 1, in_group)) : z;
      for (let t = 0; t < 4; t++) {
        let lo: v128, hi: v128;
        if (fmt.w16<F>()) {
          lo = code<F, G0>(q, 0, t), hi = code<F, G0>(q, 1, t);
        } else {
          const v = fmt.load_lo<F, G0>(q), bits = fmt.bits<F, G0>(h, t);
          lo = fmt.lo<F>(v, bits, m, m2), hi = fmt.hi<F>(fmt.load_hi<F, G0>(q, v), bits, m, m2);
          q += fmt.quad_bytes<F>();
        }
        if (fmt.wide<F>()) lo = flipped(lo), hi = flipped(hi);
        lo = value(row_bytes(lo, lane), center, x), hi = value(row_bytes(hi, lane), center, x1);
        if (fmt.has_min<F>()) lo = f32x4.add(lo, z), hi = f32x4.add(hi, z1);
        v128.store(y, lo);
        v128.store(y, hi, 64);
        y += 16;
      }
      y += 64;
    }
    p += f.bytes();
  }
}

/** Four codes (i8 in the first four lanes) as (code - center) * d. */
// @ts-ignore: decorator
@inline
function value(codes: v128, center: v128, d: v128): v128 {
  const x = f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(i16x8.extend_low_i8x16_s(codes)));
  return f32x4.mul(f32x4.sub(x, center), d);
}

/** Lane i of v in all lanes. */
// @ts-ignore: decorator
@inline
function lane_f32(v: v128, i: i32): v128 {
  return i8x16.swizzle(v, i8x16.add(i8x16.splat(<i8>(i << 2)), i32x4.splat(0x03020100)));
}
