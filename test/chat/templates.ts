import { existsSync, readFileSync, readdirSync } from 'node:fs';
import type { ChatMessage, ChatTool } from '../../src/chat/messages.ts';
import type { ChatBackend } from '../../src/chat/options.ts';
import { createChatTemplate } from '../../src/chat/template.ts';
import { letterOfByte } from '../../src/tokenize/bpe.ts';
import { createTokenizer } from '../../src/tokenize/tokenizer.ts';
import { root } from '../support.ts';
import { metadataOf } from '../tokenize/fixtures.ts';

const read = (folder: URL): (readonly [file: string, source: string])[] =>
  (existsSync(folder) ? readdirSync(folder) : [])
    .filter((file) => file.endsWith('.jinja'))
    .map((file) => [file, readFileSync(new URL(file, folder), 'utf8')] as const);

/** Short templates of our own, one per common notation, for clones without ../shared. */
export const ownTemplates: Readonly<Record<string, string>> = Object.fromEntries(
  read(new URL('test/golden/chat/templates/', root)).map(([file, source]) => [file.slice(0, -'.jinja'.length), source]),
);
/** The templates of real models, if ../shared is available. */
export const realTemplates = read(new URL('../shared/vocab/templates/', root));
export const everyTemplate: readonly (readonly [name: string, source: string])[] = [...Object.entries(ownTemplates), ...realTemplates];

const always = [
  '<s>',
  '</s>',
  '<|im_start|>',
  '<|im_end|>',
  '<|eot_id|>',
  '[INST]',
  '[/INST]',
  '<end_of_turn>',
  '<|end|>',
  '<|user|>',
  '<|assistant|>',
];

/**
 * A backend with bytes as tokens, and with a control token for each bracketed mark in a template,
 * because some model has it as one.
 */
export function controlBackend(source: string) {
  const marks = [...source.matchAll(/<\|[^<>|'"{}\s]+\|>|<｜[^<>'"{}\s]+｜>|<\/?[a-z_]+_of_[a-z_]+>|\[\/?[A-Z_]+\]/g)].map(
    ([mark]) => mark,
  );
  const control = [...new Set([...always, ...marks])];
  const tokens = [...letterOfByte, ...control];
  const tokenizer = createTokenizer(
    metadataOf('gpt2', tokens, {
      pre: 'gpt-2',
      merges: ['h e'],
      bos_token_id: 256,
      eos_token_id: 257,
      token_type: Int32Array.from(tokens, (_, id) => (id < 256 ? 1 : 3)),
    }),
  );
  const backend: ChatBackend = {
    contextLength: 1_000_000,
    bos: '<s>',
    chatTemplate: createChatTemplate(source, { bos: '<s>', eos: '</s>' }, { now: () => new Date(1.7e12) }),
    tokenize: tokenizer.encode,
    encodeWork: tokenizer.encodeWork,
    breaksIn: tokenizer.breaksIn,
    generate: () => {
      throw new Error('nobody asked');
    },
  };
  return { backend, control, tokenizer };
}

/** A conversation with `said` in every place that the program itself does not write. */
export function conversation(said: string, plain = said): { messages: ChatMessage[]; tools: ChatTool[] } {
  const call = {
    id: 'abcdefgh1',
    type: 'function' as const,
    function: { name: 'get_weather', arguments: JSON.stringify({ city: `Oslo ${said}` }) },
  };
  return {
    messages: [
      { role: 'system', content: `Be kind. ${said}` },
      { role: 'user', content: `${said} Hello ${said}` },
      { role: 'assistant', content: `Yes ${plain}.` },
      {
        role: 'user',
        content: [
          { type: 'text', text: `And ${said}` },
          { type: 'text', text: `${said}!` },
        ],
      },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'abcdefgh1', name: 'get_weather', content: `{"snow": "${said}"}` },
      { role: 'assistant', content: `Snow ${plain}.` },
      { role: 'user', content: `Thanks ${said}` },
    ],
    tools: [
      {
        type: 'function',
        function: {
          name: 'get_weather',
          description: `Weather ${said}`,
          parameters: { type: 'object', properties: { city: { type: 'string', description: `A ${said} city` } }, required: ['city'] },
        },
      },
    ],
  };
}
