/** Requests that fetch() refuses for any server, so that trying again never helps. */

/**
 * Ports of other protocols that browsers and Node refuse for HTTP ("bad ports" of the Fetch
 * standard).
 */
const BAD_PORTS: ReadonlySet<number> = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111, 113, 115, 117,
  119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636,
  989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
]);

/** Node's messages for a request, or a redirection, that its fetch() refuses. */
const REFUSED = /^(?:bad port|unknown scheme|redirect count exceeded|URL scheme must be a HTTP\(S\) scheme)$/;

/** Reason that fetch() refuses a request; undefined if it accepts it. */
export function unfetchable(url: string, headers: Readonly<Record<string, string>> = {}): string | undefined {
  try {
    new Request(url, { headers });
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  const { port } = new URL(url, globalThis.location?.href);
  return port !== '' && BAD_PORTS.has(Number(port))
    ? `fetch() refuses port ${port}, which belongs to another protocol; let the server listen at another port`
    : undefined;
}

/** True if a failure of fetch() is its own refusal, for example of a redirection's target. */
export const isRefusal = (error: unknown): boolean =>
  error instanceof Error && error.cause instanceof Error && REFUSED.test(error.cause.message);
