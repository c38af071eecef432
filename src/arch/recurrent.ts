/**
 * Building blocks of recurrent layers: short convolutions, Mamba's two mixers, the gated delta
 * rule. Each maps normed states to the output of a branch.
 */
import { getBool, getCount } from '../gguf/metadata.ts';
import { add, mul, sigmoid, softplus, swiglu } from '../graph/elementwise-ops.ts';
import { cont } from '../graph/ops.ts';
import { causal_conv, delta_net, selective_scan } from '../graph/recurrent.ts';
import { rms_norm } from '../graph/row-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import { reshape, view } from '../graph/views.ts';
import { QuantletError } from '../errors.ts';
import type { GraphContext } from './architecture.ts';
import { linear, linears } from './blocks.ts';
import type { HParams } from './hparams.ts';

const TOKENS = { dim: 2, by: 'tokens' } as const;

/** Elements from .. from + n of each token's row [.., n_tokens]. */
const columns = (x: Tensor, from: number, n: number): Tensor => view(x, [n, x.ne[1], 1, 1], { nb: [x.nb[1]], offset: 4 * from });
/** Elements from .. from + dim * n of each token's row, as heads: [dim, n, n_tokens]. */
const heads = (x: Tensor, from: number, dim: number, n: number): Tensor =>
  view(x, [dim, n, x.ne[1], 1], { nb: [4 * dim, x.nb[1]], offset: 4 * from }, TOKENS);

/** Short convolution of LFM2: over a few tokens, between two gates. */
export function shortConv(g: GraphContext, { nEmbd, arch }: HParams, il: number, h: Tensor): Tensor {
  const name = `blk.${il}.shortconv`;
  const taps = getCount(g.gguf, `${arch}.shortconv.l_cache`, undefined, 2, 16);
  const all = linear(g, h, `${name}.in_proj`, 3 * nEmbd);
  const [b, c, x] = [0, 1, 2].map((i) => columns(all, i * nEmbd, nEmbd));
  const y = causal_conv(mul(b, x), g.weight(`${name}.conv.weight`, [taps, nEmbd]), g.states(name, [nEmbd, taps - 1, 1]));
  return linear(g, mul(c, y), `${name}.out_proj`, nEmbd);
}

/** Sizes of Mamba's mixers and of the delta rule, which share their keys. */
function sizes(g: GraphContext, { arch }: HParams): { taps: number; dState: number; dInner: number; rank: number; groups: number } {
  const count = (k: string, fallback?: number, least = 1, most?: number): number =>
    getCount(g.gguf, `${arch}.ssm.${k}`, fallback, least, most);
  const all = {
    taps: count('conv_kernel', undefined, 2, 16),
    dState: count('state_size'),
    dInner: count('inner_size'),
    rank: count('time_step_rank'),
    groups: count('group_count', 1),
  };
  if (all.dState % 4 !== 0)
    throw new QuantletError('ERR_UNSUPPORTED_ARCH', `${arch}.ssm.state_size is ${all.dState}; expected a multiple of 4`);
  return all;
}

/** @throws ERR_GGUF_INVALID */
function mustDivide(arch: string, part: string, n: number, whole: string, of: number): void {
  if (of % n !== 0)
    throw new QuantletError(
      'ERR_GGUF_INVALID',
      `${arch}.ssm.${part} is ${n} and ssm.${whole} ${of}; expected the first to divide the second`,
    );
}

/** Convolution before a scan, followed by silu. Has a bias if the file does. */
function convolved(g: GraphContext, il: number, x: Tensor, taps: number): Tensor {
  const n = x.ne[0];
  const name = `blk.${il}.ssm_conv1d`;
  return causal_conv(x, g.weight(`${name}.weight`, [taps, n]), g.states(name, [n, taps - 1, 1]), {
    bias: g.optional(`${name}.bias`, [n]),
    silu: true,
  });
}

/**
 * Mamba 1 (arXiv 2312.00752): each channel has its own state, and each of its elements its own
 * decay.
 */
export function mambaMixer(g: GraphContext, hp: HParams, il: number, h: Tensor): Tensor {
  const { taps, dState, dInner, rank } = sizes(g, hp);
  const name = (part: string): string => `blk.${il}.ssm_${part}`;
  const xz = linear(g, h, name('in'), 2 * dInner);
  const x = convolved(g, il, columns(xz, 0, dInner), taps);
  const parts = linear(g, x, name('x'), rank + 2 * dState);
  // FalconMamba norms these, usually without weights.
  const isNormed = getBool(g.gguf, `${hp.arch}.ssm.dt_b_c_rms`, false);
  const normed = (t: Tensor): Tensor => (isNormed ? rms_norm(t, { eps: hp.eps }) : t);
  const dt = softplus(linear(g, normed(columns(parts, 0, rank)), name('dt'), dInner));
  const [B, C] = [rank, rank + dState].map((from) => normed(heads(parts, from, dState, 1)));
  const A = g.weight(name('a'), [dState, dInner]);
  const channels = (t: Tensor): Tensor => heads(t, 0, 1, dInner);
  const y = selective_scan(channels(x), channels(dt), A, B, C, g.states(name('scan'), [dState, 1, dInner]));
  const sum = add(reshape(y, x.ne, x.batch), mul(x, g.weight(name('d'), [dInner])));
  return linear(g, swiglu(columns(xz, dInner, dInner), sum), name('out'), hp.nEmbd);
}

/** Mamba 2 (arXiv 2405.21060): heads with one decay each; groups of heads share B and C. */
export function mamba2Mixer(g: GraphContext, hp: HParams, il: number, h: Tensor): Tensor {
  const { taps, dState, dInner, rank: nHead, groups } = sizes(g, hp);
  mustDivide(hp.arch, 'time_step_rank', nHead, 'inner_size', dInner);
  mustDivide(hp.arch, 'group_count', groups, 'time_step_rank', nHead);
  const name = (part: string): string => `blk.${il}.ssm_${part}`;
  const dim = dInner / nHead;
  const width = dInner + 2 * groups * dState;
  const all = linear(g, h, name('in'), dInner + width + nHead);
  const z = columns(all, 0, dInner);
  const xBC = convolved(g, il, columns(all, dInner, width), taps);
  const dt = softplus(add(columns(all, dInner + width, nHead), g.weight(name('dt.bias'), [nHead])));
  const x = heads(xBC, 0, dim, nHead);
  const [B, C] = [dInner, dInner + groups * dState].map((from) => heads(xBC, from, dState, groups));
  const perHead = (part: string): Tensor => g.weight(name(part), [1, nHead]);
  const y = selective_scan(x, heads(dt, 0, 1, nHead), perHead('a'), B, C, g.states(name('scan'), [dState, dim, nHead]));
  const sum = reshape(add(y, mul(x, perHead('d'))), [dInner, h.ne[1]], h.batch);
  return linear(g, groupNorm(g, hp, swiglu(z, sum), name('norm'), groups), name('out'), hp.nEmbd);
}

/**
 * RMS norm of each group separately, with a weight for every element. Returns x if the file has no
 * weight.
 */
function groupNorm(g: GraphContext, hp: HParams, x: Tensor, name: string, groups: number): Tensor {
  const n = x.ne[0] / groups;
  const weight = g.optional(`${name}.weight`, [n, groups]);
  return weight ? reshape(mul(rms_norm(heads(x, 0, n, groups), { eps: hp.eps }), weight), x.ne, x.batch) : x;
}

/**
 * Each token's row has groups of 2 n numbers. Concatenates the first (half 0) or the second (half
 * 1) n numbers of all groups: [n * groups, n_tokens].
 */
function ofGroups(x: Tensor, half: number, n: number): Tensor {
  const groups = x.ne[0] / (2 * n);
  const part = view(x, [n, groups, x.ne[1], 1], { nb: [8 * n, x.nb[1]], offset: 4 * n * half }, TOKENS);
  return reshape(cont(part), [n * groups, x.ne[1]], { dim: 1, by: 'tokens' });
}

/** Heads of a token's row, each repeated `times` times: [dim, times, heads, n_tokens]. */
const repeated = (x: Tensor, from: number, dim: number, n: number, times: number): Tensor =>
  view(x, [dim, times, n, x.ne[1]], { nb: [0, 4 * dim, x.nb[1]], offset: 4 * from }, { dim: 3, by: 'tokens' });

/**
 * Linear attention of Qwen: the gated delta rule (arXiv 2412.06464) over convolved q, k and v, then
 * normed and gated.
 */
export function deltaMixer(g: GraphContext, hp: HParams, il: number, h: Tensor): Tensor {
  const { taps, dState: n, dInner, rank: nHead, groups: nHeadK } = sizes(g, hp);
  if (dInner !== n * nHead)
    throw new QuantletError(
      'ERR_UNSUPPORTED_ARCH',
      `${hp.arch}.ssm.inner_size is ${dInner}, ssm.state_size ${n}, ssm.time_step_rank ${nHead}; quantlet runs values as wide as keys, where the first is the product of the others`,
    );
  mustDivide(hp.arch, 'group_count', nHeadK, 'time_step_rank', nHead);
  const name = (part: string): string => `blk.${il}.${part}`;
  const nKeys = n * nHeadK;
  // With `ssm_ba`, heads that share a key are adjacent, and the product gives each group's betas
  // followed by its alphas. Without it, head h uses key h modulo the number of keys.
  const grouped = g.has(`${name('ssm_ba')}.weight`);
  const [qkv, z, ...rest] = linears(g, h, [
    [name('attn_qkv'), 2 * nKeys + dInner],
    [name('attn_gate'), dInner],
    ...(grouped ? ([[name('ssm_ba'), 2 * nHead]] as const) : ([[name('ssm_beta'), nHead], [name('ssm_alpha'), nHead]] as const)), // prettier-ignore
  ]);
  const [beta, alpha] = grouped ? [0, 1].map((i) => ofGroups(rest[0], i, nHead / nHeadK)) : rest;
  const decay = mul(softplus(add(alpha, g.weight(name('ssm_dt.bias'), [nHead]))), g.weight(name('ssm_a'), [nHead]));
  const all = convolved(g, il, qkv, taps);
  // With this weight, rms_norm makes rows of unit length: x / sqrt(|x|^2 + eps).
  const unit = new Float32Array(n).fill(1 / Math.sqrt(n));
  const key = (from: number): Tensor => {
    const k = grouped ? repeated(all, from, n, nHeadK, nHead / nHeadK) : heads(all, from, n, nHeadK);
    const normed = rms_norm(k, { weight: unit, eps: hp.eps / n });
    return grouped ? reshape(normed, [n, nHead, h.ne[1], 1], TOKENS) : normed;
  };
  const perHead = (t: Tensor): Tensor => heads(t, 0, 1, nHead);
  const y = delta_net(
    key(0),
    key(nKeys),
    heads(all, 2 * nKeys, n, nHead),
    perHead(decay),
    perHead(sigmoid(beta)),
    g.states(name('delta_net'), [n, n, nHead]),
  );
  const normed = rms_norm(y, { weight: g.weight(name('ssm_norm.weight'), [n]), eps: hp.eps });
  const gated = reshape(swiglu(heads(z, 0, n, nHead), normed), [dInner, h.ne[1]], h.batch);
  return linear(g, gated, name('ssm_out'), hp.nEmbd);
}
