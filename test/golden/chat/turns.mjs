// Conversations of three turns, with and without tools, that native llama.cpp renders by its
// models/templates.
const user = (content) => ({ role: 'user', content });
const assistant = (content, more = {}) => ({ role: 'assistant', content, ...more });
const system = (content) => ({ role: 'system', content });
const tool = (tool_call_id, name, content) => ({ role: 'tool', tool_call_id, name, content });
const call = (id, name, text) => ({ id, type: 'function', function: { name, arguments: text } });

export const tools = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'The weather of a city',
      parameters: {
        type: 'object',
        properties: {
          city: { type: 'string', description: 'Its name' },
          days: { type: 'integer', description: 'How many days ahead' },
          unit: { type: 'string', enum: ['celsius', 'fahrenheit'], description: 'Of the temperature' },
        },
        required: ['city'],
      },
    },
  },
  {
    type: 'function',
    function: {
      name: 'note',
      description: 'Keeps a note for later',
      parameters: {
        type: 'object',
        properties: {
          text: { type: 'string', description: 'What to keep' },
          tags: { type: 'array', items: { type: 'string' }, description: 'Words to find it by' },
          at: { type: 'object', additionalProperties: { type: 'integer' }, description: 'Where' },
          urgent: { type: 'boolean', description: 'Needs an answer' },
        },
        required: ['text'],
      },
    },
  },
];

const three = [
  user('Hello'),
  assistant('Hi there'),
  user('Who are you?'),
  assistant('An assistant'),
  user('Is 1 < 2 & "so" on, Größe 数?'),
];
const called = [
  user('How cold is it?'),
  assistant('', { tool_calls: [call('abcdefgh1', 'get_weather', '{"city": "Oslo", "days": 3}')] }),
  tool('abcdefgh1', 'get_weather', '{"temperature": -3}'),
  assistant('It is cold.'),
  user('Note it.'),
  assistant('', {
    tool_calls: [call('abcdefgh2', 'note', '{"text": "Oslo:\\n\\"cold\\"", "tags": ["a", "b"], "at": {"page": 1}, "urgent": true}')],
  }),
  tool('abcdefgh2', 'note', 'done'),
  assistant('Noted.'),
  user('Thanks'),
];
const oslo = call('abcdefgh1', 'get_weather', '{"city": "Oslo"}');
const rome = call('abcdefgh2', 'get_weather', '{"city": "Rome"}');

/**
 * By name: messages, tools offered, words that a rendering must have (said), words that a template
 * may drop by its own rules (mayLack).
 */
export const conversations = {
  'three turns': { messages: three, said: ['Hi there', 'An assistant'] },
  'with a system message': { messages: [system('You are a helper.'), ...three], said: ['You are a helper.'] },
  'with tools': { messages: three, tools, said: ['Keeps a note'] },
  'with a system message and tools': {
    messages: [system('You are a helper.'), ...three],
    tools,
    said: ['You are a helper.', 'Keeps a note'],
  },
  'three turns with calls': { messages: called, tools, said: ['Keeps a note', 'Oslo', 'It is cold.', 'page', 'done'] },
  'an open call': { messages: called.slice(0, 3), tools, said: ['Keeps a note', 'Oslo', '-3'] },
  'two calls at once': {
    messages: [
      user('Weather in both?'),
      assistant('', { tool_calls: [oslo, rome] }),
      tool('abcdefgh1', 'get_weather', 'snow'),
      tool('abcdefgh2', 'get_weather', 'rain'),
    ],
    tools,
    said: ['Keeps a note', 'Oslo', 'Rome', 'snow', 'rain'],
  },
  'a call beside content': {
    messages: [user('Weather?'), assistant('I look.', { tool_calls: [oslo] }), tool('abcdefgh1', 'get_weather', 'snow')],
    tools,
    said: ['Keeps a note', 'Oslo', 'snow'],
    mayLack: ['I look.'],
  },
  reasoning: {
    messages: [
      user('Hello'),
      assistant('Hi there', { reasoning_content: 'They greet me.' }),
      user('Weather?'),
      assistant('', { reasoning_content: 'I need the tool.', tool_calls: [oslo] }),
      tool('abcdefgh1', 'get_weather', 'snow'),
    ],
    tools,
    said: ['Hi there', 'Oslo', 'snow', 'Keeps a note'],
  },
};
