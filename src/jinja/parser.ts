/**
 * Parser of templates, by jinja2's grammar with loop controls, plus the `generation` tag of
 * transformers.
 */
import { ExpressionParser } from './expressions.ts';
import { tokenize } from './lexer.ts';
import { TokenStream } from './stream.ts';
import type { Block, Expression, Filtered, MacroBody, Parameter, Statement, Target, Template } from './syntax.ts';

/** @throws TemplateSyntaxError */
export function parseTemplate(source: string): Template {
  return new Parser(new TokenStream(tokenize(source))).template();
}

class Parser {
  readonly #stream: TokenStream;
  readonly #expressions: ExpressionParser;
  readonly #blocks = new Map<string, Block>();
  /** Number of loops around the current statement, within its macro. */
  #loops = 0;
  /** Names of the open tags. Error messages name the last one. */
  readonly #open: string[] = [];
  constructor(stream: TokenStream) {
    this.#stream = stream;
    this.#expressions = new ExpressionParser(stream);
  }

  template(): Template {
    const body = this.#statements();
    if (!this.#stream.is('end')) throw this.#stream.fail(`unknown tag '${this.#stream.current.text}'`);
    return { body, blocks: this.#blocks };
  }

  /** Parses statements up to a tag with one of these names, and stops before the name. */
  #statements(...ends: readonly string[]): Block {
    const body: Statement[] = [];
    const { current: begin } = this.#stream;
    while (!this.#stream.is('end')) {
      const token = this.#stream.take();
      if (token.type === 'text') body.push({ type: 'text', text: token.text });
      else if (token.text === '{{') {
        body.push({ type: 'output', value: this.#expressions.tuple() });
        this.#stream.expect('close');
      } else {
        if (this.#stream.isName(...ends)) return body;
        const statement = this.#statement();
        body.push(...(Array.isArray(statement) ? (statement as Statement[]) : [statement as Statement]));
        this.#stream.expect('close');
      }
    }
    if (ends.length > 0)
      throw this.#stream.fail(`unexpected end of template: '${this.#open.at(-1)}' of line ${begin.line} needs ${ends.join(' or ')}`);
    return body;
  }

  /** Parses the body of a tag: from the tag's end up to one of these names. */
  #body(...ends: readonly string[]): Block {
    this.#stream.skip('operator', ':');
    this.#stream.expect('close');
    return this.#statements(...ends);
  }

  /** Parses a body with one possible end, and consumes the end's name. */
  #bodyTo(end: string): Block {
    const body = this.#body(end);
    this.#stream.take();
    return body;
  }

  #statement(): Statement | readonly Statement[] {
    const { text: tag } = this.#stream.expect('name');
    this.#open.push(tag);
    const statement = this.#tag(tag);
    this.#open.pop();
    return statement;
  }

  #tag(tag: string): Statement | readonly Statement[] {
    switch (tag) {
      case 'if':
        return this.#if();
      case 'for':
        return this.#for();
      case 'break':
      case 'continue':
        if (this.#loops === 0) throw this.#stream.fail(`'${tag}' outside of a loop`);
        return { type: tag };
      case 'set':
        return this.#set();
      case 'with':
        return this.#with();
      case 'macro':
        return { type: 'macro', name: this.#expressions.name(), ...this.#macro('endmacro', this.#parameters()) };
      case 'call':
        return this.#callBlock();
      case 'filter':
        return this.#filterBlock();
      case 'block':
        return this.#block();
      case 'print':
        return this.#print();
      case 'generation':
        return { type: 'scope', body: this.#macro('endgeneration', []).body };
      case 'autoescape':
        return { type: 'autoescape', on: this.#expressions.expression(), body: this.#bodyTo('endautoescape') };
      case 'extends':
      case 'include':
      case 'import':
      case 'from':
        return this.#load(tag);
      default:
        throw this.#stream.fail(`unknown tag '${tag}'`);
    }
  }

  #if(): Statement {
    const test = this.#expressions.tuple(false);
    const body = this.#body('elif', 'else', 'endif');
    const { text: end } = this.#stream.take();
    const otherwise = end === 'elif' ? [this.#if()] : end === 'else' ? this.#bodyTo('endif') : [];
    return { type: 'if', test, body, otherwise };
  }

  #for(): Statement {
    const target = this.#expressions.target(false);
    if (namesOf(target).includes('loop')) throw this.#stream.fail("Can't assign to special loop variable in for-loop target");
    this.#stream.expect('name', 'in');
    const of = this.#expressions.tuple(false);
    const test = this.#stream.skip('name', 'if') ? this.#expressions.expression() : undefined;
    const recursive = this.#stream.skip('name', 'recursive');
    this.#loops++;
    const body = this.#body('else', 'endfor');
    this.#loops--;
    const otherwise = this.#stream.take().text === 'else' ? this.#bodyTo('endfor') : [];
    return { type: 'for', target, of, test, recursive, body, otherwise };
  }

  #set(): Statement {
    const target = this.#expressions.target(true);
    if (this.#stream.skip('operator', '=')) return { type: 'set', target, value: this.#expressions.tuple() };
    const filter = this.#expressions.filters(undefined) as Filtered | undefined;
    return { type: 'set block', target, filter, body: this.#bodyTo('endset') };
  }

  #with(): Statement {
    const values: [Target, Expression][] = [];
    while (!this.#stream.is('close')) {
      if (values.length > 0) this.#stream.expect('operator', ',');
      const target = this.#expressions.target(false);
      this.#stream.expect('operator', '=');
      values.push([target, this.#expressions.expression()]);
    }
    return { type: 'with', values, body: this.#bodyTo('endwith') };
  }

  #parameters(): Parameter[] {
    const parameters: Parameter[] = [];
    this.#stream.expect('operator', '(');
    while (!this.#stream.isOperator(')')) {
      if (parameters.length > 0) this.#stream.expect('operator', ',');
      const name = this.#expressions.name();
      const otherwise = this.#stream.skip('operator', '=') ? this.#expressions.expression() : undefined;
      if (!otherwise && parameters.at(-1)?.otherwise) throw this.#stream.fail('non-default argument follows default argument');
      parameters.push({ name, otherwise });
    }
    this.#stream.take();
    return parameters;
  }

  /**
   * Parses a body that is called as a function. `break` in it must not refer to loops around it.
   */
  #macro(end: string, parameters: readonly Parameter[]): MacroBody {
    const loops = this.#loops;
    this.#loops = 0;
    const body = this.#bodyTo(end);
    this.#loops = loops;
    if (parameters.some(({ name, otherwise }) => name === 'caller' && !otherwise))
      throw this.#stream.fail('a parameter named caller needs a default, which is none or undefined');
    return { parameters, body, uses: namesIn(body) };
  }

  #callBlock(): Statement {
    const parameters = this.#stream.isOperator('(') ? this.#parameters() : [];
    const call = this.#expressions.expression();
    if (call.type !== 'call') throw this.#stream.fail('expected call');
    return { type: 'call block', call, caller: this.#macro('endcall', parameters) };
  }

  #filterBlock(): Statement {
    const filter = this.#expressions.filters(this.#expressions.filter(undefined)) as Filtered;
    return { type: 'filter block', filter, body: this.#bodyTo('endfilter') };
  }

  #block(): Statement {
    const { text: name } = this.#stream.expect('name');
    const scoped = this.#stream.skip('name', 'scoped');
    if (this.#stream.isName('required'))
      throw this.#stream.fail('a required block has no content: templates that extend others are not supported');
    if (this.#blocks.has(name)) throw this.#stream.fail(`block '${name}' defined twice`);
    this.#blocks.set(name, []);
    const { body } = this.#macro('endblock', []);
    this.#stream.skip('name', name);
    this.#blocks.set(name, body);
    return { type: 'block', name, scoped, body };
  }

  #print(): Statement[] {
    const values: Statement[] = [];
    while (!this.#stream.is('close')) {
      if (values.length > 0) this.#stream.expect('operator', ',');
      values.push({ type: 'output', value: this.#expressions.expression() });
    }
    return values;
  }

  /**
   * Tags that load other templates. There are none to load, so rendering such a tag is an error.
   */
  #load(tag: string): Statement {
    while (!this.#stream.is('close')) this.#stream.take();
    return { type: 'load', tag };
  }
}

function namesOf(target: Target): string[] {
  return target.type === 'tuple' ? target.items.flatMap(namesOf) : target.type === 'name' ? [target.name] : [];
}

/** All names that a part of the tree reads. */
function namesIn(part: unknown, found = new Set<string>()): ReadonlySet<string> {
  if (typeof part !== 'object' || part === null) return found;
  if ((part as { type?: string }).type === 'name') found.add((part as { name: string }).name);
  for (const inner of Object.values(part)) namesIn(inner, found);
  return found;
}
