/** The lines of a file that arrives in pieces. Only a line feed ends a line. */

export interface Line {
  /** Line number from 1, counting empty lines. */
  readonly number: number;
  /** The bytes without the line feed; undefined if the line is longer than the limit. */
  readonly bytes: Uint8Array | undefined;
  /** Number of bytes including the line feed. */
  readonly size: number;
  /** False for a last line without a line feed. */
  readonly whole: boolean;
}

const LINE_FEED = 0x0a;

/** @param limit maximum bytes of a line. Bytes of a longer line are counted but not kept. */
export async function* readLines(source: AsyncIterable<Uint8Array>, limit: number): AsyncGenerator<Line, void> {
  let parts: Uint8Array[] = [];
  let size = 0;
  let number = 1;
  const take = (part: Uint8Array): void => {
    size += part.length;
    if (size <= limit) parts.push(part);
    else parts = [];
  };
  const line = (ending: 0 | 1): Line => {
    const bytes = size > limit ? undefined : parts.length === 1 ? parts[0] : joined(parts, size);
    const read = { number: number++, bytes, size: size + ending, whole: ending === 1 };
    [parts, size] = [[], 0];
    return read;
  };
  for await (const piece of source) {
    let from = 0;
    for (let end = piece.indexOf(LINE_FEED); end >= 0; end = piece.indexOf(LINE_FEED, from)) {
      take(piece.subarray(from, end));
      from = end + 1;
      yield line(1);
    }
    if (from < piece.length) take(piece.slice(from)); // the source may reuse the piece's memory
  }
  if (size > 0) yield line(0);
}

function joined(parts: readonly Uint8Array[], size: number): Uint8Array {
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
