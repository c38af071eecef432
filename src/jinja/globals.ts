/**
 * Functions that every template can call: those of jinja2, and raise_exception and strftime_now of
 * transformers.
 */
import { callFn, fn, int, text } from './args.ts';
import { iterate } from './operators.ts';
import { str } from './repr.ts';
import { strftime } from './strftime.ts';
import {
  Dict,
  isText,
  itemsOf,
  JinjaError,
  Namespace,
  plain,
  Range,
  Thing,
  type Args,
  type Fn,
  type Runtime,
  type Value,
} from './values.ts';

/** Error that a template raises by `raise_exception`. The message is the template author's. */
export class TemplateRefusal extends Error {}

/** Same limit as in jinja2's sandbox (MAX_RANGE). */
const MAX_RANGE = 100_000;

function range(_: Runtime, first: Value, second?: Value, third?: Value): Range {
  const [start, stop] = second === undefined ? [0, int(first, 0)] : [int(first, 0), int(second, 0)];
  const step = int(third, 1);
  if (step === 0) throw new JinjaError('range() arg 3 must not be zero');
  const all = new Range(start, stop, step);
  if (all.length > MAX_RANGE) throw new JinjaError(`range() of ${all.length} numbers; the limit is ${MAX_RANGE}`);
  return all;
}

/** dict(mapping or pairs, name=value). */
function dictOf(runtime: Runtime, { positional, named }: Args): Dict {
  if (positional.length > 1) throw new JinjaError(`dict expected at most 1 argument, got ${positional.length}`);
  const dict = new Dict();
  const [from] = positional;
  if (from instanceof Dict) for (const [key, value] of from.entries()) dict.set(key, value);
  else if (from !== undefined)
    for (const pair of iterate(runtime, from)) {
      const both = isText(pair) ? Array.from(plain(pair)) : (itemsOf(pair) ?? []);
      if (both.length !== 2) throw new JinjaError('dict() wants a dictionary or pairs');
      dict.set(both[0], both[1]);
    }
  for (const [name, value] of named) dict.set(name, value);
  return dict;
}

const fromKeys = fn('iterable value?', (runtime, keys: Value, value: Value = null) =>
  Dict.of(Array.from(iterate(runtime, keys), (key) => [key, value])),
);

/** @throws JinjaError for a name that begins with an underscore, as in transformers */
export function checkAttribute(name: Value): void {
  if (isText(name) && plain(name).startsWith('_'))
    throw new JinjaError(`namespaces have no attributes that begin with an underscore: ${plain(name)}`);
}

function namespace(runtime: Runtime, args: Args): Namespace {
  const attributes = dictOf(runtime, args);
  for (const name of attributes.keys()) checkAttribute(name);
  return new Namespace(attributes);
}

function cycler(_: Runtime, { positional: items }: Args): Thing {
  if (items.length === 0) throw new JinjaError('at least one item has to be provided');
  let at = 0;
  const methods: Readonly<Record<string, () => Value>> = {
    next: () => items[at++ % items.length],
    reset: () => ((at = 0), null),
  };
  return new Thing(
    () => '<Cycler>',
    undefined,
    (name) =>
      name === 'current'
        ? items[at % items.length]
        : Object.hasOwn(methods, name)
          ? new Thing(() => `<bound method Cycler.${name}>`, methods[name])
          : undefined,
  );
}

function joiner(_: Runtime, separator: Value = ', '): Thing {
  let used = false;
  return new Thing(
    () => '<Joiner>',
    () => (used ? separator : ((used = true), '')),
  );
}

const words =
  'lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore magna aliqua'.split(' ');

/** Placeholder text: paragraphs of random words. */
function lipsum(runtime: Runtime, count?: Value, html: Value = true, min?: Value, max?: Value): string {
  const [from, to] = [int(min, 20), int(max, 100)];
  runtime.make(Math.max(0, int(count, 5)) * Math.max(0, to) * 12);
  const paragraph = (): string => {
    const all = Array.from(
      { length: from + Math.floor(Math.random() * Math.max(0, to - from)) },
      () => words[Math.floor(Math.random() * words.length)],
    );
    const text = `${all.join(' ')}.`;
    return text[0].toUpperCase() + text.slice(1);
  };
  const paragraphs = Array.from({ length: Math.max(0, int(count, 5)) }, paragraph);
  return html === false ? paragraphs.join('\n\n') : paragraphs.map((one) => `<p>${one}</p>`).join('\n');
}

const functions: Readonly<Record<string, Fn>> = {
  cycler: fn('*', cycler),
  joiner: fn('sep?', joiner),
  lipsum: fn('n? html? min? max?', lipsum),
  namespace: fn('*', namespace),
  raise_exception: fn('message', (runtime, message: Value) => {
    throw new TemplateRefusal(str(runtime, message));
  }),
  range: fn('start stop? step?', range),
  strftime_now: fn('format', (runtime, format: Value) => {
    runtime.read(text(format).length);
    return strftime(text(format), runtime.now(), (characters) => runtime.make(characters));
  }),
};

const thingOf = (name: string, body: Fn): Thing =>
  new Thing(
    () => `<function ${name}>`,
    (runtime, args) => callFn(runtime, name, body, [], args),
  );

export const globals: ReadonlyMap<string, Value> = new Map<string, Value>([
  ...Object.entries(functions).map(([name, body]): [string, Value] => [name, thingOf(name, body)]),
  [
    'dict',
    new Thing(
      () => '<dict>',
      dictOf,
      (name) => (name === 'fromkeys' ? thingOf('fromkeys', fromKeys) : undefined),
    ),
  ],
]);
