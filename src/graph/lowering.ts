/** State of lowering: the records so far, and the derived tensors that they read. */
import { QuantletError } from '../errors.ts';
import { alignUp } from '../align.ts';
import { TYPE, rowSize, type TypeTraits } from '../type-traits.ts';
import { SIZES } from '../wasm/sizes.ts';
import { mostGroups } from './groups.ts';
import { KERNELS, type OpCode } from './kernels.ts';
import { ACT_COLUMNS, COPY, COPY_CHUNK, COPY_SCRATCH, TYPE_ACT } from './layout.ts';
import type { Target } from './packed-products.ts';
import { temporary, type OpRecord } from './record.ts';
import { fits, mustFit } from './strides.ts';
import { baseOf, hasContiguousRows, isContiguous, nbytes, nelements, node, sameShape, shape, type Ne, type Tensor } from './tensor.ts';
import { view } from './views.ts';

/**
 * View of a quantised tensor as plain bytes, so that a copy to another shape moves whole blocks and
 * does not quantise again.
 */
const asBytes = (t: Tensor): Tensor =>
  node('view', [rowSize(t.type, t.ne[0]), t.ne[1], t.ne[2], t.ne[3]], {
    name: `bytes of ${t.name || t.op}`,
    type: TYPE.i8,
    nb: [1, t.nb[1], t.nb[2], t.nb[3]],
    viewOf: t,
  });
const chunkBytes = (type: TypeTraits): number => (COPY_CHUNK / type.blckSize) * type.typeSize;

/** Weights up to this size stay in the L2 caches between steps, so prefetching them is a loss. */
const CACHED_BYTES = 4 << 20;

/** Weights of this type are multiplied as they are loaded, and prefetching makes them slower. */
const READ_FAST = TYPE.f32;

/** Bytes of the packed weights that these nodes multiply by, or may multiply by (sparse-ops.ts). */
function bytesOfWeights(nodes: readonly Tensor[]): number {
  const multiplied = nodes.filter(({ op }) => op.startsWith('mul_mat') || op === 'axpy').flatMap(({ src }) => src);
  const weights = new Set(multiplied.filter((w) => w?.layout === 'packed'));
  return [...weights].reduce((sum, w) => sum + nbytes(w!), 0);
}

/** Kind of a derived tensor: a conversion to a type, groups for this many matrices, or a name. */
type Made = TypeTraits | number | string;

export class Lowering {
  readonly records: OpRecord[] = [];
  /** Scratch bytes of packed products, and of quantisers (quantizeWork). */
  readonly packedScratch: number;
  readonly quantizeWork: number;
  /**
   * Cache of derived tensors by their source: each is made once for all ops that read it. `groups`:
   * the columns are in the order of these groups.
   */
  private readonly made = new Map<Tensor, { readonly to: Made; readonly groups: Tensor | undefined; readonly t: Tensor }[]>();
  /** True if products read their weights from memory and not from a cache. */
  private readonly fromMemory: boolean;

  readonly target: Target;

  constructor(nodes: readonly Tensor[], target: Target) {
    this.target = target;
    const { packedScratch, quantizeWork } = SIZES[target.isa];
    this.packedScratch = packedScratch;
    this.quantizeWork = quantizeWork;
    this.fromMemory = bytesOfWeights(nodes) > CACHED_BYTES;
  }

  /** Returns what `make` derived from x for this key, deriving it on the first call. */
  once(x: Tensor, to: Made, groups: Tensor | undefined, make: () => Tensor): Tensor {
    const known = this.made.get(x)?.find((m) => m.to === to && m.groups === groups);
    if (known) return known.t;
    const t = make();
    this.made.set(x, [...(this.made.get(x) ?? []), { to, groups, t }]);
    return t;
  }

  /**
   * 1 if a product prefetches its weights, on builds that can (assembly/ops/mul_mat_packed.ts),
   * else 0.
   */
  fetched({ type }: Tensor): number {
    return Number(this.fromMemory && type !== READ_FAST);
  }

  /**
   * Adds a record. All records pass through here. Sources with strides that the kernel does not
   * accept (strides.ts) are copied first.
   */
  push(wanted: OpRecord): void {
    const record = { ...wanted, src: wanted.src.map((s, i) => (s && !fits(wanted, i) ? this.converting(s, s.type) : s)) };
    mustFit(record);
    this.records.push(record);
    // Conversions of memory that this record writes are stale now.
    for (const w of [record.dst, ...(record.writtenSrc ?? [])]) {
      if (w.op === 'leaf' || w.viewOf) for (const t of this.made.keys()) if (baseOf(t) === baseOf(w)) this.made.delete(t);
    }
  }

  /**
   * Copies the elements of x, in order, to those of y.
   * @param act 1 if an integer product reads y
   */
  copy(x: Tensor, y: Tensor, act = 0): void {
    const rows = sameShape(x, y) && hasContiguousRows(x) && hasContiguousRows(y);
    const scratch = COPY_SCRATCH + this.quantizeWork;
    const cpy = (params: number[], how: string, of: { scratch?: number } = {}): void =>
      this.push({ code: 'CPY', dst: y, src: [x], params, how, ...of });
    if (y.type.id >= TYPE_ACT) this.push({ code: 'QUANTIZE', dst: y, src: [this.rowsOf(x, TYPE.f32)], params: [] });
    else if (rows && x.type === y.type) cpy([COPY.rows, rowSize(x.type, x.ne[0])], 'rows as they are');
    else if (x.type === y.type && x.type.blckSize === 1) cpy([COPY.elements, x.type.typeSize], 'element by element');
    else if (x.type === y.type) this.copy(asBytes(x), asBytes(y));
    else if (rows && x.type === TYPE.f32) this.push({ code: 'QUANTIZE', dst: y, src: [x], params: [act], scratch: this.quantizeWork });
    else if (rows) cpy([COPY.convert, chunkBytes(x.type), chunkBytes(y.type), act], `${x.type.name} by way of f32`, { scratch });
    else if (x.type.blckSize > 1) this.copy(this.converting(x, TYPE.f32), y, act);
    else cpy([COPY.gather, 0, hasContiguousRows(y) ? chunkBytes(y.type) : 0, act], `${x.type.name} gathered by way of f32`, { scratch });
  }

  /**
   * x in another type, with contiguous rows. The op that makes x writes it, if its kernel can; else
   * x is copied.
   */
  converting(x: Tensor, type: TypeTraits): Tensor {
    return this.once(x, type, undefined, () => {
      const t = temporary(`${x.name || x.op} as ${type.name}`, type, x, type.id >= TYPE_ACT ? inColumnBlocks(x.ne) : x.ne, x.batch);
      const { records } = this;
      const maker = records.findLastIndex((r) => baseOf(r.dst) === baseOf(x));
      if (maker >= 0 && writesMore(records[maker], x)) records[maker] = { ...records[maker], casts: [...(records[maker].casts ?? []), t] };
      else this.copy(x, t, Number(type.blckSize > 1));
      return t;
    });
  }

  /** x itself if its rows are contiguous and of this type, else a conversion. */
  rowsOf(x: Tensor, type: TypeTraits): Tensor {
    return x.type === type && hasContiguousRows(x) ? x : this.converting(x, type);
  }

  f32(x: Tensor | undefined): Tensor | undefined {
    return x && this.rowsOf(x, TYPE.f32);
  }

  /** x in f32, for kernels that take any strides. */
  anyStrides(x: Tensor): Tensor {
    return x.type === TYPE.f32 ? x : this.converting(x, TYPE.f32);
  }

  /** Columns of a product by `matrices` matrices, sorted by matrix (assembly/ops/groups.ts). */
  groupsOf(ids: Tensor, matrices: number): Tensor {
    return this.once(ids, matrices, undefined, () => {
      const ne: Ne = [4 * (1 + mostGroups(ids, matrices)) + nelements(ids), 1, 1, 1];
      const t = temporary(`groups of ${ids.name || ids.op}`, TYPE.i32, ids, ne);
      this.push({ code: 'GROUP_IDS', dst: t, src: [ids], params: [matrices], scratch: 4 * (matrices + 1) });
      return t;
    });
  }

  /** Activations in the form that packed products of groups read. */
  inGroups(b: Tensor, type: TypeTraits, ids: Tensor, matrices: number): Tensor {
    const groups = this.groupsOf(ids, matrices);
    const x = this.rowsOf(b, TYPE.f32);
    return this.once(x, type, groups, () => {
      const columns = nelements(ids) + (ACT_COLUMNS - 1) * mostGroups(ids, matrices);
      const t = temporary(`${b.name || b.op} as ${type.name} in groups`, type, b, [b.ne[0], columns, 1, 1]);
      this.push({ code: 'QUANTIZE_GROUPS', dst: t, src: [x, groups], params: [ids.ne[0]] });
      return t;
    });
  }

  /** Columns for products that take one at a time: each as a matrix of its own. */
  separateColumns(columns: Tensor, type: TypeTraits): Tensor {
    const x = this.rowsOf(columns, columns.type);
    const each = (): Tensor => view(x, [x.ne[0], 1, x.ne[1]], { nb: [x.nb[1], x.nb[1]] }, x.batch && { dim: 2, by: x.batch.by });
    return this.rowsOf(this.once(x, 'separate columns', undefined, each), type);
  }

  /**
   * Lets `write` write t. Most kernels write contiguous rows of f32, so any other t is written to a
   * temporary and copied.
   */
  into(t: Tensor, write: (dst: Tensor) => void): void {
    if (t.type === TYPE.f32 && hasContiguousRows(t)) return write(t);
    const dst = temporary(`${t.name || t.op} in f32`, TYPE.f32, t);
    write(dst);
    this.copy(dst, t);
  }

  /**
   * Lowers a node to one record of the kernel of its name, by the kernel's row in kernels.ts.
   * @throws ERR_INVALID_ARGUMENT if the row is missing
   */
  byRow(t: Tensor): void {
    const code = t.op.toUpperCase() as OpCode;
    const row = Object.hasOwn(KERNELS, code) ? KERNELS[code] : undefined;
    if (!row?.params)
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `no kernel for ${shape(t)}; expected a row ${code} with params in src/graph/kernels.ts`,
      );
    const params = row.params.map((p) => (typeof p === 'string' ? t.params[p] : { f: t.params[p.f] }));
    const write = (dst: Tensor): void => this.push({ code, dst, src: t.src.map((s) => this.f32(s)), params, scratch: row.scratch });
    if (t.type === TYPE.i32) write(t);
    else this.into(t, write);
  }
}

/**
 * Shape of activations: from ACT_COLUMNS columns on, they are padded to column blocks
 * (assembly/matmul/act.ts blocked_columns).
 */
const inColumnBlocks = ([ne0, ne1, ne2, ne3]: Ne): Ne => [ne0, ne1 < ACT_COLUMNS ? ne1 : alignUp(ne1, ACT_COLUMNS), ne2, ne3];

/** True if x is the record's whole output, and its kernel can also write x in further types. */
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
