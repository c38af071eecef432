import { existsSync, readFileSync, readdirSync } from 'node:fs';
import type { ChatMessage, ChatTool } from '../../src/chat/messages.ts';
import type { ChatBackend } from '../../src/chat/options.ts';
import { createChatTemplate } from '../../src/chat/template.ts';
import { letterOfByte } from '../../src/tokenize/bpe.ts';
import { createTokenizer } from '../../src/tokenize/tokenizer.ts';
import { metadataOf } from '../tokenize/fixtures.ts';

/** Short templates of our own in the common notations: what a clone without ../shared tests with. */
export const ownTemplates: Readonly<Record<string, string>> = {
  hermes: `{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools>
Answer calls as <tool_call>{"name": ..., "arguments": ...}</tool_call><|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% elif m.role != 'system' %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>
{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}`,
  llama3: `{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ 'ipython' if m.role == 'tool' else m.role }}<|end_header_id|>

{% if loop.first and tools %}Call with {"name": name, "parameters": arguments}.
{% for t in tools %}{{ t | tojson(indent=4) }}
{% endfor %}{% endif %}{% if m.tool_calls %}{% if m.tool_calls | length != 1 %}{{ raise_exception('only one call at once') }}{% endif %}{"name": "{{ m.tool_calls[0].function.name }}", "parameters": {{ m.tool_calls[0].function.arguments | tojson }}}{% else %}{{ m.content }}{% endif %}<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %}`,
  mistral: `{{ bos_token }}{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}{% for m in messages %}{% if m.role == 'tool' %}{% if m.tool_call_id | length != 9 %}{{ raise_exception('ids have 9 characters') }}{% endif %}[TOOL_RESULTS]{"call_id": "{{ m.tool_call_id }}", "content": "{{ m.content }}"}[/TOOL_RESULTS]{% elif m.tool_calls %}[TOOL_CALLS][{% for c in m.tool_calls %}{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments }}, "id": "{{ c.id }}"}{{ ', ' if not loop.last }}{% endfor %}]{{ eos_token }}{% elif m.role == 'assistant' %} {{ m.content }}{{ eos_token }}{% else %}[INST] {{ m.content }}[/INST]{% endif %}{% endfor %}`,
  gemma: `{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}
{{ m.content | trim }}<end_of_turn>
{% endfor %}{% if add_generation_prompt %}<start_of_turn>model
{% endif %}`,
  harmony: `{% if tools %}<|start|>developer<|message|>{% for t in tools %}// {{ t.function.description }}
type {{ t.function.name }} = {{ t.function.parameters | tojson }};
{% endfor %}<|end|>{% endif %}{% for m in messages %}{% if m.role == 'tool' %}<|start|>functions.{{ m.name }} to=assistant<|channel|>commentary<|message|>{{ m.content }}<|end|>{% elif m.role == 'assistant' %}{% if m.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}{% for c in m.tool_calls or [] %}<|start|>assistant<|channel|>commentary to=functions.{{ c.function.name }} <|constrain|>json<|message|>{{ c.function.arguments | tojson }}<|call|>{% endfor %}{% if m.content %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>{% endif %}{% else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}`,
  qwen3Coder: `{% if tools %}<|im_start|>system
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools>
Answer calls as <tool_call><function=name><parameter=key>value</parameter></function></tool_call><|im_end|>
{% endif %}{% for m in messages %}{% if m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% else %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}
<tool_call>
<function={{ c.function.name }}>
{% for key, value in c.function.arguments.items() %}<parameter={{ key }}>
{{ value if value is string else value | tojson }}
</parameter>
{% endfor %}</function>
</tool_call>{% endfor %}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% endif %}`,
  typed: `{% for m in messages %}<{{ m.role }}>{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}</{{ m.role }}>{% endfor %}`,
  thinking: `{% for m in messages %}<|{{ m.role }}|>{{ m.content.split('</think>')[-1].lstrip('\\n') }}{% endfor %}{% if add_generation_prompt %}<|assistant|><think>
{% endif %}`,
};

const folder = new URL('../../../shared/vocab/templates/', import.meta.url);
/** The templates of real models, where ../shared has them. */
export const realTemplates = (existsSync(folder) ? readdirSync(folder) : [])
  .filter((name) => name.endsWith('.jinja'))
  .map((name) => [name, readFileSync(new URL(name, folder), 'utf8')] as const);
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

/** Bytes, and as control tokens all that a template writes in brackets: each is one in some model. */
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

/** A conversation with `said` wherever somebody else than the program has the word. */
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
