/**
 * Reorders and merges a conversation's messages into a form that its template writes completely.
 */
import type { ChatCapabilities, PrecedingRole, TextPart } from './capabilities.ts';

/** A message in the form that a template gets. */
export type Draft = Record<string, unknown> & { role: string; content: unknown };

/** Separator of merged texts: a blank line. */
const GAP = '\n\n';

const isText = (content: unknown): content is string | readonly TextPart[] =>
  typeof content === 'string' || (Array.isArray(content) && content.every((part: { type?: unknown }) => part.type === 'text'));

/** Joins text parts. */
export const textOf = (content: string | readonly TextPart[]): string =>
  typeof content === 'string' ? content : content.map(({ text }) => text).join('\n');

const joined = (first: Draft, second: Draft): Draft => ({
  ...first,
  content: [first, second].map(({ content }) => textOf(content as string)).join(GAP),
});

/** Moves and merges messages if the template would otherwise refuse or lose one of them. */
export function orderTurns(drafts: readonly Draft[], can: ChatCapabilities): Draft[] {
  let turns = placeSystem(drafts, can);
  if (can.needsUser) turns = withUser(turns);
  if (can.alternates) turns = mergeTurns(turns);
  if (can.userFirst) turns = userFirst(turns);
  if (can.toolAnswer !== null) turns = answerTools(turns, can.toolAnswer);
  return can.oneAnswer ? oneAnswer(turns) : turns;
}

/**
 * Merges system messages at positions that the template does not write into the first system
 * message. Without a first system message, they are merged with the adjacent user's message, or
 * become a user's message.
 */
function placeSystem(drafts: readonly Draft[], can: ChatCapabilities): Draft[] {
  const out: Draft[] = [];
  const moved = new Set<Draft>();
  const end = drafts.findLast(({ role }) => role !== 'system')?.role ?? 'system';
  const first = can.systemBefore.includes(end as PrecedingRole);
  for (const draft of drafts) {
    const last = out.at(-1);
    const stays = last && !moved.has(last) ? can.systemAfter.includes(last.role as PrecedingRole) : first && !last;
    if (draft.role !== 'system' || stays) out.push(draft);
    else if (out[0]?.role === 'system') out[0] = joined(out[0], draft);
    else moved.add(out[out.push({ ...draft, role: 'user', content: textOf(draft.content as string) }) - 1]);
  }
  return moved.size === 0 ? out : mergeNeighbours(out, (last, next) => moved.has(last) || moved.has(next), moved);
}

/**
 * Merges consecutive messages of one role for which `merges` returns true. A merged message is
 * added to `moved` only if both were in it.
 */
function mergeNeighbours(drafts: readonly Draft[], merges: (last: Draft, next: Draft) => boolean, moved = new Set<Draft>()): Draft[] {
  const out: Draft[] = [];
  for (const draft of drafts) {
    const last = out.at(-1);
    const same = last?.role === draft.role && [last, draft].every(({ tool_calls, content }) => !tool_calls && isText(content));
    if (!last || !same || !merges(last, draft)) {
      out.push(draft);
      continue;
    }
    const both = joined(last, draft);
    if (moved.has(last) && moved.has(draft)) moved.add(both);
    out[out.length - 1] = both;
  }
  return out;
}

/** Merges consecutive messages of one role, for templates that require alternating turns. */
const mergeTurns = (drafts: readonly Draft[]): Draft[] => mergeNeighbours(drafts, ({ role }) => role === 'user' || role === 'assistant');

/**
 * Adds a user's message if it is missing: turns the system message into one, or inserts an empty
 * one.
 */
function withUser(drafts: readonly Draft[]): Draft[] {
  if (drafts.some(({ role }) => role === 'user')) return [...drafts];
  const [first, ...others] = drafts;
  return first?.role === 'system'
    ? [{ ...first, role: 'user', content: textOf(first.content as string) }, ...others]
    : [SILENT_USER, ...drafts];
}

const SILENT_USER: Draft = { role: 'user', content: '' };

/** Inserts an empty user's message before the assistant's first message. */
function userFirst(drafts: readonly Draft[]): Draft[] {
  const first = drafts.findIndex(({ role }) => role !== 'system');
  return drafts[first]?.role === 'assistant' ? [...drafts.slice(0, first), SILENT_USER, ...drafts.slice(first)] : [...drafts];
}

/**
 * Merges everything that the assistant says in a turn into one message: into its final answer, or
 * into its first text if there is no final answer yet.
 */
function oneAnswer(drafts: readonly Draft[]): Draft[] {
  const out: Draft[] = [];
  let turn: Draft[] = [];
  const flush = (): void => {
    const said = turn.filter(({ role, tool_calls, content }) => role === 'assistant' && !tool_calls && isText(content));
    const stays = said.at(-1) === turn.at(-1) ? said.at(-1) : said[0];
    const texts = said.map(({ content }) => textOf(content as string)).filter((text) => text.trim() !== '');
    for (const draft of turn)
      if (draft === stays && said.length > 1) out.push({ ...draft, content: texts.join(GAP) });
      else if (draft === stays || !said.includes(draft)) out.push(draft);
    turn = [];
  };
  for (const draft of drafts) {
    if (draft.role === 'user') flush();
    turn.push(draft);
  }
  flush();
  return out;
}

/**
 * Inserts an assistant's message between a tool's result (or an unanswered call) and the user's
 * next message.
 */
const answerTools = (drafts: readonly Draft[], content: string): Draft[] =>
  drafts.flatMap((draft, i) =>
    draft.role === 'user' && (drafts[i - 1]?.role === 'tool' || drafts[i - 1]?.tool_calls)
      ? [{ role: 'assistant', content }, draft]
      : [draft],
  );
