/** Making a text fit the context. Conversations are shortened by the library and by the server, which know the template. */

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

/**
 * Leaves out the beginning of a text: as few words as possible.
 * @param room tokens that the prompt may have
 * @param count the number of tokens of a text
 */
export async function fitText(
  text: string,
  room: number,
  count: (text: string) => number | Promise<number>,
): Promise<{
  readonly prompt: string;
  /** Words. */
  readonly leftOut: number;
}> {
  if (room === Infinity || (await count(text)) <= room) return { prompt: text, leftOut: 0 };
  const words = text.split(/(?<=\s)(?=\S)|(?<=[^\x00-\x7f])/u);
  const without = (n: number): string => words.slice(n).join('');
  const leftOut = await fewest(Math.max(0, words.length - 1), async (n) => (await count(without(n))) <= room);
  return { prompt: without(leftOut), leftOut };
}

/** Tokens of a prompt that leave room for an answer: for all of it, but at most for a quarter of the context. */
export const roomFor = (contextLength: number, maxTokens = Infinity): number =>
  contextLength - Math.max(1, Math.min(maxTokens, contextLength >> 2));
