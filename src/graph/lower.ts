/**
 * Graph nodes -> records: one record is one call of a kernel on all threads. Here is decided which kernel a node takes, what is
 * converted first and what is fused; where its memory lies and where threads must meet is plan.ts's business.
 */
import { QuantletError } from '../errors.ts';
import { alignUp } from '../gguf/types.ts';
import { TYPE, rowSize, type TypeTraits } from '../type-traits.ts';
import { BINARY, COPY, COPY_CHUNK, COPY_SCRATCH, FOURS_SCRATCH, KV_STORE_SCRATCH, LOOPS, TYPE_ACT, type OpCode } from './layout.ts';
import { attentionRecords, flashAttnRecords } from './lower-attention.ts';
import { chooseMulMat, type PackedFacts } from './mul-mat-ways.ts';
import { baseOf, fits, mustFit } from './strides.ts';
import { temporary, type KernelFacts, type Record } from './record.ts';
import { hasContiguousRows, isContiguous, nbytes, node, sameShape, shape, type Ne, type Tensor } from './tensor.ts';

export type { Record } from './record.ts';

/** A quantised tensor's blocks as the bytes they are: whatever the shape they move to, they are not quantised again. */
const asBytes = (t: Tensor): Tensor => node('view', [rowSize(t.type, t.ne[0]), t.ne[1], t.ne[2], t.ne[3]], { name: `bytes of ${t.name || t.op}`, type: TYPE.i8, nb: [1, t.nb[1], t.nb[2], t.nb[3]], viewOf: t });
const chunkBytes = (type: TypeTraits): number => (COPY_CHUNK / type.blckSize) * type.typeSize;

/** `nodes` in an order in which each comes after its sources. */
export function lower(nodes: readonly Tensor[], facts: KernelFacts): Record[] {
  const acts = new Map<number, TypeTraits>();
  const actType = (weights: TypeTraits): TypeTraits => {
    const id = facts.packed_act_type(weights.id);
    if (id === TYPE.f32.id) return TYPE.f32;
    const blckSize = weights.blckSize === ACT_K_BLOCK ? ACT_K_BLOCK : ACT_BLOCK;
    const type = acts.get(id) ?? { id, name: blckSize === ACT_BLOCK ? 'activations' : 'activations in super-blocks', blckSize, typeSize: facts.act_row_size(id, blckSize) };
    acts.set(id, type);
    return type;
  };
  const packedFacts: PackedFacts = { act: actType, loop: (weights, c, n) => LOOPS[facts.packed_loop(weights.id, c, n)] };
  const records: Record[] = [], work = facts.quantize_work_size();
  /** Conversions made so far, so that however many ops read one it is made once. */
  const converted = new Map<Tensor, Tensor[]>();

  /** The one way to a record: sources that its kernel does not take as they lie (strides.ts) are copied before. */
  const push = (wanted: Record): void => {
    const record = { ...wanted, src: wanted.src.map((s, i) => (s && !fits(wanted, i) ? converting(s, s.type) : s)) };
    mustFit(record);
    records.push(record);
    // Conversions of memory that this record writes are out of date.
    for (const w of [record.dst, ...(record.alsoWrites ?? [])]) {
      if (w.op === 'leaf' || w.viewOf) for (const t of converted.keys()) if (baseOf(t) === baseOf(w)) converted.delete(t);
    }
  };

  /** The elements of x in order into those of y. `act`: for an integer product to read. */
  const copy = (x: Tensor, y: Tensor, act = 0): void => {
    const rows = sameShape(x, y) && hasContiguousRows(x) && hasContiguousRows(y);
    if (y.type.id >= TYPE_ACT) push({ code: 'QUANTIZE', dst: y, src: [rowsOf(x, TYPE.f32)], params: [] });
    else if (rows && x.type === y.type) push({ code: 'CPY', dst: y, src: [x], params: [COPY.rows, rowSize(x.type, x.ne[0])], how: 'rows as they are' });
    else if (x.type === y.type && x.type.blckSize === 1) push({ code: 'CPY', dst: y, src: [x], params: [COPY.elements, x.type.typeSize], how: 'element by element' });
    else if (x.type === y.type) copy(asBytes(x), asBytes(y));
    else if (rows && x.type === TYPE.f32) push({ code: 'QUANTIZE', dst: y, src: [x], params: [act], scratch: work });
    else if (rows) push({ code: 'CPY', dst: y, src: [x], params: [COPY.convert, chunkBytes(x.type), chunkBytes(y.type), act], scratch: COPY_SCRATCH + work, how: `${x.type.name} by way of f32` });
    else if (x.type.blckSize > 1) copy(converting(x, TYPE.f32), y, act);
    else push({ code: 'CPY', dst: y, src: [x], params: [COPY.gather, 0, hasContiguousRows(y) ? chunkBytes(y.type) : 0, act], scratch: COPY_SCRATCH + work, how: `${x.type.name} gathered by way of f32` });
  };

  const converting = (x: Tensor, type: TypeTraits): Tensor => {
    const known = converted.get(x)?.find((t) => t.type === type);
    if (known) return known;
    const t = temporary(`${x.name || x.op} as ${type.name}`, type, x, type.id >= TYPE_ACT ? inFours(x.ne) : x.ne, x.batch), made = records.findLastIndex((r) => baseOf(r.dst) === baseOf(x));
    if (made >= 0 && writesMore(records[made], x)) records[made] = { ...records[made], also: [...(records[made].also ?? []), t] };
    else copy(x, t, Number(type.blckSize > 1));
    converted.set(x, [...(converted.get(x) ?? []), t]);
    return t;
  };

  /** x where its rows are contiguous and of this type, else a conversion. */
  const rowsOf = (x: Tensor, type: TypeTraits): Tensor => (x.type === type && hasContiguousRows(x) ? x : converting(x, type));
  const f32 = (x: Tensor | undefined): Tensor | undefined => x && rowsOf(x, TYPE.f32);

  /** Kernels write rows of contiguous f32: where the node is something else, by way of such. */
  const into = (t: Tensor, write: (dst: Tensor) => void): void => {
    if (t.type === TYPE.f32 && hasContiguousRows(t)) return write(t);
    const dst = temporary(`${t.name || t.op} in f32`, TYPE.f32, t);
    write(dst);
    copy(dst, t);
  };
  const rowwise = (code: OpCode, t: Tensor, params: Record['params'] = [], scratch = 0): void => into(t, (dst) => push({ code, dst, src: t.src.map(f32), params, scratch }));

  const steps = nodes.filter((n) => n.op !== 'leaf' && n.op !== 'view');
  for (const [i, t] of steps.entries()) {
    const [a, b, c] = t.src as readonly Tensor[];
    const p = t.params;
    switch (t.op) {
      case 'get_rows':
        push({ code: 'GET_ROWS', dst: t, src: [a, b], params: [] });
        break;
      case 'set_rows':
        push({ code: 'SET_ROWS', dst: t, src: [f32(a), b], params: [], scratch: work });
        break;
      case 'cpy':
        copy(a, t);
        break;
      case 'concat': {
        const offset = a.ne[p.dim] * t.nb[p.dim];
        copy(a, node('view', a.ne, { type: t.type, nb: t.nb, batch: a.batch, viewOf: t }));
        copy(b, node('view', b.ne, { type: t.type, nb: t.nb, batch: b.batch, viewOf: t, viewOffset: offset }));
        break;
      }
      case 'mul_mat': {
        const way = chooseMulMat(a, b, p.f32 === 1, packedFacts);
        push({ code: way.code, dst: t, src: [rowsOf(a, way.src0), rowsOf(b, way.src1)], params: [], how: way.how, scratch: way.code === 'MUL_MAT_PACKED' ? facts.mul_mat_packed_scratch() : 0 });
        break;
      }
      case 'binary': {
        // A sum that is normalised next is made in the same pass over memory.
        if (fusesWithNorm(t, steps[i + 1])) break;
        const anyStrides = (x: Tensor): Tensor => (x.type === TYPE.f32 ? x : converting(x, TYPE.f32));
        if (t.type === TYPE.f32) push({ code: 'BINARY', dst: t, src: [p.kind === BINARY.repeat ? t : anyStrides(a), anyStrides(b)], params: [p.kind] });
        else into(t, (dst) => push({ code: 'BINARY', dst, src: [anyStrides(a), anyStrides(b)], params: [p.kind] }));
        break;
      }
      case 'unary':
        rowwise('UNARY', t, [p.kind, { f: p.a }, { f: p.b }], FOURS_SCRATCH);
        break;
      case 'glu':
        rowwise('GLU', t, [p.kind, p.swapped], FOURS_SCRATCH);
        break;
      case 'norm':
        rowwise('NORM', t, [{ f: p.eps }]);
        break;
      case 'l2_norm':
        rowwise('L2_NORM', t, [{ f: p.eps }]);
        break;
      case 'rms_norm': {
        const sum = steps[i - 1];
        if (sum === a && fusesWithNorm(a, t)) push({ code: 'RMS_NORM', dst: t, src: [a.src[0], f32(b), a.src[1], a], params: [{ f: p.eps }], alsoWrites: [a], how: 'with the sum before it' });
        else rowwise('RMS_NORM', t, [{ f: p.eps }]);
        break;
      }
      case 'rope':
        into(t, (dst) => push({ code: 'ROPE', dst, src: [f32(a), b, c], params: [p.n_dims, p.neox] }));
        break;
      case 'soft_max':
        into(t, (dst) => push({ code: 'SOFT_MAX', dst, src: [f32(a), b, c], params: [{ f: p.scale }] }));
        break;
      case 'diag_mask_inf':
        rowwise('DIAG_MASK_INF', t, [p.n_past]);
        break;
      case 'sum_rows':
        rowwise('SUM_ROWS', t, [{ f: p.scale }]);
        break;
      case 'argmax':
        push({ code: 'ARGMAX', dst: t, src: [f32(a)], params: [] });
        break;
      case 'top_k':
        push({ code: 'TOP_K', dst: t, src: [f32(a)], params: [p.ascending] });
        break;
      case 'pool_1d':
        rowwise('POOL_1D', t, [p.avg, p.k, p.s]);
        break;
      case 'mean_of_rows':
        push({ code: 'MEAN_OF_ROWS', dst: t, src: [f32(a), b, c], params: [] });
        break;
      case 'pad': {
        const offset = p.l0 * t.nb[0] + p.l1 * t.nb[1] + p.l2 * t.nb[2] + p.l3 * t.nb[3];
        push({ code: 'CPY', dst: t, src: [], params: [COPY.zeros, t.nb[1]], how: 'zeros' });
        copy(a, node('view', a.ne, { type: t.type, nb: t.nb, viewOf: t, viewOffset: offset }));
        break;
      }
      case 'im2col':
        push({ code: 'IM2COL', dst: t, src: [a.type === t.type ? a : converting(a, t.type)], params: [p.kw, p.kh, p.s0, p.s1, p.p0, p.p1, p.d0, p.d1] });
        break;
      case 'kv_store':
        push({ code: 'KV_STORE', dst: c, src: [rowsOf(a, TYPE.f32), b], params: [c.ne[0], c.ne[1], p.v], scratch: KV_STORE_SCRATCH });
        break;
      case 'attention': {
        const [q, k, v, first, visible, bias, slopes] = t.src as readonly Tensor[];
        attentionRecords({ q: rowsOf(q, TYPE.f32), k, v, first, visible, bias, slopes }, p, t, facts).forEach(push);
        break;
      }
      case 'flash_attn_ext':
        flashAttnRecords(t, facts, rowsOf, push);
        break;
      default:
        throw new QuantletError('ERR_INVALID_ARGUMENT', `no kernel for ${shape(t)}`);
    }
  }
  return records;
}

/** Elements of an f32 scale of activations, and of a scale for super-blocks (assembly/act.ts act_block). */
const ACT_BLOCK = 32, ACT_K_BLOCK = 256;

/** Room for activations: from four columns on they lie in fours (assembly/act.ts in_fours). */
const inFours = ([ne0, ne1, ne2, ne3]: Ne): Ne => [ne0, ne1 < 4 ? ne1 : alignUp(ne1, 4), ne2, ne3];

/** Kernels that can write their output in further types while it is in the cache. */
const WRITES_MORE: ReadonlySet<OpCode> = new Set(['RMS_NORM', 'NORM', 'GLU', 'UNARY', 'ATTENTION_MERGE']);

/** Whether the record's output is x, all of it and nothing else, and it can write that in further types. */
function writesMore({ code, dst }: Record, x: Tensor): boolean {
  return WRITES_MORE.has(code) && sameShape(dst, x) && isContiguous(dst) && isContiguous(x) && dst.type === TYPE.f32 && x.type === TYPE.f32 && nbytes(baseOf(dst)) === nbytes(dst);
}

/** Whether `t` is a sum of equal shapes that the norm next to it can make on its way; a weight that is part of the sum must wait for it. */
function fusesWithNorm(t: Tensor, next: Tensor | undefined): boolean {
  if (next?.op !== 'rms_norm' || next.src[0] !== t || t.op !== 'binary' || t.params.kind !== BINARY.add || t.viewOf) return false;
  const [a, b] = t.src as readonly Tensor[], weight = next.src[1];
  return (!weight || baseOf(weight) !== t) && sameShape(a, b) && [a, b, t].every((x) => x.type === TYPE.f32 && hasContiguousRows(x));
}
