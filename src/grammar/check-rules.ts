/**
 * Refuses rules that cannot run: rules that call themselves before they read anything, and rules
 * that no text can finish.
 */
import type { Work } from '../slices.ts';
import { grammarError } from './gbnf-cursor.ts';
import { RETURN, type CompiledRule, type Place } from './program.ts';

/** Number of places between two pauses. */
const STRIDE = 1024;
/** Number of a loop's rules that an error names. */
const MOST_NAMED = 10;

/** @throws QuantletError ERR_GRAMMAR naming the rule */
export function* checkRules(places: readonly Place[], rules: readonly CompiledRule[]): Work<void> {
  yield* refuseLeftRecursion(places, rules);
  yield* refuseEndless(places, rules);
}

/** The places after a place. `found`: the rules known to end. */
type Successors = (place: Place, found: ReadonlySet<CompiledRule>) => readonly number[];

/** Successors that are reached without reading anything. */
const unread: Successors = (place, found) =>
  place.type === 'split' ? place.targets : place.type === 'call' && found.has(place.rule) ? [place.next] : [];

/** All successors. */
const reading: Successors = (place, found) =>
  place.type === 'bytes' ? place.edges.filter((_, i) => i % 3 === 2) : place.type === 'token' ? [place.next] : unread(place, found);

/**
 * Result for one rule: true if its end can be reached, and the rules it calls, which may change
 * that.
 */
interface Reach {
  readonly ends: boolean;
  readonly calls: ReadonlySet<CompiledRule>;
}

function* reachOf(
  places: readonly Place[],
  { start }: CompiledRule,
  found: ReadonlySet<CompiledRule>,
  successors: Successors,
): Work<Reach> {
  const calls = new Set<CompiledRule>();
  const seen = new Set([start]);
  let steps = 0;
  // The set grows during iteration, and the loop visits what is added.
  for (const at of seen) {
    if (++steps % STRIDE === 0) yield;
    const place = places[at];
    if (place.type === 'call') calls.add(place.rule);
    for (const target of successors(place, found)) seen.add(target);
  }
  return { ends: seen.has(RETURN), calls };
}

/**
 * The rules whose end can be reached. Worklist: a rule is examined again only when a rule that it
 * calls turns out to end. A fixed-point sweep is quadratic in a chain of rules, and grammars come
 * from clients.
 */
function* ending(places: readonly Place[], rules: readonly CompiledRule[], successors: Successors): Work<ReadonlySet<CompiledRule>> {
  const found = new Set<CompiledRule>();
  const callers = new Map<CompiledRule, Set<CompiledRule>>();
  // Rules mostly call later rules, so starting from the end examines most of them once.
  const open = new Set(rules.toReversed());
  for (const rule of open) {
    open.delete(rule);
    yield;
    const { ends, calls } = yield* reachOf(places, rule, found, successors);
    if (ends) {
      found.add(rule);
      for (const caller of callers.get(rule) ?? []) if (!found.has(caller)) open.add(caller);
      continue;
    }
    for (const callee of calls) callers.set(callee, (callers.get(callee) ?? new Set()).add(rule));
  }
  return found;
}

/**
 * Refuses rules that can call themselves before they read anything, because such a call never ends.
 */
function* refuseLeftRecursion(places: readonly Place[], rules: readonly CompiledRule[]): Work<void> {
  const nullable = yield* ending(places, rules, unread);
  const leftCalls = new Map<CompiledRule, ReadonlySet<CompiledRule>>();
  for (const rule of rules) {
    leftCalls.set(rule, (yield* reachOf(places, rule, nullable, unread)).calls);
    yield;
  }
  const done = new Set<CompiledRule>();
  for (const first of rules) {
    yield;
    const loop = yield* loopFrom(first, leftCalls, done);
    if (loop) throw leftRecursion(loop);
  }
}

/**
 * Depth-first search, without recursion, for a rule that leads back to itself. Returns the loop.
 * @param done rules that lead to no loop; the search adds to them
 */
function* loopFrom(
  first: CompiledRule,
  calls: ReadonlyMap<CompiledRule, ReadonlySet<CompiledRule>>,
  done: Set<CompiledRule>,
): Work<readonly CompiledRule[] | undefined> {
  if (done.has(first)) return undefined;
  /** Rules from the first to the current one, each with the calls still to follow. */
  const path: { readonly rule: CompiledRule; readonly rest: CompiledRule[] }[] = [];
  const depths = new Map<CompiledRule, number>();
  const enter = (rule: CompiledRule): void => {
    depths.set(rule, path.length);
    path.push({ rule, rest: [...calls.get(rule)!] });
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
    const depth = depths.get(next);
    if (depth !== undefined) return [...path.slice(depth).map((step) => step.rule), next];
    if (!done.has(next)) enter(next);
  }
  return undefined;
}

function leftRecursion(loop: readonly CompiledRule[]): Error {
  const { name, at } = loop[0];
  const all = loop.map((rule) => rule.name);
  const names = all.length > MOST_NAMED ? [...all.slice(0, MOST_NAMED / 2), '...', ...all.slice(-MOST_NAMED / 2)] : all;
  return grammarError(
    at,
    `rule ${name} calls itself before it reads a character (${names.join(' -> ')}); expected it to read one first, as in list ::= item list | item`,
  );
}

/** Refuses rules that no text can finish, because generation would never end. */
function* refuseEndless(places: readonly Place[], rules: readonly CompiledRule[]): Work<void> {
  const finishing = yield* ending(places, rules, reading);
  // The last such rule is more likely the cause than rules that call it.
  const endless = rules.findLast((rule) => !finishing.has(rule));
  if (endless)
    throw grammarError(
      endless.at,
      `no text can finish rule ${endless.name}; expected an alternative that does not lead back to it, and classes with at least one character`,
    );
}
