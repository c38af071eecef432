/** Grammar rules compiled to nodes of an automaton over bytes. */
import { atOnce, type Work } from '../slices.ts';
import { grammarError } from './parse.ts';
import type { Expression, Position, Rule } from './parse.ts';
import { utf8Ranges } from './utf8-ranges.ts';

/**
 * One place in a grammar, seen as an automaton over BYTES with calls: text and classes are spelled in UTF-8, so that a
 * token that ends inside a character is nothing special. Numbers name other nodes.
 */
export type Node =
  /** reads one byte: flat [low, high, next, low, high, next ...] */
  | { readonly type: 'bytes'; readonly edges: readonly number[] }
  /** reads one whole token */
  | { readonly type: 'token'; readonly id: number; readonly negated: boolean; readonly next: number }
  /** goes on at every target */
  | { readonly type: 'split'; readonly targets: readonly number[] }
  /** runs the rule that starts at node `start`, then goes on at next */
  | { readonly type: 'call'; readonly start: number; readonly next: number }
  /** the end of a rule */
  | { readonly type: 'return' };

export interface Program {
  readonly nodes: readonly Node[];
  readonly start: number;
}

/** Node 0 ends every rule. */
export const RETURN = 0;
/** Repetitions {m,n} are written out; this many places are far more than a schema needs and still compile in a second. */
const MAX_NODES = 100_000;

type Chars = Extract<Expression, { readonly type: 'chars' }>;

interface CompiledRule {
  readonly name: string;
  readonly at: Position;
  readonly build: () => Work<number>;
  start: number;
}

/** A call whose rule may not be compiled yet; `start` is filled in at the end. */
interface Call {
  type: 'call';
  start: number;
  next: number;
  rule: CompiledRule;
}
type Place = Exclude<Node, { readonly type: 'call' }> | Call;

/** @throws QuantletError ERR_GRAMMAR: no root, an undefined rule, left recursion, a rule that cannot end, a grammar that is too large */
export function compileGrammar(rules: ReadonlyMap<string, Rule>, root: string): Program {
  return atOnce(compileGrammarWork(rules, root));
}

/** Places and copies between two pauses. */
const STRIDE = 1024;
/** Rules of a loop that a message names. */
const MOST_NAMED = 10;
/** Numbers of a class's ranges up to which it is written out wherever it is used: one of 64 ranges, copied 99,000 times, would take 185 MiB. */
const MAX_INLINE = 8;

/** The same as work that pauses. */
export function* compileGrammarWork(rules: ReadonlyMap<string, Rule>, root: string): Work<Program> {
  const nodes: Place[] = [{ type: 'return' }];
  const compiled: CompiledRule[] = [];
  const calls: Call[] = [];
  let steps = 0;
  let allCopies = 0;
  /** by name for rules of the text, by content for groups and classes that became rules */
  const known = new Map<string | Expression, CompiledRule>();
  let current: CompiledRule = {
    name: root,
    at: { line: 1, column: 1 },
    build: () => compile({ type: 'sequence', items: [] }, RETURN),
    start: -1,
  };

  function refuseLarge(places: number): void {
    if (places >= MAX_NODES)
      throw grammarError(
        current.at,
        `rule ${current.name} makes the grammar larger than ${MAX_NODES} places: expected smaller repetition counts`,
      );
  }

  function add(node: Place): number {
    refuseLarge(nodes.length);
    return nodes.push(node) - 1;
  }

  function* rest(): Work<void> {
    if (++steps % STRIDE === 0) yield;
  }

  function ruleFor(key: string | Expression, name: string, at: Position, build: () => Work<number>): CompiledRule {
    let rule = known.get(key);
    if (!rule) {
      rule = { name, at, build, start: -1 };
      known.set(key, rule);
      compiled.push(rule);
    }
    return rule;
  }

  function call(rule: CompiledRule, next: number): number {
    const node: Call = { type: 'call', start: -1, next, rule };
    calls.push(node);
    return add(node);
  }

  function namedRule(name: string, at: Position): CompiledRule {
    const rule = rules.get(name);
    if (!rule)
      throw grammarError(
        at,
        `found the name ${name}, expected one of the rules that are defined: ${[...rules.keys()].slice(0, 20).join(', ')}`,
      );
    return ruleFor(name, name, rule.at, () => compile(rule.body, RETURN));
  }

  /** @returns the node where `expression`, followed by `next`, starts */
  function* compile(expression: Expression, next: number): Work<number> {
    yield* rest();
    switch (expression.type) {
      case 'text':
        return yield* compileText(expression.text, next);
      case 'chars':
        return compileClass(expression, next);
      case 'token':
        return add({ type: 'token', id: expression.id, negated: expression.negated, next });
      case 'rule':
        return call(namedRule(expression.name, expression.at), next);
      case 'sequence': {
        let after = next;
        for (let i = expression.items.length - 1; i >= 0; i--) after = yield* compile(expression.items[i], after);
        return after;
      }
      case 'choice': {
        const targets: number[] = [];
        for (const option of expression.options) targets.push(yield* compile(option, next));
        return add({ type: 'split', targets });
      }
      case 'repeat':
        return yield* compileRepeat(expression.item, expression.min, expression.max, next);
    }
  }

  function* compileText(text: string, next: number): Work<number> {
    let after = next;
    for (const byte of new TextEncoder().encode(text).reverse()) {
      after = add({ type: 'bytes', edges: [byte, byte, after] });
      yield* rest();
    }
    return after;
  }

  function* compileRepeat(item: Expression, min: number, max: number, next: number): Work<number> {
    const copies = max === Infinity ? min + 1 : max;
    if (copies > MAX_NODES)
      throw grammarError(current.at, `rule ${current.name} repeats something ${copies} times: expected at most ${MAX_NODES}`);
    const group = copies > 1 && (item.type === 'sequence' || item.type === 'choice' || item.type === 'repeat');
    const { name, at } = current;
    // a group is compiled once and called from every copy
    function* copy(after: number): Work<number> {
      yield* rest();
      refuseLarge(allCopies++); // copies of an empty text have no place of their own
      return group
        ? call(
            ruleFor(item, `${name} (a group)`, at, () => compile(item, RETURN)),
            after,
          )
        : yield* compile(item, after);
    }
    let after = next;
    if (max === Infinity) {
      const targets: number[] = [];
      after = add({ type: 'split', targets });
      targets.push(yield* copy(after), next);
    } else {
      for (let i = max; i > min; i--) after = add({ type: 'split', targets: [yield* copy(after), next] });
    }
    for (let i = 0; i < min; i++) after = yield* copy(after);
    return after;
  }

  function compileClass(expression: Chars, next: number): number {
    const { ranges } = expression;
    if (ranges.length > MAX_INLINE || (ranges.length > 0 && ranges[ranges.length - 1] > 0x7f)) {
      // many ranges, or several bytes a character: one automaton, called wherever the class is used
      const { name, at } = current;
      // Its text is made once, not for every copy: it may have thousands of ranges.
      const rule = known.get(expression) ?? ruleFor(ranges.join(), `${name} (a class)`, at, () => compileLargeClass(ranges));
      known.set(expression, rule);
      return call(rule, next);
    }
    const edges: number[] = [];
    for (let i = 0; i < ranges.length; i += 2) edges.push(ranges[i], ranges[i + 1], next);
    return add({ type: 'bytes', edges });
  }

  function* compileLargeClass(ranges: readonly number[]): Work<number> {
    const edges: number[] = [];
    const tails = new Map<string, number>();
    for (let i = 0; i < ranges.length; i += 2) {
      yield;
      for (const bytes of utf8Ranges(ranges[i], ranges[i + 1])) {
        let next = RETURN;
        for (let at = bytes.length - 2; at > 0; at -= 2) {
          const key = bytes.slice(at).join();
          let tail = tails.get(key);
          if (tail === undefined) tails.set(key, (tail = add({ type: 'bytes', edges: [bytes[at], bytes[at + 1], next] })));
          next = tail;
        }
        edges.push(bytes[0], bytes[1], next);
      }
    }
    return add({ type: 'bytes', edges });
  }

  if (!rules.has(root))
    throw grammarError(
      { line: 1, column: 1 },
      `no rule ${root}, with which the text begins; defined are: ${[...rules.keys()].slice(0, 20).join(', ') || 'none'}`,
    );
  namedRule(root, current.at);
  // rules that root does not reach are checked as well
  for (const { name, at } of rules.values()) {
    namedRule(name, at);
    yield* rest();
  }
  for (let i = 0; i < compiled.length; i++) {
    current = compiled[i];
    current.start = yield* current.build();
    yield;
  }
  for (const node of calls) node.start = node.rule.start;
  yield* refuseLeftRecursion(nodes, compiled);
  yield* refuseEndless(nodes, compiled);
  return { nodes, start: compiled[0].start };
}

/** What one look at a rule tells: whether its end is reached, and the rules it calls on whose account it may come to be. */
interface Look {
  readonly ends: boolean;
  readonly calls: ReadonlySet<CompiledRule>;
}

/** Where a look goes on behind a place; `found`: the rules known to end. */
type Onward = (place: Place, found: ReadonlySet<CompiledRule>) => readonly number[];

function* look(places: readonly Place[], { start }: CompiledRule, found: ReadonlySet<CompiledRule>, onward: Onward): Work<Look> {
  const calls = new Set<CompiledRule>();
  const seen = new Set([start]);
  let steps = 0;
  // what is put into the set on the way, the loop comes to as well
  for (const at of seen) {
    if (++steps % STRIDE === 0) yield;
    const place = places[at];
    if (place.type === 'call') calls.add(place.rule);
    for (const target of onward(place, found)) seen.add(target);
  }
  return { ends: seen.has(RETURN), calls };
}

/**
 * The rules whose end is reached, which may depend on the rules they call. A rule is looked at again only when one of those has come to be among
 * them: looking at all of them in rounds takes a time quadratic in a chain of rules, and grammars come from clients.
 */
function* ending(places: readonly Place[], rules: readonly CompiledRule[], onward: Onward): Work<ReadonlySet<CompiledRule>> {
  const found = new Set<CompiledRule>();
  const callers = new Map<CompiledRule, Set<CompiledRule>>();
  // Rules mostly call later ones: from the end, most are looked at once.
  const open = new Set(rules.toReversed());
  for (const rule of open) {
    open.delete(rule);
    yield;
    const { ends, calls } = yield* look(places, rule, found, onward);
    if (ends) {
      found.add(rule);
      for (const caller of callers.get(rule) ?? []) if (!found.has(caller)) open.add(caller);
      continue;
    }
    for (const callee of calls) callers.set(callee, (callers.get(callee) ?? new Set()).add(rule));
  }
  return found;
}

/** Without reading anything. */
const unread: Onward = (place, found) =>
  place.type === 'split' ? place.targets : place.type === 'call' && found.has(place.rule) ? [place.next] : [];

const reading: Onward = (place, found) =>
  place.type === 'bytes' ? place.edges.filter((_, i) => i % 3 === 2) : place.type === 'token' ? [place.next] : unread(place, found);

/** A rule that can call itself before it reads anything would be entered for ever. */
function* refuseLeftRecursion(places: readonly Place[], rules: readonly CompiledRule[]): Work<void> {
  const nullable = yield* ending(places, rules, unread);
  const left = new Map<CompiledRule, ReadonlySet<CompiledRule>>();
  for (const rule of rules) {
    left.set(rule, (yield* look(places, rule, nullable, unread)).calls);
    yield;
  }
  const done = new Set<CompiledRule>();
  for (const first of rules) {
    yield;
    if (done.has(first)) continue;
    // depth first without recursion: a path, what is left to visit from each of its rules, and where in it a rule stands
    const path: { rule: CompiledRule; rest: CompiledRule[] }[] = [];
    const depths = new Map<CompiledRule, number>();
    const enter = (rule: CompiledRule): void => {
      depths.set(rule, path.length);
      path.push({ rule, rest: [...left.get(rule)!] });
    };
    enter(first);
    for (let steps = 1; path.length > 0; steps++) {
      if (steps % STRIDE === 0) yield;
      const { rule, rest } = path[path.length - 1];
      const next = rest.pop();
      if (!next) {
        done.add(rule);
        depths.delete(rule);
        path.pop();
        continue;
      }
      const loop = depths.get(next);
      if (loop !== undefined) {
        const all = [...path.slice(loop).map((step) => step.rule.name), next.name];
        const names = all.length > MOST_NAMED ? [...all.slice(0, MOST_NAMED / 2), '...', ...all.slice(-MOST_NAMED / 2)] : all;
        throw grammarError(
          next.at,
          `rule ${next.name} calls itself before it reads anything (${names.join(' -> ')}): expected it to read something first, as in list ::= item list | item`,
        );
      }
      if (!done.has(next)) enter(next);
    }
  }
}

/** A rule that no text can finish would be written for ever. */
function* refuseEndless(places: readonly Place[], rules: readonly CompiledRule[]): Work<void> {
  const finishing = yield* ending(places, rules, reading);
  // the last of them is more likely the cause than those that call it
  const endless = rules.findLast((rule) => !finishing.has(rule));
  if (endless)
    throw grammarError(
      endless.at,
      `no text can finish rule ${endless.name}: expected an alternative that does not lead back to it, and classes that hold a character`,
    );
}
