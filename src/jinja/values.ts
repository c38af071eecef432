/** Python's values as templates see them. What JavaScript has under the same rules is itself: null is None, strings, booleans, lists as arrays. */
/** A number without a fraction is an int: a bigint where a number would lose digits. Floats are {@link Float}. */
export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Value[]
  | Float
  | Markup
  | Undefined
  | Tuple
  | Dict
  | DictView
  | Range
  | Lazy
  | Namespace
  | Thing;

/** What a template did that Python or jinja2 would refuse. */
export class JinjaError extends Error {}

/** Python's float. */
export class Float {
  readonly value: number;
  /** How it was spelled where it came from: what is printed, instead of Python's spelling. */
  readonly text: string | undefined;
  constructor(value: number, text?: string) {
    this.value = value;
    this.text = text;
  }
}

/** Text that was escaped, or is not to be: markupsafe's Markup. */
export class Markup {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** A name or an attribute that is not there. It may be printed, looped over and tested; all else is an error with this message. */
export class Undefined {
  readonly message: string;
  constructor(message: string) {
    this.message = message;
  }
}

export class Tuple {
  readonly items: readonly Value[];
  /** Names of the items of a named tuple. */
  readonly names: readonly string[];
  constructor(items: readonly Value[], names: readonly string[] = []) {
    this.items = items;
    this.names = names;
  }
}

/** Parts of a tuple that is a key: one doubled again and again needs no more than a line. */
const MAX_PARTS = 1000;

/** Equal keys have equal hashes, whatever their types: 1, 1.0 and True are one key in Python. */
function hash(key: Value, room = { left: MAX_PARTS }): unknown {
  if (room.left-- <= 0) throw new JinjaError(`a key of more than ${MAX_PARTS} parts`);
  if (typeof key === 'boolean') return Number(key);
  if (key instanceof Float) return Number.isInteger(key.value) && !Number.isSafeInteger(key.value) ? BigInt(key.value) : key.value + 0;
  if (key instanceof Markup) return key.text;
  if (key instanceof Undefined) return Undefined;
  if (key instanceof Tuple) return `\ud800(${key.items.map((item) => partOf(hash(item, room))).join('\ud800')}`;
  if (Array.isArray(key) || key instanceof Dict) throw new JinjaError(`unhashable type: '${typeName(key)}'`);
  return key;
}

const partOf = (hashed: unknown): string => `${typeof hashed} ${String(hashed)}`;

export class Dict {
  readonly #values = new Map<unknown, Value>();
  /** Keys that are not their own hashes. */
  #keys: Map<unknown, Value> | undefined;
  static of(entries: Iterable<readonly [Value, Value]>): Dict {
    const dict = new Dict();
    for (const [key, value] of entries) dict.set(key, value);
    return dict;
  }
  get size(): number {
    return this.#values.size;
  }
  get(key: Value): Value | undefined {
    return this.#values.get(hash(key));
  }
  has(key: Value): boolean {
    return this.#values.has(hash(key));
  }
  /** As in Python, a key that is there stays as it was written first. */
  set(key: Value, value: Value): void {
    const hashed = hash(key);
    if (hashed !== key && !this.#values.has(hashed)) (this.#keys ??= new Map()).set(hashed, key);
    this.#values.set(hashed, value);
  }
  #keyOf(hashed: unknown): Value {
    return this.#keys?.get(hashed) ?? (hashed as Value);
  }
  *keys(): Generator<Value> {
    for (const hashed of this.#values.keys()) yield this.#keyOf(hashed);
  }
  values(): IterableIterator<Value> {
    return this.#values.values();
  }
  *entries(): Generator<[Value, Value]> {
    for (const [hashed, value] of this.#values) yield [this.#keyOf(hashed), value];
  }
}

/** What keys(), values() and items() of a dictionary give. */
export class DictView {
  readonly dict: Dict;
  readonly of: 'keys' | 'values' | 'items';
  constructor(dict: Dict, of: DictView['of']) {
    this.dict = dict;
    this.of = of;
  }
  *[Symbol.iterator](): Generator<Value> {
    if (this.of === 'items') for (const entry of this.dict.entries()) yield new Tuple(entry);
    else yield* this.dict[this.of]();
  }
}

export class Range {
  readonly start: number;
  readonly stop: number;
  readonly step: number;
  readonly length: number;
  constructor(start: number, stop: number, step: number) {
    this.start = start;
    this.stop = stop;
    this.step = step;
    this.length = Math.max(0, Math.ceil((stop - start) / step));
  }
  at(index: number): number | undefined {
    const i = index < 0 ? index + this.length : index;
    return i >= 0 && i < this.length ? this.start + i * this.step : undefined;
  }
}

/** A generator: it can be walked once, by whoever comes first. */
export class Lazy {
  #from: Iterator<Value>;
  constructor(from: Iterable<Value>) {
    this.#from = from[Symbol.iterator]();
  }
  /** Without return(): what a loop leaves is there for the next. */
  [Symbol.iterator](): Iterator<Value> {
    return { next: () => this.#from.next() };
  }
  /** All that is left, which stays there. */
  rest(): Value[] {
    const items = Array.from(this);
    this.#from = items[Symbol.iterator]();
    return items;
  }
}

export class Namespace {
  readonly attributes: Dict;
  constructor(attributes: Dict) {
    this.attributes = attributes;
  }
}

/** The arguments of a call. */
export interface Args {
  readonly positional: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
}

export type Call = (runtime: Runtime, args: Args) => Value;

/** Parameters of a function. */
export interface Signature {
  readonly names: readonly string[];
  readonly required: number;
  /** Takes any arguments: the body gets {@link Args}. */
  readonly any: boolean;
}

/** A method, filter or test; args.ts makes and calls them. */
export interface Fn {
  readonly signature: Signature;
  readonly body: (runtime: Runtime, ...values: never[]) => Value;
}

/** Filters or tests by their names. */
export type Table = Readonly<Record<string, Fn>>;

/** Steps that an element costs where it is written as text, or looked up by its hash. */
export const WRITING = 5;

/** What a rendering gives to all that takes part in it, and what it allows. */
export interface Runtime {
  readonly filters: Table;
  readonly tests: Table;
  readonly now: () => Date;
  /** Pays for work. @throws TemplateBudget */
  spend(steps: number): void;
  /** Pays for a look at so many characters. */
  read(characters: number): void;
  /** Pays for copying or comparing so many elements. */
  walk(elements: number): void;
  /** Pays for so many characters before they are made. @throws JinjaError where a number in a template asks for too many */
  make(characters: number): void;
  getAttribute(value: Value, name: string): Value;
  getItem(value: Value, key: Value): Value;
}

/** Functions, methods and macros, and objects of jinja2's own: `loop`, cycler(), joiner(), `self`. */
export class Thing {
  /** What repr() writes. */
  readonly shown: () => string;
  readonly call: Call | undefined;
  readonly attribute: ((name: string) => Value | undefined) | undefined;
  constructor(shown: () => string, call?: Call, attribute?: (name: string) => Value | undefined) {
    this.shown = shown;
    this.call = call;
    this.attribute = attribute;
  }
}

export const isText = (value: Value | undefined): value is string | Markup => typeof value === 'string' || value instanceof Markup;
/** The text of a str, Markup or not. */
export const plain = (text: string | Markup): string => (typeof text === 'string' ? text : text.text);
export const isInt = (value: Value | undefined): value is number | bigint | boolean =>
  typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean';
export const isNumber = (value: Value | undefined): value is number | bigint | boolean | Float => isInt(value) || value instanceof Float;
/** Lists and tuples. */
export const itemsOf = (value: Value | undefined): readonly Value[] | undefined =>
  Array.isArray(value) ? value : value instanceof Tuple ? value.items : undefined;

/** A value, or another where there is none: None is a value, which `??` would pass over. */
export const orElse = (value: Value | undefined, otherwise: () => Value): Value => (value === undefined ? otherwise() : value);

/** Python's name of a value's type. */
export function typeName(value: Value): string {
  if (value === null) return 'NoneType';
  if (typeof value === 'boolean') return 'bool';
  if (isInt(value)) return 'int';
  if (value instanceof Float) return 'float';
  if (isText(value)) return 'str';
  if (Array.isArray(value)) return 'list';
  if (value instanceof DictView) return `dict_${value.of}`;
  const names = [
    [Tuple, 'tuple'],
    [Dict, 'dict'],
    [Range, 'range'],
    [Lazy, 'generator'],
    [Undefined, 'Undefined'],
    [Namespace, 'Namespace'],
  ] as const;
  return names.find(([type]) => value instanceof type)?.[1] ?? 'object';
}

/** A number as JSON has it, with all its digits: an int where it has neither point nor exponent, as Python reads it. */
export function numberOf(text: string): number | bigint | Float {
  if (!/^-?\d+$/.test(text)) return new Float(Number(text), text);
  const value = Number(text);
  return Number.isSafeInteger(value) ? value + 0 : BigInt(text);
}

/** Data of JavaScript as values. Numbers without a fraction become ints; for others, and exact ones, give what {@link numberOf} made. */
export function toValue(data: unknown): Value {
  if (typeof data === 'number') return Number.isSafeInteger(data) && !Object.is(data, -0) ? data : new Float(data);
  if (data === undefined) return new Undefined('a variable is undefined');
  if (typeof data !== 'object' || data === null) return data as Value;
  if (Array.isArray(data)) return data.map(toValue);
  if (data instanceof Float || data instanceof Thing) return data;
  const dict = new Dict();
  for (const [key, value] of Object.entries(data)) if (value !== undefined) dict.set(key, toValue(value));
  return dict;
}
