/**
 * MCP servers of --mcp-servers-config and --mcp-servers-json. The form is the one that desktop
 * applications share: `{ "mcpServers": { NAME: { "command", "args", "env" } or { "url", "headers" } } }`.
 */
import { isRecord } from '../../chat/json.ts';
import { QuantletError, tell } from '../../errors.ts';
import { KIND, type Kind } from '../../options.ts';
import { readText } from '../command.ts';
import { lastOf, type Values } from '../flags.ts';
import { jsonOf } from '../generate-options.ts';

interface Common {
  readonly name: string;
  /** Milliseconds for the answer to a call. */
  readonly timeoutMs: number;
}
/** A program that reads and writes messages, one a line. */
export interface ProgramServer extends Common {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | undefined;
}
/** A server of the streamable HTTP transport. */
export interface HttpServer extends Common {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}
export type ServerConfig = ProgramServer | HttpServer;

export const MCP_FLAGS = ['mcpConfig', 'mcpJson', 'mcpAllow'] as const;
export type McpFlags = Values<(typeof MCP_FLAGS)[number]>;

/** As in llama-server. */
const TIMEOUT_MS = 30_000;
/** Names of the transport that the field `type` may have. */
const HTTP_TYPES = ['http', 'streamable-http', 'streamableHttp'];

const STRINGS: Kind = { is: (v) => Array.isArray(v) && v.every((s) => typeof s === 'string'), expected: 'a list of strings' };
const FIELDS: Readonly<Record<string, Kind>> = {
  command: KIND.string,
  args: STRINGS,
  env: KIND.strings,
  cwd: KIND.string,
  url: KIND.string,
  headers: KIND.strings,
  type: KIND.string,
  disabled: KIND.boolean,
  timeout_ms: KIND.size,
};

const usage = (message: string, cause?: unknown): QuantletError => new QuantletError('ERR_USAGE', message, cause ? { cause } : undefined);

/**
 * The servers that the flags name; undefined without such a flag. Fields of other applications are
 * ignored.
 * @throws ERR_USAGE, ERR_SOURCE
 */
export async function serversOf(values: McpFlags): Promise<readonly ServerConfig[] | undefined> {
  const given = lastOf(values, 'mcpConfig', 'mcpJson');
  if (given === undefined) {
    if (values.mcpAllow) throw usage('--mcp-allow is for the tools of MCP servers; name the servers with --mcp-servers-config FILE');
    return undefined;
  }
  const [flag, text] =
    given === 'mcpJson'
      ? ['--mcp-servers-json', values.mcpJson!]
      : ['--mcp-servers-config', await readText(values.mcpConfig!, 'the MCP servers')];
  const { mcpServers } = jsonOf(flag, text) as { mcpServers?: unknown };
  if (!isRecord(mcpServers))
    throw usage(
      `mcpServers of ${flag} is ${tell(mcpServers)}; expected an object of servers by name, like {"mcpServers": {"files": {...}}}`,
    );
  return Object.entries(mcpServers).flatMap(([name, entry]) => serverOf(`the MCP server "${name}"`, name, entry) ?? []);
}

function serverOf(what: string, name: string, entry: unknown): ServerConfig | undefined {
  if (!isRecord(entry)) throw usage(`${what} is ${tell(entry)}; expected { "command", "args", "env" } or { "url", "headers" }`);
  for (const [field, kind] of Object.entries(FIELDS))
    if (entry[field] !== undefined && !kind.is(entry[field]))
      throw usage(`${field} of ${what} is ${tell(entry[field])}; expected ${kind.expected}`);
  if (entry.disabled === true) return undefined;
  const { command, args = [], env = {}, cwd, url, headers = {}, type, timeout_ms: timeoutMs = TIMEOUT_MS } = entry as never as Entry;
  if ((command === undefined) === (url === undefined))
    throw usage(`${what} has ${command === undefined ? 'neither' : 'both'}; expected a command (stdio) or a url (streamable HTTP)`);
  const known = command === undefined ? HTTP_TYPES : ['stdio'];
  if (type !== undefined && !known.includes(type))
    throw usage(`the type of ${what} is "${type}"; expected "${known[0]}": the transports are stdio and streamable HTTP`);
  return command === undefined
    ? { name, timeoutMs, url: addressOf(what, url!), headers: headersOf(what, headers) }
    : { name, timeoutMs, command, args, env, cwd };
}

interface Entry {
  readonly command?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly type?: string;
  readonly timeout_ms?: number;
}

function addressOf(what: string, url: string): URL {
  if (URL.canParse(url) && /^https?:/i.test(url)) {
    const address = new URL(url);
    if (address.username === '' && address.password === '') return address;
    throw usage(`the url of ${what} has a user or a password; expected these in "headers", as Authorization`);
  }
  throw usage(`the url of ${what} is ${tell(url)}; expected an address that begins with http:// or https://`);
}

function headersOf(what: string, headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  try {
    return Object.fromEntries(new Headers(headers));
  } catch (cause) {
    throw usage(`the headers of ${what} cannot be sent: ${(cause as Error).message}`, cause);
  }
}
