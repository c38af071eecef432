/** Renders statements of templates, with a pause before each turn of a loop. */
import { atOnce, type Work } from '../slices.ts';
import { argumentsOf, call, evaluate, filtered } from './evaluate.ts';
import { checkAttribute, globals } from './globals.ts';
import { loopVariable, type LoopState } from './loop.ts';
import { makeMacro } from './macro.ts';
import { escaped, iterate, listOf, truth } from './operators.ts';
import { str } from './repr.ts';
import type { Rendering } from './runtime.ts';
import { Scope } from './scope.ts';
import type { Block, Expression, Loop, Statement, Target, Template } from './syntax.ts';
import { isText, JinjaError, Markup, Namespace, plain, Thing, type Value } from './values.ts';

/** Statement that left a block early; undefined if the block ran to its end. */
type End = 'break' | 'continue' | undefined;

/** @throws JinjaError, TemplateRefusal, TemplateBudget */
export function* render(template: Template, rendering: Rendering, variables: Iterable<readonly [string, Value]>): Work<string> {
  const around = new Scope();
  for (const [name, value] of globals) around.set(name, value);
  for (const [name, value] of variables) around.set(name, value);
  const root = new Scope(around);
  const writer = new Writer(template, rendering, root);
  root.set('self', writer.self());
  const out: string[] = [];
  yield* writer.block(template.body, root, out);
  return out.join('');
}

class Writer {
  readonly #template: Template;
  readonly #rendering: Rendering;
  readonly #root: Scope;
  constructor(template: Template, rendering: Rendering, root: Scope) {
    this.#template = template;
    this.#rendering = rendering;
    this.#root = root;
  }

  /** The variable `self`: the template's blocks, as functions. */
  self(): Thing {
    const get = (name: string): Value | undefined => {
      const body = this.#template.blocks.get(name);
      return (
        body &&
        new Thing(
          () => `<BlockReference ${name}>`,
          () => this.#write(body, new Scope(this.#root)),
        )
      );
    };
    return new Thing(() => '<TemplateReference None>', undefined, get);
  }

  *block(statements: Block, scope: Scope, out: string[]): Work<End> {
    for (const statement of statements) {
      const end = yield* this.#statement(statement, scope, out);
      if (end) return end;
    }
    return undefined;
  }

  #evaluate(scope: Scope, node: Expression): Value {
    return evaluate(this.#rendering, scope, node);
  }

  *#statement(statement: Statement, scope: Scope, out: string[]): Work<End> {
    switch (statement.type) {
      case 'text':
        this.#rendering.read(statement.text.length);
        out.push(statement.text);
        return undefined;
      case 'output':
        out.push(this.#shown(this.#evaluate(scope, statement.value)));
        return undefined;
      case 'if':
        return yield* this.block(truth(this.#evaluate(scope, statement.test)) ? statement.body : statement.otherwise, scope, out);
      case 'for':
        return yield* this.#for(statement, scope, out);
      case 'break':
      case 'continue':
        return statement.type;
      case 'set':
        this.#assign(scope, statement.target, this.#evaluate(scope, statement.value));
        return undefined;
      case 'macro':
        scope.set(statement.name, makeMacro(this.#rendering, this.#write, scope, statement.name, statement));
        return undefined;
      case 'load':
        throw new JinjaError(`{% ${statement.tag} %}: there are no other templates`);
      default:
        return yield* this.#nested(statement, scope, out);
    }
  }

  /** Renders statements that have a scope of their own. */
  *#nested(
    statement: Extract<Statement, { type: 'set block' | 'with' | 'call block' | 'filter block' | 'scope' | 'block' | 'autoescape' }>,
    outer: Scope,
    out: string[],
  ): Work<End> {
    const scope = new Scope(statement.type === 'block' && !statement.scoped ? this.#root : outer);
    switch (statement.type) {
      case 'with':
        for (const [target, value] of statement.values) this.#assign(scope, target, this.#evaluate(outer, value));
        return yield* this.block(statement.body, scope, out);
      case 'scope':
      case 'block':
        return yield* this.block(statement.body, scope, out);
      case 'call block': {
        const caller = makeMacro(this.#rendering, this.#write, outer, undefined, statement.caller);
        const { positional, named } = argumentsOf(this.#rendering, outer, statement.call.args);
        const args = { positional, named: new Map(named).set('caller', caller) };
        out.push(this.#shown(call(this.#rendering, this.#evaluate(outer, statement.call.of), args)));
        return undefined;
      }
      case 'autoescape': {
        const before = this.#rendering.autoescape;
        this.#rendering.autoescape = truth(this.#evaluate(outer, statement.on));
        const end = yield* this.block(statement.body, scope, out);
        this.#rendering.autoescape = before;
        return end;
      }
    }
    const part: string[] = [];
    const end = yield* this.block(statement.body, scope, part);
    if (end) return end;
    const text = this.#made(part);
    const value = statement.filter ? filtered(this.#rendering, outer, statement.filter, text) : text;
    if (statement.type === 'set block') this.#assign(outer, statement.target, value);
    else out.push(this.#shown(value));
    return undefined;
  }

  /**
   * Renders a body to a value, without pauses: macros are called from expressions, which cannot
   * pause.
   */
  readonly #write = (body: Block, scope: Scope): Value => {
    const out: string[] = [];
    atOnce(this.block(body, scope, out));
    return this.#made(out);
  };

  /** Value of rendered text. With autoescape, the text is escaped already, so it is Markup. */
  #made(parts: readonly string[]): Value {
    const text = parts.join('');
    this.#rendering.read(text.length);
    return this.#rendering.autoescape ? new Markup(text) : text;
  }

  /** Text that `{{ value }}` writes. */
  #shown(value: Value): string {
    const text = this.#rendering.autoescape ? escaped(this.#rendering, value) : str(this.#rendering, value);
    this.#rendering.read(text.length);
    return text;
  }

  *#for(loop: Loop, scope: Scope, out: string[]): Work<End> {
    return yield* this.#turns(loop, scope, this.#evaluate(scope, loop.of), 0, out);
  }

  *#turns(loop: Loop, outer: Scope, of: Value, depth: number, out: string[]): Work<End> {
    const items = this.#selected(loop, outer, listOf(this.#rendering, of));
    if (items.length === 0) return yield* this.block(loop.otherwise, new Scope(outer), out);
    const recurse = (inner: Value, deeper: number): Value => {
      const part: string[] = [];
      this.#rendering.nested(() => atOnce(this.#turns(loop, outer, inner, deeper, part)));
      return this.#made(part);
    };
    const state: LoopState = { index: 0, items, depth, recurse: loop.recursive ? recurse : undefined, changed: null };
    const variable = loopVariable(state);
    let whole = false;
    for (; state.index < items.length; state.index++) {
      yield;
      this.#rendering.spend(1);
      const scope = new Scope(outer);
      scope.set('loop', variable);
      this.#assign(scope, loop.target, items[state.index]);
      const end = yield* this.block(loop.body, scope, out);
      if (end === 'break') break;
      whole ||= end === undefined;
    }
    // As in jinja2, `else` also runs if every turn was left by `continue` or `break`.
    return whole ? undefined : yield* this.block(loop.otherwise, new Scope(outer), out);
  }

  /** Items that pass the `if` of a loop. */
  #selected({ test, target }: Loop, outer: Scope, items: Value[]): Value[] {
    if (!test) return items;
    return items.filter((item) => {
      const scope = new Scope(outer);
      this.#assign(scope, target, item);
      return truth(this.#evaluate(scope, test));
    });
  }

  #assign(scope: Scope, target: Target, value: Value): void {
    if (target.type === 'name') return scope.set(target.name, value);
    if (target.type === 'attribute') {
      const namespace = scope.get(target.of);
      if (!(namespace instanceof Namespace)) throw new JinjaError('cannot assign attribute on non-namespace object');
      checkAttribute(target.name);
      return namespace.attributes.set(target.name, value);
    }
    const parts = isText(value) ? Array.from(plain(value)) : Array.from(iterate(this.#rendering, value));
    const { items } = target;
    if (parts.length !== items.length) throw new JinjaError(`${parts.length} values cannot be taken apart as ${items.length}`);
    for (const [i, item] of items.entries()) this.#assign(scope, item, parts[i]);
  }
}
