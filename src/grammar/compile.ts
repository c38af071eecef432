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

export interface Program { readonly nodes: readonly Node[]; readonly start: number }

/** Node 0 ends every rule. */
export const RETURN = 0;
/** Repetitions {m,n} are written out; this many places are far more than a schema needs and still compile in a second. */
const MAX_NODES = 100_000;

interface CompiledRule {
  readonly name: string;
  readonly at: Position;
  readonly build: () => number;
  start: number;
}

/** A call whose rule may not be compiled yet; `start` is filled in at the end. */
interface Call { type: 'call'; start: number; next: number; rule: CompiledRule }

/** @throws QuantletError ERR_GRAMMAR: no root, an undefined rule, left recursion, a rule that cannot end, a grammar that is too large */
export function compileGrammar(rules: ReadonlyMap<string, Rule>, root: string): Program {
  return atOnce(compileGrammarWork(rules, root));
}

/** The same as work that pauses after every rule. */
export function* compileGrammarWork(rules: ReadonlyMap<string, Rule>, root: string): Work<Program> {
  const nodes: Node[] = [{ type: 'return' }];
  const compiled: CompiledRule[] = [];
  const calls: Call[] = [];
  /** by name for rules of the text, by content for groups and classes that became rules */
  const known = new Map<string | Expression, CompiledRule>();
  let current: CompiledRule = { name: root, at: { line: 1, column: 1 }, build: () => RETURN, start: -1 };

  function add(node: Node): number {
    if (nodes.length >= MAX_NODES) throw grammarError(current.at, `rule ${current.name} makes the grammar larger than ${MAX_NODES} places: expected smaller repetition counts`);
    return nodes.push(node) - 1;
  }

  function ruleFor(key: string | Expression, name: string, at: Position, build: () => number): CompiledRule {
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
    if (!rule) throw grammarError(at, `found the name ${name}, expected one of the rules that are defined: ${[...rules.keys()].slice(0, 20).join(', ')}`);
    return ruleFor(name, name, rule.at, () => compile(rule.body, RETURN));
  }

  /** @returns the node where `expression`, followed by `next`, starts */
  function compile(expression: Expression, next: number): number {
    switch (expression.type) {
      case 'text': return new TextEncoder().encode(expression.text).reduceRight((after, byte) => add({ type: 'bytes', edges: [byte, byte, after] }), next);
      case 'chars': return compileClass(expression.ranges, next);
      case 'token': return add({ type: 'token', id: expression.id, negated: expression.negated, next });
      case 'rule': return call(namedRule(expression.name, expression.at), next);
      case 'sequence': return expression.items.reduceRight((after, item) => compile(item, after), next);
      case 'choice': return add({ type: 'split', targets: expression.options.map((option) => compile(option, next)) });
      case 'repeat': return compileRepeat(expression.item, expression.min, expression.max, next);
    }
  }

  function compileRepeat(item: Expression, min: number, max: number, next: number): number {
    const copies = max === Infinity ? min + 1 : max;
    if (copies > MAX_NODES) throw grammarError(current.at, `rule ${current.name} repeats something ${copies} times: expected at most ${MAX_NODES}`);
    const group = copies > 1 && (item.type === 'sequence' || item.type === 'choice' || item.type === 'repeat');
    const { name, at } = current;
    // a group is compiled once and called from every copy
    const copy = (after: number): number => (group ? call(ruleFor(item, `${name} (a group)`, at, () => compile(item, RETURN)), after) : compile(item, after));
    let after = next;
    if (max === Infinity) {
      const targets: number[] = [];
      after = add({ type: 'split', targets });
      targets.push(copy(after), next);
    } else {
      for (let i = max; i > min; i--) after = add({ type: 'split', targets: [copy(after), next] });
    }
    for (let i = 0; i < min; i++) after = copy(after);
    return after;
  }

  function compileClass(ranges: readonly number[], next: number): number {
    if (ranges.length > 0 && ranges[ranges.length - 1] > 0x7f) {
      // several bytes a character: one automaton, called wherever the class is used
      const { name, at } = current;
      return call(ruleFor(ranges.join(), `${name} (a class)`, at, () => compileWideClass(ranges)), next);
    }
    const edges: number[] = [];
    for (let i = 0; i < ranges.length; i += 2) edges.push(ranges[i], ranges[i + 1], next);
    return add({ type: 'bytes', edges });
  }

  function compileWideClass(ranges: readonly number[]): number {
    const edges: number[] = [];
    const tails = new Map<string, number>();
    for (let i = 0; i < ranges.length; i += 2) {
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

  if (!rules.has(root)) throw grammarError({ line: 1, column: 1 }, `no rule ${root}, with which the text begins; defined are: ${[...rules.keys()].slice(0, 20).join(', ') || 'none'}`);
  namedRule(root, current.at);
  // rules that root does not reach are checked as well
  for (const { name, at } of rules.values()) namedRule(name, at);
  for (let i = 0; i < compiled.length; i++) {
    current = compiled[i];
    current.start = current.build();
    yield;
  }
  for (const node of calls) node.start = node.rule.start;
  yield* refuseLeftRecursion(nodes, compiled);
  yield* refuseEndless(nodes, compiled);
  return { nodes, start: compiled[0].start };
}

/** What one look at a rule tells: whether something holds for it, and the rules it calls on whose account it may come to hold. */
interface Look { readonly holds: boolean; readonly calls: ReadonlySet<CompiledRule> }

/**
 * The rules for which something holds that may depend on the rules they call. A rule is looked at again only when it has come to hold for one
 * of those: looking at all of them in rounds takes a time quadratic in a chain of rules, and grammars come from clients.
 */
function* holding(rules: readonly CompiledRule[], look: (rule: CompiledRule, found: ReadonlySet<CompiledRule>) => Look): Work<ReadonlySet<CompiledRule>> {
  const found = new Set<CompiledRule>(), callers = new Map<CompiledRule, Set<CompiledRule>>();
  // Rules mostly call later ones: from the end, most are looked at once. What is put into the set on the way, the loop comes to as well.
  const open = new Set(rules.toReversed());
  for (const rule of open) {
    open.delete(rule);
    yield;
    const { holds, calls } = look(rule, found);
    if (holds) {
      found.add(rule);
      for (const caller of callers.get(rule) ?? []) if (!found.has(caller)) open.add(caller);
      continue;
    }
    for (const callee of calls) callers.set(callee, (callers.get(callee) ?? new Set()).add(rule));
  }
  return found;
}

/** A rule that can call itself before it reads anything would be entered for ever. */
function* refuseLeftRecursion(nodes: readonly Node[], rules: readonly CompiledRule[]): Work<void> {
  const starts = new Map(rules.map((rule) => [rule.start, rule]));
  /** The rules called before anything is read, and whether the end is reached so. */
  function leftOf(rule: CompiledRule, nullable: ReadonlySet<CompiledRule>): Look {
    const calls = new Set<CompiledRule>(), seen = new Set([rule.start]), work = [rule.start];
    for (let at = work.pop(); at !== undefined; at = work.pop()) {
      const node = nodes[at];
      let next: readonly number[] = [];
      if (node.type === 'split') next = node.targets;
      else if (node.type === 'call') {
        const callee = starts.get(node.start)!;
        calls.add(callee);
        if (nullable.has(callee)) next = [node.next];
      }
      for (const target of next) if (!seen.has(target)) { seen.add(target); work.push(target); }
    }
    return { holds: seen.has(RETURN), calls };
  }
  const nullable = yield* holding(rules, leftOf), left = new Map<CompiledRule, ReadonlySet<CompiledRule>>();
  for (const rule of rules) {
    left.set(rule, leftOf(rule, nullable).calls);
    yield;
  }
  const done = new Set<CompiledRule>();
  for (const first of rules) {
    yield;
    if (done.has(first)) continue;
    // depth first without recursion: a path, what is left to visit from each of its rules, and where in it a rule stands
    const path: { rule: CompiledRule; rest: CompiledRule[] }[] = [], places = new Map<CompiledRule, number>();
    const enter = (rule: CompiledRule): void => {
      places.set(rule, path.length);
      path.push({ rule, rest: [...left.get(rule)!] });
    };
    enter(first);
    while (path.length > 0) {
      const { rule, rest } = path[path.length - 1];
      const next = rest.pop();
      if (!next) {
        done.add(rule);
        places.delete(rule);
        path.pop();
        continue;
      }
      const loop = places.get(next);
      if (loop !== undefined) {
        const names = [...path.slice(loop).map((step) => step.rule.name), next.name];
        throw grammarError(next.at, `rule ${next.name} calls itself before it reads anything (${names.join(' -> ')}): expected it to read something first, as in list ::= item list | item`);
      }
      if (!done.has(next)) enter(next);
    }
  }
}

/** A rule that no text can finish would be written for ever. */
function* refuseEndless(nodes: readonly Node[], rules: readonly CompiledRule[]): Work<void> {
  const starts = new Map(rules.map((rule) => [rule.start, rule]));
  const finishing = yield* holding(rules, ({ start }, found) => {
    const calls = new Set<CompiledRule>(), seen = new Set([start]), work = [start];
    for (let at = work.pop(); at !== undefined; at = work.pop()) {
      if (at === RETURN) return { holds: true, calls };
      const node = nodes[at];
      let next: readonly number[] = [];
      if (node.type === 'split') next = node.targets;
      else if (node.type === 'bytes') next = node.edges.filter((_, i) => i % 3 === 2);
      else if (node.type === 'token') next = [node.next];
      else if (node.type === 'call') {
        const callee = starts.get(node.start)!;
        calls.add(callee);
        if (found.has(callee) || node.start === RETURN) next = [node.next];
      }
      for (const target of next) if (!seen.has(target)) { seen.add(target); work.push(target); }
    }
    return { holds: false, calls };
  });
  // the last of them is more likely the cause than those that call it
  const endless = rules.findLast((rule) => !finishing.has(rule));
  if (endless) throw grammarError(endless.at, `no text can finish rule ${endless.name}: expected an alternative that does not lead back to it, and classes that hold a character`);
}
