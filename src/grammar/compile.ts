/** Compiles grammar rules to nodes of an automaton over bytes. */
import { atOnce, type Work } from '../slices.ts';
import { checkRules } from './check-rules.ts';
import { grammarError, type Position } from './gbnf-cursor.ts';
import type { Expression, Rule } from './parse.ts';
import { RETURN, type Call, type CompiledRule, type Place, type Program } from './program.ts';
import { utf8Ranges } from './utf8-ranges.ts';

/**
 * Limit of nodes, because repetitions {m,n} are written out. Schemas need far fewer, and a grammar
 * of this size compiles within a second.
 */
const MAX_NODES = 100_000;
/**
 * Largest class that is copied to each use, as a count of numbers in its ranges. A larger class
 * becomes a rule, because copies in a repetition would fill the memory.
 */
const MAX_INLINE = 8;
/** Number of rules that an error about an unknown name lists. */
const MOST_LISTED = 20;
/** Number of places and copies between two pauses. */
const STRIDE = 1024;
const START: Position = { line: 1, column: 1 };

type Chars = Extract<Expression, { readonly type: 'chars' }>;
type Repeat = Extract<Expression, { readonly type: 'repeat' }>;

const isGroup = ({ type }: Expression): boolean => type === 'sequence' || type === 'choice' || type === 'repeat';

/**
 * Compiles a grammar.
 * @throws QuantletError ERR_GRAMMAR: no root, an undefined rule, left recursion, a rule that cannot
 * end, a grammar that is too large
 */
export function compileGrammar(rules: ReadonlyMap<string, Rule>, root: string): Program {
  return atOnce(compileGrammarWork(rules, root));
}

/** compileGrammar() as a generator that pauses. */
export function* compileGrammarWork(rules: ReadonlyMap<string, Rule>, root: string): Work<Program> {
  return yield* new GrammarCompiler(rules).program(root);
}

/**
 * Compiles a grammar rule by rule. Each expression is compiled from its end, so that the node after
 * it is known.
 */
class GrammarCompiler {
  /** The grammar's rules by name. */
  readonly #rules: ReadonlyMap<string, Rule>;
  readonly #places: Place[] = [{ type: 'return' }];
  readonly #calls: Call[] = [];
  /** Rules in the order of their discovery. Compiling a rule may add others. */
  readonly #compiled: CompiledRule[] = [];
  /** The compiled rules: those of the grammar by name, groups and classes by content. */
  readonly #known = new Map<string | Expression, CompiledRule>();
  /** The rule being compiled, for errors. */
  #current: Pick<CompiledRule, 'name' | 'at'> = { name: '', at: START };
  #steps = 0;
  #copies = 0;

  constructor(rules: ReadonlyMap<string, Rule>) {
    this.#rules = rules;
  }

  *program(root: string): Work<Program> {
    if (!this.#rules.has(root))
      throw grammarError(START, `there is no rule ${root}, where the text begins; the rules are: ${this.#listed() || 'none'}`);
    this.#current = { name: root, at: START };
    this.#namedRule(root, START);
    // Rules that root does not reach are checked too.
    for (const { name, at } of this.#rules.values()) {
      this.#namedRule(name, at);
      yield* this.#pause();
    }
    for (let i = 0; i < this.#compiled.length; i++) {
      const rule = this.#compiled[i];
      this.#current = rule;
      rule.start = yield* rule.build();
      yield;
    }
    for (const call of this.#calls) call.start = call.rule.start;
    yield* checkRules(this.#places, this.#compiled);
    return { nodes: this.#places, start: this.#compiled[0].start };
  }

  #listed(): string {
    return [...this.#rules.keys()].slice(0, MOST_LISTED).join(', ');
  }

  *#pause(): Work<void> {
    if (++this.#steps % STRIDE === 0) yield;
  }

  #refuseLarge(places: number): void {
    const { name, at } = this.#current;
    if (places >= MAX_NODES)
      throw grammarError(at, `rule ${name} makes the grammar larger than ${MAX_NODES} nodes; expected smaller repetition counts`);
  }

  /** Adds a place and returns its number. */
  #add(place: Place): number {
    this.#refuseLarge(this.#places.length);
    return this.#places.push(place) - 1;
  }

  #ruleFor(key: string | Expression, name: string, at: Position, build: () => Work<number>): CompiledRule {
    let rule = this.#known.get(key);
    if (!rule) {
      rule = { name, at, build, start: -1 };
      this.#known.set(key, rule);
      this.#compiled.push(rule);
    }
    return rule;
  }

  #namedRule(name: string, at: Position): CompiledRule {
    const rule = this.#rules.get(name);
    if (!rule) throw grammarError(at, `found the name ${name}; expected one of the rules ${this.#listed()}`);
    return this.#ruleFor(name, name, rule.at, () => this.#expression(rule.body, RETURN));
  }

  #call(rule: CompiledRule, next: number): number {
    const call: Call = { type: 'call', start: -1, next, rule };
    this.#calls.push(call);
    return this.#add(call);
  }

  /** Returns the first node of `expression` followed by the node `next`. */
  *#expression(expression: Expression, next: number): Work<number> {
    yield* this.#pause();
    switch (expression.type) {
      case 'text':
        return yield* this.#text(expression.text, next);
      case 'chars':
        return this.#class(expression, next);
      case 'token':
        return this.#add({ type: 'token', id: expression.id, negated: expression.negated, next });
      case 'rule':
        return this.#call(this.#namedRule(expression.name, expression.at), next);
      case 'sequence': {
        let after = next;
        for (let i = expression.items.length - 1; i >= 0; i--) after = yield* this.#expression(expression.items[i], after);
        return after;
      }
      case 'choice': {
        const targets: number[] = [];
        for (const option of expression.options) targets.push(yield* this.#expression(option, next));
        return this.#add({ type: 'split', targets });
      }
      case 'repeat':
        return yield* this.#repeat(expression, next);
    }
  }

  *#text(text: string, next: number): Work<number> {
    let after = next;
    for (const byte of new TextEncoder().encode(text).reverse()) {
      after = this.#add({ type: 'bytes', edges: [byte, byte, after] });
      yield* this.#pause();
    }
    return after;
  }

  *#repeat({ item, min, max }: Repeat, next: number): Work<number> {
    const copies = max === Infinity ? min + 1 : max;
    const { name, at } = this.#current;
    if (copies > MAX_NODES) throw grammarError(at, `rule ${name} repeats something ${copies} times; expected at most ${MAX_NODES}`);
    const group = copies > 1 && isGroup(item) ? this.#groupRule(item) : undefined;
    let after = next;
    if (max === Infinity) {
      const targets: number[] = [];
      after = this.#add({ type: 'split', targets });
      targets.push(yield* this.#copy(item, group, after), next);
    } else {
      for (let i = max; i > min; i--) after = this.#add({ type: 'split', targets: [yield* this.#copy(item, group, after), next] });
    }
    for (let i = 0; i < min; i++) after = yield* this.#copy(item, group, after);
    return after;
  }

  /** Compiles one copy of a repeated item. A group is compiled once and called by every copy. */
  *#copy(item: Expression, group: CompiledRule | undefined, after: number): Work<number> {
    yield* this.#pause();
    this.#refuseLarge(this.#copies++); // Copies of an empty text add no place, so they are counted here.
    return group ? this.#call(group, after) : yield* this.#expression(item, after);
  }

  #groupRule(item: Expression): CompiledRule {
    const { name, at } = this.#current;
    return this.#ruleFor(item, `${name} (a group)`, at, () => this.#expression(item, RETURN));
  }

  #class(expression: Chars, next: number): number {
    const { ranges } = expression;
    const severalBytes = ranges.length > 0 && ranges[ranges.length - 1] > 0x7f;
    if (severalBytes || ranges.length > MAX_INLINE) return this.#call(this.#classRule(expression), next);
    const edges: number[] = [];
    for (let i = 0; i < ranges.length; i += 2) edges.push(ranges[i], ranges[i + 1], next);
    return this.#add({ type: 'bytes', edges });
  }

  /**
   * The rule of a large class, called at each use of the class. The key is made once instead of for
   * every copy, because it may be long.
   */
  #classRule(expression: Chars): CompiledRule {
    const { name, at } = this.#current;
    const { ranges } = expression;
    const rule = this.#known.get(expression) ?? this.#ruleFor(ranges.join(), `${name} (a class)`, at, () => this.#largeClass(ranges));
    this.#known.set(expression, rule);
    return rule;
  }

  /** Compiles the characters of a class to UTF-8. Equal endings of byte sequences are shared. */
  *#largeClass(ranges: readonly number[]): Work<number> {
    const edges: number[] = [];
    const tails = new Map<string, number>();
    for (let i = 0; i < ranges.length; i += 2) {
      yield;
      for (const bytes of utf8Ranges(ranges[i], ranges[i + 1])) {
        let next = RETURN;
        for (let at = bytes.length - 2; at > 0; at -= 2) {
          const key = bytes.slice(at).join();
          let tail = tails.get(key);
          if (tail === undefined) tails.set(key, (tail = this.#add({ type: 'bytes', edges: [bytes[at], bytes[at + 1], next] })));
          next = tail;
        }
        edges.push(bytes[0], bytes[1], next);
      }
    }
    return this.#add({ type: 'bytes', edges });
  }
}
