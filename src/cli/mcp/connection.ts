/**
 * A connection to an MCP server, by the SDK. The server is a stranger: its answers have limits of
 * size and time, and all of its failures are errors that name it.
 */
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { onAbort, orAborted } from '../../abort.ts';
import { isRecord } from '../../chat/json.ts';
import { QuantletError } from '../../errors.ts';
import { packageVersion } from '../version.ts';
import type { HttpServer, ProgramServer, ServerConfig } from './config.ts';

/** A tool as its server describes it. */
export interface ServerTool {
  readonly name: string;
  readonly description: string | undefined;
  readonly schema: object;
}

export interface Connection {
  readonly server: string;
  readonly tools: readonly ServerTool[];
  /** Problems of its tools, for people. */
  readonly warnings: readonly string[];
  /** The reason why the server takes no calls any more. */
  readonly ended: () => string | undefined;
  /**
   * The result of a call, as the server gave it.
   * @throws Error for people and the model, or signal.reason
   */
  call(tool: string, args: object, signal: AbortSignal | undefined): Promise<Readonly<Record<string, unknown>>>;
  close(): Promise<void>;
}

/** Most bytes of one answer. */
const MAX_BYTES = 10 * 2 ** 20;
/** Time to start and to list the tools. Programs like npx may download the server first. */
const START_MS = 60_000;
const MAX_PAGES = 100;
const MAX_TOOLS = 256;
/** Most characters of a tool's description and schema as JSON, and most levels of the schema. */
const MAX_TOOL_CHARS = 65_536;
const MAX_LEVELS = 64;
/** Characters of stderr that are kept for error messages. */
const STDERR_CHARS = 500;

/** Codes of the SDK's errors. */
const TIMED_OUT = -32001;
const CLOSED = -32000;

type Sdk = Awaited<ReturnType<typeof loadSdk>>;

/**
 * Imports the SDK, which is an optional peer dependency.
 * @throws ERR_USAGE if it is not installed
 */
export async function loadSdk() {
  try {
    const [client, stdio, http, types] = await Promise.all([
      import('@modelcontextprotocol/sdk/client/index.js'),
      import('@modelcontextprotocol/sdk/client/stdio.js'),
      import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
      import('@modelcontextprotocol/sdk/types.js'),
    ]);
    return { ...client, ...stdio, ...http, ...types };
  } catch (cause) {
    throw new QuantletError(
      'ERR_USAGE',
      `MCP servers need the package @modelcontextprotocol/sdk, which cannot be loaded: ${(cause as Error).message}; expected it next to quantlet: npm install @modelcontextprotocol/sdk (with -g if quantlet was installed with -g)`,
      { cause },
    );
  }
}

/**
 * Starts a server, or reaches it, and lists its tools.
 * @throws Error that says why, or signal.reason
 */
export async function connect(sdk: Sdk, config: ServerConfig, signal: AbortSignal, startMs = START_MS): Promise<Connection> {
  const { transport, lastWords, pid, leave } = 'url' in config ? httpTransport(sdk, config) : programTransport(sdk, config);
  const client = new sdk.Client({ name: 'quantlet', version: packageVersion() }, { jsonSchemaValidator: unchecked });
  let open = true;
  let problem: string | undefined;
  let ended: string | undefined;
  client.onerror = ({ message }) => (problem = message);
  let forget = (): void => {};
  client.onclose = () => {
    open = false;
    forget();
    ended ??= lastWords(problem);
  };
  const close = async (): Promise<void> => {
    if (open) await leave?.();
    await client.close().catch(() => {});
  };
  const late = AbortSignal.timeout(startMs);
  const limit = AbortSignal.any([signal, late]);
  try {
    const start = async (): Promise<Pick<Connection, 'tools' | 'warnings'>> => {
      const connected = client.connect(transport, { timeout: startMs });
      forget = killAtExit(pid?.());
      await connected;
      return listTools(sdk, client, limit);
    };
    // The SDK waits without limit in some places.
    const tools = await orAborted(start(), limit);
    return {
      server: config.name,
      ...tools,
      ended: () => (open ? undefined : ended),
      close,
      async call(name, args, callSignal) {
        if (!open) throw new Error(`the server has ended: ${ended}`);
        const request = { method: 'tools/call', params: { name, arguments: args } };
        try {
          return await withOwnSignal(callSignal, (own) =>
            client.request(request, sdk.ResultSchema, { timeout: config.timeoutMs, signal: own }),
          );
        } catch (error) {
          callSignal?.throwIfAborted();
          throw new Error(whyFailed(error, config.timeoutMs, ended), { cause: error });
        }
      },
    };
  } catch (error) {
    const why = late.aborted ? `it did not answer within ${startMs / 1000} s` : whyFailed(error, startMs, ended);
    void close();
    signal.throwIfAborted();
    throw new Error(why, { cause: error });
  }
}

/** Results of tools are not checked against schemas of the server: a hostile pattern could take for ever. */
const unchecked = { getValidator: () => (input: unknown) => ({ valid: true as const, data: input as never, errorMessage: undefined }) };

/**
 * Gives a request a signal of its own. The SDK leaves its listener on the signal, and would cancel
 * the request at a later abort, even if it was answered.
 */
async function withOwnSignal<T>(signal: AbortSignal | undefined, request: (own: AbortSignal) => Promise<T>): Promise<T> {
  const own = new AbortController();
  const unlisten = signal && onAbort(signal, () => own.abort(signal.reason));
  try {
    return await request(own.signal);
  } finally {
    unlisten?.();
  }
}

function whyFailed(error: unknown, timeoutMs: number, ended: string | undefined): string {
  const { code, message, cause } = error as { code?: unknown; message: string; cause?: { message?: string } };
  if (code === TIMED_OUT) return `the server did not answer within ${timeoutMs / 1000} s`;
  if (code === CLOSED) return `the server has ended: ${ended ?? message}`;
  if (code === 'ENOENT') return 'there is no such command';
  return cause?.message === undefined ? message : `${message}: ${cause.message}`;
}

interface Opened {
  readonly transport: Transport;
  /** The reason why the connection has ended. */
  readonly lastWords: (problem: string | undefined) => string;
  /** The process of the server, once it was started. */
  readonly pid?: () => number | null;
  /** Says to the server that it is not needed any more. */
  readonly leave?: () => Promise<void>;
}

/** Time for a server to take leave. */
const LEAVE_MS = 1000;

function programTransport(sdk: Sdk, { command, args, env, cwd }: ProgramServer): Opened {
  const transport = new sdk.StdioClientTransport({
    command,
    args: [...args],
    env,
    ...(cwd === undefined ? {} : { cwd }),
    stderr: 'pipe',
    maxBufferSize: MAX_BYTES,
  });
  let said = '';
  // It must be read in any case, because a full pipe stops the server.
  transport.stderr?.on('data', (bytes: Buffer) => (said = (said + bytes.toString()).slice(-STDERR_CHARS)));
  return {
    transport: transport as Transport,
    pid: () => transport.pid,
    lastWords: (problem) => {
      const line = said.trim().split('\n').at(-1);
      if (problem?.includes('maximum size')) return `it wrote more than ${MAX_BYTES / 2 ** 20} MB without a line break`;
      return line ? `its last line on stderr is ${JSON.stringify(line)}` : 'it wrote nothing on stderr';
    },
  };
}

/** Kills a program that is still running when this process ends. Returns a function that forgets it. */
function killAtExit(pid: number | null | undefined): () => void {
  if (typeof pid !== 'number') return () => {};
  const kill = (): void => {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // it has ended already
    }
  };
  process.on('exit', kill);
  return () => process.off('exit', kill);
}

function httpTransport(sdk: Sdk, { url, headers }: HttpServer): Opened {
  const transport = new sdk.StreamableHTTPClientTransport(url, { requestInit: { headers: { ...headers } }, fetch: cappedFetch });
  const leave = (): Promise<void> => orAborted(transport.terminateSession(), AbortSignal.timeout(LEAVE_MS)).catch(() => {});
  return { transport: transport as Transport, lastWords: (problem) => problem ?? 'the connection was closed', leave };
}

/** fetch() whose bodies end in an error after MAX_BYTES. */
async function cappedFetch(url: string | URL, init?: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  if (!response.body) return response;
  let read = 0;
  const capped = new TransformStream<Uint8Array, Uint8Array>({
    transform(bytes, controller) {
      read += bytes.length;
      if (read <= MAX_BYTES) controller.enqueue(bytes);
      else controller.error(new Error(`the server answered with more than ${MAX_BYTES / 2 ** 20} MB`));
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(capped), { status, statusText, headers });
}

/** All tools of a server. Tools that cannot be offered are left out, with a warning. */
async function listTools(sdk: Sdk, client: Client, signal: AbortSignal): Promise<Pick<Connection, 'tools' | 'warnings'>> {
  const tools = new Map<string, ServerTool>();
  const warnings: string[] = [];
  if (!client.getServerCapabilities()?.tools) return { tools: [], warnings: ['it has no tools'] };
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES && tools.size < MAX_TOOLS; page++) {
    const request = { method: 'tools/list', ...(cursor === undefined ? {} : { params: { cursor } }) };
    const result = await withOwnSignal(signal, (own) => client.request(request, sdk.ResultSchema, { signal: own }));
    if (!Array.isArray(result.tools)) throw new Error('its list of tools is not a list');
    for (const given of result.tools as unknown[]) {
      if (tools.size === MAX_TOOLS) break;
      const tool = toolOf(given);
      if (typeof tool === 'string') warnings.push(tool);
      else if (tools.has(tool.name)) warnings.push(`the tool "${tool.name}" is listed twice; the first one is offered`);
      else tools.set(tool.name, tool);
    }
    const next = result.nextCursor;
    if (typeof next !== 'string') return { tools: [...tools.values()], warnings };
    cursor = next;
  }
  warnings.push(`it has more than ${MAX_TOOLS} tools or ${MAX_PAGES} pages of them; the first ${tools.size} are offered`);
  return { tools: [...tools.values()], warnings };
}

/** A tool, or the reason why it cannot be offered. */
function toolOf(given: unknown): ServerTool | string {
  if (!isRecord(given) || typeof given.name !== 'string' || given.name === '' || given.name.length > 256)
    return 'a tool without a name of 1 to 256 characters is left out';
  const { name, description, inputSchema = { type: 'object' } } = given;
  const leftOut = (why: string): string => `the tool "${name}" is left out: ${why}`;
  if (!isRecord(inputSchema)) return leftOut('its schema is not an object');
  if (isDeeper(inputSchema, MAX_LEVELS)) return leftOut(`its schema has more than ${MAX_LEVELS} levels`);
  const text = typeof description === 'string' ? description : undefined;
  if ((text?.length ?? 0) + JSON.stringify(inputSchema).length > MAX_TOOL_CHARS)
    return leftOut(`its description and schema have more than ${MAX_TOOL_CHARS} characters`);
  return { name, description: text, schema: inputSchema };
}

const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === 'object' && value !== null && (levels === 0 || Object.values(value).some((item) => isDeeper(item, levels - 1)));
