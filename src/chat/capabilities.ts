/** Detection of a chat template's capabilities. */
import { QuantletError } from '../errors.ts';
import type { ChatTool } from './messages.ts';

/**
 * Capabilities of a chat template. As in llama.cpp, they are found by rendering small
 * conversations.
 */
export interface ChatCapabilities {
  /** Writes the system message. */
  readonly systemRole: boolean;
  /** Roles of the last message with which the system message is still written. */
  readonly systemBefore: readonly PrecedingRole[];
  /** Roles after which a further system message is written too, and nothing else is lost. */
  readonly systemAfter: readonly PrecedingRole[];
  /**
   * Handles the role `developer`: its messages are written differently from those of `system` or an
   * unknown role, and none is lost.
   */
  readonly developerRole: boolean;
  /** Writes the descriptions of tools. */
  readonly tools: boolean;
  /** Writes an assistant's tool calls. */
  readonly toolCalls: boolean;
  /** Writes several calls of one message. */
  readonly parallelToolCalls: boolean;
  /** Writes both the calls and the content of one message while the calls are being answered. */
  readonly callsBesideContent: boolean;
  /** Also writes both for messages of earlier turns. */
  readonly callsBesideContentEarlier: boolean;
  /** Writes calls that only the header of an answer follows. */
  readonly callsAtEnd: boolean;
  /** Writes a result even if another message stands between it and its call. */
  readonly lateResults: boolean;
  /** Writes a result whose call is not in the conversation. */
  readonly strayResults: boolean;
  /** Writes calls and results with repeated ids in the same way as those with distinct ids. */
  readonly repeatedIds: boolean;
  /** Accepts an empty assistant message. */
  readonly emptyAnswer: boolean;
  /** Writes messages of role `tool`. */
  readonly toolResults: boolean;
  /** Wants `function.arguments` as an object, not as JSON text. */
  readonly objectArguments: boolean;
  /** Wants `content: null`, not an empty string, next to tool calls. */
  readonly nullContent: boolean;
  /** Wants content as a list of parts. */
  readonly typedContent: boolean;
  /** Roles whose content it accepts as a list of text parts, which it joins itself. */
  readonly textParts: readonly PrecedingRole[];
  /** Roles whose messages it writes with the speaker's name (`name`). */
  readonly names: readonly PrecedingRole[];
  /** Refuses or loses one of two consecutive messages of the user, or of the assistant. */
  readonly alternates: boolean;
  /**
   * Content of an assistant message that must be inserted between a tool's result and a user
   * message; null if not needed.
   */
  readonly toolAnswer: string | null;
  /** Refuses or loses one of two assistant messages with a call and its result between them. */
  readonly oneAnswer: boolean;
  /** Refuses or loses an assistant message without a user message before it. */
  readonly userFirst: boolean;
  /** Refuses or loses messages of a conversation without a user message. */
  readonly needsUser: boolean;
  /** Value to pass as `tools` for a conversation without tools. */
  readonly noTools: 'undefined' | 'null' | 'empty';
}

/** Roles of messages, except `developer`. */
export type PrecedingRole = 'system' | 'user' | 'assistant' | 'tool';

/** Renders with the variables of {@link probe}. Errors of the template are thrown. */
export type RawRender = (variables: Readonly<Record<string, unknown>>) => string;

const tool: ChatTool = {
  type: 'function',
  function: {
    name: 'probe_tool',
    description: 'Tool of a probe',
    parameters: { type: 'object', properties: { probe_key: { type: 'string', description: 'A key' } }, required: ['probe_key'] },
  },
};

const say = (role: string, content: Content = `probe_${role}`): Message => ({ role, content });
const system = say('system');
const later = say('system', 'probe_later');
const user = say('user');
const assistant = say('assistant', 'probe_answer');
const next = say('user', 'probe_next');

type Content = string | null | readonly TextPart[];
interface Message {
  readonly role: string;
  readonly content: Content;
  readonly [field: string]: unknown;
}

/** A part of a message's content. */
export interface TextPart {
  readonly type: 'text';
  readonly text: string;
}

/** Content as a list, for templates that know only parts. */
export const asPart = (text: string): TextPart[] => [{ type: 'text', text }];

function toolTurn(objectArguments: boolean, content: string | null, values: readonly string[]): Message[] {
  const calls = values.map((value, i) => ({
    id: `probe000${i}`,
    type: 'function',
    function: { name: 'probe_tool', arguments: objectArguments ? { probe_key: value } : `{"probe_key": "${value}"}` },
  }));
  const results = values.map((value, i) => ({ ...say('tool', `result_${value}`), tool_call_id: `probe000${i}`, name: 'probe_tool' }));
  return [user, { role: 'assistant', content, tool_calls: calls }, ...results];
}

/**
 * Finds the capabilities of a template by rendering alone. A template that fails on every rendering
 * gets the capabilities of a plain one, and throws when it is used.
 *
 * @param render renders `{ messages, tools, add_generation_prompt }` plus the variables that every
 * rendering gets
 * @returns the capabilities and, if it supports tool calls, the rendering of one (which shows the
 * syntax of calls)
 */
export function probe(render: RawRender): { capabilities: ChatCapabilities; sample: string } {
  const plain = (messages: readonly Message[], tools: unknown): string => {
    try {
      return render({ messages: structuredClone(messages), add_generation_prompt: true, ...(tools === undefined ? {} : { tools }) });
    } catch (error) {
      // A template that exceeded its budget is not rendered again.
      if (error instanceof QuantletError) throw error;
      return '';
    }
  };
  const { none, noTools, typedContent } = findShape(plain);
  const attempt = (messages: readonly Message[], tools: unknown = none): string =>
    plain(typedContent ? messages.map(inParts) : messages, tools);
  const tools = attempt([user], [tool]).includes('probe_tool');
  const available = tools ? [tool] : none;
  const best = findCalls((messages) => attempt(messages, available));
  const turn = (...values: readonly string[]): Message[] => toolTurn(best.objectArguments, best.nullContent ? null : '', values);
  const two = attempt(turn('probe_first', 'probe_second'), available);
  /** Tells if every message is written, with tools and without. */
  const writes = (...messages: readonly Message[]): boolean =>
    [...new Set([none, available])].every((offered) => {
      const text = attempt(messages, offered);
      const words = messages.flatMap(({ content }) => wordsOf(content));
      return [...words, ...(offered === available && tools ? ['probe_tool'] : [])].every((word) => text.includes(word));
    });
  // If a template writes results but no calls, it gets calls as text.
  const result = turn('probe_value').at(-1)!;
  const called = !best.results ? undefined : best.calls ? turn('probe_value') : [user, assistant, result];
  const said = toolTurn(best.objectArguments, 'probe_said', ['probe_value']);
  /** Tells if content next to calls is written, and each call that another message follows. */
  const besides = (...conversations: readonly (readonly Message[])[]): boolean =>
    conversations.every((messages) => {
      const text = attempt(messages, available);
      return text.includes('probe_said') && (messages.length === 2 || shows(text, 'probe_value'));
    });
  const stray = { ...say('tool', 'result_probe_value'), tool_call_id: 'probe0000' };
  const systemRole = attempt([system, user, assistant, next]).includes('probe_system');
  return {
    sample: best.calls ? best.text : '',
    capabilities: {
      systemRole,
      systemBefore: systemRole ? findEnds(writes, called) : [],
      systemAfter: systemRole ? findSystem(writes, called) : [],
      developerRole: findDeveloper(attempt, writes),
      tools,
      toolCalls: best.calls,
      parallelToolCalls:
        best.calls &&
        ['probe_first', 'probe_second'].every((value) => shows(two, value) && (!best.results || two.includes(`result_${value}`))),
      callsBesideContent: !best.calls || besides(said.slice(0, 2), ...(best.results ? [said] : [])),
      callsBesideContentEarlier: !best.calls || !best.results || besides([...said, assistant, next]),
      callsAtEnd: !best.calls || shows(attempt(turn('probe_value').slice(0, 2), available), 'probe_value'),
      lateResults: !called || writes(...called.slice(0, -1), next, result),
      strayResults:
        !called ||
        [
          [stray, next],
          [stray, assistant, next],
          [user, assistant, stray],
        ].every((messages) => writes(...messages)),
      repeatedIds: !called || !best.calls || keepsRepeatedIds(attempt, called, available),
      emptyAnswer: writes(user, say('assistant', ''), next),
      toolResults: best.results,
      objectArguments: best.objectArguments,
      nullContent: best.nullContent,
      typedContent,
      textParts: findParts(attempt, called, available),
      names: findNames(attempt),
      alternates: !(writes(say('user', 'probe_before'), user) && writes(user, say('assistant', 'probe_before'), assistant, next)),
      toolAnswer: called && !writes(...called, next) ? findAnswer(writes, called) : null,
      oneAnswer: called !== undefined && best.calls && !writes(user, say('assistant', 'probe_before'), ...called.slice(1), assistant, next),
      userFirst: !writes(assistant, user),
      needsUser: systemRole && !writes(system),
      noTools,
    },
  };
}

const inParts = (message: Message): Message =>
  typeof message.content === 'string' ? { ...message, content: asPart(message.content) } : message;

const wordsOf = (content: Content): string[] => (typeof content === 'string' ? [content] : (content ?? []).map(({ text }) => text));

/**
 * Finds the value of `tools` for conversations without tools, and if content must be a list of
 * parts.
 */
function findShape(
  plain: (messages: readonly Message[], tools: unknown) => string,
): { none: unknown } & Pick<ChatCapabilities, 'noTools' | 'typedContent'> {
  const kinds = ['undefined', 'null', 'empty'] as const;
  const values = { undefined, null: null, empty: [] };
  for (const typedContent of [false, true])
    for (const noTools of kinds)
      if (plain([typedContent ? inParts(user) : user], values[noTools]).includes('probe_user'))
        return { none: values[noTools], noTools, typedContent };
  return { none: undefined, noTools: 'undefined', typedContent: false };
}

/**
 * Finds the form of calls in which the template keeps arguments intact (not a string in a string,
 * nor a Python dictionary) and writes results. Without one, prefers one with intact calls,
 * then one with results.
 */
function findCalls(attempt: (messages: readonly Message[]) => string) {
  const write = (objectArguments: boolean, nullContent: boolean) => {
    const text = attempt(toolTurn(objectArguments, nullContent ? null : '', ['probe_value']));
    const harmed = /\\"probe_key|\\u0022probe_key|'probe_key': 'probe_|\{\s*\{\s*"probe_key/.test(text);
    const results = text.includes('result_probe_value');
    return { objectArguments, nullContent, text, calls: shows(text, 'probe_value') && !harmed, results };
  };
  const scored = [false, true].flatMap((nullContent) => {
    const [asText, asObject] = [write(false, nullContent), write(true, nullContent)];
    // If both give the same output, use text. It keeps the arguments as the model wrote them, and
    // thus the prefix of the next prompt.
    return asText.text === asObject.text ? [asText] : [asObject, asText];
  });
  return (
    scored.find((form) => form.calls && form.results) ??
    scored.find((form) => form.calls) ??
    scored.find((form) => form.results) ??
    scored[0]
  );
}

type Writes = (...messages: readonly Message[]) => boolean;

/** Finds the roles of a last message that keep the system message in the prompt. */
function findEnds(writes: Writes, called: readonly Message[] | undefined): PrecedingRole[] {
  const ends: readonly (readonly Message[])[] = [[system], [system, user], [system, user, assistant], called ? [system, ...called] : []];
  return ends.filter((messages) => messages.length > 0 && writes(...messages)).map((messages) => messages.at(-1)!.role as PrecedingRole);
}

/**
 * The shortest answer after which a user message is accepted. Some templates refuse an empty one;
 * coding agents send 'Done.' to these.
 */
const findAnswer = (writes: Writes, called: readonly Message[]): string =>
  ['', ' ', 'Done.'].find((answer) => writes(...called, say('assistant', answer), next)) ?? '';

/**
 * Finds the roles after which a system message is written, both with and without another one at the
 * start.
 */
function findSystem(writes: Writes, called: readonly Message[] | undefined): PrecedingRole[] {
  const conversations: Record<PrecedingRole, readonly (readonly Message[])[]> = {
    system: [
      [system, later, user],
      [system, later, user, assistant, next],
    ],
    user: [
      [user, later],
      [user, later, next],
      [user, later, assistant, next],
    ],
    assistant: [
      [user, assistant, later],
      [user, assistant, later, next],
    ],
    tool: called
      ? [
          [...called, later],
          [...called, later, next],
          [...called, later, assistant, next],
        ]
      : [],
  };
  const keeps = (role: PrecedingRole): boolean =>
    conversations[role].length > 0 &&
    conversations[role].every((messages) => writes(...messages) && (role === 'system' || writes(system, ...messages)));
  return (Object.keys(conversations) as PrecedingRole[]).filter(keeps);
}

/**
 * True if `developer` messages are written in a way of their own. A template that writes any role
 * by its name, as ChatML does, would write a turn that its model has never seen. If it writes the
 * same as for `system`, that role is used.
 */
function findDeveloper(attempt: (messages: readonly Message[]) => string, writes: Writes): boolean {
  const asRole = (role: string): string => attempt([say(role, 'probe_later'), user, assistant, next]);
  const own = asRole('developer');
  const developer = say('developer', 'probe_later');
  return (
    own !== asRole('probe_role').replaceAll('probe_role', 'developer') &&
    own !== asRole('system') &&
    [
      [developer, user],
      [system, developer, user],
      [user, developer],
      [user, assistant, developer, next],
    ].every((messages) => writes(...messages))
  );
}

/** Finds the roles whose text parts are written as text, not as data. */
function findParts(
  attempt: (messages: readonly Message[], tools?: unknown) => string,
  called: readonly Message[] | undefined,
  available: unknown,
): PrecedingRole[] {
  const content = [...asPart('probe_one'), ...asPart('probe_two')];
  const conversations: Record<PrecedingRole, readonly Message[]> = {
    system: [say('system', content), user],
    user: [say('user', content)],
    assistant: [user, say('assistant', content), next],
    tool: called ? [...called.slice(0, -1), { ...called.at(-1)!, content }] : [],
  };
  return (Object.keys(conversations) as PrecedingRole[]).filter((role) => {
    const text = conversations[role].length > 0 ? attempt(conversations[role], role === 'tool' ? available : undefined) : '';
    return text.includes('probe_one') && text.includes('probe_two') && !/["']type["']/.test(text);
  });
}

/** Finds the roles whose `name` is written. */
function findNames(attempt: (messages: readonly Message[]) => string): PrecedingRole[] {
  const conversations: Partial<Record<PrecedingRole, readonly Message[]>> = {
    system: [{ ...system, name: 'probe_name' }, user],
    user: [{ ...user, name: 'probe_name' }],
    assistant: [user, { ...assistant, name: 'probe_name' }, next],
  };
  return (Object.keys(conversations) as PrecedingRole[]).filter((role) => attempt(conversations[role]!).includes('probe_name'));
}

/**
 * Tells if a call that reuses an earlier call's id, with its result, is written as with a new id.
 * Tries this in the same turn and a turn later.
 */
function keepsRepeatedIds(
  attempt: (messages: readonly Message[], tools: unknown) => string,
  called: readonly Message[],
  available: unknown,
): boolean {
  const [, calls, result] = called;
  const [first] = calls.tool_calls as readonly { readonly id: string; readonly function: { readonly name: string } }[];
  const again = (id: string, name: string | undefined): Message[] => [
    { ...calls, tool_calls: [{ ...first, id, function: { ...first.function, name: 'probe_other' } }] },
    { ...result, tool_call_id: id, name, content: 'result_probe_again' },
  ];
  const unnamed = [...called.slice(0, -1), { ...result, name: undefined }];
  return [called, unnamed].every((before, i) =>
    [[], [assistant, next]].every((between) => {
      const write = (id: string): string => attempt([...before, ...between, ...again(id, i === 0 ? 'probe_other' : undefined)], available);
      return write(first.id) === write('probe0008').replaceAll('probe0008', first.id);
    }),
  );
}

/** Tells if a call's value is in the text, not counting the result that contains it too. */
function shows(text: string, value: string): boolean {
  return text.replaceAll(`result_${value}`, '').includes(value);
}
