/** `x.name`, `x[key]` and `x[a:b:c]`, with the restrictions of jinja2's sandbox. */
import { isRefused, methodOf } from './methods.ts';
import { indexOf } from './numbers.ts';
import { characterAt, characters } from './characters.ts';
import { reprText } from './repr.ts';
import {
  Dict,
  isText,
  itemsOf,
  JinjaError,
  Markup,
  Namespace,
  orElse,
  plain,
  Range,
  Thing,
  Tuple,
  typeName,
  Undefined,
  type Value,
  type Runtime,
} from './values.ts';

/**
 * An attribute of the Python object, such as a method; undefined if the object lacks it or the
 * sandbox refuses it.
 */
export function ownAttribute(value: Value, name: string): Value | undefined {
  if (name.startsWith('_')) return undefined;
  if (value instanceof Namespace) return value.attributes.get(name);
  if (value instanceof Thing) return value.attribute?.(name);
  if (value instanceof Tuple && value.names.includes(name)) return value.items[value.names.indexOf(name)];
  return methodOf(value, name);
}

const nothing = (value: Value, name: string): Undefined => new Undefined(`'${typeName(value)} object' has no attribute ${reprText(name)}`);

/** `value.name`: the attribute, or else the item. */
export function getAttribute(value: Value, name: string): Value {
  if (value instanceof Undefined) throw new JinjaError(value.message);
  const attribute = ownAttribute(value, name);
  if (attribute !== undefined) return attribute;
  const item = value instanceof Dict && !isRefused(value, name) ? value.get(name) : undefined;
  return orElse(item, () => nothing(value, name));
}

/** `value[key]`: the item, or else the attribute. */
export function getItem(value: Value, key: Value): Value {
  if (value instanceof Undefined) throw new JinjaError(value.message);
  const found = itemAt(value, key);
  if (found !== undefined) return found;
  if (isText(key)) return orElse(ownAttribute(value, plain(key)), () => nothing(value, plain(key)));
  return new Undefined(`${typeName(value)} object has no such element`);
}

function itemAt(value: Value, key: Value): Value | undefined {
  if (value instanceof Dict) return Array.isArray(key) || key instanceof Dict ? undefined : value.get(key);
  const index = indexOf(key);
  if (index === undefined) return undefined;
  if (value instanceof Range) return value.at(index);
  if (isText(value)) {
    const char = characterAt(plain(value), index);
    return char === undefined || !(value instanceof Markup) ? char : new Markup(char);
  }
  return itemsOf(value)?.at(index);
}

/** `value[from:to:step]`. */
export function getSlice(runtime: Runtime, value: Value, bounds: readonly Value[]): Value {
  if (value instanceof Undefined) throw new JinjaError(value.message);
  const items = isText(value) ? characters(plain(value)) : (itemsOf(value) ?? (value instanceof Range ? value : undefined));
  if (!items) throw new JinjaError(`'${typeName(value)}' object has no slices`);
  const [from, to, step] = sliceBounds(items.length, bounds);
  if (items instanceof Range) return new Range(items.start + from * items.step, items.start + to * items.step, items.step * step);
  runtime.walk(items.length / (typeof items === 'string' ? 8 : 1));
  if (step === 1) {
    const part = items.slice(from, Math.max(from, to));
    return made(value, part);
  }
  const part: (Value | string)[] = [];
  for (let i = from; step > 0 ? i < to : i > to; i += step) part.push(items[i]);
  return made(value, part);
}

function made(value: Value, part: string | readonly Value[]): Value {
  if (Array.isArray(value)) return part as Value[];
  if (value instanceof Tuple) return new Tuple(part as Value[]);
  const text = typeof part === 'string' ? part : part.join('');
  return value instanceof Markup ? new Markup(text) : text;
}

/** Bounds of a slice, clamped to the sequence as in Python. */
function sliceBounds(length: number, bounds: readonly Value[]): [number, number, number] {
  const [from, to, by] = bounds.map((bound) => {
    const index = indexOf(bound);
    if (index === undefined && bound !== null) throw new JinjaError('slice indices must be integers or None');
    return index;
  });
  const step = by ?? 1;
  if (step === 0) throw new JinjaError('slice step cannot be zero');
  const within = (index: number | undefined, otherwise: number): number => {
    if (index === undefined) return otherwise;
    const [least, most] = step > 0 ? [0, length] : [-1, length - 1];
    return Math.min(most, Math.max(least, index < 0 ? index + length : index));
  };
  return step > 0 ? [within(from, 0), within(to, length), step] : [within(from, length - 1), within(to, -1), step];
}
