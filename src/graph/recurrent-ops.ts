/** Recurrent layers over ordinary tensors, as ggml has them. @see ops.ts */
import { TYPE } from '../type-traits.ts';
import { softplus } from './elementwise-ops.ts';
import { ints, mustBeRows, operand, type Operand } from './operands.ts';
import { cont, get_rows } from './ops.ts';
import { convNode, delta_net, RUN_WORDS, selective_scan } from './recurrent.ts';
import { constant, isContiguous, must, nelements, node, type Tensor } from './tensor.ts';
import { permute, reshape, view } from './views.ts';

/** Each sequence goes on from the state of its number. */
const runsOf = (sequences: number, tokens: number): Tensor =>
  constant('runs', TYPE.i32, [RUN_WORDS, sequences, 1, 1], () => {
    const runs = new Int32Array(RUN_WORDS * sequences);
    for (let i = 0; i < sequences; i++) runs.set([tokens, i, i], RUN_WORDS * i);
    return new Uint8Array(runs.buffer);
  });

/** The op with its result laid out as ggml has it: what it gives, and the states behind it. */
const statesBehind = (y: Tensor, ne: readonly [number, number]): Tensor<'f32'> =>
  node(y.op, [...ne, 1, 1], { src: y.src, params: y.params });

/** @throws ERR_TENSOR_SHAPE */
const sequencesOf = (op: string, states: Tensor, x: Tensor): void =>
  must(!x.batch && states.ne[3] === x.ne[3], op, 'expected a state for each sequence', states, x);

/**
 * ggml_ssm_conv: sx [d_conv - 1 + n_t, d_inner, n_s], the last values of each channel before the n_t new ones, and c [d_conv, d_inner], of 2 to 16 rows
 * -> f32 [d_inner, n_t, n_s]: each channel's last d_conv values, weighted. f32, f16 or bf16.
 */
export function ssm_conv(sx: Tensor, c: Operand): Tensor<'f32'> {
  mustBeRows('ssm_conv', sx, 'sx');
  const weight = operand('ssm_conv', 'c', c);
  const [length, n, sequences] = sx.ne;
  const taps = weight.ne[0];
  must(
    taps >= 2 && length >= taps && sx.ne[3] === 1 && !sx.batch,
    'ssm_conv',
    'expected d_conv - 1 values before the first new one',
    sx,
    weight,
  );
  const rows = cont(permute(sx, 1, 0, 2, 3));
  const [, nb1, nb2] = rows.nb;
  const tokens = length - taps + 1;
  const x = view(rows, [n, 1, tokens, sequences], { nb: [nb1, nb1, nb2], offset: (taps - 1) * nb1 });
  const from = view(rows, [n, taps - 1, 1, sequences], { nb: [nb1, nb2, nb2] });
  return reshape(convNode(x, weight, { from, to: undefined, runs: runsOf(sequences, tokens) }), [n, tokens, sequences]);
}

/**
 * ggml_ssm_scan, the selective scan of Mamba 1 and 2: s [d_state, dim, n_head, cells], x [dim, n_head, n_tokens, n_seqs], dt [n_head, n_tokens, n_seqs] (its
 * softplus is taken here), A [1, n_head] (Mamba 2) or [d_state, n_head], B and C [d_state, n_group, n_tokens, n_seqs], ids i32 [n_seqs]: the state each
 * sequence goes on from; d_state is a multiple of 4, n_group divides n_head. f32, f16 or bf16 -> f32: the elements of x's shape, and behind them the new
 * states [d_state, dim, n_head, n_seqs]. An id outside gives NaN.
 */
export function ssm_scan(s: Tensor, x: Tensor, dt: Tensor, A: Operand, B: Tensor, C: Tensor, ids: Operand): Tensor<'f32'> {
  for (const [name, t] of Object.entries({ s, x, dt })) mustBeRows('ssm_scan', t, name);
  const cells = ints('ssm_scan', 'ids', ids);
  const [dState, dim, heads, n] = s.ne;
  const sequences = x.ne[3];
  must(cells.ne[0] === sequences && nelements(cells) === sequences, 'ssm_scan', 'expected an id for each sequence', cells, x);
  const size = dState * dim * heads;
  const kept = reshape(get_rows(reshape(isContiguous(s) ? s : cont(s), [size, n]), cells), [dState, dim, heads, sequences]);
  const step = softplus(dt);
  const y = selective_scan(x, reshape(step, [1, ...step.ne.slice(0, 3)]), operand('ssm_scan', 'A', A), B, C, {
    from: kept,
    to: undefined,
    runs: runsOf(sequences, x.ne[2]),
  });
  sequencesOf('ssm_scan', kept, x);
  return statesBehind(y, [nelements(x) + nelements(kept), 1]);
}

/**
 * ggml_gated_delta_net: q and k [n, n_head_k, n_tokens, n_seqs], v [n, n_head, n_tokens, n_seqs], g [1 or n, n_head, n_tokens, n_seqs], beta [1, n_head,
 * n_tokens, n_seqs], state [n, n, n_head, n_seqs]; n is a multiple of 4, n_head_k divides n_head. f32, f16 or bf16 -> f32 [n * n_head, n_tokens * n_seqs + n *
 * n_seqs]: v's shape, and behind it the new states. For each token S = S e^g; S += k (beta (v - S k))^T; S q / sqrt n, where row j of a state belongs to
 * value j.
 */
export function gated_delta_net(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor): Tensor<'f32'> {
  mustBeRows('gated_delta_net', v, 'v');
  mustBeRows('gated_delta_net', state, 'state');
  const [n, heads, tokens, sequences] = v.ne;
  sequencesOf('gated_delta_net', state, v);
  const y = delta_net(q, k, v, g, beta, { from: state, to: undefined, runs: runsOf(sequences, tokens) });
  return statesBehind(y, [n * heads, (tokens + n) * sequences]);
}
