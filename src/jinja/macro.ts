/** Macros and bodies of call blocks, as functions. */
import type { Rendering } from './runtime.ts';
import { evaluate } from './evaluate.ts';
import { reprText } from './repr.ts';
import { Scope } from './scope.ts';
import type { Block, MacroBody } from './syntax.ts';
import { Dict, JinjaError, orElse, Thing, Tuple, Undefined, type Args, type Value } from './values.ts';

/** Renders a body in the scope given. */
export type WriteBody = (body: Block, scope: Scope) => Value;

/** @param name of the macro; undefined for the body of a call block */
export function makeMacro(rendering: Rendering, write: WriteBody, scope: Scope, name: string | undefined, macro: MacroBody): Thing {
  const { parameters, uses } = macro;
  const own = parameters.some((parameter) => parameter.name === 'caller');
  const attributes: Readonly<Record<string, () => Value>> = {
    name: () => name ?? null,
    arguments: () => new Tuple(parameters.map((parameter) => parameter.name)),
    catch_kwargs: () => uses.has('kwargs'),
    catch_varargs: () => uses.has('varargs'),
    caller: () => uses.has('caller') || own,
  };
  return new Thing(
    () => `<Macro ${name === undefined ? 'anonymous' : reprText(name)}>`,
    (_, args) => rendering.nested(() => write(macro.body, bind(rendering, scope, name ?? 'caller', macro, args))),
    (attribute) => (Object.hasOwn(attributes, attribute) ? attributes[attribute]() : undefined),
  );
}

/** Scope of a call: its parameters, and varargs, kwargs and caller if the body uses them. */
function bind(rendering: Rendering, outer: Scope, name: string, { parameters, uses }: MacroBody, { positional, named }: Args): Scope {
  const scope = new Scope(outer);
  const left = new Map(named);
  for (const [i, parameter] of parameters.entries()) {
    const given = i < positional.length ? positional[i] : left.get(parameter.name);
    if (i >= positional.length) left.delete(parameter.name);
    // Bind in order, because a default may use the parameters before it.
    if (given !== undefined) scope.set(parameter.name, given);
    else if (parameter.otherwise) scope.set(parameter.name, evaluate(rendering, scope, parameter.otherwise));
    else scope.set(parameter.name, new Undefined(`parameter '${parameter.name}' was not provided`));
  }
  if (uses.has('caller') && !parameters.some((parameter) => parameter.name === 'caller')) {
    scope.set(
      'caller',
      orElse(left.get('caller'), () => new Undefined('No caller defined')),
    );
    left.delete('caller');
  }
  if (uses.has('kwargs')) scope.set('kwargs', Dict.of(left));
  else if (left.size > 0) throw new JinjaError(`macro '${name}' takes no keyword argument '${[...left.keys()][0]}'`);
  const more = positional.slice(parameters.length);
  if (uses.has('varargs')) scope.set('varargs', new Tuple(more));
  else if (more.length > 0) throw new JinjaError(`macro '${name}' takes not more than ${parameters.length} argument(s)`);
  return scope;
}
