import { loadModel } from 'quantlet';
import { chatTransport } from 'quantlet/ai-sdk';
import { z } from 'zod';

/** A store of the download's progress, for useSyncExternalStore. */
function createProgress() {
  let value;
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      value = next;
      for (const listener of listeners) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Tools run in the page. Their input is checked with the schema. */
const tools = {
  page_color: {
    description: 'Sets the background colour of the page',
    inputSchema: z.object({ color: z.enum(['white', 'beige', 'lavender', 'honeydew']) }),
    execute({ color }) {
      document.body.style.background = color;
      return `The page is ${color} now.`;
    },
  },
};

/** The transport of the chat, and the progress of its model, which is loaded for the first message. */
export function createChatModel(source) {
  const progress = createProgress();
  const load = async () => {
    try {
      return await loadModel(source, { contextLength: 4096, onProgress: progress.set });
    } finally {
      progress.set(undefined);
    }
  };
  const transport = chatTransport(load, {
    system: 'Answer in one or two sentences.',
    maxTokens: 300,
    tools,
    templateVariables: { enable_thinking: false },
    onContextFull: 'shift',
    messageMetadata: ({ timings: { predictedTokens, predictedMs } }) => ({ tokensPerSecond: (predictedTokens * 1000) / predictedMs }),
  });
  return { transport, progress };
}
