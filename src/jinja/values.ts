/**
 * Python's values in templates. null is None; strings, booleans and arrays (lists) are JavaScript's
 * own.
 */
/**
 * A number is an int and has no fraction. It is a bigint if a number would lose digits. Floats are
 * {@link Float}.
 */
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

/** Error of an operation that Python or jinja2 would refuse. */
export class JinjaError extends Error {}

/** Python's float. */
export class Float {
  readonly value: number;
  /** Original spelling, printed in place of Python's. */
  readonly text: string | undefined;
  constructor(value: number, text?: string) {
    this.value = value;
    this.text = text;
  }
}

/** Text that is escaped already or must not be escaped: markupsafe's Markup. */
export class Markup {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/**
 * A name or an attribute that does not exist. It can be printed, looped over and tested; anything
 * else throws this message.
 */
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

/**
 * Parts of a tuple that is a dictionary key. A tuple that is doubled again and again takes only a
 * short template.
 */
const MAX_PARTS = 1000;

/**
 * Hash of a key. Equal keys have equal hashes whatever their types, because 1, 1.0 and True are one
 * key in Python.
 */
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
  /** Original keys whose hash differs from the key. */
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
  /** As in Python, an existing key keeps its first spelling. */
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

/** Result of keys(), values() and items() of a dictionary. */
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

/** A generator. Its items can be consumed once. */
export class Lazy {
  #from: Iterator<Value>;
  constructor(from: Iterable<Value>) {
    this.#from = from[Symbol.iterator]();
  }
  /** Has no return(), so items that a loop leaves remain for the next loop. */
  [Symbol.iterator](): Iterator<Value> {
    return { next: () => this.#from.next() };
  }
  /** All remaining items, which are not consumed. */
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

export interface Args {
  readonly positional: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
}

export type Call = (runtime: Runtime, args: Args) => Value;

export interface Signature {
  readonly names: readonly string[];
  readonly required: number;
  /** Accepts any arguments; the body gets {@link Args}. */
  readonly any: boolean;
}

/** A method, filter or test; made and called by args.ts. */
export interface Fn {
  readonly signature: Signature;
  readonly body: (runtime: Runtime, ...values: never[]) => Value;
}

/** Filters or tests by name. */
export type Table = Readonly<Record<string, Fn>>;

/** Steps charged for an element that is written as text, or looked up by its hash. */
export const WRITING = 5;

/** Services and limits of a rendering, passed to everything that takes part in it. */
export interface Runtime {
  readonly filters: Table;
  readonly tests: Table;
  readonly now: () => Date;
  /**
   * Charges `steps`.
   * @throws TemplateBudget
   */
  spend(steps: number): void;
  /** Charges for reading `characters`. */
  read(characters: number): void;
  /** Charges for copying or comparing `elements`. */
  walk(elements: number): void;
  /**
   * Charges for `characters` before they are made.
   * @throws JinjaError if a number in a template asks for too many
   */
  make(characters: number): void;
  getAttribute(value: Value, name: string): Value;
  getItem(value: Value, key: Value): Value;
}

/** Functions, methods and macros, and jinja2's own objects: `loop`, cycler(), joiner(), `self`. */
export class Thing {
  /** Text that repr() writes. */
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
/** Text of a str, Markup or not. */
export const plain = (text: string | Markup): string => (typeof text === 'string' ? text : text.text);
export const isInt = (value: Value | undefined): value is number | bigint | boolean =>
  typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean';
export const isNumber = (value: Value | undefined): value is number | bigint | boolean | Float => isInt(value) || value instanceof Float;
/** Items of a list or tuple. */
export const itemsOf = (value: Value | undefined): readonly Value[] | undefined =>
  Array.isArray(value) ? value : value instanceof Tuple ? value.items : undefined;

/** The value, or another if it is undefined. Unlike `??`, keeps null, which is None. */
export const orElse = (value: Value | undefined, otherwise: () => Value): Value => (value === undefined ? otherwise() : value);

/** Name of the value's type in Python. */
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

/**
 * A number from JSON's text, with all its digits: an int if it has neither point nor exponent, as
 * in Python.
 */
export function numberOf(text: string): number | bigint | Float {
  if (!/^-?\d+$/.test(text)) return new Float(Number(text), text);
  const value = Number(text);
  return Number.isSafeInteger(value) ? value + 0 : BigInt(text);
}

/**
 * Converts JavaScript data to values. Numbers without a fraction become ints. To keep a float or
 * all digits, pass the result of {@link numberOf}.
 */
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
