/** Calls and their results as a template can write them: a result next to its call, one call a message. */
import type { ChatCapabilities, TextPart } from './capabilities.ts';
import { parseExactJson, type NumberMarks } from './exact-json.ts';
import { textOf, type Draft } from './turns.ts';

interface Call {
  readonly id: string;
  readonly function: { readonly name: string };
}

const callsOf = (draft: Draft | undefined): readonly Call[] => (draft?.tool_calls ?? []) as readonly Call[];

/** A result as a user says it, where the template has no place for it. */
export const resultText = (content: string | readonly TextPart[]): string => `<tool_response>\n${textOf(content)}\n</tool_response>`;

/**
 * Results that name no call of the message before them get the id of its first call that has no result; where the template wants them there, results
 * that come later go next to their calls, and those of calls that nobody made are what a user says.
 */
export function placeResults(drafts: readonly Draft[], { lateResults, strayResults }: ChatCapabilities): Draft[] {
  const out: Draft[] = [];
  /** Index in `out` of the message that called last, and where its next result goes. */
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
 * Calls of one message with ids of their own, and their results with the same: in the order of both where an id comes twice. Where the template does
 * not write ids again that came before, those of later messages too.
 * @param write an id as the template takes it
 */
export function distinctIds(drafts: readonly Draft[], { repeatedIds }: ChatCapabilities, write: (id: string) => string): Draft[] {
  const taken = new Set(drafts.flatMap(callsOf).map(({ id }) => id));
  let seen = new Set<string>();
  /** Ids as they are written by ids as they came, of calls that wait for their results. */
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

/** A result as JSON, where it is JSON. */
function responseOf(content: unknown, numbers: NumberMarks): unknown {
  try {
    return numbers.mark(parseExactJson(textOf(content as string)));
  } catch {
    return content;
  }
}

/** Results as a field of the message that calls, and the answer that follows in it too: Gemma 4's first templates. */
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
