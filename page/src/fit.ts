/**
 * Shortens a text to fit the context. The library and the server shorten conversations, because
 * they know the chat template.
 */

/**
 * Binary search for the fewest parts to leave out so that the rest fits, given that the whole does
 * not. Returns `most` if nothing fits.
 */
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
 * @param room the largest number of tokens for the prompt
 * @param count returns the number of tokens of a text
 */
export async function fitText(
  text: string,
  room: number,
  count: (text: string) => number | Promise<number>,
): Promise<{
  readonly prompt: string;
  /** The number of words left out. */
  readonly leftOut: number;
}> {
  if (room === Infinity || (await count(text)) <= room) return { prompt: text, leftOut: 0 };
  const words = text.split(/(?<=\s)(?=\S)|(?<=[^\x00-\x7f])/u);
  const without = (n: number): string => words.slice(n).join('');
  const leftOut = await fewest(Math.max(0, words.length - 1), async (n) => (await count(without(n))) <= room);
  return { prompt: without(leftOut), leftOut };
}

/**
 * Prompt tokens that leave room for the answer: for all of `maxTokens`, but for at most a quarter
 * of the context.
 */
export const roomFor = (contextLength: number, maxTokens = Infinity): number =>
  contextLength - Math.max(1, Math.min(maxTokens, contextLength >> 2));
