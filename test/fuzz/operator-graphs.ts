/**
 * Random graphs of operators. Their operands have all layouts that strides allow: permuted,
 * transposed, offset, with gaps, repeated, sliding. Operands can be windows into each other's
 * memory: leaves, results, tensors written in place. The same graph can be made on any engine.
 */
import * as core from 'quantlet/core';
import type { Engine, Tensor, TypeName } from 'quantlet/core';
import { TYPE } from '../../src/type-traits.ts';
import { random } from '../kernel/harness.ts';
import { build } from '../ops/graph.ts';
import { numberToF16 } from '../reference/f16.ts';
import { decode } from '../reference/golden-ops.ts';
import {
  blckSize,
  createBuffer,
  denseNb,
  execute,
  isExact,
  places,
  product,
  wholeOf,
  type Buffer,
  type Four,
  type Step,
  type Window,
} from '../reference/memory.ts';
import { FOLLOWERS, OPS, type OpRow } from './operator-table.ts';

export interface Operand {
  readonly window: Window;
  /** Makes the operand's tensor; called once per engine. */
  readonly make: (engine: Engine, on: (o: Operand) => Tensor) => Tensor;
  /** The bytes of a leaf. */
  readonly bytes?: Uint8Array;
  readonly packed?: boolean;
  /** Only its shape is read. */
  readonly shapeOnly?: boolean;
}

export interface MadeStep extends Step {
  readonly result: Operand;
  readonly operands: readonly (Operand | null)[];
}

export interface Graph {
  readonly leaves: readonly Operand[];
  readonly steps: readonly MadeStep[];
  readonly buffers: ReadonlySet<Buffer>;
  /** The operand's tensor on an engine. */
  readonly on: (engine: Engine, o: Operand) => Tensor;
}

/** Operands that the rows of operator-table.ts can choose from. */
export interface Generator {
  int(from: number, to: number): number;
  chance(p: number): boolean;
  pick<T>(list: readonly T[]): T;
  /** The shape of the graph, or a similar one. */
  shape(): Four;
  /** A tensor of any shape. */
  any(types: readonly TypeName[]): Operand;
  /** A tensor whose numbers are exact, so that they are the reference's bits. */
  exact(types: readonly TypeName[]): Operand;
  of(ne: Four, types: readonly TypeName[], how?: { exact?: boolean }): Operand;
  /** A tensor without repeated elements. */
  writable(ne: Four, types: readonly TypeName[]): Operand;
  packed(ne: Four, type: TypeName): Operand;
  mask(ne: Four): Operand;
  ints(ne: Four, values: readonly number[]): Operand;
  /**
   * Row indices below limit, of i32 or (`i64`) of i64 too. `below`: negative ones too. If the graph
   * computes them, some are from `outside`.
   */
  ids(ne: Four, limit: number, how?: { i64?: boolean; below?: boolean; outside?: readonly number[] }): Operand;
  like(ne: Four): Operand;
  reordered(ne: Four): Four;
}

const WIDTHS = [1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 32, 32, 33, 64, 64];
/** Inexact operands must be finite and at most this large. */
const LARGEST = 1e4;

function encode(type: TypeName, values: Float64Array): Uint8Array {
  if (type === 'i32') return new Uint8Array(Int32Array.from(values).buffer);
  if (type === 'i64') return new Uint8Array(BigInt64Array.from(values as unknown as number[], (v) => BigInt(v)).buffer);
  if (type === 'f32') return new Uint8Array(Float32Array.from(values).buffer);
  if (type === 'f16') return new Uint8Array(Uint16Array.from(values, (v) => numberToF16(v)).buffer);
  return new Uint8Array(Uint16Array.from(new Uint32Array(Float32Array.from(values).buffer), (bits) => bits >>> 16).buffer);
}

/** Number of blocks that a window spans. */
const spanOf = ({ ne, nb, buffer }: Window): number =>
  1 + (ne[0] / blckSize(buffer.type) - 1) * nb[0] + (ne[1] - 1) * nb[1] + (ne[2] - 1) * nb[2] + (ne[3] - 1) * nb[3];
const isDense = ({ ne, nb, buffer }: Window): boolean => denseNb(buffer.type, ne).every((n, i) => n === nb[i] || ne[i] === 1);
const equal = (a: Four, b: Four): boolean => a.every((n, i) => n === b[i]);

export function createGraph(seed: number, primary: Engine): Graph {
  const next = random(seed);
  const leaves: Operand[] = [];
  const steps: MadeStep[] = [];
  const buffers = new Set<Buffer>();
  const pool: Operand[] = [];
  const made = new Map<Engine, Map<Operand, Tensor>>();
  const on = (engine: Engine, o: Operand): Tensor => {
    if (!made.has(engine)) made.set(engine, new Map());
    const tensors = made.get(engine)!;
    if (!tensors.has(o))
      tensors.set(
        o,
        o.make(engine, (x) => on(engine, x)),
      );
    return tensors.get(o)!;
  };
  const int = (from: number, to: number): number => from + Math.floor(next() * (to - from + 1));
  const chance = (p: number): boolean => next() < p;
  const pick = <T>(list: readonly T[]): T => list[int(0, list.length - 1)];
  const base: Four = [pick(WIDTHS), int(1, 6), int(1, 3), int(1, 2)];
  const shape = (): Four => base.map((n, i) => (chance(0.85) ? n : i === 0 ? pick(WIDTHS) : int(1, 5))) as unknown as Four;
  const wide = (): Four => [32 * int(1, 2), ...(shape().slice(1) as [number, number, number])];
  const bufferOf = (type: TypeName, n: number, init?: Float64Array): Buffer => {
    const b = createBuffer(type, n, init);
    buffers.add(b);
    return b;
  };
  /** Random bytes of a type whose numbers are fit for arithmetic. */
  const bytesOf = (type: TypeName, n: number): Uint8Array => {
    if (type !== 'q8_0' && type !== 'q4_0')
      return encode(
        type,
        Float64Array.from({ length: n }, () => (type.startsWith('i') ? int(0, 99) : chance(0.03) ? 0 : 4 * next() - 2)),
      );
    // As the quantiser writes blocks: the largest number has the last code, so that quantising
    // again changes nothing.
    const { typeSize } = TYPE[type];
    const bytes = Uint8Array.from({ length: (n / 32) * typeSize }, () => 256 * next());
    const view = new DataView(bytes.buffer);
    for (let at = 0; at < bytes.length; at += typeSize) {
      if (type === 'q4_0') bytes[at + int(2, typeSize - 1)] &= 0xf0;
      else {
        for (let i = at + 2; i < at + typeSize; i++) bytes[i] = bytes[i] === 0x80 ? 0x81 : bytes[i];
        bytes[at + int(2, typeSize - 1)] = 127;
      }
      view.setUint16(at, numberToF16((0.5 + next()) / (type === 'q8_0' ? 64 : 4)), true);
    }
    return bytes;
  };
  const leaf = (type: TypeName, ne: Four, bytes: Uint8Array, packed = false): Operand => {
    const o: Operand = {
      window: wholeOf(bufferOf(type, product(ne), decode(type, bytes)), ne),
      make: (engine) => engine.tensor(type, ne, bytes),
      bytes,
      packed,
    };
    leaves.push(o);
    if (!packed) pool.push(o);
    return o;
  };

  /**
   * Strides of a view of shape ne before a random permutation, and that permutation. `inside`:
   * number of blocks available.
   */
  function layout(type: TypeName, ne: Four, writable: boolean, inside: number): { axes: number[]; m: Four; nb: Four; span: number } {
    const block = blckSize(type);
    const axes = [0, 1, 2, 3];
    if (chance(0.5))
      for (let i = 3; i > (block > 1 ? 1 : 0); i--) {
        const j = int(block > 1 ? 1 : 0, i);
        [axes[i], axes[j]] = [axes[j], axes[i]];
      }
    const m = axes.map((to) => ne[to]) as unknown as Four;
    const nb = [1, 0, 0, 0];
    let end = m[0] / block;
    for (let i = 1; i < 4; i++) {
      const left = Math.floor(inside / product(m.slice(i) as number[]));
      nb[i] = writable
        ? end + (chance(0.3) ? int(0, 3) : 0)
        : pick([end, end, end + int(1, 3), 0, int(0, end), Math.max(0, Math.min(end, left))]);
      end = writable ? nb[i] * (m[i] - 1) + end : Math.max(end, nb[i] * (m[i] - 1) + end);
    }
    return {
      axes,
      m,
      nb: nb as unknown as Four,
      span: 1 + (m[0] / block - 1) + (m[1] - 1) * nb[1] + (m[2] - 1) * nb[2] + (m[3] - 1) * nb[3],
    };
  }
  /** A window of that layout into an operand's memory. */
  function windowOf(of: Operand, { axes, m, nb }: ReturnType<typeof layout>, offset: number): Operand {
    const size = TYPE[of.window.buffer.type].typeSize;
    const ne = [0, 0, 0, 0];
    const strides = [0, 0, 0, 0];
    axes.forEach((to, i) => ([ne[to], strides[to]] = [m[i], nb[i]]));
    const turned = axes.some((to, i) => to !== i);
    const reshaped =
      !turned &&
      offset === 0 &&
      isDense(of.window) &&
      isDense({ ...of.window, ne: m, nb }) &&
      product(m) === product(of.window.ne) &&
      chance(0.5);
    const o: Operand = {
      window: { buffer: of.window.buffer, ne: ne as unknown as Four, nb: strides as unknown as Four, offset: of.window.offset + offset },
      make(_, tensor) {
        const v = reshaped
          ? core.reshape(tensor(of), m)
          : core.view(tensor(of), m, { nb: nb.slice(1).map((n) => n * size), offset: offset * size });
        return turned ? core.permute(v, ...(axes as [number, number, number, number])) : v;
      },
    };
    pool.push(o);
    return o;
  }
  /**
   * A new tensor of shape ne, or a window of that shape into a larger new one. `values`: the
   * numbers of the window, if they matter.
   */
  function fresh(type: TypeName, ne: Four, writable: boolean, values?: Float64Array): Operand {
    const block = blckSize(type);
    const lay = layout(type, ne, writable || values !== undefined, Infinity);
    const whole = chance(0.25);
    const before = whole ? 0 : int(0, 3);
    const n = whole ? product(ne) : (before + lay.span + int(0, 3)) * block;
    const flat: Four = whole ? ne : [n, 1, 1, 1];
    if (!values) {
      const all = leaf(type, flat, bytesOf(type, n));
      return whole ? all : windowOf(all, lay, before);
    }
    const numbers = new Float64Array(n);
    if (whole) return leaf(type, flat, encode(type, values));
    const strides = [0, 0, 0, 0];
    lay.axes.forEach((to, i) => (strides[to] = lay.nb[i]));
    places({ buffer: { type } as Buffer, ne, nb: strides as unknown as Four, offset: before }).forEach(
      (at, i) => (numbers[at] = values[i]),
    );
    return windowOf(leaf(type, flat, encode(type, numbers)), lay, before);
  }
  const usable = (o: Operand, types: readonly TypeName[]): boolean =>
    types.includes(o.window.buffer.type) && places(o.window).every((i) => Math.abs(o.window.buffer.value[i]) < LARGEST);
  /** A random tensor of the pool, later ones more likely. */
  function known(types: readonly TypeName[], fits: (o: Operand) => boolean = () => true): Operand | undefined {
    for (let tries = 0; tries < 4 && pool.length; tries++) {
      const o = pool[pool.length - 1 - Math.floor(pool.length * next() ** 2)];
      if (usable(o, types) && fits(o)) return o;
    }
    return undefined;
  }
  /** A tensor of the pool, or a window into one. */
  function shared(ne: Four, types: readonly TypeName[], writable: boolean, fits?: (o: Operand) => boolean): Operand | undefined {
    for (let tries = 0; tries < 3; tries++) {
      const o = known(types, fits);
      if (!o || ne[0] % blckSize(o.window.buffer.type) !== 0) continue;
      if (!writable && equal(o.window.ne, ne) && chance(0.7)) return o;
      const inside = spanOf(o.window);
      const lay = layout(o.window.buffer.type, ne, writable, inside);
      if (lay.span <= inside) return windowOf(o, lay, int(0, inside - lay.span));
    }
    return undefined;
  }
  const typeFor = (ne: Four, types: readonly TypeName[]): TypeName => pick(types.filter((t) => ne[0] % blckSize(t) === 0));
  let forced: Operand | undefined;
  const g: Generator = {
    int,
    chance,
    pick,
    shape,
    any(types) {
      const o = forced;
      forced = undefined;
      if (o && usable(o, types)) return o;
      return (chance(0.4) ? known(types) : undefined) ?? g.of(types.every((t) => blckSize(t) > 1) ? wide() : shape(), types);
    },
    exact: (types) => g.of(shape(), types, { exact: true }),
    of: (ne, types, { exact } = {}) =>
      (chance(0.5) ? shared(ne, types, false, (o) => !exact || isExact(o.window)) : undefined) ?? fresh(typeFor(ne, types), ne, false),
    writable: (ne, types) => (chance(0.6) ? shared(ne, types, true) : undefined) ?? fresh(typeFor(ne, types), ne, true),
    packed: (ne, type) => leaf(type, ne, bytesOf(type, product(ne)), true),
    mask(ne) {
      const rows = ne[1] * ne[2] * ne[3];
      const blind = Array.from({ length: rows }, () => chance(0.15));
      return fresh(
        pick(['f32', 'f16']),
        ne,
        false,
        Float64Array.from({ length: product(ne) }, (_, i) => (blind[Math.floor(i / ne[0])] || chance(0.3) ? -Infinity : -3 * next())),
      );
    },
    ints: (ne, values) => fresh('i32', ne, false, Float64Array.from(values)),
    ids(ne, limit, { i64 = false, below = false, outside = [-1, limit, 1 << 30] } = {}) {
      const computed = chance(0.4);
      const values = Float64Array.from({ length: product(ne) }, () =>
        computed && chance(0.15) ? pick(outside) : int(below ? 1 - limit : 0, limit - 1),
      );
      const o = fresh(i64 && chance(0.5) ? 'i64' : 'i32', ne, false, values);
      return computed ? step('cont', { src: [o], noise: 0 }) : o;
    },
    like: (ne) => ({ window: wholeOf({ type: 'f32' } as Buffer, ne), make: () => ({ ne }) as unknown as Tensor, shapeOnly: true }),
    reordered: (ne) => (ne[0] % 32 === 0 ? [ne[0], ne[2], ne[3], ne[1]] : [ne[1], ne[0], ne[3], ne[2]]),
  };

  /** The window of a result. Some results are views of what the op computed. */
  function windowOn(t: Tensor): Window {
    const type = t.type.name as TypeName;
    const size = t.type.typeSize;
    const w = { ne: t.ne, nb: t.nb.map((n) => n / size) as unknown as Four, offset: t.viewOffset / size };
    const span = spanOf({ ...w, buffer: { type } as Buffer });
    return { ...w, buffer: bufferOf(type, (w.offset + span) * t.type.blckSize) };
  }
  function step(op: string, { src, params = {}, into, noise }: ReturnType<OpRow['take']> & object): Operand {
    const make = (tensor: (o: Operand) => Tensor): Tensor =>
      build(
        { op, params, src: [] },
        src.map((s) => (s ? tensor(s) : undefined)),
      );
    const t = make((o) => on(primary, o));
    const window = into === undefined ? windowOn(t) : src[into]!.window;
    const result: Operand = { window, make: (_, tensor) => make(tensor) };
    made.get(primary)!.set(result, t);
    const s: MadeStep = {
      op,
      params,
      dst: window,
      noise: noise ?? 2 ** -16,
      src: src.map((o) => (o && !o.shapeOnly ? o.window : null)),
      result,
      operands: src,
    };
    execute(s, next);
    steps.push(s);
    pool.push(result);
    return result;
  }

  for (let left = int(1, 5), last: MadeStep | undefined; left > 0; left--) {
    const followers = last ? FOLLOWERS[last.op] : undefined;
    const follow = followers && chance(0.7) ? pick(followers) : undefined;
    if (last && (follow || chance(0.3))) forced = last.result;
    const row = follow ? OPS.find((r) => r.op === follow)! : pick(OPS);
    const taken = row.take(g);
    forced = undefined;
    if (!taken) continue;
    step(row.op, { noise: row.noise, ...taken });
    last = steps[steps.length - 1];
  }
  return { leaves, steps, buffers, on };
}

const words = ({ buffer, ne, nb, offset }: Window): string => `${buffer.type} [${ne.join(' ')}] nb [${nb.join(' ')}] + ${offset}`;

/** Describes a graph: each step, and the memory of its operands. */
export function describe({ steps, buffers }: Graph): string {
  const names = new Map([...buffers].map((b, i) => [b, `#${i}`]));
  const operand = (w: Window | null): string => (w ? `${names.get(w.buffer)} ${words(w)}` : '-');
  return steps
    .map(({ op, params, src, dst }) => `  ${op} ${JSON.stringify(params)} (${src.map(operand).join('; ')}) -> ${operand(dst)}`)
    .join('\n');
}
