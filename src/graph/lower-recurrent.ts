/**
 * Record of a recurrent layer. If an op's result is followed by its states (recurrent-ops.ts), the
 * kernel writes to two views of the result.
 */
import { MOST_TAPS, RECURRENT_CHUNK } from './layout.ts';
import type { OpRecord } from './record.ts';
import { nelements, node, type Ne, type Tensor } from './tensor.ts';

/** @param f32 gives the tensor with contiguous rows of f32, converted if necessary */
export function recurrentRecord(t: Tensor, f32: (x: Tensor | undefined) => Tensor | undefined): OpRecord {
  const runsAt = t.op === 'ssm_conv' ? 4 : 6;
  const src = t.src.map((s, i) => (i === runsAt ? s : f32(s)));
  if (t.op === 'ssm_conv') {
    const [n, taps] = [t.ne[0], t.src[1]!.ne[0]];
    const scratch = 4 * (MOST_TAPS + n * (2 * taps - 1));
    return { code: 'SSM_CONV', dst: t, src, params: [t.params.silu], scratch, ...written(src[5]) };
  }
  const scan = t.op === 'ssm_scan';
  const [x, from] = [t.src[scan ? 0 : 2]!, t.src[5]!];
  const behind = (ne: Ne, offset: number): Tensor => node('view', ne, { viewOf: t, viewOffset: 4 * offset });
  const [dst, to] = src[7] ? [t, src[7]] : [behind(x.ne, 0), behind([from.ne[0], from.ne[1], from.ne[2], x.ne[3]], nelements(x))];
  const record = { dst, src: [...src.slice(0, 7), to], ...written(to) };
  if (scan) return { code: 'SSM_SCAN', ...record, params: [], how: `states of ${from.ne[0]} for ${from.ne[1] * from.ne[2]} rows` };
  const scratch = RECURRENT_CHUNK * (16 * from.ne[0] + 16);
  return {
    code: 'GATED_DELTA_NET',
    ...record,
    params: [{ f: t.params.scale }],
    scratch,
    how: `${from.ne[2]} states of ${from.ne[0]} x ${from.ne[1]}`,
  };
}

const written = (states: Tensor | undefined): Pick<OpRecord, 'writtenSrc'> => (states ? { writtenSrc: [states] } : {});
