/** Markers of reasoning and calls, as an answer is searched for them. */
import type { CallReader } from './calls.ts';
import type { CallSyntax, ChatFormat } from './formats.ts';

/** Markers that one answer is searched for. */
export interface Markers {
  /** Pairs around reasoning; none if reasoning stays in the content. */
  readonly reasoning: ChatFormat['reasoning'];
  /** Markers that begin calls. */
  readonly calls: readonly CallSyntax[];
  /** Reader of calls without a marker. */
  readonly bare: CallReader | undefined;
  /** Words that end content. */
  readonly inContent: readonly string[];
  /** Words besides its own end that end reasoning, or are left out of it. */
  readonly inReasoning: readonly string[];
}

/**
 * The markers of a format that count in an answer.
 * @param options.reasoning false: reasoning and its markers stay in the content
 * @param options.calls the format's markers of calls, or none of them
 * @param options.bare a call may begin without a marker
 */
export function markersOf(
  format: ChatFormat,
  options: { readonly reasoning: boolean | undefined; readonly calls: readonly CallSyntax[]; readonly bare: boolean },
): Markers {
  const { calls } = options;
  const keepsReasoning = options.reasoning === false;
  const reasoning = keepsReasoning ? [] : format.reasoning;
  const isOfReasoning = (word: string): boolean => format.reasoning.some(({ start, end }) => start.startsWith(word) || end === word);
  const drop = format.drop.filter((word) => !keepsReasoning || !isOfReasoning(word));
  const starts = calls.map(({ start }) => start);
  return {
    reasoning,
    calls,
    bare: options.bare ? format.bare : undefined,
    inContent: [...starts, ...drop, ...(format.reasoningAnywhere ? reasoning.map(({ start }) => start) : [])],
    inReasoning: format.callsEndReasoning && calls.length > 0 ? [...starts, ...drop] : [],
  };
}

/** The pair of markers that a prompt ends inside of, so that the answer begins with reasoning. */
export const openReasoning = (pairs: ChatFormat['reasoning'], prompt: string): ChatFormat['reasoning'][number] | undefined =>
  pairs.find(({ start }) => prompt.trimEnd().endsWith(start));

/** The first of some words in a text. If several begin at the same place, the longest. */
export function firstOf(text: string, words: readonly string[]): { at: number; marker: string } {
  let [at, marker] = [-1, ''];
  for (const word of words) {
    const found = text.indexOf(word);
    if (found >= 0 && (at < 0 || found < at || (found === at && word.length > marker.length))) [at, marker] = [found, word];
  }
  return { at, marker };
}
