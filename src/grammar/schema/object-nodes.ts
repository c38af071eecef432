/** Writes objects as nodes: a state for each set of properties that came. */
import { RETURN } from '../program.ts';
import type { ObjectShape, Values } from './object-shape.ts';
import type { ObjectForm, ValueWriter } from './rule.ts';

/** Properties so far. Equal ones are one object. */
interface Seen {
  /** Indices of listed names. */
  readonly names: ReadonlySet<number>;
  /** The last listed name, in schema order; -1 at first, Infinity after another name. */
  readonly last: number;
  /** Number of properties, as far as limits need it. */
  readonly count: number;
  /** Witnesses found, a bit each. */
  readonly witnesses: number;
  /** Names that must still come. */
  readonly needed: readonly number[];
  /** The node after a property; undefined before it is written. */
  after: number | undefined;
}

export class ObjectNodes {
  readonly start: number;
  readonly #values: ValueWriter;
  readonly #shape: ObjectShape;
  readonly #form: ObjectForm;
  readonly #ordered: boolean;
  /** Names as the form writes them, in order of their bytes, each with its index. */
  readonly #keys: readonly { readonly bytes: Uint8Array; readonly index: number }[];
  readonly #others: readonly { readonly values: Values; readonly key: number }[];
  /** Indices of the listed names that can be written. */
  readonly #writable: ReadonlySet<number>;
  /** Largest count that makes a difference. */
  readonly #most: number;
  /** True if a name depends on no other, and the number of properties has no limits. */
  readonly #isFree: boolean;
  readonly #seen = new Map<string, Seen>();

  constructor(values: ValueWriter, shape: ObjectShape, form: ObjectForm) {
    this.#values = values;
    this.#shape = shape;
    this.#form = form;
    this.#ordered = values.style.ordered;
    const { names, min, max } = shape;
    this.#most = max === Infinity ? min : max;
    const encoder = new TextEncoder();
    this.#keys = names
      .flatMap(({ name, rule }, index) =>
        rule.productive ? form.spell(name, rule).map((key) => ({ bytes: encoder.encode(key), index })) : [],
      )
      .sort((a, b) => compareBytes(a.bytes, b.bytes));
    this.#writable = new Set(this.#keys.map(({ index }) => index));
    const isPossible = shape.needed(new Set()).every((i) => this.#writable.has(i));
    this.#isFree = isPossible && !shape.hasDependents && min === 0 && max === Infinity;
    this.#others = shape.othersThat(values.style.closed).flatMap((other) => {
      const key = form.others(other.language);
      return key === undefined ? [] : [{ values: other, key }];
    });
    const { writer } = values;
    const first = this.#state(new Set(), -1, 0, 0);
    const ends = this.#isComplete(first) && !form.nonEmpty;
    this.start = form.open(writer.split([...this.#properties(first), ...(ends ? [form.close(RETURN)] : [])]));
  }

  #state(names: ReadonlySet<number>, last: number, count: number, witnesses: number): Seen {
    // In schema order, the names that came make a difference only where they require others.
    const listed = this.#ordered && !this.#shape.hasDependents ? '' : [...names].sort((a, b) => a - b).join();
    const key = `${listed} ${last},${count},${witnesses}`;
    let seen = this.#seen.get(key);
    if (!seen) this.#seen.set(key, (seen = { names, last, count, witnesses, needed: this.#shape.needed(names), after: undefined }));
    return seen;
  }

  #isComplete({ needed, count, witnesses }: Seen): boolean {
    return needed.length === 0 && count >= this.#shape.min && witnesses === this.#shape.witnesses;
  }

  /** True if a listed name may come next. */
  #allows(seen: Seen, index: number): boolean {
    if (seen.names.has(index) || (this.#ordered && (index < seen.last || seen.needed.some((i) => i < index)))) return false;
    return this.#isFree || this.#canEnd(this.#withName(seen, index), seen.count + 1);
  }

  /** The state after a listed name. */
  #withName(seen: Seen, index: number): Seen {
    const names = new Set(seen.names).add(index);
    return this.#state(names, this.#ordered ? index : -1, this.#counted(seen), seen.witnesses);
  }

  #counted({ count }: Seen): number {
    return Math.min(count + 1, this.#most);
  }

  /** True if some object continues from this state. */
  #canEnd({ names, last, needed }: Seen, count: number): boolean {
    const { max, min, names: listed } = this.#shape;
    if (count + needed.length > max) return false;
    const isLate = (i: number): boolean => this.#ordered && i < last;
    if (needed.some((i) => !this.#writable.has(i) || isLate(i))) return false;
    if (count >= min || this.#others.length > 0) return true;
    const comes = (i: number): boolean => names.has(i) || (this.#writable.has(i) && !isLate(i));
    const left = [...this.#writable].filter((index) => !names.has(index) && comes(index) && listed[index].requires.every(comes));
    return count + left.length >= min;
  }

  /** The nodes after a property: the end of the object, or a comma and the next property. */
  #after(seen: Seen): number {
    const { writer } = this.#values;
    return (seen.after ??= writer.lazy(() => {
      const next = this.#properties(seen);
      const parts = this.#isComplete(seen) ? [this.#form.close(RETURN)] : [];
      if (next.length > 0) parts.push(this.#form.comma(writer.split(next)));
      return writer.call(writer.blanks, writer.split(parts));
    }));
  }

  /** The nodes of all properties that may come next. */
  #properties(seen: Seen): number[] {
    const { writer } = this.#values;
    const nodes: number[] = [];
    const allowed = this.#keys.map(({ index }) => this.#allows(seen, index));
    if (allowed.includes(true)) nodes.push(this.#form.before(this.#name(seen, allowed, 0, this.#keys.length, 0)));
    const fits = seen.count + 1 + seen.needed.length <= this.#shape.max && (!this.#ordered || seen.needed.length === 0);
    if (!fits) return nodes;
    for (const { values, key } of this.#others) {
      const next = this.#state(seen.names, this.#ordered ? Infinity : -1, this.#counted(seen), seen.witnesses);
      nodes.push(this.#form.before(writer.call(key, this.#value(values, next, undefined))));
    }
    return nodes;
  }

  /** Names from `low` to `high` in the order of their bytes, which agree in the first `at` bytes. */
  #name(seen: Seen, allowed: readonly boolean[], low: number, high: number, at: number): number {
    const { writer } = this.#values;
    const edges: number[] = [];
    const ended: number[] = [];
    for (let from = low; from < high;) {
      // The first name may be the beginning of the others.
      if (this.#keys[from].bytes.length === at) {
        if (allowed[from]) ended.push(this.#lastBytes(seen, from, at));
        from++;
        continue;
      }
      const byte = this.#keys[from].bytes[at];
      let to = from + 1;
      while (to < high && this.#keys[to].bytes[at] === byte) to++;
      const [begin, end] = [from, to];
      if (allowed.slice(begin, end).includes(true)) {
        // One name left: the rest of its bytes at once.
        const next =
          end - begin === 1 ? this.#lastBytes(seen, begin, at + 1) : writer.lazy(() => this.#name(seen, allowed, begin, end, at + 1));
        edges.push(byte, byte, next);
      }
      from = to;
    }
    const read = writer.bytes(edges);
    return ended.length > 0 ? writer.split([...ended, read]) : read;
  }

  #lastBytes(seen: Seen, key: number, at: number): number {
    const { writer } = this.#values;
    const { bytes, index } = this.#keys[key];
    const named = this.#shape.names[index];
    return writer.lazy(() => writer.text(bytes.subarray(at), this.#value(named, this.#withName(seen, index), named.name)));
  }

  /** The nodes after a name: its value, then the rest of the object. */
  #value({ rule, witnesses }: Values, next: Seen, name: string | undefined): number {
    const { writer } = this.#values;
    const after = (value: typeof rule, found: number): number => {
      const state = this.#state(next.names, next.last, next.count, next.witnesses | found);
      return writer.call(this.#form.value(value, name), this.#after(state));
    };
    const options = [after(rule, 0)];
    for (const { bit, rule: witness } of witnesses) if (witness.productive && !(next.witnesses & bit)) options.push(after(witness, bit));
    return this.#form.colon(writer.split(options));
  }
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) if (a[i] !== b[i]) return a[i] - b[i];
  return a.length - b.length;
}
