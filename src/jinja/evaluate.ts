/** Evaluates expressions. */
import { getSlice } from './access.ts';
import { callByName } from './args.ts';
import { signed } from './numbers.ts';
import { binary, compare, contains, equals, escaped, iterate, truth } from './operators.ts';
import { str } from './repr.ts';
import type { Rendering } from './runtime.ts';
import type { Scope } from './scope.ts';
import type { Arguments, Expression, Filtered } from './syntax.ts';
import { Dict, isText, JinjaError, Markup, orElse, plain, Thing, Tuple, typeName, Undefined, type Args, type Value } from './values.ts';

/** Evaluates an expression. Costs one step, plus the length of the result if that is a string. */
export function evaluate(rendering: Rendering, scope: Scope, node: Expression): Value {
  rendering.spend(1);
  const value = valueOf(rendering, scope, node);
  if (typeof value === 'string') rendering.read(value.length);
  return value;
}

function valueOf(rendering: Rendering, scope: Scope, node: Expression): Value {
  const of = (inner: Expression): Value => evaluate(rendering, scope, inner);
  switch (node.type) {
    case 'const':
      return node.value;
    case 'name':
      return orElse(scope.get(node.name), () => new Undefined(`'${node.name}' is undefined`));
    case 'attribute':
      return rendering.getAttribute(of(node.of), node.name);
    case 'item':
      return rendering.getItem(of(node.of), of(node.key));
    case 'slice':
      return getSlice(
        rendering,
        of(node.of),
        node.bounds.map((bound) => (bound ? of(bound) : null)),
      );
    case 'call':
      return call(rendering, of(node.of), argumentsOf(rendering, scope, node.args));
    case 'filter':
      return filtered(rendering, scope, node, null);
    case 'test':
      return callByName(rendering, 'test', node.name, of(node.of), argumentsOf(rendering, scope, node.args));
    case 'binary':
      return binary(rendering, node.operator, of(node.left), of(node.right));
    case 'unary':
      return signed(node.operator, of(node.of));
    case 'compare':
      return compared(rendering, scope, node);
    case 'and': {
      const left = of(node.left);
      return truth(left) ? of(node.right) : left;
    }
    case 'or': {
      const left = of(node.left);
      return truth(left) ? left : of(node.right);
    }
    case 'not':
      return !truth(of(node.of));
    case 'if':
      if (truth(of(node.test))) return of(node.then);
      return node.otherwise
        ? of(node.otherwise)
        : new Undefined('the inline if-expression evaluated to false and no else section was defined.');
    case 'concat':
      return concatenated(rendering, node.parts.map(of));
    case 'list':
      return node.items.map(of);
    case 'tuple':
      return new Tuple(node.items.map(of));
    case 'dict':
      return Dict.of(node.entries.map(([key, value]) => [of(key), of(value)]));
  }
}

export function call(rendering: Rendering, value: Value, args: Args): Value {
  if (value instanceof Undefined) throw new JinjaError(value.message);
  if (!(value instanceof Thing) || !value.call) throw new JinjaError(`'${typeName(value)}' object is not callable`);
  return value.call(rendering, args);
}

/**
 * Applies a filter, after the filters before it.
 * @param block input of the first filter, if the chain filters a block of text
 */
export function filtered(rendering: Rendering, scope: Scope, node: Filtered, block: Value): Value {
  const { of } = node;
  const value = of === undefined ? block : of.type === 'filter' ? filtered(rendering, scope, of, block) : evaluate(rendering, scope, of);
  // Charge for the filter's input here, so that filters need not.
  if (isText(value)) rendering.read(plain(value).length);
  return callByName(rendering, 'filter', node.name, value, argumentsOf(rendering, scope, node.args));
}

function compared(rendering: Rendering, scope: Scope, node: Extract<Expression, { type: 'compare' }>): boolean {
  let left = evaluate(rendering, scope, node.first);
  for (const { operator, right: next } of node.rest) {
    const right = evaluate(rendering, scope, next);
    if (!holds(rendering, operator, left, right)) return false;
    left = right;
  }
  return true;
}

function holds(rendering: Rendering, operator: string, left: Value, right: Value): boolean {
  switch (operator) {
    case '==':
      return equals(rendering, left, right);
    case '!=':
      return !equals(rendering, left, right);
    case 'in':
      return contains(rendering, right, left);
    case 'not in':
      return !contains(rendering, right, left);
  }
  const order = compare(rendering, left, right);
  return operator === '<' ? order < 0 : operator === '<=' ? order <= 0 : operator === '>' ? order > 0 : order >= 0;
}

function concatenated(rendering: Rendering, parts: readonly Value[]): Value {
  if (rendering.autoescape && parts.some((part) => part instanceof Markup))
    return new Markup(parts.map((part) => escaped(rendering, part)).join(''));
  return parts.map((part) => str(rendering, part)).join('');
}

const none: Args = { positional: [], named: new Map() };

export function argumentsOf(rendering: Rendering, scope: Scope, { positional, named, more, moreNamed }: Arguments): Args {
  if (positional.length + named.length === 0 && !more && !moreNamed) return none;
  const values = positional.map((one) => evaluate(rendering, scope, one));
  if (more) values.push(...iterate(rendering, evaluate(rendering, scope, more)));
  const names = new Map(named.map(([name, value]) => [name, evaluate(rendering, scope, value)]));
  if (!moreNamed) return { positional: values, named: names };
  const given = evaluate(rendering, scope, moreNamed);
  if (!(given instanceof Dict)) throw new JinjaError('argument after ** must be a mapping');
  for (const [name, value] of given.entries()) {
    if (!isText(name)) throw new JinjaError('keywords must be strings');
    if (names.has(plain(name))) throw new JinjaError(`got multiple values for keyword argument '${plain(name)}'`);
    names.set(plain(name), value);
  }
  return { positional: values, named: names };
}
