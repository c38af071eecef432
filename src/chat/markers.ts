/** Markers of reasoning and calls to search for in an answer. */
import type { CallReader } from './call-text.ts';
import type { CallSyntax, ChatFormat } from './formats.ts';

/** Markers for one answer. */
export interface Markers {
  /** Marker pairs around reasoning; empty if reasoning stays in the content. */
  readonly reasoning: ChatFormat['reasoning'];
  /** Markers that begin calls. */
  readonly calls: readonly CallSyntax[];
  /** Reader of calls without a marker. */
  readonly bare: CallReader | undefined;
  /** Markers that end content. */
  readonly inContent: readonly string[];
  /** Markers, other than the closing one, that end reasoning or are removed from it. */
  readonly inReasoning: readonly string[];
}

/**
 * Selects a format's markers for one answer.
 * @param options.reasoning false: reasoning and its markers stay in the content
 * @param options.calls the format's markers of calls, or an empty list
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

/**
 * The reasoning pair whose start marker ends the prompt, so that the answer begins with reasoning.
 */
export const openReasoning = (pairs: ChatFormat['reasoning'], prompt: string): ChatFormat['reasoning'][number] | undefined =>
  pairs.find(({ start }) => prompt.trimEnd().endsWith(start));

/** Finds the first of several words in a text. At equal positions, the longest. */
export function firstOf(text: string, words: readonly string[]): { at: number; marker: string } {
  let [at, marker] = [-1, ''];
  for (const word of words) {
    const found = text.indexOf(word);
    if (found >= 0 && (at < 0 || found < at || (found === at && word.length > marker.length))) [at, marker] = [found, word];
  }
  return { at, marker };
}
