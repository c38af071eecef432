/**
 * The AI SDK's UI messages, as useChat() keeps them, as a prompt of its language models. The types
 * have what is read here, so that nobody needs the package `ai`.
 */
import type {
  LanguageModelV3FilePart,
  LanguageModelV3Message,
  LanguageModelV3TextPart,
  LanguageModelV3ToolCallPart,
  LanguageModelV3ToolResultOutput,
  LanguageModelV3ToolResultPart,
  JSONValue,
} from '@ai-sdk/provider';

/** A part of a UI message. */
export interface UiPart {
  readonly type: string;
}

/** A UI message. */
export interface UiMessage {
  readonly role: string;
  readonly parts: readonly UiPart[];
}

/** All fields of the parts that are read. */
interface AnyPart extends UiPart {
  readonly text?: string;
  readonly url?: string;
  readonly mediaType?: string;
  readonly toolName?: string;
  readonly toolCallId?: string;
  readonly state?: string;
  readonly input?: unknown;
  readonly output?: unknown;
  readonly errorText?: string;
  readonly approval?: { readonly reason?: string };
}

/** Messages for the model. Parts that only the page shows (sources, data) are left out. */
export const promptOf = (messages: readonly UiMessage[]): LanguageModelV3Message[] => messages.flatMap(messagesOfOne);

function messagesOfOne({ role, parts: given }: UiMessage): LanguageModelV3Message[] {
  const parts = given as readonly AnyPart[];
  if (role === 'system') return [{ role, content: parts.map(({ type, text = '' }) => (type === 'text' ? text : '')).join('') }];
  if (role === 'user') return [{ role, content: parts.flatMap(userPart) }];
  return stepsOf(parts).flatMap(messagesOfStep);
}

function userPart({ type, text = '', url = '', mediaType = '' }: AnyPart): (LanguageModelV3TextPart | LanguageModelV3FilePart)[] {
  if (type === 'text') return [{ type, text }];
  return type === 'file' ? [{ type, mediaType, data: new URL(url) }] : [];
}

/** The parts of each step of an answer. */
function stepsOf(parts: readonly AnyPart[]): AnyPart[][] {
  const steps: AnyPart[][] = [[]];
  for (const part of parts)
    if (part.type === 'step-start') steps.push([]);
    else steps.at(-1)!.push(part);
  return steps.filter((step) => step.length > 0);
}

/** Text and calls of a step, and the results. A call without a result was stopped, and is left out. */
function messagesOfStep(step: readonly AnyPart[]): LanguageModelV3Message[] {
  const content: (LanguageModelV3TextPart | { type: 'reasoning'; text: string } | LanguageModelV3ToolCallPart)[] = [];
  const results: LanguageModelV3ToolResultPart[] = [];
  for (const part of step) {
    if (part.type === 'text' || part.type === 'reasoning') content.push({ type: part.type, text: part.text ?? '' });
    const output = outputOf(part);
    const toolName = part.type === 'dynamic-tool' ? part.toolName! : part.type.replace(/^tool-/, '');
    if (!output || part.toolCallId === undefined) continue;
    content.push({ type: 'tool-call', toolCallId: part.toolCallId, toolName, input: part.input ?? {} });
    results.push({ type: 'tool-result', toolCallId: part.toolCallId, toolName, output });
  }
  if (content.length === 0) return [];
  return [{ role: 'assistant', content }, ...(results.length > 0 ? [{ role: 'tool' as const, content: results }] : [])];
}

function outputOf({ state, output, errorText, approval }: AnyPart): LanguageModelV3ToolResultOutput | undefined {
  if (state === 'output-available')
    return typeof output === 'string' ? { type: 'text', value: output } : { type: 'json', value: (output ?? null) as JSONValue };
  if (state === 'output-error') return { type: 'error-text', value: errorText ?? '' };
  if (state === 'output-denied') return { type: 'execution-denied', ...(approval?.reason ? { reason: approval.reason } : {}) };
  return undefined;
}
