/** Tools of the program: offered to the model, run on its request, their results returned to it. */
import { QuantletError, tell } from '../errors.ts';
import { schemaOf } from '../grammar/schema-source.ts';
import { checkOptions, KIND, oneOf, required, type Kind, type Kinds } from '../options.ts';
import { isRecord } from './json.ts';
import type { ParsedCall } from './call-text.ts';
import { contentText, type ChatPart, type ChatTool } from './messages.ts';
import { isImagePart } from './images.ts';

/** A call by the model, with the id that its result names. */
export interface ToolCall extends ParsedCall {
  readonly id: string;
}

/** A function that the model may call. */
export interface ToolDefinition {
  readonly description?: string;
  /**
   * The arguments' JSON schema, or a validator that provides one (zod 4.2, ArkType: see
   * ResponseFormat).
   */
  readonly parameters?: object;
  /**
   * Runs the tool. The model gets the returned value (a text, or anything that JSON can represent),
   * or the thrown error as a message. If absent, a call ends the answer with the finishReason
   * `tool_calls`.
   * @param args the model's arguments, parsed as JSON. They are not validated against `parameters`,
   * unless a toolChoice required the call.
   */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- what they are is for the caller's own function to say
  execute?(args: any, call: { readonly id: string; readonly name: string; readonly signal: AbortSignal | undefined }): unknown;
}

/** Tools by name. */
export interface ToolSet {
  readonly [name: string]: ToolDefinition;
}

/** Result of a call. */
export interface ToolResult {
  readonly call: ToolCall;
  /** Text for the model. Images are `[image]`. */
  readonly text: string;
  /** Texts and images for the model, if the tool returned ToolParts. @internal */
  readonly parts?: readonly ChatPart[];
  /** True if the tool threw, or the arguments were not JSON. */
  readonly failed: boolean;
}

/** Return value of a tool whose result has images. @internal */
export class ToolParts {
  readonly parts: readonly ChatPart[];

  constructor(parts: readonly ChatPart[]) {
    this.parts = parts;
  }
}

/** Text of parts, with `[image]` in place of images. */
export const textOfParts = (parts: readonly ChatPart[]): string =>
  contentText(parts.map((part) => (isImagePart(part) ? { type: 'text', text: '[image]' } : part)));

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
 * Converts tools to the form that the model's template takes.
 * @throws ERR_INVALID_ARGUMENT for an invalid set
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
    throw bad(`tools is ${tell(tools)}; expected { name: { description, parameters, execute } }, or a list in OpenAI's form`);
  return Object.entries(tools as ToolSet).map(([name, tool]) => {
    const { description, parameters } = checkOptions(`the tool "${name}"`, tool, DEFINITION);
    return {
      type: 'function',
      function: { name, ...(description === undefined ? {} : { description }), ...parametersOf(name, parameters) },
    };
  });
}

/** Parameters as a JSON schema, from a schema or a validator. */
const parametersOf = (name: string, parameters: object | undefined): { parameters?: object } =>
  parameters === undefined ? {} : { parameters: schemaOf(`parameters of the tool "${name}"`, parameters) };

/** The functions for these calls; undefined if a call's tool has none. */
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

/**
 * Runs a tool. An error that it throws becomes its result.
 * @throws signal.reason
 */
export async function runTool(
  execute: NonNullable<ToolDefinition['execute']>,
  call: ToolCall,
  signal: AbortSignal | undefined,
): Promise<ToolResult> {
  try {
    if (call.cut) throw new Error(`the arguments are not complete: ${call.arguments}`);
    const args: unknown = JSON.parse(call.arguments === '' ? '{}' : call.arguments);
    const given = await execute(args, { id: call.id, name: call.name, signal });
    signal?.throwIfAborted();
    if (given instanceof ToolParts) return { call, text: textOfParts(given.parts), parts: given.parts, failed: false };
    return { call, text: typeof given === 'string' ? given : (JSON.stringify(given) ?? ''), failed: false };
  } catch (error) {
    signal?.throwIfAborted();
    return { call, text: failureText(error instanceof Error ? error.message : String(error)), failed: true };
  }
}

/** Text of a failed call for the model. It always says that it is an error. */
export function failureText(text: string): string {
  if (text.trim() === '') return 'Error: the tool failed and gave no message.';
  return /^\W*(?:[a-z]+[_ ])*error\b/i.test(text) ? text : `Error: ${text}`;
}
