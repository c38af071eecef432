/** The MCP servers of a chat: their tools, as tools of model.chat(), and what is shown of them. */
import { ToolParts, offeredTools, textOfParts, type ToolDefinition, type ToolSet } from '../../chat/tools.ts';
import type { Model } from '../../model.ts';
import { printable } from '../../printable.ts';
import { serversOf, type McpFlags, type ServerConfig } from './config.ts';
import { connect, loadSdk, type Connection, type ServerTool } from './connection.ts';
import { createPermission, type Ask, type Permission } from './permission.ts';
import { cutParts, partsOfResult } from './results.ts';

/** A tool under the name by which the model calls it. */
interface NamedTool {
  readonly name: string;
  readonly tool: ServerTool;
  readonly connection: Connection;
}

export interface McpHost {
  /** Line of the greeting. */
  readonly greeting: string;
  /** Problems of servers and tools, for people. */
  readonly warnings: readonly string[];
  /** The tools for model.chat(). */
  toolsFor(model: Model): ToolSet;
  askWith(ask: Ask): void;
  /** The list of servers and tools. */
  describe(): string;
}

/** Share of the context that a result may take. */
const RESULT_SHARE = 0.5;
/** Characters of a tool's name; OpenAI's API has the same limit. */
const MAX_NAME = 64;
/** Characters and lines of a result that are shown. The model gets more. */
const SHOWN_CHARS = 1000;
const SHOWN_LINES = 12;

/** Servers that are starting, while the model loads. */
export interface StartingServers {
  /** Waits for all servers. A server that fails is a warning. */
  readonly ready: Promise<McpHost>;
  /** Ends the servers. */
  close(): Promise<void>;
}

/**
 * Begins to start the servers of the flags; undefined without such flags.
 * @throws ERR_USAGE, ERR_SOURCE
 */
export async function startServers(values: McpFlags, signal: AbortSignal): Promise<StartingServers | undefined> {
  const configs = await serversOf(values);
  if (!configs) return undefined;
  const permission = createPermission(
    configs.map(({ name }) => name),
    values.mcpAllow,
  );
  const sdk = await loadSdk();
  const stop = new AbortController();
  const starting = configs.map((config) => connect(sdk, config, AbortSignal.any([signal, stop.signal])));
  const started = Promise.allSettled(starting);
  return {
    ready: started.then((results) => hostOf(configs, results, permission)),
    async close() {
      stop.abort(new DOMException('the chat has ended', 'AbortError'));
      await Promise.all((await started).map((result) => result.status === 'fulfilled' && result.value.close()));
    },
  };
}

const plural = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;

function hostOf(configs: readonly ServerConfig[], started: readonly PromiseSettledResult<Connection>[], permission: Permission): McpHost {
  const warnings: string[] = [];
  const failed = new Map<string, string>();
  const connections: Connection[] = [];
  for (const [i, result] of started.entries()) {
    const { name } = configs[i];
    if (result.status === 'fulfilled') {
      connections.push(result.value);
      warnings.push(...result.value.warnings.map((warning) => `the MCP server "${name}": ${warning}`));
    } else {
      failed.set(name, (result.reason as Error).message);
      warnings.push(`the MCP server "${name}" did not start: ${(result.reason as Error).message}`);
    }
  }
  const tools = namedTools(connections, warnings);
  return {
    greeting: `${plural(tools.length, 'tool')} of ${plural(configs.length, 'MCP server')}; /mcp lists them.\n`,
    warnings: warnings.map(printable),
    toolsFor: (model) => Object.fromEntries(tools.map((named) => [named.name, definitionOf(named, permission, model)])),
    askWith: (ask) => permission.askWith(ask),
    describe: () => describeServers(configs, connections, failed, tools, permission),
  };
}

/** Names are SERVER_TOOL as in llama-server, with letters, digits, `_` and `-`, and unique. */
function namedTools(connections: readonly Connection[], warnings: string[]): NamedTool[] {
  const taken = new Set<string>();
  return connections.flatMap((connection) =>
    connection.tools.flatMap((tool) => {
      const plain = `${connection.server}_${tool.name}`.replaceAll(/[^\w-]/g, '_').slice(0, MAX_NAME);
      let name = plain;
      for (let n = 2; taken.has(name); n++) name = `${plain.slice(0, MAX_NAME - String(n).length - 1)}_${n}`;
      try {
        offeredTools({ [name]: { parameters: tool.schema } });
      } catch (error) {
        warnings.push(`the tool "${tool.name}" of the MCP server "${connection.server}" is left out: ${(error as Error).message}`);
        return [];
      }
      taken.add(name);
      return [{ name, tool, connection }];
    }),
  );
}

function definitionOf({ tool, connection }: NamedTool, permission: Permission, model: Model): ToolDefinition {
  const { server } = connection;
  const most = Math.floor(model.contextLength * RESULT_SHARE);
  return {
    ...(tool.description === undefined ? {} : { description: tool.description }),
    parameters: tool.schema,
    async execute(args: object, { signal }) {
      note(`[${server}/${tool.name} ${JSON.stringify(args)}]`);
      if (!(await permission.decide(server, tool.name, signal))) {
        note(
          process.stdin.isTTY ? '[refused]' : `[refused: nobody can be asked here; --mcp-allow "${server}/${tool.name}" allows the tool]`,
        );
        throw new Error('The user did not allow this call.');
      }
      try {
        const result = await connection.call(tool.name, args, signal);
        const parts = cutParts(await partsOfResult(result, model.readImage, signal), most, (text) => model.tokenize(text).length);
        write(shown(textOfParts(parts)));
        if (result.isError === true) throw new ToolFailure(textOfParts(parts));
        return new ToolParts(parts);
      } catch (error) {
        if (!(error instanceof ToolFailure) && !signal?.aborted) note(`[${server}/${tool.name} failed: ${(error as Error).message}]`);
        throw error;
      }
    },
  };
}

/** A failure that the tool itself reports, and that has been shown. */
class ToolFailure extends Error {}

/** Writes about tools: on stdout to a person, otherwise on stderr, because stdout has the answer. */
const write = (text: string): void => void (process.stdout.isTTY ? process.stdout : process.stderr).write(`${text}\n`);
const note = (line: string): void => write(printable(line));

/** The beginning of a result, with a bar before each line so that no line passes for one of ours. */
function shown(text: string): string {
  const lines = text.slice(0, SHOWN_CHARS).split('\n').slice(0, SHOWN_LINES);
  const left = text.length - lines.join('\n').length;
  return [...lines, ...(left > 0 ? [`... ${left} further characters`] : [])]
    .map((line) => `| ${line.split('\t').map(printable).join('\t')}`)
    .join('\n');
}

function describeServers(
  configs: readonly ServerConfig[],
  connections: readonly Connection[],
  failed: ReadonlyMap<string, string>,
  tools: readonly NamedTool[],
  permission: Permission,
): string {
  const lines = configs.flatMap(({ name }) => {
    const connection = connections.find(({ server }) => server === name);
    const ended = connection?.ended();
    const state = !connection ? `did not start: ${failed.get(name)}` : ended === undefined ? 'runs' : `has ended: ${ended}`;
    const own = tools.filter((one) => one.connection === connection && connection !== undefined);
    return [`${name}: ${state}`, ...own.map((one) => toolLine(one, permission))];
  });
  return lines.length === 0 ? 'No MCP servers are configured.' : lines.map(printable).join('\n');
}

function toolLine({ name, tool, connection }: NamedTool, permission: Permission): string {
  const [first] = (tool.description ?? '').trim().split('\n');
  const about = first.length > 80 ? `${first.slice(0, 80)}...` : first;
  return `  ${name.padEnd(24)} ${permission.isAllowed(connection.server, tool.name) ? '[allowed] ' : ''}${about}`;
}
