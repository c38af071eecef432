/**
 * Graph nodes -> records: one record is one call of a kernel on all threads. Here is decided which kernel a node takes
 * and what is fused; where its memory lies and where threads must meet is plan.ts's business.
 */
import { QuantletError } from '../errors.ts';
import { TYPE, rowSize, type TypeName, type TypeTraits } from '../type-traits.ts';
import type { OpCode } from './layout.ts';
import { ATTENTION_PART, ATTENTION_SPLIT_TOKENS, ATTENTION_STATE, TYPE_ACT } from './layout.ts';
import { leaf, shape, type Ne, type Tensor } from './tensor.ts';

export interface Record {
  readonly code: OpCode;
  readonly dst: Tensor;
  readonly src: readonly (Tensor | undefined)[];
  /** Words p0, p1 ...; `f` marks f32 bits. */
  readonly params: readonly (number | { f: number })[];
  /** Sources that the kernel writes too. */
  readonly alsoWrites?: readonly Tensor[];
}

/** The type src1 must have for vec_dot with a weight type (ggml's type_traits.vec_dot_type). */
const VEC_DOT_TYPE: Partial<{ [K in TypeName]: TypeName }> = {
  f32: 'f32', f16: 'f32', bf16: 'f32',
  q4_0: 'q8_0', q5_0: 'q8_0', q8_0: 'q8_0', iq4_nl: 'q8_0', mxfp4: 'q8_0', q4_1: 'q8_1', q5_1: 'q8_1',
  q2_K: 'q8_K', q3_K: 'q8_K', q4_K: 'q8_K', q5_K: 'q8_K', q6_K: 'q8_K', iq4_xs: 'q8_K', tq1_0: 'q8_K', tq2_0: 'q8_K',
};

export const vecDotType = (weights: TypeTraits, tensor = ''): TypeTraits => {
  const name = VEC_DOT_TYPE[weights.name as TypeName];
  if (!name) throw new QuantletError('ERR_UNSUPPORTED_TYPE', `no kernel reads ${weights.name} weights${tensor && ` (tensor "${tensor}")`}; these run: ${Object.keys(VEC_DOT_TYPE).join(', ')}`);
  return TYPE[name];
};

/** Ops whose kernels look at the type of what they read; all others read f32. */
const TYPED_OPS: ReadonlySet<string> = new Set(['get_rows', 'mul_mat', 'set_rows', 'flash_attn_ext']);

/** Weights come from a file that may say anything; a kernel that takes f32 would read other types as noise, or beyond their end. */
function checkWeights(t: Tensor): void {
  if (t.op === 'get_rows' && t.src[0].op === 'leaf') vecDotType(t.src[0].type, t.src[0].name);
  if (TYPED_OPS.has(t.op)) return;
  const bad = t.src.find((s) => s.op === 'leaf' && !s.batch && s.type !== TYPE.f32);
  if (bad) throw new QuantletError('ERR_UNSUPPORTED_TYPE', `tensor "${bad.name}" is ${bad.type.name}, ${t.op} takes f32: the file was converted in a way that ggml's own tools do not`);
}

/** A node the lowering adds: same shape as its model, another type. */
const temporary = (name: string, type: TypeTraits, like: Tensor, ne: Ne = like.ne): Tensor => {
  const t = { ...leaf(name, type, ne, like.batch), op: 'view' as const };
  return { ...t, nb: [type.typeSize, rowSize(type, ne[0]), rowSize(type, ne[0]) * ne[1], rowSize(type, ne[0]) * ne[1] * ne[2]] as const };
};

/** `nodes` in an order in which each comes after its sources; `actBlockBytes`: what 32 activations take in the packed kernels' format. */
export function lower(nodes: readonly Tensor[], actBlockBytes: number): Record[] {
  const actType: TypeTraits = { id: TYPE_ACT, name: 'activations', blckSize: 32, typeSize: actBlockBytes };
  const records: Record[] = [];
  const quantised = new Map<string, Tensor>();
  const ids = new Map<Tensor, number>(nodes.map((n, i) => [n, i]));

  /** src1 in the type the weights' kernel wants; made once however many products read it. */
  const asVecDotType = (weights: Tensor, x: Tensor): Tensor => {
    const type = weights.layout === 'packed' ? actType : vecDotType(weights.type, weights.name);
    if (type === x.type) return x;
    const key = `${ids.get(x)} ${type.name}`;
    let q = quantised.get(key);
    if (!q) {
      q = temporary(`${x.name || x.op} as ${type.name}`, type, x);
      records.push({ code: 'QUANTIZE', dst: q, src: [x], params: [] });
      quantised.set(key, q);
    }
    return q;
  };

  for (const [i, t] of nodes.entries()) {
    const [a, b, c] = t.src;
    checkWeights(t);
    switch (t.op) {
      case 'get_rows':
        records.push({ code: 'GET_ROWS', dst: t, src: [a, b], params: [] });
        break;
      case 'mul_mat':
        records.push({ code: a.layout === 'packed' ? 'MUL_MAT_PACKED' : 'MUL_MAT', dst: t, src: [a, asVecDotType(a, b)], params: [] });
        break;
      case 'add':
        // A sum that is normalised next is made in the same pass over memory.
        if (nodes[i + 1]?.op === 'rms_norm' && nodes[i + 1].src[0] === t) break;
        records.push({ code: 'ADD', dst: t, src: [a, b], params: [] });
        break;
      case 'rms_norm': {
        const fused = nodes[i - 1] === a && a.op === 'add';
        records.push(
          fused
            ? { code: 'RMS_NORM', dst: t, src: [a.src[0], b, a.src[1], a], params: [{ f: t.params.eps }], alsoWrites: [a] }
            : { code: 'RMS_NORM', dst: t, src: [a, b], params: [{ f: t.params.eps }] },
        );
        break;
      }
      case 'rope':
        records.push({ code: 'ROPE', dst: t, src: [a, b, c], params: [t.params.n_dims, t.params.neox] });
        break;
      case 'set_rows':
        records.push({ code: 'KV_STORE', dst: c, src: [a, b], params: [c.ne[0], c.ne[1], t.params.v] });
        break;
      case 'flash_attn_ext': {
        const [q, k] = t.src;
        const parts = Math.ceil(k.ne[1] / ATTENTION_PART);
        const tokens = Math.min(ATTENTION_SPLIT_TOKENS, q.ne[2]);
        const states: Tensor = { ...temporary('attention parts', TYPE.f32, q, [k.ne[0] + ATTENTION_STATE, parts * q.ne[1] * tokens, 1, 1]), batch: undefined };
        const params = [{ f: t.params.scale }, k.ne[0], k.ne[1], k.ne[2], t.params.window, { f: t.params.soft_cap }, parts];
        records.push({ code: 'ATTENTION', dst: t, src: [...t.src, states], params, alsoWrites: [states] });
        records.push({ code: 'ATTENTION_MERGE', dst: t, src: [...t.src, states], params });
        break;
      }
      case 'swiglu':
        records.push({ code: 'SWIGLU', dst: t, src: [a, b], params: [] });
        break;
      case 'leaf':
      case 'view':
        break;
      default:
        throw new QuantletError('ERR_INVALID_ARGUMENT', `no kernel for ${shape(t)}`);
    }
  }
  return records;
}
