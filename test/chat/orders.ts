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
  'user, call, result, user': [...called, user('SECOND-QUESTION')],
  'user, call, result, system': [...called, system('SECOND-SYSTEM')],
  'system, user, call, result, system, user': [system('FIRST-SYSTEM'), ...called, system('SECOND-SYSTEM'), user('SECOND-QUESTION')],
  'user, call, result, assistant, user': [...called, assistant('FIRST-ANSWER'), user('SECOND-QUESTION')],
  'user, assistant': [user('FIRST-QUESTION'), assistant('FIRST-ANSWER')],
};

/** What must be in the prompt of such a conversation. */
export const wordsOf = (messages: readonly ChatMessage[]): string[] => JSON.stringify(messages).match(/[A-Z]+-[A-Z]+/g)!;
