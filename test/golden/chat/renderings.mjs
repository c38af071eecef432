// Variables of many renderings: conversations as clients and as templates expect them, with the
// switches that templates know.
import { conversations } from './turns.mjs';

const base = { bos_token: '<s>', eos_token: '</s>', add_generation_prompt: true };
const switches = {
  plain: {},
  thinking: { enable_thinking: true, thinking: true, reasoning_effort: 'high' },
  'no thinking': { enable_thinking: false, thinking: false },
  'no header': { add_generation_prompt: false },
  documents: { documents: [{ title: 'T', text: 'x' }], date_string: '1 Jan 2025', add_generation_prompt: false },
};
const parsed = (message) => ({
  ...message,
  tool_calls: message.tool_calls?.map((call) => ({
    ...call,
    function: { ...call.function, arguments: JSON.parse(call.function.arguments) },
  })),
});
const inParts = (message) =>
  typeof message.content === 'string' && message.content !== '' && message.role !== 'tool'
    ? { ...message, content: [{ type: 'text', text: message.content }] }
    : message;
const nullContent = (message) => (message.content === '' ? { ...message, content: null } : message);

/** Conversation name -> list of variables. */
export const renderings = Object.fromEntries(
  Object.entries(conversations).map(([name, { messages, tools }]) => {
    const all = [messages, messages.map(parsed), messages.map(inParts).map(parsed)].flatMap((some) =>
      Object.values(switches).map((more) => ({ ...base, messages: some, ...(tools ? { tools } : {}), ...more })),
    );
    all.push({ ...base, messages, tools: tools ?? null });
    all.push({ ...base, messages: messages.map(nullContent).map(parsed), tools: tools ?? [] });
    return [name, JSON.parse(JSON.stringify(all))];
  }),
);

if (process.argv[1] === import.meta.filename) console.log(JSON.stringify(renderings));
