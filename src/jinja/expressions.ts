/** Parser of expressions, by jinja2's grammar. */
import type { TokenStream } from './stream.ts';
import type { Arguments, Called, Expression, Filtered, Target } from './syntax.ts';

const constants: Readonly<Record<string, boolean | null>> = { true: true, True: true, false: false, False: false, none: null, None: null };
const comparisons = ['==', '!=', '<', '<=', '>', '>='];
const noArguments: Arguments = { positional: [], named: [], more: undefined, moreNamed: undefined };

export class ExpressionParser {
  readonly stream: TokenStream;
  constructor(stream: TokenStream) {
    this.stream = stream;
  }

  /** @param conditional allows `a if b else c` */
  expression(conditional = true): Expression {
    return conditional ? this.#conditional() : this.#or();
  }

  /** An expression, or a tuple of comma-separated ones. */
  tuple(conditional = true, mayBeEmpty = false): Expression {
    const items: Expression[] = [];
    let comma = false;
    while (!this.#tupleEnds()) {
      items.push(this.expression(conditional));
      if (!this.stream.skip('operator', ',')) return comma ? { type: 'tuple', items } : items[0];
      comma = true;
    }
    if (!comma && !mayBeEmpty) throw this.stream.fail(`Expected an expression, got '${this.stream.current.text}'`);
    return { type: 'tuple', items };
  }

  #tupleEnds(): boolean {
    return this.stream.is('close') || this.stream.isOperator(')');
  }

  /** A target of an assignment: a name, an attribute of a namespace, or a tuple of targets. */
  target(withAttributes: boolean): Target {
    const items: Target[] = [];
    let comma = false;
    while (!this.#tupleEnds() && !this.stream.isOperator('=')) {
      items.push(this.#oneTarget(withAttributes));
      if (!this.stream.skip('operator', ',')) return comma ? { type: 'tuple', items } : items[0];
      comma = true;
    }
    if (items.length === 0) throw this.stream.fail(`Expected a name, got '${this.stream.current.text}'`);
    return { type: 'tuple', items };
  }

  #oneTarget(withAttributes: boolean): Target {
    if (this.stream.skip('operator', '(')) {
      const inner = this.target(withAttributes);
      this.stream.expect('operator', ')');
      return inner;
    }
    const name = this.name();
    if (!withAttributes || !this.stream.skip('operator', '.')) return { type: 'name', name };
    return { type: 'attribute', of: name, name: this.stream.expect('name').text };
  }

  /** A name that can be assigned to. */
  name(): string {
    const { text } = this.stream.expect('name');
    if (Object.hasOwn(constants, text)) throw this.stream.fail(`can't assign to '${text}'`);
    return text;
  }

  #conditional(): Expression {
    let then = this.#or();
    while (this.stream.skip('name', 'if')) {
      const test = this.#or();
      const otherwise = this.stream.skip('name', 'else') ? this.#conditional() : undefined;
      then = { type: 'if', test, then, otherwise };
    }
    return then;
  }

  #or(): Expression {
    let left = this.#and();
    while (this.stream.skip('name', 'or')) left = { type: 'or', left, right: this.#and() };
    return left;
  }

  #and(): Expression {
    let left = this.#not();
    while (this.stream.skip('name', 'and')) left = { type: 'and', left, right: this.#not() };
    return left;
  }

  #not(): Expression {
    return this.stream.skip('name', 'not') ? { type: 'not', of: this.#not() } : this.#compare();
  }

  #compare(): Expression {
    const first = this.#sum();
    const rest: { operator: string; right: Expression }[] = [];
    for (;;) {
      if (this.stream.isOperator(...comparisons)) rest.push({ operator: this.stream.take().text, right: this.#sum() });
      else if (this.stream.skip('name', 'in')) rest.push({ operator: 'in', right: this.#sum() });
      else if (this.stream.isName('not') && this.stream.next.type === 'name' && this.stream.next.text === 'in') {
        this.stream.take();
        this.stream.take();
        rest.push({ operator: 'not in', right: this.#sum() });
      } else return rest.length === 0 ? first : { type: 'compare', first, rest };
    }
  }

  #sum(): Expression {
    return this.#binary(['+', '-'], () => this.#concat());
  }

  #concat(): Expression {
    const parts = [this.#product()];
    while (this.stream.skip('operator', '~')) parts.push(this.#product());
    return parts.length === 1 ? parts[0] : { type: 'concat', parts };
  }

  #product(): Expression {
    return this.#binary(['*', '/', '//', '%'], () => this.#binary(['**'], () => this.#unary()));
  }

  #binary(operators: readonly string[], operand: () => Expression): Expression {
    let left = operand();
    while (this.stream.isOperator(...operators)) left = { type: 'binary', operator: this.stream.take().text, left, right: operand() };
    return left;
  }

  #unary(filtered = true): Expression {
    const node: Expression = this.stream.isOperator('-', '+')
      ? { type: 'unary', operator: this.stream.take().text, of: this.#unary(false) }
      : this.#primary();
    const whole = this.#postfix(node);
    return filtered ? this.#filtersAndTests(whole) : whole;
  }

  #primary(): Expression {
    const { type, text, value } = this.stream.current;
    if (type === 'name') {
      this.stream.take();
      return Object.hasOwn(constants, text) ? { type: 'const', value: constants[text] } : { type: 'name', name: text };
    }
    if (type === 'literal') return this.#literal();
    if (this.stream.skip('operator', '(')) {
      const inner = this.tuple(true, true);
      this.stream.expect('operator', ')');
      return inner;
    }
    if (this.stream.skip('operator', '[')) return { type: 'list', items: this.#items(']', () => this.expression()) };
    if (this.stream.skip('operator', '{')) return { type: 'dict', entries: this.#items('}', () => this.#entry()) };
    throw this.stream.fail(`unexpected '${value === null ? text : String(text)}'`);
  }

  /** A number, or adjacent strings, which are concatenated. */
  #literal(): Expression {
    const { value } = this.stream.take();
    if (typeof value !== 'string') return { type: 'const', value };
    let whole = value;
    while (this.stream.is('literal') && typeof this.stream.current.value === 'string') whole += this.stream.take().value as string;
    return { type: 'const', value: whole };
  }

  #items<T>(end: string, item: () => T): T[] {
    const items: T[] = [];
    while (!this.stream.isOperator(end)) {
      if (items.length > 0) this.stream.expect('operator', ',');
      if (this.stream.isOperator(end)) break;
      items.push(item());
    }
    this.stream.take();
    return items;
  }

  #entry(): readonly [Expression, Expression] {
    const key = this.expression();
    this.stream.expect('operator', ':');
    return [key, this.expression()];
  }

  #postfix(node: Expression): Expression {
    let of = node;
    for (;;) {
      if (this.stream.isOperator('.', '[')) of = this.#subscript(of);
      else if (this.stream.isOperator('(')) of = this.call(of);
      else return of;
    }
  }

  #filtersAndTests(node: Expression): Expression {
    let of = node;
    for (;;) {
      if (this.stream.isOperator('|')) of = this.filters(of)!;
      else if (this.stream.isName('is')) of = this.#test(of);
      else if (this.stream.isOperator('(')) of = this.call(of);
      else return of;
    }
  }

  #subscript(of: Expression): Expression {
    if (this.stream.take().text === '.') {
      const { type, text, value } = this.stream.take();
      if (type === 'name') return { type: 'attribute', of, name: text };
      if (type === 'literal' && (typeof value === 'number' || typeof value === 'bigint'))
        return { type: 'item', of, key: { type: 'const', value } };
      throw this.stream.fail('expected name or number');
    }
    const keys: Expression[] = [];
    do {
      if (this.stream.isOperator(':')) return this.#slice(of, undefined, keys.length);
      const key = this.expression();
      if (this.stream.isOperator(':')) return this.#slice(of, key, keys.length);
      keys.push(key);
    } while (this.stream.skip('operator', ','));
    this.stream.expect('operator', ']');
    return { type: 'item', of, key: keys.length === 1 ? keys[0] : { type: 'tuple', items: keys } };
  }

  #slice(of: Expression, from: Expression | undefined, before: number): Expression {
    const bound = (): Expression | undefined => {
      if (!this.stream.skip('operator', ':')) return undefined;
      return this.stream.isOperator(':', ']') ? undefined : this.expression();
    };
    const bounds = [from, bound(), bound()];
    if (before > 0) throw this.stream.fail('slices next to other keys are not supported');
    this.stream.expect('operator', ']');
    return { type: 'slice', of, bounds };
  }

  call(of: Expression): Called {
    return { type: 'call', of, args: this.#arguments() };
  }

  #arguments(): Arguments {
    this.stream.expect('operator', '(');
    const args = {
      positional: [] as Expression[],
      named: [] as [string, Expression][],
      more: undefined as Expression | undefined,
      moreNamed: undefined as Expression | undefined,
    };
    const ensure = (right: boolean): void => {
      if (!right) throw this.stream.fail('invalid syntax for function call expression');
    };
    for (let first = true; !this.stream.isOperator(')'); first = false) {
      if (!first) this.stream.expect('operator', ',');
      if (this.stream.isOperator(')')) break;
      if (this.stream.skip('operator', '*')) {
        ensure(!args.more && !args.moreNamed);
        args.more = this.expression();
      } else if (this.stream.skip('operator', '**')) {
        ensure(!args.moreNamed);
        args.moreNamed = this.expression();
      } else if (this.stream.is('name') && this.stream.next.type === 'operator' && this.stream.next.text === '=') {
        ensure(!args.moreNamed);
        const { text } = this.stream.take();
        this.stream.take();
        args.named.push([text, this.expression()]);
      } else {
        ensure(!args.more && !args.moreNamed && args.named.length === 0);
        args.positional.push(this.expression());
      }
    }
    this.stream.expect('operator', ')');
    return args;
  }

  /** Filters after a value. `of` is undefined for the filters of a block. */
  filters(of: Expression | undefined): Expression | undefined {
    let node = of;
    while (this.stream.skip('operator', '|')) node = this.filter(node);
    return node;
  }

  filter(of: Expression | undefined): Filtered {
    const name = this.#dottedName();
    return { type: 'filter', of, name, args: this.stream.isOperator('(') ? this.#arguments() : noArguments };
  }

  #dottedName(): string {
    let name = this.stream.expect('name').text;
    while (this.stream.skip('operator', '.')) name += `.${this.stream.expect('name').text}`;
    return name;
  }

  #test(of: Expression): Expression {
    this.stream.take();
    const negated = this.stream.skip('name', 'not');
    const name = this.#dottedName();
    const test: Expression = { type: 'test', of, name, args: this.#testArguments() };
    return negated ? { type: 'not', of: test } : test;
  }

  #testArguments(): Arguments {
    const { stream } = this;
    if (stream.isOperator('(')) return this.#arguments();
    const follows = stream.is('literal') || stream.isOperator('[', '{') || (stream.is('name') && !stream.isName('else', 'or', 'and'));
    if (!follows) return noArguments;
    if (stream.isName('is')) throw stream.fail('You cannot chain multiple tests with is');
    return { ...noArguments, positional: [this.#postfix(this.#primary())] };
  }
}
