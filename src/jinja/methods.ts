/** Methods of str, list, tuple, dict, int and float, as far as the sandbox allows them. */
import { callFn, fn, int } from './args.ts';
import { equals } from './operators.ts';
import { textMethods } from './text-methods.ts';
import { Dict, DictView, Float, isInt, isText, itemsOf, JinjaError, orElse, Thing, typeName, type Value, type Fn } from './values.ts';

/** Steps charged for each entry that is put into a dictionary. */
const ENTRY = 8;

const sequenceMethods: Readonly<Record<string, Fn>> = {
  count: fn('value', (runtime, self: Value, value: Value) => itemsOf(self)!.filter((item) => equals(runtime, item, value)).length),
  index: fn('value start? stop?', (runtime, self: Value, value: Value, start?: Value, stop?: Value) => {
    const items = itemsOf(self)!;
    const within = (at: number): number => Math.min(items.length, Math.max(0, at < 0 ? at + items.length : at));
    const end = within(int(stop, items.length));
    for (let i = within(int(start, 0)); i < end; i++) if (equals(runtime, items[i], value)) return i;
    throw new JinjaError('value is not in the sequence');
  }),
};

/**
 * Includes append and pop, because templates like Kimi's keep queues in lists. jinja2's sandbox
 * refuses these two; llama.cpp's engine has them.
 */
const listMethods: Readonly<Record<string, Fn>> = {
  ...sequenceMethods,
  copy: fn('', (runtime, self: Value[]) => (runtime.walk(self.length), [...self])),
  append: fn('item', (_, self: Value[], item: Value) => (self.push(item), null)),
  pop: fn('index?', (runtime, self: Value[], index?: Value) => {
    runtime.walk(self.length);
    const at = int(index, -1);
    const [item] = at < self.length && at >= -self.length ? self.splice(at, 1) : [];
    if (item === undefined) throw new JinjaError('pop from an empty list or with an index out of range');
    return item;
  }),
};

const dictMethods: Readonly<Record<string, Fn>> = {
  get: fn('key default?', (_, self: Dict, key: Value, otherwise?: Value) =>
    orElse(self.get(key), () => (otherwise === undefined ? null : otherwise)),
  ),
  items: fn('', (_, self: Dict) => new DictView(self, 'items')),
  keys: fn('', (_, self: Dict) => new DictView(self, 'keys')),
  values: fn('', (_, self: Dict) => new DictView(self, 'values')),
  copy: fn('', (runtime, self: Dict) => (runtime.spend(ENTRY * self.size), Dict.of(self.entries()))),
};

const intMethods: Readonly<Record<string, Fn>> = {
  bit_length: fn('', (_, self: number | bigint | boolean) => (self == 0 ? 0 : BigInt(self).toString(2).replace('-', '').length)),
  is_integer: fn('', () => true),
};
const floatMethods: Readonly<Record<string, Fn>> = {
  is_integer: fn('', (_, self: Float) => Number.isInteger(self.value)),
};

/**
 * Methods that would change a list or a dictionary. Templates do not see them, nor a dictionary's
 * key of the same name.
 */
const refused: Readonly<Record<string, ReadonlySet<string>>> = {
  list: new Set(['clear', 'reverse', 'insert', 'sort', 'extend', 'remove']),
  dict: new Set(['clear', 'pop', 'popitem', 'setdefault', 'update']),
};
export const isRefused = (value: Value, name: string): boolean => refused[typeName(value)]?.has(name) ?? false;

function methodsOf(value: Value): Readonly<Record<string, Fn>> | undefined {
  if (isText(value)) return textMethods;
  if (Array.isArray(value)) return listMethods;
  if (itemsOf(value)) return sequenceMethods;
  if (value instanceof Dict) return dictMethods;
  if (value instanceof Float) return floatMethods;
  return isInt(value) ? intMethods : undefined;
}

/** A method bound to its receiver. */
export function methodOf(value: Value, name: string): Value | undefined {
  const methods = methodsOf(value);
  if (!methods || !Object.hasOwn(methods, name)) return undefined;
  const method = methods[name];
  return new Thing(
    () => `<built-in method ${name} of ${typeName(value)} object>`,
    (runtime, args) => callFn(runtime, name, method, [value], args),
  );
}
