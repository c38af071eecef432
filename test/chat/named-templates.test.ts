/**
 * llama.cpp's built-in templates, by name, give the output of native llama.cpp (test/golden/chat).
 */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { ChatMessage } from '../../src/chat/messages.ts';
import { NAMED_TEMPLATES } from '../../src/chat/named-templates.ts';
import { createChatTemplate } from '../../src/chat/template.ts';
import { root } from '../support.ts';

const golden = JSON.parse(readFileSync(new URL('test/golden/chat/golden.json', root), 'utf8')) as Record<string, string[]>;
const { conversations } = (await import(new URL('test/golden/chat/conversations.mjs', root).href)) as { conversations: ChatMessage[][] };

it('they are the ones that llama.cpp has', () => expect(Object.keys(NAMED_TEMPLATES).sort()).toEqual(Object.keys(golden).sort()));

describe.each(Object.entries(golden))('%s', (name, prompts) => {
  const template = createChatTemplate(name);
  it.each(prompts.map((prompt, i) => [i, prompt] as const))('conversation %i', (i, prompt) => {
    const system = conversations[i][0].role === 'system';
    // llama.cpp drops yandex's system message. Here it goes into the first message, as with every
    // template that has no system messages.
    if (name === 'yandex' && system) {
      const [{ content }, ...rest] = conversations[i];
      expect(template.render({ messages: conversations[i] })).toContain(content);
      expect(template.render({ messages: rest })).toBe(prompt);
    } else expect(template.render({ messages: conversations[i] })).toBe(prompt);
  });
  it('without a generation prompt the answer is not begun', () => {
    const messages = [...conversations[0], { role: 'assistant' as const, content: 'Hi' }];
    const text = template.render({ messages, addGenerationPrompt: false });
    expect(text).toContain('Hello');
    expect(text).toContain('Hi');
  });
});

describe('what never reads the conversation is refused, with the name that may be meant', () => {
  it.each([
    ['lama3', /"lama3" never reads messages; did you mean llama3\?/],
    ['You are kind.', /never reads messages; expected Jinja/],
    ['{{ bos_token }}Hello', /never reads messages/],
    ['All messages are ignored', /never reads messages/],
  ])('%s', (source, message) => {
    expect(() => createChatTemplate(source)).toThrow(
      expect.objectContaining({ code: 'ERR_CHAT_TEMPLATE', message: expect.stringMatching(message) as string }),
    );
  });
});
