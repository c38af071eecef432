/** Recurrent layers over ordinary tensors, as in ggml. @see ops.ts */
import { TYPE } from '../type-traits.ts';
import { softplus } from './elementwise-ops.ts';
import { ints, mustBeRows, operand, type Operand } from './operands.ts';
import { cont, get_rows } from './ops.ts';
import { RUN_WORDS } from './layout.ts';
import { convNode, delta_net, selective_scan } from './recurrent.ts';
import { constant, isContiguous, must, nelements, node, type Tensor } from './tensor.ts';
import { permute, reshape, view } from './views.ts';

/** Runs in which each sequence continues from the state with its number. */
const runsOf = (sequences: number, tokens: number): Tensor =>
  constant('runs', TYPE.i32, [RUN_WORDS, sequences, 1, 1], () => {
    const runs = new Int32Array(RUN_WORDS * sequences);
    for (let i = 0; i < sequences; i++) runs.set([tokens, i, i], RUN_WORDS * i);
    return new Uint8Array(runs.buffer);
  });

/** The op with ggml's result: its output followed by the states. */
const statesBehind = (y: Tensor, ne: readonly [number, number]): Tensor<'f32'> =>
  node(y.op, [...ne, 1, 1], { src: y.src, params: y.params });

/** @throws ERR_TENSOR_SHAPE */
const sequencesOf = (op: string, states: Tensor, x: Tensor): void =>
  must(!x.batch && states.ne[3] === x.ne[3], op, 'expected a state for each sequence', states, x);

/**
 * ggml_ssm_conv: each channel's last d_conv values, weighted -> f32 [d_inner, n_t, n_s].
 * `sx` [d_conv - 1 + n_t, d_inner, n_s] has, for each channel, old values, then n_t new ones.
 * `c` [d_conv, d_inner]; d_conv is 2 to 16.
 * Both are f32, f16 or bf16.
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
 * ggml_ssm_scan, the selective scan of Mamba 1 and 2. f32, f16 or bf16 -> f32: the elements of x's
 * shape, followed by the new states [d_state, dim, n_head, n_seqs].
 * `s` [d_state, dim, n_head, cells]; d_state is a multiple of 4.
 * `x` [dim, n_head, n_tokens, n_seqs].
 * `dt` [n_head, n_tokens, n_seqs], before its softplus.
 * `A` [1, n_head] (Mamba 2) or [d_state, n_head].
 * `B` and `C` [d_state, n_group, n_tokens, n_seqs]; n_group divides n_head.
 * `ids` i32 [n_seqs]: the state that each sequence continues from; an id out of range gives NaN.
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
 * ggml_gated_delta_net. f32, f16 or bf16 -> f32 [n * n_head, n_tokens * n_seqs + n * n_seqs]: v's
 * shape, followed by the new states. For each token: S = S e^g; S += k (beta (v - S k))^T; the
 * output is S q / sqrt n. Row j of a state belongs to value j.
 * `q` and `k` [n, n_head_k, n_tokens, n_seqs]; n is a multiple of 4, n_head_k divides n_head.
 * `v` [n, n_head, n_tokens, n_seqs].
 * `g` [1 or n, n_head, n_tokens, n_seqs].
 * `beta` [1, n_head, n_tokens, n_seqs].
 * `state` [n, n, n_head, n_seqs].
 */
export function gated_delta_net(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor): Tensor<'f32'> {
  mustBeRows('gated_delta_net', v, 'v');
  mustBeRows('gated_delta_net', state, 'state');
  const [n, heads, tokens, sequences] = v.ne;
  sequencesOf('gated_delta_net', state, v);
  const y = delta_net(q, k, v, g, beta, { from: state, to: undefined, runs: runsOf(sequences, tokens) });
  return statesBehind(y, [n * heads, (tokens + n) * sequences]);
}
