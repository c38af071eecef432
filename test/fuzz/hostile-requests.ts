/** Requests that try to block a server or exhaust its memory: test/fuzz/hostile-requests.json. */
import { readFileSync } from 'node:fs';

/**
 * A string, or a repeated one: `{i}` in it is the number of the repetition, `{j}` the next number.
 */
type Piece = string | readonly [text: string, times: number];

export interface HostileRequest {
  readonly name: string;
  /** POST by default. */
  readonly method?: string;
  readonly path: string | readonly Piece[];
  /** If false, the server's key is not sent. */
  readonly key?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: readonly Piece[];
}

export const hostileRequests = JSON.parse(
  readFileSync(new URL('hostile-requests.json', import.meta.url), 'utf8'),
) as readonly HostileRequest[];

/** Expands pieces to their text. */
export function textOf(pieces: string | readonly Piece[]): string {
  if (typeof pieces === 'string') return pieces;
  const one = (piece: Piece): string => {
    if (typeof piece === 'string') return piece;
    const [text, times] = piece;
    if (!/\{[ij]\}/.test(text)) return text.repeat(times);
    return Array.from({ length: times }, (_, i) => text.replaceAll('{i}', String(i)).replaceAll('{j}', String(i + 1))).join('');
  };
  return pieces.map(one).join('');
}
