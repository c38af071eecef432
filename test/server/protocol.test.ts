/**
 * Every field of the protocols is read, has no effect on the answer, or is refused by name. The
 * tables are checked against the types of the official clients.
 */
import { readFileSync } from 'node:fs';
import OpenAI from 'openai';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { createHandler } from '../../src/server/handler.ts';
import {
  CHAT_FIELDS,
  COMPLETION_FIELDS,
  EMBEDDING_FIELDS,
  MESSAGE_FIELDS,
  NATIVE_FIELDS,
  RERANK_FIELDS,
  RESPONSE_FIELDS,
} from '../../src/server/protocols/protocol.ts';
import type { FieldTable } from '../../src/server/protocols/field-table.ts';
import { root } from '../support.ts';
import { scriptedBackend } from './backend.ts';

let seen = '';
const backend = scriptedBackend((prompt) => {
  seen = prompt;
  return 'ok';
});
const handler = createHandler(backend);
const post = (path: string, body: object): Promise<Response> =>
  handler(
    new Request(`http://server${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }),
  );
interface Failure {
  readonly error: { readonly message: string; readonly param: string; readonly code: string; readonly details?: object };
}
const failure = async (response: Response): Promise<Failure['error']> => ((await response.json()) as Failure).error;

const messages = [{ role: 'user', content: 'hi' }];
const chatTool = { type: 'function', function: { name: 'f', parameters: {} } };
/** Each table with a request that is answered, and an element of each of its lists. */
const endpoints: Record<string, readonly [path: string, table: FieldTable, body: object, elements: Record<string, object>]> = {
  chat: ['/v1/chat/completions', CHAT_FIELDS(), { messages }, { tools: chatTool, messages: { role: 'assistant', content: 'a' } }],
  completions: ['/v1/completions', COMPLETION_FIELDS(), { prompt: 'hi' }, {}],
  embeddings: ['/v1/embeddings', EMBEDDING_FIELDS(), { input: 'hi' }, {}],
  rerank: ['/v1/rerank', RERANK_FIELDS(), { query: 'hi', documents: ['a'] }, {}],
  responses: [
    '/v1/responses',
    RESPONSE_FIELDS(),
    { input: [{ role: 'user', content: 'hi' }] },
    { tools: { type: 'function', name: 'f', parameters: {}, tools: [{ type: 'function', name: 'g', parameters: {} }] } },
  ],
  messages: [
    '/v1/messages',
    MESSAGE_FIELDS(),
    { messages, max_tokens: 9 },
    { tools: { name: 'f', input_schema: {} }, messages: { role: 'user', content: 'a' } },
  ],
  native: ['/completion', NATIVE_FIELDS(), { prompt: 'hi' }, {}],
};

/** Puts a value into a body at a path. In a list, the value goes into the first element. */
function withField(body: object, elements: Record<string, object>, path: string, value: unknown): object {
  const [name, ...rest] = path.split('.');
  if (rest.length === 0) return { ...body, [name]: value };
  if (!name.endsWith('[]')) return { ...body, [name]: withField({}, {}, rest.join('.'), value) };
  const list = name.slice(0, -2);
  const others = (body as Record<string, object[]>)[list] ?? [];
  return { ...body, [list]: [withField(elements[list] ?? {}, {}, rest.join('.'), value), ...others] };
}

const refusals = Object.entries(endpoints).flatMap(([name, [path, table, body, elements]]) =>
  Object.entries(table).flatMap(([field, row]) => (row.fate === 'refused' ? [{ name, path, body, elements, field, row }] : [])),
);

describe('fields that are refused', () => {
  it.each(refusals)('$name: $field', async ({ path, body, elements, field, row }) => {
    const refused = await post(path, withField(body, elements, field, { other: 1 }));
    const { param, code, message } = await failure(refused);
    expect([refused.status, code]).toEqual([400, 'unsupported_parameter']);
    expect(param).toBe(field.replaceAll('[]', '[0]'));
    expect(message).toContain(`'${param}'`);
    expect(message).toContain(row.remedy);
    for (const value of [null, ...row.allowed.filter((allowed) => typeof allowed !== 'object' || Array.isArray(allowed))])
      expect([value, (await post(path, withField(body, elements, field, value))).status]).toEqual([value, 200]);
  });

  it.each<[string, object]>([
    ['context_management', { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] }],
    ['context_management', { edits: [] }],
    ['thread', { type: 'create' }],
  ])('messages: %s %j asks for nothing that is not done', async (field, value) =>
    expect((await post('/v1/messages', { messages, max_tokens: 9, [field]: value })).status).toBe(200),
  );
  it.each([{ edits: [{ type: 'clear_tool_uses_20250919' }] }, { edits: [{ type: 'clear_thinking_20251015' }] }])(
    'messages: context_management %j does',
    async (context_management) => expect((await post('/v1/messages', { messages, max_tokens: 9, context_management })).status).toBe(400),
  );
});

describe('the tables', () => {
  /** Names of an interface's properties in a client's declarations. */
  function properties(file: string, name: string): string[] {
    const path = `node_modules/${file}`;
    const source = ts.createSourceFile(path, readFileSync(new URL(path, root), 'utf8'), ts.ScriptTarget.Latest);
    const names: string[] = [];
    source.forEachChild((node) => {
      if (!ts.isInterfaceDeclaration(node) || node.name.text !== name) return;
      for (const { name: property } of node.members) if (property && ts.isIdentifier(property)) names.push(property.text);
    });
    return names;
  }

  it.each<[table: keyof typeof endpoints, file: string, name: string, prefix?: string]>([
    ['chat', 'openai/resources/chat/completions/completions.d.ts', 'ChatCompletionCreateParamsBase'],
    ['chat', 'openai/resources/chat/completions/completions.d.ts', 'ChatCompletionStreamOptions', 'stream_options.'],
    ['completions', 'openai/resources/completions.d.ts', 'CompletionCreateParamsBase'],
    ['embeddings', 'openai/resources/embeddings.d.ts', 'EmbeddingCreateParams'],
    ['responses', 'openai/resources/responses/responses.d.ts', 'ResponseCreateParamsBase'],
    ['responses', 'openai/resources/responses/responses.d.ts', 'ResponseTextConfig', 'text.'],
    ['responses', 'openai/resources/responses/input-tokens.d.ts', 'InputTokenCountParams'],
    ['responses', 'openai/resources/shared.d.ts', 'Reasoning', 'reasoning.'],
    ['messages', '@anthropic-ai/sdk/resources/messages/messages.d.ts', 'MessageCreateParamsBase'],
    ['messages', '@anthropic-ai/sdk/resources/messages/messages.d.ts', 'MessageCountTokensParams'],
    ['messages', '@anthropic-ai/sdk/resources/messages/messages.d.ts', 'OutputConfig', 'output_config.'],
    ['messages', '@anthropic-ai/sdk/resources/beta/messages/messages.d.ts', 'MessageCreateParamsBase'],
    ['messages', '@anthropic-ai/sdk/resources/beta/messages/messages.d.ts', 'MessageCountTokensParams'],
    ['messages', '@anthropic-ai/sdk/resources/beta/messages/messages.d.ts', 'BetaOutputConfig', 'output_config.'],
    ['messages', '@anthropic-ai/sdk/resources/beta/messages/messages.d.ts', 'BetaThinkingConfigEnabled', 'thinking.'],
  ])('%s has every field of %s, %s', (endpoint, file, name, prefix = '') => {
    const fields = properties(file, name);
    expect(fields.length).toBeGreaterThan(1);
    const [, table] = endpoints[endpoint];
    expect(fields.filter((field) => !Object.hasOwn(table, prefix + field))).toEqual([]);
  });
});

describe('fields of one protocol at the endpoint of another', () => {
  const generating = Object.entries(endpoints).filter(([name]) => name !== 'embeddings' && name !== 'rerank');
  /** Fields with the same meaning everywhere, and the options that they set. */
  const shared: readonly (readonly [field: object, option: string, value: unknown])[] = [
    [{ max_tokens: 2 }, 'maxTokens', 2],
    [{ max_completion_tokens: 2 }, 'maxTokens', 2],
    [{ n_predict: 2 }, 'maxTokens', 2],
    [{ stop: ['x'] }, 'stop', ['x']],
    [{ response_format: { type: 'json_object' } }, 'responseFormat', { type: 'json_object' }],
  ];
  it.each(generating)('%s reads the fields of all that generate', async (_, [path, , body]) => {
    const { max_tokens: __, ...plain } = body as { max_tokens?: number };
    for (const [field, option, value] of shared) {
      expect([field, (await post(path, { ...plain, ...field })).status]).toEqual([field, 200]);
      expect([field, backend.seen.options.at(-1)![option as 'stop']]).toEqual([field, value]);
    }
  });

  it.each(Object.entries(endpoints))('%s knows each field of every other that would change its answer', (_, [, table]) => {
    if (table === endpoints.embeddings[1] || table === endpoints.rerank[1]) return;
    // Each protocol has a conversation and a length limit of its own. Only conversations have tool
    // calls and template variables.
    const words = [
      'n',
      'stop',
      'response_format',
      'logprobs',
      'functions',
      'messages',
      'input',
      'system',
      'instructions',
      'max_tokens',
      'tools',
    ];
    expect(words.filter((field) => !Object.hasOwn(table, field))).toEqual([]);
  });

  it.each(['/v1/chat/completions', '/v1/responses', '/v1/messages'])('%s: reasoning in the words of any protocol', async (path) => {
    const template =
      '{% if enable_thinking is defined and not enable_thinking %}OFF{% endif %}{{ reasoning_effort }}|{{ messages[0].content }}';
    let prompt = '';
    const handle = createHandler(scriptedBackend((given) => ((prompt = given), 'ok'), { template }));
    const ask = async (wish: object): Promise<string> => {
      const body = { messages, input: 'hi', max_tokens: 9, ...wish } as Record<string, unknown>;
      delete body[path === '/v1/responses' ? 'messages' : 'input'];
      const response = await handle(new Request(`http://server${path}`, { method: 'POST', body: JSON.stringify(body) }));
      return response.status === 200 ? prompt : (await failure(response)).param;
    };
    expect(await ask({ reasoning_effort: 'low' })).toContain('low|');
    expect(await ask({ reasoning: { effort: 'low' } })).toContain('low|');
    for (const off of [
      { thinking: { type: 'disabled' } },
      { enable_thinking: false },
      { reasoning: { enabled: false } },
      { reasoning: { effort: 'none' } },
    ])
      expect([off, await ask(off)]).toEqual([off, expect.stringContaining('OFF|') as string]);
    for (const none of [{ reasoning_effort: '' }, { reasoning_effort: 'default' }, { reasoning: { effort: null } }])
      expect([none, await ask(none)]).toEqual([none, expect.stringMatching(/^[^]{0,3}\|hi/) as string]);
    expect(await ask({ thinking: { type: 'adaptive' } })).not.toContain('OFF');
    expect(await ask({ thinking: { type: 'sometimes' } })).toBe('thinking.type');
    expect(await ask({ thinking: { type: 'enabled', budget_tokens: 'all' } })).toBe('thinking.budget_tokens');
    expect(await ask({ reasoning: 'high' })).toBe('reasoning');
  });

  it('names fields of the request where the library would name its options', async () => {
    const tools = [chatTool];
    const choice = { type: 'function', function: { name: 'g' } };
    for (const wrong of [{ tools, tool_choice: choice }, { tool_choice: 'required' }]) {
      const { param, message } = await failure(await post('/v1/chat/completions', { messages, ...wrong }));
      expect([param, message]).toEqual(['tool_choice', expect.stringContaining("'tool_choice' asks for")]);
    }
    const begun = await failure(await post('/v1/chat/completions', { messages, continue_final_message: true }));
    expect(begun.param).toBe('continue_final_message');
  });

  it('/completion: `logprobs` is another name of `n_probs`', async () => {
    const response = await post('/completion', { prompt: 'a', logprobs: 2, n_predict: 1 });
    expect(
      ((await response.json()) as { completion_probabilities: { top_logprobs: unknown[] }[] }).completion_probabilities[0].top_logprobs,
    ).toHaveLength(2);
  });

  it.each<[object, object]>([
    [[['ab', -1]], { 97: -1, 98: -1 }],
    [
      { ab: 2, 5: -100 },
      { 97: 2, 98: 2, 5: -Infinity },
    ],
    [[['7', false]], { 55: -Infinity }],
    [{ 7: 1 }, { 7: 1 }],
  ])('logit_bias: %j, a text for each of its tokens as with llama-server', async (logit_bias, expected) => {
    expect((await post('/v1/completions', { prompt: 'a', logit_bias })).status).toBe(200);
    expect(backend.seen.options.at(-1)!.logitBias).toEqual(expected);
  });
  it.each([[[['x'.repeat(10_001), 1]]], [{ '-1': 1 }], [[['a', true]]], [[['a']]], ['5']])('logit_bias: refuses %j', async (logit_bias) =>
    expect((await failure(await post('/v1/completions', { prompt: 'a', logit_bias }))).param).toBe('logit_bias'),
  );

  it("rerank: refuses documents next to TEI's texts", async () =>
    expect((await failure(await post('/v1/rerank', { query: 'a', documents: ['a'], texts: ['b'] }))).param).toBe('texts'));
});

describe('messages of a chat completion', () => {
  const history = (message: object): object => ({ messages: [...messages, message, ...messages] });
  it.each<[string, object]>([
    ['reasoning as vLLM, OpenRouter and Ollama name it', { role: 'assistant', content: 'a', reasoning: 'MARK' }],
    ['a refusal next to a text', { role: 'assistant', content: 'a', refusal: 'MARK' }],
    ['a refusal next to parts', { role: 'assistant', content: [{ type: 'text', text: 'a' }], refusal: 'MARK' }],
  ])('has in the prompt %s', async (_, message) => {
    expect((await post('/v1/chat/completions', history(message))).status).toBe(200);
    expect(seen).toContain('MARK');
    expect(seen).toContain('a');
  });
  it.each([null, [], 5])('refuses arguments that are %j', async (args) => {
    const calls = [{ id: 'a', type: 'function', function: { name: 'f', arguments: args } }];
    const refused = await post('/v1/chat/completions', history({ role: 'assistant', tool_calls: calls }));
    expect([refused.status, (await failure(refused)).param]).toEqual([400, 'messages[1].tool_calls']);
  });
  it.each(['prefix', 'partial'])('goes on with an answer that is marked by `%s`, where the server would not', async (mark) => {
    let prompt = '';
    const begins = createHandler(
      scriptedBackend((given) => ((prompt = given), 'ok')),
      { prefillAssistant: false },
    );
    const ask = (message: object): Promise<Response> =>
      begins(
        new Request('http://server/v1/chat/completions', { method: 'POST', body: JSON.stringify({ messages: [...messages, message] }) }),
      );
    await ask({ role: 'assistant', content: 'MARK', [mark]: true });
    expect(prompt).toMatch(/MARK$/);
    await ask({ role: 'assistant', content: 'MARK', [mark]: false });
    expect(prompt).not.toMatch(/MARK$/);
  });
});

describe('requests in the shapes that clients send', () => {
  it("goes on with an Anthropic thread when its client sends all: 400 with the client's code", async () => {
    const thread = { type: 'continue', previous_message_id: 'msg_1' };
    const refused = await post('/v1/messages', { max_tokens: 9, messages, thread });
    expect(refused.status).toBe(400);
    expect(await failure(refused)).toMatchObject({
      type: 'invalid_request_error',
      message: expect.stringContaining("'thread'") as string,
      details: { error_code: 'thread_unsupported_request' },
    });
  });

  const codex = {
    model: 'any',
    instructions: 'You are Codex.',
    input: [
      { type: 'message', role: 'developer', content: [{ type: 'input_text', text: '<permissions>' }] },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'ls' }] },
    ],
    tools: [
      { type: 'function', name: 'exec_command', description: 'Runs.', strict: false, parameters: { type: 'object', properties: {} } },
      { type: 'web_search', external_web_access: false },
    ],
    tool_choice: 'auto',
    parallel_tool_calls: true,
    reasoning: { effort: 'medium', summary: 'auto' },
    store: false,
    stream: false,
    include: ['reasoning.encrypted_content'],
    prompt_cache_key: '0199-a',
    text: { verbosity: 'medium' },
  };

  it("speakers' names: told where the template does not write them", async () => {
    const messages = [
      { role: 'system', content: 'Be brief.', name: 'rules' },
      { role: 'user', content: 'Hi', name: 'Ann' },
      { role: 'assistant', content: 'Yes?', name: '' },
      { role: 'user', content: 'And I', name: null },
    ];
    const plain = await post('/v1/chat/completions', { messages });
    expect([plain.status, plain.headers.get('x-quantlet-left-out')]).toEqual([200, 'messages[0].name, messages[1].name']);
    const template = `{% for m in messages %}<{{ m.role }}{{ ' ' ~ m.name if m.name and m.role == 'user' }}>{{ m.content }}{% endfor %}`;
    let prompt = '';
    const named = createHandler(scriptedBackend((text) => ((prompt = text), 'ok'), { template }));
    const headers = { 'content-type': 'application/json' };
    const response = await named(
      new Request('http://server/v1/chat/completions', { method: 'POST', headers, body: JSON.stringify({ messages }) }),
    );
    expect(response.headers.get('x-quantlet-left-out')).toBe('messages[0].name');
    expect(prompt).toContain('<user Ann>Hi');
  });

  it('Codex: is answered, and told what was left out', async () => {
    const response = await post('/v1/responses', codex);
    expect([response.status, response.headers.get('x-quantlet-left-out')]).toEqual([200, 'tools[1]']);
    expect(seen).toContain('exec_command');
    expect(seen).not.toContain('web_search');
  });

  const agents = {
    type: 'namespace',
    name: 'multi_agent_v1',
    description: 'Agents.',
    tools: [{ type: 'function', name: 'wait_agent', description: 'Waits.', strict: false, parameters: { type: 'object', properties: {} } }],
  };

  it('Codex: functions of a namespace are called by both names, and named as they were offered', async () => {
    const call = scriptedBackend((prompt) => {
      seen = prompt;
      return prompt.includes('<tool_response>')
        ? 'ok'
        : '<tool_call>\n{"name": "multi_agent_v1__wait_agent", "arguments": {}}\n</tool_call>';
    });
    const client = new OpenAI({
      apiKey: 'key',
      baseURL: 'http://server/v1',
      maxRetries: 0,
      fetch: (url, init) => createHandler(call)(new Request(url, init)),
    });
    const ask = { ...codex, tools: [...codex.tools, agents] } as unknown as OpenAI.Responses.ResponseCreateParamsNonStreaming;
    const { output } = await client.responses.create(ask);
    expect(output).toMatchObject([{ type: 'function_call', name: 'wait_agent', namespace: 'multi_agent_v1' }]);
    expect(seen).toMatch(/"multi_agent_v1__wait_agent", "description": "Agents\.\\nWaits\."/);
    const final = await client.responses.stream({ ...ask, stream: true } as never).finalResponse();
    expect(final.output).toMatchObject([{ type: 'function_call', name: 'wait_agent', namespace: 'multi_agent_v1' }]);
    const result = { type: 'function_call_output' as const, call_id: (output[0] as { call_id: string }).call_id, output: 'done' };
    await client.responses.create({ ...ask, input: [...(ask.input as []), ...(output as []), result] });
    expect(seen).toContain('<tool_call>\n{"name": "multi_agent_v1__wait_agent"');
    const forced = { ...ask, tool_choice: { type: 'function', name: 'wait_agent', namespace: 'multi_agent_v1' } } as never;
    await client.responses.create(forced);
    expect(JSON.stringify(call.seen.options.at(-1)?.calls)).toContain('multi_agent_v1__wait_agent');
  });

  it.each<[string, object]>([
    ['a custom tool in a namespace', { ...agents, tools: [{ type: 'custom', name: 'x' }] }],
    ['a namespace without a name', { ...agents, name: undefined }],
    ['a namespace without tools', { ...agents, tools: undefined }],
    ['a name that a function has already', { ...agents, tools: [...agents.tools, ...agents.tools] }],
  ])('Codex: refuses %s', async (_, tool) => {
    const refused = await post('/v1/responses', { ...codex, tools: [tool] });
    expect([refused.status, (await failure(refused)).param]).toEqual([400, expect.stringMatching(/^tools/)]);
  });

  it.each<[string, object]>([
    ['custom', { type: 'custom', name: 'apply_patch', format: { type: 'grammar', syntax: 'lark', definition: 'start: "a"' } }],
    ['local_shell', { type: 'local_shell' }],
    ['mcp', { type: 'mcp', server_label: 'a', server_url: 'https://a.example' }],
  ])('Codex: a %s tool that its client would run is refused by name', async (type, tool) => {
    const { param, message } = await failure(await post('/v1/responses', { ...codex, tools: [...codex.tools, tool] }));
    expect([param, message]).toEqual(['tools[2].type', expect.stringContaining(`"${type}"`)]);
  });

  it("Claude Code: betas, cache marks, metadata and its edits of the context change nothing; tools of Anthropic's are refused", async () => {
    const body = {
      model: 'any',
      max_tokens: 32000,
      system: [{ type: 'text', text: 'You are Claude Code.', cache_control: { type: 'ephemeral', ttl: '1h' } }],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'hi', cache_control: { type: 'ephemeral' } }] }],
      tools: [{ name: 'Bash', description: 'Runs.', input_schema: { type: 'object', properties: {} }, eager_input_streaming: true }],
      metadata: { user_id: 'a' },
      thinking: { type: 'adaptive' },
      context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
      output_config: { effort: 'medium' },
    };
    expect((await post('/v1/messages?beta=true', body)).status).toBe(200);
    for (const type of ['bash_20250124', 'web_search_20250305', 'tool_search_tool_regex_20251119']) {
      const refused = await post('/v1/messages', { ...body, tools: [...body.tools, { type, name: 'x' }] });
      expect([refused.status, (await failure(refused)).param]).toEqual([400, 'tools[1].type']);
    }
  });

  it('chat completions: tools that no client runs are left out, custom ones refused', async () => {
    const response = await post('/v1/chat/completions', { messages, tools: [{ type: 'web_search' }, chatTool] });
    expect([response.status, response.headers.get('x-quantlet-left-out')]).toEqual([200, 'tools[0]']);
    const custom = await post('/v1/chat/completions', { messages, tools: [chatTool, { type: 'custom', custom: { name: 'x' } }] });
    expect((await failure(custom)).param).toBe('tools[1].type');
    const wanted = await post('/v1/responses', { input: 'hi', tools: [{ type: 'web_search' }], tool_choice: { type: 'web_search' } });
    expect(wanted.status).toBe(400);
  });

  it('honours json_schema beside messages, prompts and input, as llama-server does', async () => {
    const json_schema = { type: 'object', properties: { a: { type: 'string' } } };
    for (const [path, , body] of Object.values(endpoints).filter(([path]) => path !== '/v1/embeddings')) {
      expect((await post(path, { ...body, json_schema })).status).toBe(200);
      expect(backend.seen.options.at(-1)?.responseFormat).toEqual({ type: 'json_schema', schema: json_schema });
    }
  });

  it.each([
    ['/v1/chat/completions', { messages }, 'max_tokens'],
    ['/v1/chat/completions', { messages }, 'max_completion_tokens'],
    ['/v1/chat/completions', { messages }, 'n_predict'],
    ['/v1/completions', { prompt: 'hi' }, 'max_tokens'],
    ['/v1/messages', { messages }, 'max_tokens'],
    ['/completion', { prompt: 'hi' }, 'n_predict'],
  ])('%s %j: %s of -1 or null is no limit', async (path, body, field) => {
    const limited = createHandler(backend, { defaults: { maxTokens: 1 } });
    const ask = async (value: unknown): Promise<number | undefined> => {
      const request = {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ ...body, [field]: value }),
      };
      expect((await limited(new Request(`http://server${path}`, request))).status).toBe(200);
      return backend.seen.options.at(-1)?.maxTokens;
    };
    expect(await ask(null)).toBe(1);
    expect(await ask(-1)).toBeGreaterThan(1000);
  });

  it.each<[string, string, object]>([
    [
      'a part',
      '/v1/chat/completions',
      { messages: [...messages, { role: 'assistant', content: [{ type: 'refusal', refusal: 'NO!' }] }, ...messages] },
    ],
    ['a field', '/v1/chat/completions', { messages: [...messages, { role: 'assistant', content: null, refusal: 'NO!' }, ...messages] }],
    [
      'a part of an item',
      '/v1/responses',
      {
        input: [
          ...messages,
          { type: 'message', role: 'assistant', id: 'msg_1', status: 'completed', content: [{ type: 'refusal', refusal: 'NO!' }] },
          ...messages,
        ],
      },
    ],
  ])('what an assistant refused is in the prompt: %s', async (_, path, body) => {
    expect((await post(path, body)).status).toBe(200);
    expect(seen).toContain('<|im_start|>assistant\nNO!<|im_end|>');
  });

  it('says of a reference to a stored item what to send', async () => {
    const { code, message } = await failure(await post('/v1/responses', { input: [...messages, { type: 'item_reference', id: 'msg_1' }] }));
    expect([code, message]).toEqual(['unsupported_parameter', expect.stringContaining('`store: false`')]);
  });

  it.each<[string, object]>([
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'a'.repeat(9000) }] }],
    ['/v1/completions', { prompt: 'a'.repeat(9000) }],
    ['/v1/responses', { input: 'a'.repeat(9000) }],
    ['/completion', { prompt: 'a'.repeat(9000) }],
  ])('%s: says of a prompt that is too long what agents look for', async (path, body) => {
    for (const stream of [false, true]) {
      const response = await post(path, { ...body, stream });
      const { error } = (await response.json()) as { error: { message: string; n_prompt_tokens: number } };
      expect([response.status, error]).toMatchObject([
        400,
        { type: 'invalid_request_error', code: 'context_length_exceeded', n_ctx: 4096 },
      ]);
      expect(error.message).toMatch(/^This model's maximum context length is 4096 tokens\. However, your prompt has 9\d{3} tokens\./);
      expect(error.n_prompt_tokens).toBeGreaterThan(9000);
    }
  });

  it('says of a prompt that is too long what Claude Code looks for', async () => {
    const { message } = await failure(
      await post('/v1/messages', { max_tokens: 9, messages: [{ role: 'user', content: 'a'.repeat(9000) }] }),
    );
    const [, tokens, most] = /^prompt is too long: (\d+) tokens > (\d+) maximum/.exec(message)!;
    expect([Number(tokens) > 9000, Number(most)]).toEqual([true, 4096]);
  });
});
