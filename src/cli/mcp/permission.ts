/** Decides which calls of MCP tools may run: the person at the terminal, or --mcp-allow. */
import { QuantletError } from '../../errors.ts';
import { printable } from '../../printable.ts';

/** Asks a person. Rejects with signal.reason. */
export type Ask = (question: string, signal: AbortSignal | undefined) => Promise<string>;

export interface Permission {
  /** Decides about a call, after earlier questions are answered. */
  decide(server: string, tool: string, signal: AbortSignal | undefined): Promise<boolean>;
  /** True if calls of the tool run without a question. */
  isAllowed(server: string, tool: string): boolean;
  /** Says who answers questions. Without it nobody can be asked, and calls are refused. */
  askWith(ask: Ask): void;
}

const QUESTION = 'Run it? y (this call), n, always (this tool, until the chat ends): ';

/** The key of a tool. A server's name and a tool's may have any characters. */
const keyOf = (server: string, tool?: string): string => JSON.stringify([server, tool]);

/**
 * @param allow values of --mcp-allow: SERVER or SERVER/TOOL, with commas between them
 * @throws ERR_USAGE if no server has such a name
 */
export function createPermission(servers: readonly string[], allow: readonly string[] = []): Permission {
  const allowed = new Set(allow.flatMap((list) => list.split(',')).map((entry) => allowedKey(servers, entry.trim())));
  let ask: Ask | undefined;
  let earlier: Promise<unknown> = Promise.resolve();
  const isAllowed = (server: string, tool: string): boolean => allowed.has(keyOf(server)) || allowed.has(keyOf(server, tool));
  const asked = async (server: string, tool: string, signal: AbortSignal | undefined): Promise<boolean> => {
    for (;;) {
      signal?.throwIfAborted();
      if (isAllowed(server, tool)) return true;
      if (!ask) return false;
      const answer = (await ask(QUESTION, signal)).trim().toLowerCase();
      if (answer === 'always') allowed.add(keyOf(server, tool));
      if (['y', 'yes', 'always'].includes(answer)) return true;
      if (['n', 'no'].includes(answer)) return false;
    }
  };
  return {
    isAllowed,
    askWith: (given) => void (ask = given),
    decide(server, tool, signal) {
      const decision = earlier.then(() => asked(server, tool, signal));
      earlier = decision.catch(() => {});
      return decision;
    },
  };
}

/** The server is the longest name that fits, so that no tool of `a` passes for one of `a/b`. */
function allowedKey(servers: readonly string[], entry: string): string {
  const [server] = servers.filter((name) => entry === name || entry.startsWith(`${name}/`)).sort((a, b) => b.length - a.length);
  if (server !== undefined) return entry === server ? keyOf(server) : keyOf(server, entry.slice(server.length + 1));
  throw new QuantletError(
    'ERR_USAGE',
    `--mcp-allow has "${entry}"; expected SERVER or SERVER/TOOL, with a server of ${servers.map(printable).join(', ') || 'the configuration, which has none'}`,
  );
}
