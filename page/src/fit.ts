/** Making a conversation fit the context, as the library's onContextFull "shift" does: as few of the oldest turns as possible are left out. */
import type { AnswerRequest, WireMessage } from './backend.ts';

type Task = AnswerRequest['task'];

export interface Fitted {
  readonly task: Task;
  /** Messages that were left out, of a text without turns its words. */
  readonly leftOut: number;
}

/** Smallest number of parts to leave out with which something fits, if all of it does not; `most` where nothing does. */
async function fewest(most: number, fits: (leftOut: number) => Promise<boolean>): Promise<number> {
  let low = 0;
  let high = most;
  while (low + 1 < high) {
    const middle = (low + high) >> 1;
    if (await fits(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** The conversation without its oldest turns. A turn begins with a message of the user; what comes before the first, the system message, stays. */
function withoutTurns(messages: readonly WireMessage[]): { readonly turns: number; without(turns: number): WireMessage[] } {
  const starts = messages.flatMap(({ role }, i) => (role === 'user' ? [i] : []));
  const from = starts[0] ?? messages.length;
  return {
    turns: Math.max(0, starts.length - 1),
    without: (turns) => [...messages.slice(0, from), ...messages.slice(starts[turns] ?? from)],
  };
}

/**
 * @param room tokens that the prompt may have
 * @param count the number of tokens of a prompt
 */
export async function fit(task: Task, room: number, count: (task: Task) => Promise<number>): Promise<Fitted> {
  const fits = async (some: Task): Promise<boolean> => (await count(some)) <= room;
  if (await fits(task)) return { task, leftOut: 0 };
  if ('prompt' in task) {
    const words = task.prompt.split(/(?<=\s)(?=\S)|(?<=[^\x00-\x7f])/u);
    const without = (n: number): Task => ({ prompt: words.slice(n).join('') });
    const leftOut = await fewest(Math.max(0, words.length - 1), (n) => fits(without(n)));
    return { task: without(leftOut), leftOut };
  }
  const { turns, without } = withoutTurns(task.messages);
  const some = (n: number): Task => ({ ...task, messages: without(n) });
  const left = await fewest(turns, (n) => fits(some(n)));
  return { task: some(left), leftOut: task.messages.length - without(left).length };
}

/** Tokens of a prompt that leave room for an answer: for all of it, but at most for a quarter of the context. */
export const roomFor = (contextLength: number, maxTokens = Infinity): number =>
  contextLength - Math.max(1, Math.min(maxTokens, contextLength >> 2));
