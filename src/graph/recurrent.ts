/**
 * Recurrent layers of models: states lie in cells, and runs tell which cells a step's tokens
 * continue from (assembly/ops/recurrent.ts). recurrent-ops.ts has the same over ordinary tensors,
 * as in ggml.
 */
import { MOST_TAPS } from './layout.ts';
import { mustBeRows } from './operands.ts';
import { must, node, type Tensor } from './tensor.ts';
import { permute, reshape } from './views.ts';

/** Cells that a step's tokens read states from and write states to. */
export interface StateCells {
  /** f32 [..., cells]: states that are read. */
  readonly from: Tensor;
  /**
   * States that are written: in the shape of `from`, possibly its memory. undefined: nothing, or
   * the part after the result (ssm_scan, gated_delta_net).
   */
  readonly to: Tensor | undefined;
  /** i32 [RUN_WORDS, runs]. */
  readonly runs: Tensor;
}

export interface ConvOptions {
  /** [n], added to the result. */
  readonly bias?: Tensor | undefined;
  /** Applies silu to the result. */
  readonly silu?: boolean;
}

/**
 * Each channel's last `taps` values, weighted: x [n, n_tokens], weights [taps, n], states [n, taps
 * - 1, 1, cells] -> f32 [n, n_tokens].
 */
export function causal_conv(x: Tensor, weight: Tensor, states: StateCells, options: ConvOptions = {}): Tensor<'f32'> {
  const y = convNode(permute(x, 0, 2, 1, 3), weight, states, options);
  return reshape(y, x.ne, x.batch);
}

/**
 * causal_conv() as a node, with tokens in dimension 2 and sequences in dimension 3 of x and of the
 * result.
 */
export function convNode(
  x: Tensor,
  weight: Tensor,
  { from, to, runs }: StateCells,
  { bias, silu = false }: ConvOptions = {},
): Tensor<'f32'> {
  mustBeRows('ssm_conv', x);
  mustBeRows('ssm_conv', weight, 'weights');
  const [taps, n] = weight.ne;
  must(
    n === x.ne[0] && x.ne[1] === 1 && taps >= 2 && taps <= MOST_TAPS && from.ne[0] === n && from.ne[1] === taps - 1,
    'ssm_conv',
    `expected 2 to ${MOST_TAPS} weights for each channel, and states of one row less`,
    x,
    weight,
    from,
  );
  return node('ssm_conv', x.ne, { src: [x, weight, bias, from, runs, to], params: { silu: silu ? 1 : 0 }, batch: x.batch });
}

/**
 * Mamba's selective scan -> f32 in x's shape. Dimension 3 counts sequences.
 * `x` [dim, n_head, n_tokens].
 * `dt` [1, n_head, n_tokens], after its softplus.
 * `A` [d_state or 1, n_head].
 * `B` and `C` [d_state, n_group, n_tokens].
 * `states` [d_state, dim, n_head, cells].
 */
export function selective_scan(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, { from, to, runs }: StateCells): Tensor<'f32'> {
  for (const [name, t] of Object.entries({ x, dt, A, B, C })) mustBeRows('ssm_scan', t, name);
  const [dim, heads, tokens, sequences] = x.ne;
  const [dState, groups] = B.ne;
  must(
    dt.ne[0] === 1 && dt.ne[1] === heads && dt.ne[2] === tokens && dt.ne[3] === sequences,
    'ssm_scan',
    'expected dt with a number for each head and token',
    x,
    dt,
  );
  must(
    (A.ne[0] === 1 || A.ne[0] === dState) && A.ne[1] === heads && A.ne[2] * A.ne[3] === 1,
    'ssm_scan',
    'expected A with one decay for each head, or one for each element of its state',
    A,
    B,
  );
  must(
    B.ne.every((n, i) => n === C.ne[i]) && heads % groups === 0 && B.ne[2] === tokens && B.ne[3] === sequences,
    'ssm_scan',
    "expected B and C of one shape, with x's tokens, and with groups that divide the heads",
    x,
    B,
    C,
  );
  must(
    dState % 4 === 0 && from.ne[0] === dState && from.ne[1] === dim && from.ne[2] === heads,
    'ssm_scan',
    'expected states of [d_state, dim, n_head, cells], and a d_state that is a multiple of 4',
    from,
    x,
    B,
  );
  return node('ssm_scan', x.ne, { src: [x, dt, A, B, C, from, runs, to], batch: x.batch });
}

/**
 * Gated delta rule (arXiv 2412.06464) -> f32 in v's shape. Head h uses head h mod (number of their
 * heads) of q and k. Dimension 3 counts sequences.
 * `q` and `k` [n, divides n_head, n_tokens].
 * `v` [n, n_head, n_tokens].
 * `g` [1 or n, n_head, n_tokens].
 * `beta` [1, n_head, n_tokens].
 * `states` [n, n, n_head, cells].
 */
export function delta_net(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, { from, to, runs }: StateCells): Tensor<'f32'> {
  for (const [name, t] of Object.entries({ q, k, v, g, beta })) mustBeRows('gated_delta_net', t, name);
  const [n, heads, tokens, sequences] = v.ne;
  const alike = (t: Tensor, n0: number): boolean => t.ne[0] === n0 && heads % t.ne[1] === 0 && t.ne[2] === tokens && t.ne[3] === sequences;
  must(
    n % 4 === 0 && alike(q, n) && alike(k, n),
    'gated_delta_net',
    "expected q and k with rows as long as v's (a multiple of 4), v's tokens, and heads that divide v's",
    q,
    k,
    v,
  );
  must(
    (alike(g, 1) || alike(g, n)) && g.ne[1] === heads && alike(beta, 1) && beta.ne[1] === heads,
    'gated_delta_net',
    'expected g and beta with one number for each head and token, or g with one for each element of a row',
    g,
    beta,
    v,
  );
  must(
    from.ne[0] === n && from.ne[1] === n && from.ne[2] === heads,
    'gated_delta_net',
    'expected states of [n, n, n_head, cells]',
    from,
    v,
  );
  return node('gated_delta_net', v.ne, { src: [q, k, v, g, beta, from, runs, to], params: { scale: 1 / Math.sqrt(n) }, batch: v.batch });
}
