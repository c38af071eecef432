/** Tools as the AI SDK has them, as tools of model.chat(). */
import { isRecord } from '../chat/json.ts';
import type { ToolDefinition, ToolSet } from '../chat/tools.ts';

/** A tool in the AI SDK's form, such as tool() of `ai` makes. */
export interface TransportTool {
  readonly description?: string | undefined;
  /**
   * Schema of the input: a validator (zod 4.2, ArkType and others of Standard JSON Schema), the AI
   * SDK's jsonSchema(), or a JSON schema. Validators check the model's input.
   */
  readonly inputSchema?: unknown;
  /**
   * Runs in the page. The model reads what it returns. If absent, the call ends the answer, and the
   * page gives the output (addToolOutput).
   */
  execute?(
    // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the schema says what it is
    input: any,
    // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the AI SDK's messages
    options: { readonly toolCallId: string; readonly messages: any[]; readonly abortSignal?: AbortSignal },
  ): unknown;
}

interface Checked {
  readonly value?: unknown;
  readonly success?: boolean;
  readonly error?: Error;
  readonly issues?: readonly { readonly message: string }[];
}
type Check = (input: unknown) => Checked | PromiseLike<Checked>;

/**
 * @param outputs receives what each call returned, by its id
 */
export async function toolSetOf(tools: Readonly<Record<string, TransportTool>>, outputs: Map<string, unknown>): Promise<ToolSet> {
  const entries = Object.entries(tools).map(async ([name, tool]) => [name, await definitionOf(tool, outputs)] as const);
  return Object.fromEntries(await Promise.all(entries));
}

async function definitionOf(tool: TransportTool, outputs: Map<string, unknown>): Promise<ToolDefinition> {
  const { parameters, check } = await schemaOf(tool.inputSchema);
  return {
    ...(tool.description === undefined ? {} : { description: tool.description }),
    ...(parameters === undefined ? {} : { parameters }),
    ...(tool.execute && {
      async execute(given: unknown, { id, signal }) {
        const input = await checked(given, check);
        const output = await tool.execute!(input, { toolCallId: id, messages: [], ...(signal ? { abortSignal: signal } : {}) });
        outputs.set(id, output);
        return output;
      },
    }),
  };
}

/** The JSON schema, or the validator that has one, and the check of an input. */
async function schemaOf(given: unknown): Promise<{ parameters?: object; check?: Check }> {
  // The AI SDK's lazy schemas are functions; ArkType's validators are functions too.
  const schema: unknown = typeof given === 'function' && !('~standard' in given) ? (given as () => unknown)() : given;
  if (schema === undefined) return {};
  const { jsonSchema, validate } = schema as { jsonSchema?: object | PromiseLike<object>; validate?: Check };
  if (isRecord(schema) && jsonSchema !== undefined) return { parameters: await jsonSchema, ...(validate ? { check: validate } : {}) };
  const standard = (schema as { readonly '~standard'?: { readonly validate?: Check } })['~standard'];
  return { parameters: schema as object, ...(standard?.validate ? { check: (input) => standard.validate!(input) } : {}) };
}

/** @throws Error for the model, if the input does not follow the schema */
async function checked(input: unknown, check: Check | undefined): Promise<unknown> {
  if (!check) return input;
  const { success, error, issues, value } = await check(input);
  if (success !== false && issues === undefined) return value;
  throw new Error(`the arguments do not follow the schema: ${error?.message ?? issues!.map(({ message }) => message).join('; ')}`);
}
