import type { ChatMessage, ChatTool } from '../../src/chat/messages.ts';

const say =
  (role: string) =>
  (content: string): ChatMessage => ({ role, content });
const [system, developer, user, assistant] = ['system', 'developer', 'user', 'assistant'].map(say);

export const weather: ChatTool = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Weather of a city',
    parameters: { type: 'object', properties: { city: { type: 'string', description: 'Name' } }, required: ['city'] },
  },
};
const called: readonly ChatMessage[] = [
  user('FIRST-QUESTION'),
  {
    role: 'assistant',
    content: '',
    tool_calls: [{ id: 'abcdefgh1', type: 'function', function: { name: 'get_weather', arguments: '{"city": "OSLO-CALL"}' } }],
  },
  { role: 'tool', tool_call_id: 'abcdefgh1', name: 'get_weather', content: 'SNOW-RESULT' },
];

/** A message with calls, and optionally with text. */
const calls = (content: string, ...cities: readonly string[]): ChatMessage => ({
  role: 'assistant',
  content,
  tool_calls: cities.map((city) => ({
    id: idOf(city),
    type: 'function',
    function: { name: 'get_weather', arguments: `{"city": "${city}"}` },
  })),
});
const result = (city: string, content: string): ChatMessage => ({ role: 'tool', tool_call_id: idOf(city), name: 'get_weather', content });
const idOf = (city: string): string => city.replace(/\W/g, '').toLowerCase().padEnd(9, '0').slice(0, 9);
/** A message without ids of calls. */
const withoutIds = ({ tool_call_id: _, tool_calls, ...message }: ChatMessage): ChatMessage => ({
  ...message,
  ...(tool_calls ? { tool_calls: tool_calls.map(({ id: _, ...call }) => call) } : {}),
});
/**
 * The same message with one id for all calls, as from servers that restart their count in each
 * answer or give no ids.
 */
const oneId = ({ tool_calls, ...message }: ChatMessage): ChatMessage => ({
  ...message,
  ...(tool_calls ? { tool_calls: tool_calls.map((call) => ({ ...call, id: 'abcdefgh1' })) } : {}),
  ...(message.tool_call_id === undefined ? {} : { tool_call_id: 'abcdefgh1' }),
});
const question = user('FIRST-QUESTION');
const twoTurns: readonly ChatMessage[] = [
  question,
  calls('', 'OSLO-CALL'),
  result('OSLO-CALL', 'SNOW-RESULT'),
  assistant('FIRST-ANSWER'),
  user('SECOND-QUESTION'),
  calls('', 'BERN-CALL'),
  result('BERN-CALL', 'RAIN-RESULT'),
];
const twoRounds = twoTurns.filter(({ content }) => content !== 'FIRST-ANSWER' && content !== 'SECOND-QUESTION');
const twoAtOnce: readonly ChatMessage[] = [
  question,
  calls('', 'OSLO-CALL', 'BERN-CALL'),
  result('OSLO-CALL', 'SNOW-RESULT'),
  result('BERN-CALL', 'RAIN-RESULT'),
];

/** Orders of roles that clients send, by name. Every word in capitals must be in the prompt. */
export const orders: Readonly<Record<string, readonly ChatMessage[]>> = {
  'system, user': [system('FIRST-SYSTEM'), user('FIRST-QUESTION')],
  'system alone': [system('FIRST-SYSTEM')],
  'developer, user': [developer('FIRST-DEVELOPER'), user('FIRST-QUESTION')],
  'system, developer, user': [system('FIRST-SYSTEM'), developer('FIRST-DEVELOPER'), user('FIRST-QUESTION')],
  'system, system, user': [system('FIRST-SYSTEM'), system('SECOND-SYSTEM'), user('FIRST-QUESTION')],
  'system, user, system': [system('FIRST-SYSTEM'), user('FIRST-QUESTION'), system('SECOND-SYSTEM')],
  'user, system': [user('FIRST-QUESTION'), system('SECOND-SYSTEM')],
  'user, system, assistant, user': [user('FIRST-QUESTION'), system('SECOND-SYSTEM'), assistant('FIRST-ANSWER'), user('SECOND-QUESTION')],
  'system, user, assistant, system, user': [
    system('FIRST-SYSTEM'),
    user('FIRST-QUESTION'),
    assistant('FIRST-ANSWER'),
    system('SECOND-SYSTEM'),
    user('SECOND-QUESTION'),
  ],
  'user, assistant, system, user': [user('FIRST-QUESTION'), assistant('FIRST-ANSWER'), system('SECOND-SYSTEM'), user('SECOND-QUESTION')],
  'user, assistant, developer, user': [
    user('FIRST-QUESTION'),
    assistant('FIRST-ANSWER'),
    developer('SECOND-DEVELOPER'),
    user('SECOND-QUESTION'),
  ],
  'user, user': [user('FIRST-QUESTION'), user('SECOND-QUESTION')],
  'user, assistant, assistant, user': [
    user('FIRST-QUESTION'),
    assistant('FIRST-ANSWER'),
    assistant('SECOND-ANSWER'),
    user('SECOND-QUESTION'),
  ],
  'assistant, user': [assistant('FIRST-ANSWER'), user('FIRST-QUESTION')],
  'system, assistant, user': [system('FIRST-SYSTEM'), assistant('FIRST-ANSWER'), user('FIRST-QUESTION')],
  'system, user, call, result': [system('FIRST-SYSTEM'), ...called],
  'an id again a turn later': twoTurns.map(oneId),
  'an id again in the next round': twoRounds.map(oneId),
  'one id for two calls': twoAtOnce.map(oneId),
  'one id for two calls, twice': [...twoAtOnce, assistant('FIRST-ANSWER'), user('SECOND-QUESTION'), ...twoAtOnce.slice(1)].map(oneId),
  'user, call, result, user': [...called, user('SECOND-QUESTION')],
  'user, call, result, system': [...called, system('SECOND-SYSTEM')],
  'system, user, call, result, system, user': [system('FIRST-SYSTEM'), ...called, system('SECOND-SYSTEM'), user('SECOND-QUESTION')],
  'user, call, result, assistant, user': [...called, assistant('FIRST-ANSWER'), user('SECOND-QUESTION')],
  'user, call': [question, calls('', 'OSLO-CALL')],
  'user, calls': [question, calls('', 'OSLO-CALL', 'BERN-CALL')],
  'user, calls, a result': [question, calls('', 'OSLO-CALL', 'BERN-CALL'), result('OSLO-CALL', 'SNOW-RESULT')],
  'system, user, assistant, user, call': [
    system('FIRST-SYSTEM'),
    question,
    assistant('FIRST-ANSWER'),
    user('SECOND-QUESTION'),
    calls('', 'OSLO-CALL'),
  ],
  'user, call beside content': [question, calls('FIRST-WORDS', 'OSLO-CALL')],
  'user, call beside content, result': [question, calls('FIRST-WORDS', 'OSLO-CALL'), result('OSLO-CALL', 'SNOW-RESULT')],
  'user, calls beside content, results': [
    question,
    calls('FIRST-WORDS', 'OSLO-CALL', 'BERN-CALL'),
    result('OSLO-CALL', 'SNOW-RESULT'),
    result('BERN-CALL', 'RAIN-RESULT'),
  ],
  'user, call beside content, result, call beside content, result': [
    question,
    calls('FIRST-WORDS', 'OSLO-CALL'),
    result('OSLO-CALL', 'SNOW-RESULT'),
    calls('SECOND-WORDS', 'BERN-CALL'),
    result('BERN-CALL', 'RAIN-RESULT'),
  ],
  'user, call, result, call beside content': [...called, calls('SECOND-WORDS', 'BERN-CALL')],
  'user, call beside content, result, user': [
    question,
    calls('FIRST-WORDS', 'OSLO-CALL'),
    result('OSLO-CALL', 'SNOW-RESULT'),
    user('SECOND-QUESTION'),
  ],
  'user, call beside content, result, assistant, user': [
    question,
    calls('FIRST-WORDS', 'OSLO-CALL'),
    result('OSLO-CALL', 'SNOW-RESULT'),
    assistant('FIRST-ANSWER'),
    user('SECOND-QUESTION'),
  ],
  'user, call, user': [question, calls('FIRST-WORDS', 'OSLO-CALL'), user('SECOND-QUESTION')],
  'user, calls, results in another order': [
    question,
    calls('', 'OSLO-CALL', 'BERN-CALL'),
    result('BERN-CALL', 'RAIN-RESULT'),
    result('OSLO-CALL', 'SNOW-RESULT'),
  ],
  'user, calls, a result, user': [
    question,
    calls('', 'OSLO-CALL', 'BERN-CALL'),
    result('BERN-CALL', 'RAIN-RESULT'),
    user('SECOND-QUESTION'),
  ],
  'user, call, result, user, without ids': [
    question,
    ...[calls('', 'OSLO-CALL'), result('OSLO-CALL', 'SNOW-RESULT')].map(withoutIds),
    user('SECOND-QUESTION'),
  ],
  'user, call, result of another id, user': [question, calls('', 'OSLO-CALL'), result('BERN', 'SNOW-RESULT'), user('SECOND-QUESTION')],
  'user, call, user, result': [question, calls('', 'OSLO-CALL'), user('SECOND-QUESTION'), result('OSLO-CALL', 'SNOW-RESULT')],
  'user, call, system, result, user': [
    question,
    calls('', 'OSLO-CALL'),
    system('SECOND-SYSTEM'),
    result('OSLO-CALL', 'SNOW-RESULT'),
    user('SECOND-QUESTION'),
  ],
  'result, user': [result('OSLO-CALL', 'SNOW-RESULT'), question].map(
    (message) => ({ ...message, name: undefined }) as unknown as ChatMessage,
  ),
  'system, result, call, result, user': [
    system('FIRST-SYSTEM'),
    result('OSLO', 'SNOW-RESULT'),
    calls('', 'BERN-CALL'),
    result('BERN-CALL', 'RAIN-RESULT'),
    question,
  ],
  'user, call, result, result of the same call, user': [
    question,
    calls('', 'OSLO-CALL'),
    result('OSLO-CALL', 'SNOW-RESULT'),
    result('OSLO-CALL', 'RAIN-RESULT'),
    user('SECOND-QUESTION'),
  ],
  'user, empty assistant, user': [question, assistant(''), user('SECOND-QUESTION')],
  'user, call, result, assistant': [...called, assistant('FIRST-ANSWER')],
  'user, assistant': [user('FIRST-QUESTION'), assistant('FIRST-ANSWER')],
};

/** The words that the prompt of a conversation must contain. */
export const wordsOf = (messages: readonly ChatMessage[]): string[] => JSON.stringify(messages).match(/[A-Z]+-[A-Z]+/g)!;
