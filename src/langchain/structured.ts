/** Structured output: an answer that a schema constrains, parsed and checked. */
import type { BaseLanguageModelInput, StructuredOutputMethodOptions } from '@langchain/core/language_models/base';
import type { BaseChatModel } from '@langchain/core/language_models/chat_models';
import type { AIMessageChunk, BaseMessage } from '@langchain/core/messages';
import { RunnableLambda, RunnablePassthrough, RunnableSequence, type Runnable } from '@langchain/core/runnables';
import { toJsonSchema } from '@langchain/core/utils/json_schema';
import { interopParseAsync, isInteropZodSchema } from '@langchain/core/utils/types';
import { isRecord } from '../chat/json.ts';
import { QuantletError } from '../errors.ts';
import type { ChatQuantletCallOptions } from './settings.ts';

type ChatModel = BaseChatModel<ChatQuantletCallOptions, AIMessageChunk>;
type Output = Record<string, unknown>;

const METHODS = ['jsonSchema', 'functionCalling', 'jsonMode'];

/** A JSON schema, from a schema of zod, of the Standard Schema, or as it is. */
function jsonSchemaOf(schema: object): object {
  return isInteropZodSchema(schema) || '~standard' in schema ? toJsonSchema(schema as Parameters<typeof toJsonSchema>[0]) : schema;
}

/** Checks a value with the schema's own library. The grammar knows only what JSON schemas can say. */
async function checked(schema: object, value: unknown): Promise<Output> {
  return (isInteropZodSchema(schema) ? await interopParseAsync(schema, value) : value) as Output;
}

/**
 * A model whose answers are objects of a schema.
 * @throws QuantletError ERR_INVALID_ARGUMENT for an unknown method
 */
export function structured(
  model: ChatModel,
  schema: object,
  { name, method = 'jsonSchema', includeRaw = false }: StructuredOutputMethodOptions<boolean> = {},
): Runnable<BaseLanguageModelInput, Output> | Runnable<BaseLanguageModelInput, { raw: BaseMessage; parsed: Output }> {
  if (!METHODS.includes(method))
    throw new QuantletError('ERR_INVALID_ARGUMENT', `method is "${method}"; expected one of ${METHODS.join(', ')}`);
  const json = jsonSchemaOf(schema);
  const own = isRecord(schema) && typeof schema.name === 'string' && isRecord(schema.parameters) ? schema.name : undefined;
  const tool = name ?? own ?? (isRecord(json) && typeof json.title === 'string' ? json.title : 'extract');
  const parameters = own === undefined ? json : (schema as unknown as { parameters: object }).parameters;
  const description = 'description' in json ? (json.description as string) : 'Call this function with the answer.';
  const llm =
    method === 'functionCalling'
      ? model.withConfig({ tools: [{ type: 'function', function: { name: tool, description, parameters } }], tool_choice: tool })
      : model.withConfig({ responseFormat: method === 'jsonMode' ? { type: 'json_object' } : { type: 'json_schema', schema: parameters } });
  const parse = RunnableLambda.from<AIMessageChunk, Output>(async (answer) => {
    if (method !== 'functionCalling') return checked(schema, JSON.parse(answer.text));
    const call = answer.tool_calls?.find((one) => one.name === tool);
    if (!call) throw new QuantletError('ERR_INVALID_ARGUMENT', `the answer has no call of "${tool}"; expected one`);
    return checked(schema, call.args);
  });
  if (!includeRaw) return llm.pipe(parse).withConfig({ runName: 'ChatQuantletStructuredOutput' });
  const withParsed = RunnablePassthrough.assign<{ raw: AIMessageChunk }, { parsed: Output }>({
    parsed: (input: { raw: AIMessageChunk }) => parse.invoke(input.raw),
  });
  const without = RunnablePassthrough.assign<{ raw: AIMessageChunk }, { parsed: Output }>({ parsed: () => null as never });
  return RunnableSequence.from<BaseLanguageModelInput, { raw: BaseMessage; parsed: Output }>([
    { raw: llm },
    withParsed.withFallbacks({ fallbacks: [without] }),
  ]);
}
