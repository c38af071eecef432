/** Attribute paths in arguments of filters: `city.name`, `0`, `age,name`. */
import { getItem } from './access.ts';
import { isText, plain, Undefined, type Value } from './values.ts';

export type Getter = (item: Value) => Value;

/**
 * @param attribute path; if absent, the item itself is meant
 * @param otherwise replaces undefined values
 */
export function getter(attribute: Value | undefined, then: Getter = (value) => value, otherwise?: Value): Getter {
  const parts = partsOf(attribute);
  return (item) => {
    let value = item;
    for (const part of parts) {
      value = getItem(value, part);
      if (value instanceof Undefined && otherwise !== undefined && otherwise !== null) value = otherwise;
    }
    return then(value);
  };
}

/** Several comma-separated attributes, as a list of values. */
export function getters(attribute: Value | undefined, then: Getter): Getter {
  const all = (isText(attribute) ? plain(attribute).split(',') : [attribute]).map((one) => getter(one, then));
  return (item) => all.map((get) => get(item));
}

function partsOf(attribute: Value | undefined): Value[] {
  if (attribute === undefined || attribute === null) return [];
  if (!isText(attribute)) return [attribute];
  return plain(attribute)
    .split('.')
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
}

/**
 * Text in lower case, other values unchanged: the key of sorting and comparing without regard to
 * case.
 */
export const ignoringCase: Getter = (value) => (isText(value) ? plain(value).toLowerCase() : value);
