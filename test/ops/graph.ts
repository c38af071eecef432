/** Golden cases as graphs of quantlet/core. */
import * as core from 'quantlet/core';
import type { Engine, Tensor, TypeName } from 'quantlet/core';
import { fill } from '../golden/ops/inputs.mjs';
import type { Source } from '../golden/ops/inputs.mjs';
import { decode, type OpCase } from '../reference/golden-ops.ts';

/** Computes a result and returns its numbers. */
export async function computed(engine: Engine, t: Tensor): Promise<Float32Array> {
  const plan = engine.plan(t);
  await engine.compute(plan);
  const got = engine.read(t) as Float32Array;
  plan.dispose();
  return got;
}

/**
 * A source as a tensor: filled in storage order, converted to its type by cpy, seen through its
 * view and permutation.
 */
export async function source(engine: Engine, s: Source): Promise<Tensor> {
  const values = fill(s);
  const ne = s.ne as number[];
  let t: Tensor;
  if (s.type === 'i32') t = engine.tensor('i32', ne, Int32Array.from(values));
  else if (s.type === 'i64')
    t = engine.tensor(
      'i64',
      ne,
      BigInt64Array.from(values, (v) => BigInt(v)),
    );
  else {
    const f32 = engine.tensor('f32', ne, Float32Array.from(values));
    if (s.type === 'f32') t = f32;
    else {
      t = engine.tensor(s.type as TypeName, ne);
      const plan = engine.plan(core.cpy(f32, t));
      await engine.compute(plan);
      plan.dispose();
      engine.free(f32);
    }
  }
  if (s.view) t = core.view(t, s.view.ne as unknown as core.Ne, { nb: s.view.nb, offset: s.view.offset });
  if (s.permute) t = core.permute(t, ...(s.permute as [number, number, number, number]));
  return t;
}

const moves1d = (p: Readonly<Record<string, number>>): core.Conv1dOptions => ({ stride: p.s0, padding: p.p0, dilation: p.d0 });
const moves2d = (p: Readonly<Record<string, number>>): core.Conv2dOptions => ({
  stride: [p.s0, p.s1],
  padding: [p.p0, p.p1],
  dilation: [p.d0, p.d1],
});

/** Types by the number that a case's parameter `type` has for cast. */
const CASTS: readonly TypeName[] = ['f32', 'f16', 'bf16', 'q8_0', 'q4_0'];

/** The op of a case over its sources. */
export function build(c: Pick<OpCase, 'op' | 'params' | 'src'>, src: readonly (Tensor | undefined)[]): Tensor {
  const [a, b, m, k] = src as readonly Tensor[];
  const p = c.params ?? {};
  switch (c.op) {
    case 'swiglu_split':
      return core.swiglu(a, b);
    case 'geglu_split':
      return core.geglu(a, b);
    case 'geglu_quick_split':
      return core.geglu_quick(a, b);
    case 'geglu_erf_split':
      return core.geglu_erf(a, b);
    case 'reglu_split':
      return core.reglu(a, b);
    case 'swiglu_oai':
      return core.swiglu_oai(a, b);
    case 'norm':
      return core.norm(a, { weight: b, bias: m, eps: p.eps });
    case 'rms_norm':
      return core.rms_norm(a, { weight: b, eps: p.eps });
    case 'argsort':
      return core.argsort(a, { order: p.order ? 'desc' : 'asc' });
    case 'top_k':
      return core.top_k(a, p.k);
    case 'pool_1d':
      return core.pool_1d(a, { kind: p.kind ? 'avg' : 'max', k: p.k0, s: p.s0 });
    case 'pad_ext':
      return core.pad(a, [p.rp0, p.rp1, p.rp2, p.rp3], { left: [p.lp0, p.lp1, p.lp2, p.lp3] });
    case 'group_norm':
      return core.group_norm(a, { groups: p.groups, eps: p.eps });
    case 'im2col':
      return core.im2col(
        a,
        b,
        p.is_2D ? { ...moves2d(p), type: p.type ? 'f16' : 'f32' } : { ...moves1d(p), type: p.type ? 'f16' : 'f32', is2D: false },
      );
    case 'mul_mat_sparse':
      return core.mul_mat_sparse(a, b, m, { ...p, row_lookup: k });
    case 'axpy':
      return core.axpy(a, b, m, { ...p, row_lookup: k });
    case 'conv_1d':
      return core.conv_1d(a, b, p.type === 0 ? { ...moves1d(p), type: 'f32' } : moves1d(p));
    case 'conv_2d':
      return core.conv_2d(a, b, p.type === 0 ? { ...moves2d(p), type: 'f32' } : moves2d(p));
    case 'repeat':
      return core.repeat(a, b.ne);
    case 'concat':
      return core.concat(a, b, p.dim);
    case 'scale':
      return core.scale(a, p.s, { bias: p.b });
    case 'soft_cap':
      return core.soft_cap(a, p.cap);
    case 'xielu':
      return core.xielu(a, p.alphaN, p.alphaP, p.beta, p.eps);
    case 'clamp':
      return core.clamp(a, p.min, p.max);
    case 'diag_mask_inf':
      return core.diag_mask_inf(a, p.n_past);
    case 'set_rows':
      return core.set_rows(a, b, m);
    case 'cpy':
      return core.cpy(a, b);
    case 'cast':
      return core.cast(a, CASTS[p.type]);
    case 'soft_max_ext':
      return core.soft_max(a, { mask: b, scale: p.scale, maxBias: p.max_bias });
    case 'rope_ext':
      return core.rope_ext(a, b, {
        nDims: p.n_dims,
        mode: p.mode === 2 ? 'neox' : 'normal',
        nCtxOrig: p.n_ctx_orig,
        freqBase: p.freq_base,
        freqScale: p.freq_scale,
        extFactor: p.ext_factor,
        attnFactor: p.attn_factor,
        betaFast: p.beta_fast,
        betaSlow: p.beta_slow,
        factors: c.src[2] ? Array.from(fill(c.src[2])) : undefined,
        nCtx: 256,
      });
    case 'ssm_scan':
      return core.ssm_scan(...(src as Parameters<typeof core.ssm_scan>));
    case 'gated_delta_net':
      return core.gated_delta_net(...(src as Parameters<typeof core.gated_delta_net>));
    case 'flash_attn_ext':
      return core.flash_attn_ext(a, b, m, {
        mask: k,
        scale: p.scale,
        maxBias: p.max_bias,
        logitSoftcap: p.logit_softcap,
        causal: p.causal === 1,
        window: p.window,
        sinks: src[4],
      });
    // Ops with the same name and arguments as the golden case: tensors, then its parameters as
    // options.
    default: {
      const op = (core as unknown as Record<string, ((...args: unknown[]) => Tensor) | undefined>)[c.op];
      if (!op) throw new Error(`no graph for ${c.op}`);
      return op(...src.filter(Boolean), ...(Object.keys(p).length ? [p] : []));
    }
  }
}

/** Elements of a tensor as numbers, in ne order. */
export function numbers(engine: Engine, t: Tensor): Float64Array {
  const data = engine.read(t);
  return decode(t.type.name, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
}
