/** The states of an array that is being written: one for each number of items that makes a difference. */
import type { ArrayShape } from './array-shape.ts';
import type { Rule } from './rule.ts';

/** Items so far. Equal ones are one object. */
export interface Items {
  readonly length: number;
  /** Items that count for each `contains`. */
  readonly counts: readonly number[];
  /** Listed values that came, a bit each, if each may come once. */
  readonly used: bigint;
}

/** An item that may come next: a value of a rule, or a text. */
export interface NextItem {
  readonly item: Rule | string;
  readonly after: Items;
}

export class ArrayStates {
  readonly start: Items;
  /** Largest number of items. */
  readonly max: number;
  readonly #shape: ArrayShape;
  /** Largest length that makes a difference. */
  readonly #most: number;
  readonly #known = new Map<string, Items>();

  /** @param closed true: only listed items, unless the schema asks for others */
  constructor(shape: ArrayShape, closed: boolean) {
    this.#shape = shape;
    const { reach, prefix, min } = shape;
    this.max = closed && prefix.length > 0 && !shape.asked && min <= prefix.length ? Math.min(reach, prefix.length) : reach;
    this.#most = this.max === Infinity ? Math.max(min, prefix.length) : this.max;
    this.start = this.#state(
      0,
      shape.contains.map(() => 0),
      0n,
    );
  }

  #state(length: number, counts: readonly number[], used: bigint): Items {
    const key = `${length},${counts.join('.')},${used}`;
    let items = this.#known.get(key);
    if (!items) this.#known.set(key, (items = { length, counts, used }));
    return items;
  }

  /** True if the array may end. */
  isComplete({ length, counts }: Items): boolean {
    const { min, contains } = this.#shape;
    return length >= min && counts.every((count, i) => count >= contains[i].min);
  }

  #fits(length: number, counts: readonly number[]): boolean {
    const { contains } = this.#shape;
    return counts.every((count, i) => count <= contains[i].max && length + Math.max(0, contains[i].min - count) <= this.max);
  }

  next({ length, counts, used }: Items): NextItem[] {
    if (length >= this.max) return [];
    const { texts, contains } = this.#shape;
    const longer = Math.min(length + 1, this.#most);
    if (texts)
      return texts.flatMap((item, i) => {
        const bit = 1n << BigInt(i);
        return used & bit ? [] : [{ item, after: this.#state(longer, counts, used | bit) }];
      });
    const items: NextItem[] = [];
    for (const option of this.#shape.at(length)) {
      const counted = counts
        .map((count, i) => count + (option.counts[i] ? 1 : 0))
        .map((count, i) => (contains[i].max === Infinity ? Math.min(count, contains[i].min) : count));
      if (option.rule.productive && this.#fits(length + 1, counted))
        items.push({ item: option.rule, after: this.#state(longer, counted, used) });
    }
    return items;
  }
}
