/** What a chat template can write, found by rendering small conversations with it. */
import { QuantletError } from '../errors.ts';
import type { ChatTool } from './messages.ts';

/** What a chat template can express, found by rendering small conversations, as llama.cpp finds it. */
export interface ChatCapabilities {
  /** Writes the system message. */
  readonly systemRole: boolean;
  /** Writes the descriptions of tools. */
  readonly tools: boolean;
  /** Writes an assistant's tool calls. */
  readonly toolCalls: boolean;
  /** Writes several calls of one message. */
  readonly parallelToolCalls: boolean;
  /** Writes calls also where their message has content. */
  readonly callsBesideContent: boolean;
  /** Writes messages of role `tool`. */
  readonly toolResults: boolean;
  /** Wants `function.arguments` as an object, not as JSON text. */
  readonly objectArguments: boolean;
  /** Wants `content: null`, not an empty string, beside tool calls. */
  readonly nullContent: boolean;
  /** Wants content as a list of parts. */
  readonly typedContent: boolean;
  /** Refuses or loses one of two user messages in a row. */
  readonly alternates: boolean;
  /** What to give as `tools` where there are none. */
  readonly noTools: 'undefined' | 'null' | 'empty';
}

/** Renders with the variables of {@link probe}; throws where the template does. */
export type RawRender = (variables: Readonly<Record<string, unknown>>) => string;

const tool: ChatTool = {
  type: 'function',
  function: {
    name: 'probe_tool',
    description: 'Tool of a probe',
    parameters: { type: 'object', properties: { probe_key: { type: 'string', description: 'A key' } }, required: ['probe_key'] },
  },
};

const user = { role: 'user', content: 'probe_user' };
const assistant = { role: 'assistant', content: 'probe_answer' };

function toolTurn(objectArguments: boolean, content: string | null, values: readonly string[]): object[] {
  const calls = values.map((value, i) => ({
    id: `probe000${i}`,
    type: 'function',
    function: { name: 'probe_tool', arguments: objectArguments ? { probe_key: value } : `{"probe_key": "${value}"}` },
  }));
  const results = values.map((value, i) => ({
    role: 'tool',
    tool_call_id: `probe000${i}`,
    name: 'probe_tool',
    content: `result_${value}`,
  }));
  return [user, { role: 'assistant', content, tool_calls: calls }, ...results];
}

/**
 * Finds out what a template supports. Rendering is all it does, so a template that cannot be rendered at all has the
 * capabilities of a plain one and throws when it is used.
 *
 * @param render renders `{ messages, tools, add_generation_prompt }` plus the variables that every rendering gets
 * @returns the capabilities and, where it supports tool calls, the rendering of one (which shows the syntax of calls)
 */
export function probe(render: RawRender): { capabilities: ChatCapabilities; sample: string } {
  const attempt = (messages: readonly object[], tools?: unknown): string => {
    try {
      return render({ messages: structuredClone(messages), add_generation_prompt: true, ...(tools === undefined ? {} : { tools }) });
    } catch (error) {
      // One that never ends is not asked again.
      if (error instanceof QuantletError) throw error;
      return '';
    }
  };
  const noTools =
    attempt([user]) !== '' ? 'undefined' : attempt([user], null) !== '' ? 'null' : attempt([user], []) !== '' ? 'empty' : 'undefined';
  const none = noTools === 'undefined' ? undefined : noTools === 'null' ? null : [];
  const typed = [{ role: 'user', content: [{ type: 'text', text: 'probe_user' }] }];
  const tools = attempt([user], [tool]).includes('probe_tool');
  const available = tools ? [tool] : none;

  // The first way to write a call that comes out with its arguments unharmed (not as a string in a string, nor as Python writes a dictionary) and its result.
  const write = (objectArguments: boolean, nullContent: boolean) => {
    const text = attempt(toolTurn(objectArguments, nullContent ? null : '', ['probe_value']), available);
    const harmed = /\\"probe_key|\\u0022probe_key|'probe_key': 'probe_|\{\s*\{\s*"probe_key/.test(text);
    return {
      objectArguments,
      nullContent,
      text,
      calls: shows(text, 'probe_value') && !harmed,
      results: text.includes('result_probe_value'),
    };
  };
  const scored = [false, true].flatMap((nullContent) => {
    const [asText, asObject] = [write(false, nullContent), write(true, nullContent)];
    // Where both are the same, text keeps arguments as the model wrote them, and with them the prefix of the next prompt.
    return asText.text === asObject.text ? [asText] : [asObject, asText];
  });
  const best =
    scored.find((way) => way.calls && way.results) ?? scored.find((way) => way.calls) ?? scored.find((way) => way.results) ?? scored[0];
  const two = attempt(toolTurn(best.objectArguments, best.nullContent ? null : '', ['probe_first', 'probe_second']), available);
  const twoUsers = attempt([{ role: 'user', content: 'probe_before' }, user], none);
  const typedContent = !attempt([user], none).includes('probe_user') && attempt(typed, none).includes('probe_user');
  const system = { role: 'system', content: typedContent ? [{ type: 'text', text: 'probe_system' }] : 'probe_system' };
  return {
    sample: best.calls ? best.text : '',
    capabilities: {
      systemRole: attempt([system, user, assistant, user], none).includes('probe_system'),
      tools,
      toolCalls: best.calls,
      parallelToolCalls:
        best.calls &&
        ['probe_first', 'probe_second'].every((value) => shows(two, value) && (!best.results || two.includes(`result_${value}`))),
      callsBesideContent:
        !best.calls || shows(attempt(toolTurn(best.objectArguments, 'probe_said', ['probe_value']), available), 'probe_value'),
      toolResults: best.results,
      objectArguments: best.objectArguments,
      nullContent: best.nullContent,
      typedContent,
      alternates: !(twoUsers.includes('probe_before') && twoUsers.includes('probe_user')),
      noTools,
    },
  };
}

/** Is a value of a call in the text, apart from the result that holds it too? */
function shows(text: string, value: string): boolean {
  return text.replaceAll(`result_${value}`, '').includes(value);
}
