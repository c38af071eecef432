/** Writes an automaton as rules of a grammar: one for each state that is used more than once. */
import type { Work } from '../../slices.ts';
import { gbnfChoice, gbnfRepeat, gbnfSequence } from '../gbnf-text.ts';
import { TooManyStates } from './regex.ts';
import type { RuleBook } from './rule-book.ts';

/** A text that leads to another state. It may be empty, but not from a state to itself. */
export interface Step<S> {
  readonly text: string;
  /** undefined is the end. */
  readonly to: S | undefined;
}

/** Limits of states of an object or an array, and of a language. */
const MAX_STATES = 50_000;
export const MAX_LANGUAGE_STATES = 2000;
/** Length of texts that are written wherever they are used. */
const MAX_INLINE = 20;

/**
 * Writes the texts that lead from a state to the end. Steps that lead to no end are left out.
 * @param hint for the names of rules
 * @param names of states that were written before; written ones are added
 * @throws TooManyStates
 * @returns undefined if the end cannot be reached
 */
export function* writeStates<S>(
  book: RuleBook,
  hint: string,
  start: S,
  stepsOf: (state: S) => readonly Step<S>[],
  names = new Map<S, string>(),
  most = MAX_STATES,
): Work<string | undefined> {
  const steps = new Map<S, readonly Step<S>[]>();
  const sources = new Map<S | undefined, S[]>();
  /** States from which the end can be reached. */
  const live = new Set<S | undefined>([undefined]);
  const found = new Set<S>([start]);
  // The set grows during iteration, and the loop visits what is added.
  for (const state of found) {
    if (found.size > most) throw new TooManyStates();
    if (names.has(state)) {
      live.add(state);
      continue;
    }
    const own = stepsOf(state);
    steps.set(state, own);
    for (const { to } of own) {
      const from = sources.get(to);
      if (from) from.push(state);
      else sources.set(to, [state]);
      if (to !== undefined) found.add(to);
    }
    yield;
  }
  for (const state of live) for (const source of sources.get(state) ?? []) live.add(source);
  if (!live.has(start)) return undefined;

  const written = [...steps.keys()].filter((state) => live.has(state));
  const states = new Map(written.map((state) => [state, dividedSteps(state, steps.get(state)!, live)]));
  const uses = new Map<S | undefined, number>();
  for (const { onward } of states.values()) for (const to of onward.keys()) uses.set(to, (uses.get(to) ?? 0) + 1);
  const isRule = (state: S): boolean => {
    const used = uses.get(state) ?? 0;
    const { again, onward } = states.get(state)!;
    const isShort = onward.size === 1 && (onward.get(undefined)?.length ?? MAX_INLINE) + again.length < MAX_INLINE;
    return !isShort && (used > 1 || (used === 1 && (state === start || onward.size > 1)));
  };
  for (const state of written) if (isRule(state)) names.set(state, book.nameFor(hint));

  /** The texts from a state on, up to the next rule. */
  function bodyOf(state: S): string {
    let text = '';
    for (let at: S = state; ;) {
      const { again, onward } = states.get(at)!;
      text = gbnfSequence(text, again);
      if (onward.size > 1)
        return gbnfSequence(text, gbnfChoice([...onward].map(([to, choice]) => gbnfSequence(choice, to === undefined ? '' : refer(to)))));
      const [[to, choice]] = onward;
      text = gbnfSequence(text, choice);
      if (to === undefined) return text;
      if (names.has(to)) return gbnfSequence(text, names.get(to)!);
      at = to;
    }
  }
  const refer = (state: S): string => names.get(state) ?? bodyOf(state);
  for (const state of written) {
    const name = names.get(state);
    if (name !== undefined) book.write(name, bodyOf(state));
    yield;
  }
  return refer(start);
}

/** The texts of a state that lead back to it, and the others by their target. */
function dividedSteps<S>(
  state: S,
  steps: readonly Step<S>[],
  live: ReadonlySet<S | undefined>,
): { readonly again: string; readonly onward: ReadonlyMap<S | undefined, string> } {
  const byTarget = new Map<S | undefined, string[]>();
  for (const { text, to } of steps) {
    if (!live.has(to)) continue;
    const texts = byTarget.get(to);
    if (texts) texts.push(text);
    else byTarget.set(to, [text]);
  }
  const back = byTarget.get(state) ?? [];
  byTarget.delete(state);
  return {
    again: back.length === 0 ? '' : gbnfRepeat(gbnfChoice(back), 0, Infinity),
    onward: new Map([...byTarget].map(([to, texts]) => [to, gbnfChoice(texts)])),
  };
}
