/** Adapts calls and results to a template: a result next to its call, one call per message. */
import type { ChatCapabilities, TextPart } from './capabilities.ts';
import { parseExactJson, type NumberMarks } from './exact-json.ts';
import { textOf, type Draft } from './turns.ts';

interface Call {
  readonly id: string;
  readonly function: { readonly name: string };
}

const callsOf = (draft: Draft | undefined): readonly Call[] => (draft?.tool_calls ?? []) as readonly Call[];

/** A result as text of a user message, for templates that cannot write it otherwise. */
export const resultText = (content: string | readonly TextPart[]): string => `<tool_response>\n${textOf(content)}\n</tool_response>`;

/**
 * Assigns results to calls. A result that names no call of the preceding message gets the id of
 * that message's first call without a result. If the template needs it, late results move next to
 * their calls, and results without a call become user messages.
 */
export function placeResults(drafts: readonly Draft[], { lateResults, strayResults }: ChatCapabilities): Draft[] {
  const out: Draft[] = [];
  /** Index in `out` of the last message with calls, and the index for its next result. */
  let caller = -1;
  let next = 0;
  let open: Call[] = [];
  for (const draft of drafts) {
    if (draft.role !== 'tool') {
      out.push(draft);
      if (callsOf(draft).length > 0) [caller, next, open] = [out.length - 1, out.length, [...callsOf(draft)]];
      continue;
    }
    const named = open.find(({ id }) => id === draft.tool_call_id);
    const answered = callsOf(out[caller]).some(({ id }) => id === draft.tool_call_id);
    const call = named ?? (answered ? undefined : open[0]);
    open = open.filter((other) => other !== call);
    const result = call && !named ? { ...draft, tool_call_id: call.id } : draft;
    if (!call && !answered && !strayResults) out.push({ role: 'user', content: resultText(draft.content as string) });
    else if (call && !lateResults) out.splice(next++, 0, result);
    else {
      if (next === out.length) next++;
      out.push(result);
    }
  }
  return out;
}

/**
 * Makes the ids of one message's calls unique, and renames their results in the same order. If the
 * template does not write repeated ids, ids are unique in the whole conversation.
 * @param write converts an id to the form that the template accepts
 */
export function distinctIds(drafts: readonly Draft[], { repeatedIds }: ChatCapabilities, write: (id: string) => string): Draft[] {
  const taken = new Set(drafts.flatMap(callsOf).map(({ id }) => id));
  let seen = new Set<string>();
  /** New ids by original id, for calls that wait for their results. */
  const written = new Map<string, string[]>();
  const own = (id: string): string => {
    if (!seen.has(id)) return id;
    for (let n = 2; ; n++) {
      const other = write(`${id}-${n}`);
      if (!taken.has(other)) return other;
    }
  };
  return drafts.map((draft) => {
    if (draft.role === 'tool') {
      const ids = written.get(draft.tool_call_id as string) ?? [];
      const id = ids.length > 1 ? ids.shift()! : ids[0];
      return id === undefined || id === draft.tool_call_id ? draft : { ...draft, tool_call_id: id };
    }
    const calls = callsOf(draft);
    if (calls.length === 0) return draft;
    if (repeatedIds) seen = new Set();
    const mine = new Map<string, string[]>();
    const tool_calls = calls.map((call) => {
      const id = own(call.id);
      seen.add(call.id);
      taken.add(id);
      mine.set(call.id, [...(mine.get(call.id) ?? []), id]);
      return id === call.id ? call : { ...call, id };
    });
    for (const [id, ids] of mine) written.set(id, ids);
    return { ...draft, tool_calls };
  });
}

/** One call per assistant message, each followed by its result. */
export function splitCalls(drafts: readonly Draft[]): Draft[] {
  const out: Draft[] = [];
  for (let i = 0; i < drafts.length; i++) {
    const calls = callsOf(drafts[i]);
    if (calls.length < 2) {
      out.push(drafts[i]);
      continue;
    }
    const results: Draft[] = [];
    while (drafts[i + 1]?.role === 'tool') results.push(drafts[++i]);
    const message = drafts[i - results.length];
    calls.forEach((call, n) => {
      out.push({ ...message, content: n === 0 ? message.content : typeof message.content === 'string' ? '' : null, tool_calls: [call] });
      out.push(...results.filter((result, r) => (result.tool_call_id === undefined ? r === n : result.tool_call_id === call.id)));
    });
  }
  return out;
}

/** Parses a result as JSON; other content is returned unchanged. */
function responseOf(content: unknown, numbers: NumberMarks): unknown {
  try {
    return numbers.mark(parseExactJson(textOf(content as string)));
  } catch {
    return content;
  }
}

/**
 * Puts results into a field of the calling message, and also the answer that follows, as Gemma 4's
 * first templates want it.
 */
export function joinResponses(drafts: readonly Draft[], numbers: NumberMarks): Draft[] {
  const out: Draft[] = [];
  for (let i = 0; i < drafts.length; i++) {
    const calls = callsOf(drafts[i]);
    const message = { ...drafts[i] };
    out.push(message);
    const responses: object[] = [];
    for (; calls.length > 0 && drafts[i + 1]?.role === 'tool'; i++) {
      const { tool_call_id: id, content } = drafts[i + 1];
      const { name } = (calls.find((call) => call.id === id) ?? calls[responses.length] ?? calls[0]).function;
      responses.push({ name, response: responseOf(content, numbers) });
    }
    if (responses.length === 0) continue;
    message.tool_responses = responses;
    const next = drafts[i + 1];
    if (!message.content && next?.role === 'assistant' && !next.tool_calls) message.content = drafts[++i].content;
  }
  return out;
}
