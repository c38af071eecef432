/**
 * ggml_im2col: for each position of a convolution's kernel, a row of the elements under it. The
 * convolution is then a matrix product.
 */
import { Op, nrows, row_at, row_of } from '../runtime/tensor';
import { range_start, range_end } from '../runtime/schedule';

/**
 * dst [kw * kh * ne2, ow, oh, ne3]. Element (x, y, c) of the row at position (i, j) is `src0[i s0 +
 * x d0 - p0, j s1 + y d1 - p1, c]`, or 0 outside.
 *
 * `p0..p7`: kw kh s0 s1 p0 p1 d0 d1. Elements of src0 and dst have one type, of 2 or 4 bytes. Any
 * strides of src0 are allowed.
 */
export function im2col(op: Op, ith: i32, nth: i32): void {
  const src0 = op.src0;
  const dst = op.dst;
  const wide = dst.nb0 == 4;
  const rows = nrows(dst);
  const to = range_end(rows, ith, nth);
  for (let r = range_start(rows, ith, nth); r < to; r++) {
    const left = (r % dst.ne1) * op.p2 - op.p4;
    const top = ((r / dst.ne1) % dst.ne2) * op.p3 - op.p5;
    const i3 = r / (dst.ne1 * dst.ne2);
    let y = row_at(dst, r);
    for (let c = 0; c < src0.ne2; c++) {
      for (let ky = 0, h = top; ky < op.p1; ky++, h += op.p7) {
        const n = <u32>h < <u32>src0.ne1 ? <u32>src0.ne0 : 0;
        const x = row_of(src0, h, c, i3);
        for (let kx = 0, w = left; kx < op.p0; kx++, w += op.p6, y += dst.nb0) {
          const at = x + <usize>w * src0.nb0;
          const inside = <u32>w < n;
          if (wide) store<u32>(y, inside ? load<u32>(at) : 0);
          else store<u16>(y, inside ? load<u16>(at) : 0);
        }
      }
    }
  }
}
