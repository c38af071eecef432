/** jinja2's tests, such as `x is odd`. */
import { fn } from './args.ts';
import { binary, compare, contains, equals, sizeOf } from './operators.ts';
import { str } from './repr.ts';
import { isLower, isUpper } from './text-methods.ts';
import {
  Dict,
  DictView,
  Float,
  isInt,
  isNumber,
  isText,
  Lazy,
  Markup,
  Thing,
  Undefined,
  type Value,
  type Table,
  type Fn,
} from './values.ts';

const of = (test: (value: Value) => boolean): Fn => fn('', (_, value: Value) => test(value));
const ordered = (test: (order: number) => boolean): Fn =>
  fn('other', (runtime, value: Value, other: Value) => test(compare(runtime, value, other)));
const remainder = (rest: number): Fn => fn('', (runtime, value: Value) => equals(runtime, binary(runtime, '%', value, 2), rest));

const equal = fn('other', (runtime, value: Value, other: Value) => equals(runtime, value, other));
const different = fn('other', (runtime, value: Value, other: Value) => !equals(runtime, value, other));
const greater = ordered((order) => order > 0);
const atLeast = ordered((order) => order >= 0);
const less = ordered((order) => order < 0);
const atMost = ordered((order) => order <= 0);

export const tests: Table = {
  '!=': different,
  '<': less,
  '<=': atMost,
  '==': equal,
  '>': greater,
  '>=': atLeast,
  boolean: of((value) => typeof value === 'boolean'),
  callable: of((value) => value instanceof Undefined || (value instanceof Thing && value.call !== undefined)),
  defined: of((value) => !(value instanceof Undefined)),
  divisibleby: fn('num', (runtime, value: Value, by: Value) => equals(runtime, binary(runtime, '%', value, by), 0)),
  eq: equal,
  equalto: equal,
  escaped: of((value) => value instanceof Markup),
  even: remainder(0),
  false: of((value) => value === false),
  filter: fn('', (runtime, value: Value) => isText(value) && Object.hasOwn(runtime.filters, str(runtime, value))),
  float: of((value) => value instanceof Float),
  ge: atLeast,
  greaterthan: greater,
  gt: greater,
  in: fn('seq', (runtime, value: Value, seq: Value) => contains(runtime, seq, value)),
  integer: of((value) => isInt(value) && typeof value !== 'boolean'),
  iterable: of((value) => value instanceof Lazy || sizeOf(value) !== undefined),
  le: atMost,
  lessthan: less,
  lower: fn('', (runtime, value: Value) => isLower(str(runtime, value))),
  lt: less,
  mapping: of((value) => value instanceof Dict),
  ne: different,
  none: of((value) => value === null),
  number: of(isNumber),
  odd: remainder(1),
  sameas: fn('other', (_, value: Value, other: Value) => value === other),
  sequence: of((value) => sizeOf(value) !== undefined && !(value instanceof DictView)),
  string: of(isText),
  test: fn('', (runtime, value: Value) => isText(value) && Object.hasOwn(runtime.tests, str(runtime, value))),
  true: of((value) => value === true),
  undefined: of((value) => value instanceof Undefined),
  upper: fn('', (runtime, value: Value) => isUpper(str(runtime, value))),
};
