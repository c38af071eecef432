// The inputs of the cases. Integer steps only, so that every language makes the same bytes.
//   state = seed; for each value, in u32:
//     state += 0x6d2b79f5; t = (state ^ state >> 15) * (state | 1);
//     t ^= t + (t ^ t >> 7) * (t | 61); u = t ^ t >> 14
//   uniform: ((u >> 8) / 2^23 - 1) * scale + plus, rounded to f32 after the product and the sum
//   modulo: u % modulo

/** Values of a source in storage order, as f32 (or integers). -inf stays -inf. */
export function fill(src) {
  const n = src.ne.reduce((a, b) => a * b);
  const out = new Float64Array(n);
  if (src.values) return out.map((_, i) => src.values[i]);
  if (src.causal !== undefined) return out.map((_, i) => (i % src.ne[0] <= Math.floor(i / src.ne[0]) + src.causal ? 0 : -Infinity));
  if (src.distance !== undefined) return out.map((_, i) => -Math.abs(Math.floor(i / src.ne[0]) + src.distance - (i % src.ne[0])));
  let state = src.seed >>> 0;
  return out.map(() => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    const u = (t ^ (t >>> 14)) >>> 0;
    return src.modulo ? u % src.modulo : Math.fround(Math.fround(((u >>> 8) / 2 ** 23 - 1) * Math.fround(src.scale)) + (src.plus ?? 0));
  });
}
