/** The order of a conversation's messages, made one that its template writes whole. */
import type { ChatCapabilities, PrecedingRole, TextPart } from './capabilities.ts';

/** A message as a template gets it. */
export type Draft = Record<string, unknown> & { role: string; content: unknown };

/** Texts that are merged have a blank line between. */
const GAP = '\n\n';

const isText = (content: unknown): content is string | readonly TextPart[] =>
  typeof content === 'string' || (Array.isArray(content) && content.every((part: { type?: unknown }) => part.type === 'text'));

/** Text parts as one text. */
export const textOf = (content: string | readonly TextPart[]): string =>
  typeof content === 'string' ? content : content.map(({ text }) => text).join('\n');

const joined = (first: Draft, second: Draft): Draft => ({
  ...first,
  content: [first, second].map(({ content }) => textOf(content as string)).join(GAP),
});

/** Moves and merges messages where the template would refuse or lose one of them as they are. */
export function orderTurns(drafts: readonly Draft[], can: ChatCapabilities): Draft[] {
  let turns = placeSystem(drafts, can);
  if (can.needsUser) turns = withUser(turns);
  if (can.alternates) turns = mergeTurns(turns);
  if (can.userFirst) turns = userFirst(turns);
  if (can.toolAnswer !== null) turns = answerTools(turns, can.toolAnswer);
  return can.oneAnswer ? oneAnswer(turns) : turns;
}

/**
 * System messages at places where the template does not write them go into the first one. Where there is none, they go into the user's message next
 * to them, or become one.
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

/** Joins user's messages in a row of which `merges`; the result is one of `moved` only where nobody else had a part in it. */
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

/** Neighbours of one role become one message where a template insists on turns. */
const mergeTurns = (drafts: readonly Draft[]): Draft[] => mergeNeighbours(drafts, ({ role }) => role === 'user' || role === 'assistant');

/** The system message is the user's where there is no other; where nobody has said anything, the user says nothing. */
function withUser(drafts: readonly Draft[]): Draft[] {
  if (drafts.some(({ role }) => role === 'user')) return [...drafts];
  const [first, ...others] = drafts;
  return first?.role === 'system'
    ? [{ ...first, role: 'user', content: textOf(first.content as string) }, ...others]
    : [SILENT_USER, ...drafts];
}

const SILENT_USER: Draft = { role: 'user', content: '' };

/** A user who says nothing before the assistant's first message. */
function userFirst(drafts: readonly Draft[]): Draft[] {
  const first = drafts.findIndex(({ role }) => role !== 'system');
  return drafts[first]?.role === 'assistant' ? [...drafts.slice(0, first), SILENT_USER, ...drafts.slice(first)] : [...drafts];
}

/** All that the assistant says in a turn as one message: its answer, or where there is none yet, what it said first. */
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

/** An assistant's message between a tool's result, or a call that has none, and the user's next message. */
const answerTools = (drafts: readonly Draft[], content: string): Draft[] =>
  drafts.flatMap((draft, i) =>
    draft.role === 'user' && (drafts[i - 1]?.role === 'tool' || drafts[i - 1]?.tool_calls)
      ? [{ role: 'assistant', content }, draft]
      : [draft],
  );
