/**
 * Functions with Python's parameters, passed by position or by name. Omitted ones are undefined.
 */
import { indexOf, type Num } from './numbers.ts';
import { truth } from './operators.ts';
import {
  isNumber,
  isText,
  JinjaError,
  plain,
  typeName,
  Undefined,
  type Args,
  type Fn,
  type Value,
  type Runtime,
  type Table,
} from './values.ts';

/**
 * Defines a function. Parameters are written `old new count?`, or `*` for any arguments. The body
 * gets their values in order.
 */
export function fn(parameters: string, body: Fn['body']): Fn {
  const words = parameters.split(' ').filter((word) => word !== '' && word !== '*');
  const required = words.filter((word) => !word.endsWith('?')).length;
  const names = words.map((word) => word.replace('?', ''));
  return { signature: { names, required, any: parameters.endsWith('*') }, body };
}

/** @param bound values that precede the arguments: a method's receiver, a filter's operand */
export function callFn(runtime: Runtime, name: string, { signature, body }: Fn, bound: readonly Value[], args: Args): Value {
  const call = body as (runtime: Runtime, ...values: unknown[]) => Value;
  if (signature.any) return call(runtime, ...bound, args);
  const { names, required } = signature;
  const { positional, named } = args;
  if (positional.length > names.length)
    throw new JinjaError(`${name}() takes at most ${names.length} arguments (${positional.length} given)`);
  const values: (Value | undefined)[] = [...positional];
  for (const [key, value] of named) {
    const at = names.indexOf(key);
    if (at < 0) throw new JinjaError(`${name}() got an unexpected keyword argument '${key}'`);
    if (at < positional.length) throw new JinjaError(`${name}() got multiple values for argument '${key}'`);
    values[at] = value;
  }
  for (let i = positional.length; i < required; i++)
    if (values[i] === undefined) throw new JinjaError(`${name}() is missing the argument '${names[i]}'`);
  return call(runtime, ...bound, ...values);
}

/**
 * Calls a filter or a test by its name.
 * @throws JinjaError for an unknown name
 */
export function callByName(runtime: Runtime, kind: 'filter' | 'test', name: string, value: Value, args: Args): Value {
  const table: Table = kind === 'filter' ? runtime.filters : runtime.tests;
  if (!Object.hasOwn(table, name)) throw new JinjaError(`no ${kind} named '${name}'`);
  return callFn(runtime, name, table[name], [value], args);
}

function wrong(what: string, value: Value): JinjaError {
  return new JinjaError(value instanceof Undefined ? value.message : `${what} is wanted, not '${typeName(value)}'`);
}

/** The value as an int; `otherwise` if the argument was omitted. */
export function int(value: Value | undefined, otherwise: number): number {
  if (value === undefined) return otherwise;
  const index = indexOf(value);
  if (index === undefined) throw wrong('an integer', value);
  return index;
}

export function text(value: Value): string {
  if (!isText(value)) throw wrong('a str', value);
  return plain(value);
}

export function number(value: Value): Num {
  if (!isNumber(value)) throw wrong('a number', value);
  return value;
}

export const flag = (value: Value | undefined, otherwise = false): boolean => (value === undefined ? otherwise : truth(value));
/** True for an argument that was omitted or is None. */
export const absent = (value: Value | undefined): value is undefined | null => value === undefined || value === null;
