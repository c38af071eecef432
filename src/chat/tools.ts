/** Tools that the program brings along: offered to the model, called when it asks, their results given back to it. */
import { QuantletError, tell } from '../errors.ts';
import { schemaOf } from '../grammar/schema-source.ts';
import { checkOptions, KIND, oneOf, required, type Kind, type Kinds } from '../options.ts';
import { isRecord } from './json.ts';
import type { ParsedCall } from './calls.ts';
import type { ChatTool } from './messages.ts';

/** A call that the model made, with the id that its result names. */
export interface ToolCall extends ParsedCall {
  readonly id: string;
}

/** A function for the model to call. */
export interface ToolDefinition {
  readonly description?: string;
  /** The arguments' JSON schema, or a validator that gives one (zod 4.2, ArkType: see ResponseFormat). */
  readonly parameters?: object;
  /**
   * Does it. What it gives (a text, or anything that JSON can say) is what the model gets; what it throws, the model gets as the error it is.
   * Without it a call ends the answer, with the finishReason `tool_calls`.
   * @param args the arguments that the model wrote, parsed: JSON, but not held against `parameters` unless a toolChoice asked for the call
   */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- what they are is for the caller's own function to say
  execute?(args: any, call: { readonly id: string; readonly name: string; readonly signal: AbortSignal | undefined }): unknown;
}

/** Tools by their names. */
export interface ToolSet {
  readonly [name: string]: ToolDefinition;
}

/** What became of a call. */
export interface ToolResult {
  readonly call: ToolCall;
  /** What the model is told. */
  readonly text: string;
  /** Whether the tool threw, or the arguments were no JSON. */
  readonly failed: boolean;
}

const bad = (message: string): QuantletError => new QuantletError('ERR_INVALID_ARGUMENT', message);

const SCHEMA: Kind = { is: (v) => isRecord(v) || typeof v === 'function', expected: 'a JSON schema' };
const DEFINITION: Kinds<ToolDefinition> = { description: KIND.string, parameters: SCHEMA, execute: KIND.function };
const LISTED: Kinds<ChatTool> = { type: required(oneOf('function')), function: required(KIND.object) };
const FUNCTION: Kinds<ChatTool['function']> = {
  name: required(KIND.string),
  description: KIND.string,
  parameters: SCHEMA,
  strict: KIND.any,
};

/**
 * Tools as the model is told of them.
 * @throws ERR_INVALID_ARGUMENT for a set with something else in it
 */
export function offeredTools(tools: readonly ChatTool[] | ToolSet | undefined): readonly ChatTool[] {
  if (tools === undefined) return [];
  if (Array.isArray(tools))
    return (tools as readonly ChatTool[]).map((tool, i) => {
      const { function: given } = checkOptions(`tools[${i}]`, tool, LISTED);
      const { name, parameters } = checkOptions(`tools[${i}].function`, given, FUNCTION);
      return { ...tool, function: { ...given, ...parametersOf(name, parameters) } };
    });
  if (!isRecord(tools))
    throw bad(`tools is ${tell(tools)}; expected { name: { description, parameters, execute } }, or a list as OpenAI has it`);
  return Object.entries(tools as ToolSet).map(([name, tool]) => {
    const { description, parameters } = checkOptions(`the tool "${name}"`, tool, DEFINITION);
    return {
      type: 'function',
      function: { name, ...(description === undefined ? {} : { description }), ...parametersOf(name, parameters) },
    };
  });
}

/** Parameters as a JSON schema, whatever wrote them. */
const parametersOf = (name: string, parameters: object | undefined): { parameters?: object } =>
  parameters === undefined ? {} : { parameters: schemaOf(`parameters of the tool "${name}"`, parameters) };

/** The functions of those calls; undefined where one has none. */
export function toolsToRun(
  tools: readonly ChatTool[] | ToolSet | undefined,
  calls: readonly ToolCall[],
): readonly NonNullable<ToolDefinition['execute']>[] | undefined {
  if (tools === undefined || Array.isArray(tools) || calls.length === 0) return undefined;
  const set = tools as ToolSet;
  const found = calls.map(({ name }) => {
    const tool = Object.hasOwn(set, name) ? set[name] : undefined;
    return tool?.execute && ((...args: Parameters<NonNullable<ToolDefinition['execute']>>) => tool.execute!(...args));
  });
  return found.every((execute) => execute !== undefined) ? found : undefined;
}

/** Calls a tool. @throws signal.reason; what the tool throws becomes its result */
export async function runTool(
  execute: NonNullable<ToolDefinition['execute']>,
  call: ToolCall,
  signal: AbortSignal | undefined,
): Promise<ToolResult> {
  try {
    const args: unknown = JSON.parse(call.arguments === '' ? '{}' : call.arguments);
    const given = await execute(args, { id: call.id, name: call.name, signal });
    signal?.throwIfAborted();
    return { call, text: typeof given === 'string' ? given : (JSON.stringify(given) ?? ''), failed: false };
  } catch (error) {
    signal?.throwIfAborted();
    return { call, text: failureText(error instanceof Error ? error.message : String(error)), failed: true };
  }
}

/** A failed call's text as the model is told of it: it says that it is an error. */
export function failureText(text: string): string {
  if (text.trim() === '') return 'Error: the tool failed and gave no message.';
  return /^\W*(?:[a-z]+[_ ])*error\b/i.test(text) ? text : `Error: ${text}`;
}
