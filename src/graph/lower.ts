/**
 * Graph nodes -> records: one record is one call of a kernel on all threads. Lowering decides which kernel a node takes, which operands are
 * converted first and which nodes are fused; plan.ts then decides where memory lies and where barriers are needed.
 */
import { QuantletError } from '../errors.ts';
import { alignUp } from '../gguf/types.ts';
import { TYPE, rowSize, type TypeTraits } from '../type-traits.ts';
import { SIZES } from '../wasm/sizes.ts';
import { ACT_COLUMNS, BINARY, COPY, COPY_CHUNK, COPY_SCRATCH, KV_STORE_SCRATCH, TYPE_ACT } from './layout.ts';
import { mostGroups } from './groups.ts';
import { KERNELS, type OpCode } from './kernels.ts';
import { attentionRecords, flashAttnRecords } from './lower-attention.ts';
import { recurrentRecord } from './lower-recurrent.ts';
import { pushSparse } from './lower-sparse.ts';
import { chooseMulMat } from './mul-mat-ways.ts';
import { actType, type Target } from './packed-products.ts';
import { baseOf, fits, mustFit } from './strides.ts';
import { temporary, type OpRecord } from './record.ts';
import { hasContiguousRows, isContiguous, nbytes, nelements, node, sameShape, shape, type Ne, type Tensor } from './tensor.ts';
import { view } from './views.ts';

export type { OpRecord } from './record.ts';

/** A quantised tensor seen as plain bytes, so that a copy to another shape moves its blocks as they are instead of quantising again. */
const asBytes = (t: Tensor): Tensor =>
  node('view', [rowSize(t.type, t.ne[0]), t.ne[1], t.ne[2], t.ne[3]], {
    name: `bytes of ${t.name || t.op}`,
    type: TYPE.i8,
    nb: [1, t.nb[1], t.nb[2], t.nb[3]],
    viewOf: t,
  });
const chunkBytes = (type: TypeTraits): number => (COPY_CHUNK / type.blckSize) * type.typeSize;

/** Of up to so many bytes of weights most are still in the L2 caches when a step comes to them again. (Fetched all the same, tokens took 1.1 of the time.) */
const CACHED_BYTES = 4 << 20;

/** Weights that are multiplied as they are loaded: fetched first, they took 1.04 of the time (bf16 0.96, q8_0 0.83, q4_0 0.85; 189 M parameters, Xeon). */
const READ_FAST = TYPE.f32;

/** Bytes of the packed weights that these nodes multiply by, or may (sparse-ops.ts). */
function bytesOfWeights(nodes: readonly Tensor[]): number {
  const multiplied = nodes.filter(({ op }) => op.startsWith('mul_mat') || op === 'axpy').flatMap(({ src }) => src);
  const weights = new Set(multiplied.filter((w) => w?.layout === 'packed'));
  return [...weights].reduce((sum, w) => sum + nbytes(w!), 0);
}

/** @param nodes each after its sources, as expand() orders them */
export function lower(nodes: readonly Tensor[], target: Target): OpRecord[] {
  const { packedScratch, quantizeWork: work } = SIZES[target.isa];
  const records: OpRecord[] = [];
  /**
   * What has been made of a tensor so far, each once however many ops read it: conversions to a type, and of `groups`; groups for so many matrices; what
   * else has a name.
   */
  type Made = TypeTraits | number | string;
  const made = new Map<Tensor, { readonly to: Made; readonly groups: Tensor | undefined; readonly t: Tensor }[]>();
  const once = (x: Tensor, to: Made, groups: Tensor | undefined, make: () => Tensor): Tensor => {
    const known = made.get(x)?.find((m) => m.to === to && m.groups === groups);
    if (known) return known.t;
    const t = make();
    made.set(x, [...(made.get(x) ?? []), { to, groups, t }]);
    return t;
  };

  /** Whether a product fetches its weights before it multiplies by them, on builds that do (assembly/ops/mul_mat_packed.ts). */
  const fromMemory = bytesOfWeights(nodes) > CACHED_BYTES;
  const fetched = ({ type }: Tensor): number => Number(fromMemory && type !== READ_FAST);

  /** Adds a record. Every record comes through here: sources whose strides its kernel does not take (strides.ts) are copied first. */
  const push = (wanted: OpRecord): void => {
    const record = { ...wanted, src: wanted.src.map((s, i) => (s && !fits(wanted, i) ? converting(s, s.type) : s)) };
    mustFit(record);
    records.push(record);
    // Conversions of memory that this record writes are out of date.
    for (const w of [record.dst, ...(record.writtenSrc ?? [])]) {
      if (w.op === 'leaf' || w.viewOf) for (const t of made.keys()) if (baseOf(t) === baseOf(w)) made.delete(t);
    }
  };

  /** The elements of x in order into those of y. `act`: for an integer product to read. */
  const copy = (x: Tensor, y: Tensor, act = 0): void => {
    const rows = sameShape(x, y) && hasContiguousRows(x) && hasContiguousRows(y);
    if (y.type.id >= TYPE_ACT) push({ code: 'QUANTIZE', dst: y, src: [rowsOf(x, TYPE.f32)], params: [] });
    else if (rows && x.type === y.type)
      push({ code: 'CPY', dst: y, src: [x], params: [COPY.rows, rowSize(x.type, x.ne[0])], how: 'rows as they are' });
    else if (x.type === y.type && x.type.blckSize === 1)
      push({ code: 'CPY', dst: y, src: [x], params: [COPY.elements, x.type.typeSize], how: 'element by element' });
    else if (x.type === y.type) copy(asBytes(x), asBytes(y));
    else if (rows && x.type === TYPE.f32) push({ code: 'QUANTIZE', dst: y, src: [x], params: [act], scratch: work });
    else if (rows)
      push({
        code: 'CPY',
        dst: y,
        src: [x],
        params: [COPY.convert, chunkBytes(x.type), chunkBytes(y.type), act],
        scratch: COPY_SCRATCH + work,
        how: `${x.type.name} by way of f32`,
      });
    else if (x.type.blckSize > 1) copy(converting(x, TYPE.f32), y, act);
    else
      push({
        code: 'CPY',
        dst: y,
        src: [x],
        params: [COPY.gather, 0, hasContiguousRows(y) ? chunkBytes(y.type) : 0, act],
        scratch: COPY_SCRATCH + work,
        how: `${x.type.name} gathered by way of f32`,
      });
  };

  const converting = (x: Tensor, type: TypeTraits): Tensor =>
    once(x, type, undefined, () => {
      const t = temporary(`${x.name || x.op} as ${type.name}`, type, x, type.id >= TYPE_ACT ? inColumnBlocks(x.ne) : x.ne, x.batch);
      const maker = records.findLastIndex((r) => baseOf(r.dst) === baseOf(x));
      if (maker >= 0 && writesMore(records[maker], x)) records[maker] = { ...records[maker], casts: [...(records[maker].casts ?? []), t] };
      else copy(x, t, Number(type.blckSize > 1));
      return t;
    });

  /** x itself where its rows are contiguous and of this type, else a conversion. */
  const rowsOf = (x: Tensor, type: TypeTraits): Tensor => (x.type === type && hasContiguousRows(x) ? x : converting(x, type));
  const f32 = (x: Tensor | undefined): Tensor | undefined => x && rowsOf(x, TYPE.f32);
  const anyStrides = (x: Tensor): Tensor => (x.type === TYPE.f32 ? x : converting(x, TYPE.f32));

  /** The columns of a product by `matrices` matrices, sorted by these (assembly/ops/groups.ts). */
  const groupsOf = (ids: Tensor, matrices: number): Tensor =>
    once(ids, matrices, undefined, () => {
      const t = temporary(`groups of ${ids.name || ids.op}`, TYPE.i32, ids, [
        4 * (1 + mostGroups(ids, matrices)) + nelements(ids),
        1,
        1,
        1,
      ]);
      push({ code: 'GROUP_IDS', dst: t, src: [ids], params: [matrices], scratch: 4 * (matrices + 1) });
      return t;
    });
  /** Activations as the packed products of groups read them. */
  const inGroups = (b: Tensor, type: TypeTraits, ids: Tensor, matrices: number): Tensor => {
    const groups = groupsOf(ids, matrices);
    const x = rowsOf(b, TYPE.f32);
    return once(x, type, groups, () => {
      const columns = nelements(ids) + (ACT_COLUMNS - 1) * mostGroups(ids, matrices);
      const t = temporary(`${b.name || b.op} as ${type.name} in groups`, type, b, [b.ne[0], columns, 1, 1]);
      push({ code: 'QUANTIZE_GROUPS', dst: t, src: [x, groups], params: [ids.ne[0]] });
      return t;
    });
  };

  /** Columns as products read them that take one at a time: each a matrix of its own. */
  const apart = (columns: Tensor, type: TypeTraits): Tensor => {
    const x = rowsOf(columns, columns.type);
    const each = (): Tensor => view(x, [x.ne[0], 1, x.ne[1]], { nb: [x.nb[1], x.nb[1]] }, x.batch && { dim: 2, by: x.batch.by });
    return rowsOf(once(x, 'columns apart', undefined, each), type);
  };

  /** Most kernels write contiguous rows of f32: a node that is anything else is written to such a temporary, and copied. */
  const into = (t: Tensor, write: (dst: Tensor) => void): void => {
    if (t.type === TYPE.f32 && hasContiguousRows(t)) return write(t);
    const dst = temporary(`${t.name || t.op} in f32`, TYPE.f32, t);
    write(dst);
    copy(dst, t);
  };
  /** Lowers a node to one record of the kernel of its name, by the kernel's row in kernels.ts. */
  const byRow = (t: Tensor): void => {
    const code = t.op.toUpperCase() as OpCode;
    const row = Object.hasOwn(KERNELS, code) ? KERNELS[code] : undefined;
    if (!row?.params) throw new QuantletError('ERR_INVALID_ARGUMENT', `no kernel for ${shape(t)}`);
    const params = row.params.map((p) => (typeof p === 'string' ? t.params[p] : { f: t.params[p.f] }));
    const write = (dst: Tensor): void => push({ code, dst, src: t.src.map(f32), params, scratch: row.scratch });
    if (t.type === TYPE.i32) write(t);
    else into(t, write);
  };

  const steps = nodes.filter((n) => n.op !== 'leaf' && n.op !== 'view');
  for (const [i, t] of steps.entries()) {
    const [a, b, c] = t.src as readonly Tensor[];
    const p = t.params;
    switch (t.op) {
      case 'get_rows':
        push({ code: 'GET_ROWS', dst: t, src: [a, b], params: [], scratch: a.layout === 'packed' ? packedScratch : 0 });
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
        const way = chooseMulMat(a, b, p.f32 === 1, target);
        push({
          code: way.code,
          dst: t,
          src: [rowsOf(a, way.src0), rowsOf(b, way.src1)],
          params: [0, fetched(a)],
          how: way.how,
          scratch: way.code === 'MUL_MAT_PACKED' ? packedScratch : 0,
        });
        break;
      }
      case 'mul_mat_id': {
        const way = chooseMulMat(a, b, false, target, c);
        const packed = way.code === 'MUL_MAT_PACKED';
        const x = packed ? inGroups(b, way.src1, c, a.ne[2]) : rowsOf(b, way.src1);
        push({
          code: way.code,
          dst: t,
          src: [rowsOf(a, way.src0), x, groupsOf(c, a.ne[2])],
          params: [b.ne[1], fetched(a)],
          how: way.how,
          scratch: packed ? packedScratch : 0,
        });
        break;
      }
      case 'mul_mat_sparse':
      case 'axpy':
        pushSparse(t, { actType: (weights) => actType(weights, target), apart, rowsOf, once, push, fetched, scratch: packedScratch });
        break;
      case 'group_list':
        push({ code: 'GROUP_LIST', dst: t, src: [a], params: [p.kind, p.groups, p.limit, p.unit] });
        break;
      case 'mul_mat_parts': {
        const way = chooseMulMat(a, b, false, target);
        push({ code: 'MUL_MAT_PARTS', dst: t, src: [rowsOf(a, way.src0), rowsOf(b, way.src1), c], params: [], how: way.how });
        break;
      }
      case 'add_id':
        push({ code: 'ADD_ID', dst: t, src: [anyStrides(a), anyStrides(b), c], params: [BINARY.add] });
        break;
      case 'binary': {
        // A sum whose norm comes next is computed by RMS_NORM, in the same pass over memory.
        if (fusesWithNorm(t, steps[i + 1])) break;
        if (t.type === TYPE.f32)
          push({ code: 'BINARY', dst: t, src: [p.kind === BINARY.repeat ? t : anyStrides(a), anyStrides(b)], params: [p.kind] });
        else into(t, (dst) => push({ code: 'BINARY', dst, src: [anyStrides(a), anyStrides(b)], params: [p.kind] }));
        break;
      }
      case 'rms_norm': {
        const sum = steps[i - 1];
        if (sum === a && fusesWithNorm(a, t))
          push({
            code: 'RMS_NORM',
            dst: t,
            src: [a.src[0], f32(b), a.src[1], a],
            params: [{ f: p.eps }],
            writtenSrc: [a],
            how: 'with the sum before it',
          });
        else byRow(t);
        break;
      }
      case 'rope':
        into(t, (dst) => push({ code: 'ROPE', dst, src: [f32(a), b, c], params: [p.n_dims, p.neox] }));
        break;
      case 'soft_max':
        into(t, (dst) => push({ code: 'SOFT_MAX', dst, src: [f32(a), b, c], params: [{ f: p.scale }] }));
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
        push({
          code: 'IM2COL',
          dst: t,
          src: [a.type === t.type ? a : converting(a, t.type)],
          params: [p.kw, p.kh, p.s0, p.s1, p.p0, p.p1, p.d0, p.d1],
        });
        break;
      case 'kv_store':
        push({
          code: 'KV_STORE',
          dst: c,
          src: [rowsOf(a, TYPE.f32), b],
          params: [c.ne[0], c.ne[1], p.v, p.rotation],
          scratch: KV_STORE_SCRATCH + (p.rotation ? 4 * a.ne[0] : 0),
        });
        break;
      case 'ssm_conv':
      case 'ssm_scan':
      case 'gated_delta_net':
        push(recurrentRecord(t, f32));
        break;
      case 'in_sum2':
        push({ code: 'IN_SUM2', dst: t, src: [rowsOf(a, TYPE.f32), b, c], params: [], ...(c && { writtenSrc: [c] }) });
        break;
      case 'attention': {
        const [q, k, v, first, visible, bias, slopes, sinks] = t.src as readonly Tensor[];
        attentionRecords({ q: rowsOf(q, TYPE.f32), k, v, first, visible, bias, slopes, sinks }, p, t, target).forEach(push);
        break;
      }
      case 'flash_attn_ext':
        flashAttnRecords(t, target, rowsOf, push);
        break;
      default:
        byRow(t);
    }
  }
  return records;
}

/** Room for activations: from so many columns on they lie in column blocks (assembly/matmul/act.ts blocked_columns). */
const inColumnBlocks = ([ne0, ne1, ne2, ne3]: Ne): Ne => [ne0, ne1 < ACT_COLUMNS ? ne1 : alignUp(ne1, ACT_COLUMNS), ne2, ne3];

/** Whether the record's whole output is x, and its kernel can write that in further types. */
function writesMore({ code, dst }: OpRecord, x: Tensor): boolean {
  return (
    KERNELS[code].writesMore === true &&
    sameShape(dst, x) &&
    isContiguous(dst) &&
    isContiguous(x) &&
    dst.type === TYPE.f32 &&
    x.type === TYPE.f32 &&
    nbytes(baseOf(dst)) === nbytes(dst)
  );
}

/** Whether `t` is a sum of equal shapes that the RMS norm after it can compute itself; it cannot where its weight is a view of the sum. */
function fusesWithNorm(t: Tensor, next: Tensor | undefined): boolean {
  if (next?.op !== 'rms_norm' || next.src[0] !== t || t.op !== 'binary' || t.params.kind !== BINARY.add || t.viewOf) return false;
  const [a, b] = t.src as readonly Tensor[];
  const weight = next.src[1];
  return (!weight || baseOf(weight) !== t) && sameShape(a, b) && [a, b, t].every((x) => x.type === TYPE.f32 && hasContiguousRows(x));
}
