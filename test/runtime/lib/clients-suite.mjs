// Clients and agent libraries from npm against `quantlet serve`: whole, streamed, tools, second
// turns. Run as a program with the server's address. Prints { faults, count } as JSON.
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { ChatOllama, Ollama as OllamaText } from '@langchain/ollama';
import { ChatOpenAI } from '@langchain/openai';
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, setTracingDisabled, tool as agentTool } from '@openai/agents';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import { Ollama } from 'ollama';
import OpenAI from 'openai';

const url = process.argv[2];
const model = 'any';
const schema = { type: 'object', properties: { city: { enum: ['Oslo', 'Rome'] } }, required: ['city'], additionalProperties: false };
const same = (got, want, what) => {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
};
const isText = (text, what) => {
  if (typeof text !== 'string' || text.length < 5) throw new Error(`${what}: said ${JSON.stringify(text)}`);
};
const isCity = (value, what) => {
  if (!['Oslo', 'Rome'].includes(value?.city)) throw new Error(`${what}: ${JSON.stringify(value)}`);
};

/** A fetch that records its requests. */
function recording() {
  const requests = [];
  const recorded = async (input, init) => {
    const response = await fetch(input, init);
    requests.push({ body: JSON.parse(init.body), status: response.status });
    return response;
  };
  return { requests, fetch: recorded };
}

/**
 * With any provider of the AI SDK: a conversation of two turns, a tool in two steps, and a stream.
 */
async function aiSdk(chat, providerOptions = {}) {
  const ask = { model: chat, maxOutputTokens: 40, temperature: 0, maxRetries: 0, providerOptions };
  const messages = [{ role: 'user', content: 'Tell me a story' }];
  const first = await generateText({ ...ask, messages, system: 'Be kind.' });
  isText(first.text, 'the first turn');
  const more = [...messages, ...first.response.messages, { role: 'user', content: 'Go on' }];
  isText((await generateText({ ...ask, messages: more, system: 'Be kind.' })).text, 'the second turn');
  const stream = streamText({ ...ask, messages });
  let streamed = '';
  for await (const part of stream.fullStream) {
    if (part.type === 'error') throw part.error;
    if (part.type === 'text-delta') streamed += part.text;
  }
  isText(streamed, 'the stream');
  const asked = [];
  const weather = tool({
    inputSchema: jsonSchema(schema),
    execute: (input) => {
      asked.push(input);
      return 'snow';
    },
  });
  const tools = { ...ask, maxOutputTokens: 200, temperature: 0.7, seed: 5, messages, tools: { weather }, toolChoice: 'required' };
  const steps = await generateText({ ...tools, stopWhen: stepCountIs(2) });
  same(steps.steps.length, 2, 'steps');
  for (const input of asked) isCity(input, 'the call');
  for await (const part of streamText({ ...tools, stopWhen: stepCountIs(2) }).fullStream) if (part.type === 'error') throw part.error;
  same(asked.length >= 4, true, `calls of two runs in two steps (${asked.length})`);
}

async function agents(chat) {
  const asked = [];
  const weather = agentTool({
    name: 'weather',
    description: 'Tells the weather.',
    parameters: schema,
    strict: true,
    execute: (input) => {
      asked.push(input);
      return 'snow';
    },
  });
  // No limit: this library treats a cut answer as a failure.
  const settings = { temperature: 0 };
  const runner = new Runner({ tracingDisabled: true });
  const plain = new Agent({ name: 'Teller', instructions: 'Be kind.', model: chat, modelSettings: settings });
  const first = await runner.run(plain, 'Tell me a story');
  isText(first.finalOutput, 'the first turn');
  isText((await runner.run(plain, [...first.history, { role: 'user', content: 'Go on' }])).finalOutput, 'the second turn');
  const streamed = await runner.run(plain, 'Tell me a story', { stream: true });
  let text = '';
  for await (const piece of streamed.toTextStream()) text += piece;
  await streamed.completed;
  isText(text, 'the stream');
  const calling = new Agent({
    name: 'Caller',
    instructions: 'Use the tool.',
    model: chat,
    tools: [weather],
    modelSettings: { ...settings, toolChoice: 'required' },
  });
  isText((await runner.run(calling, 'Weather?')).finalOutput, 'after the tool');
  isCity(asked[0], 'the call');
}

const langchainOpenAI = (options) => {
  const configuration = { baseURL: `${url}/v1` };
  return new ChatOpenAI({ model, apiKey: 'key', temperature: 0, maxTokens: 120, maxRetries: 0, configuration, ...options });
};

/** @param options.choosesTools whether the library sends tool_choice */
async function langchain(chat, { choosesTools = true } = {}) {
  const messages = [new SystemMessage('Be kind.'), new HumanMessage('Tell me a story')];
  const first = await chat.invoke(messages);
  isText(first.text, 'the first turn');
  isText((await chat.invoke([...messages, first, new HumanMessage('Go on')])).text, 'the second turn');
  let text = '';
  for await (const chunk of await chat.stream(messages)) text += chunk.text;
  isText(text, 'the stream');
  const tools = [{ type: 'function', function: { name: 'weather', parameters: schema } }];
  // Some drop tool_choice; then the call is written here.
  const call = { id: 'call_1', name: 'weather', args: { city: 'Oslo' } };
  const called = choosesTools
    ? await chat.bindTools(tools, { tool_choice: 'required' }).invoke(messages)
    : new AIMessage({ content: '', tool_calls: [call] });
  isCity(called.tool_calls?.[0]?.args, 'the call');
  const result = new ToolMessage({ content: 'snow', tool_call_id: called.tool_calls[0].id });
  isText((await chat.invoke([...messages, called, result])).text, 'after the tool');
}

/** With Ollama's own client: every method that this server answers, and errors of the others. */
async function ollama(client) {
  const messages = [{ role: 'user', content: 'Tell me a story' }];
  const ask = { model, options: { temperature: 0, num_predict: 40 } };
  const whole = await client.chat({ ...ask, messages });
  isText(whole.message.content, 'the answer');
  same([whole.model, whole.done, whole.eval_count], [model, true, 40], 'the last line');
  let streamed = '';
  for await (const { message } of await client.chat({ ...ask, messages, stream: true })) streamed += message.content;
  same(streamed, whole.message.content, 'the stream');
  const tools = [{ type: 'function', function: { name: 'weather', description: 'Tells the weather.', parameters: schema } }];
  const call = { function: { name: 'weather', arguments: { city: 'Oslo' } } };
  const talk = [
    ...messages,
    { role: 'assistant', content: '', tool_calls: [call] },
    { role: 'tool', tool_name: 'weather', content: 'snow' },
  ];
  isText((await client.chat({ ...ask, messages: talk, tools })).message.content, 'after the tool');
  isCity(
    JSON.parse((await client.chat({ ...ask, messages, format: schema, options: { ...ask.options, num_predict: 100 } })).message.content),
    'the object',
  );
  const first = await client.generate({ ...ask, prompt: 'Tell me a story', system: 'Be kind.' });
  isText(first.response, 'the completion');
  isText((await client.generate({ ...ask, prompt: 'Go on', context: first.context })).response, 'with a context');
  let raw = '';
  for await (const { response } of await client.generate({ ...ask, prompt: 'Once upon a time', raw: true, stream: true })) raw += response;
  isText(raw, 'the raw completion');
  const templated = await client.generate({ ...ask, prompt: 'a', template: 'Once upon a {{ .Prompt }} time' });
  isText(templated.response, 'with a template');
  const { models } = await client.list();
  same(models.length, 1, 'models');
  same(
    (await client.ps()).models.map(({ name }) => name),
    [models[0].name],
    'running models',
  );
  const { details, model_info: info, capabilities } = await client.show({ model: models[0].name });
  same([details.format, info['general.architecture'], capabilities.includes('completion')], ['gguf', 'llama', true], 'the description');
  const failure = (request) =>
    request().then(
      () => 'none',
      ({ name, status_code: status, message }) => `${name} ${status} ${message}`,
    );
  for (const [request, want] of [
    [() => client.pull({ model: 'hf.co/a/b' }), /^ResponseError 501 .*--models-pull/],
    [() => client.create({ model: 'b', from: 'a' }), /^ResponseError 501 /],
    [() => client.delete({ model: 'a' }), /^ResponseError 501 /],
    [() => client.generate({ ...ask, prompt: 'a', images: ['aGk='] }), /^ResponseError 400 .*without a projector.*--mmproj/],
    [() => client.embed({ model, input: 'a' }), /^ResponseError 400 .*--embeddings/],
  ]) {
    const got = await failure(request);
    if (!want.test(got)) throw new Error(`the error is ${got}, want ${want}`);
  }
  client.abort();
}

const anthropicBy = (fetch) => new Anthropic({ apiKey: 'key', baseURL: url, maxRetries: 0, fetch });

const checks = {
  async "Anthropic's tool runner: from the second turn on the whole conversation"() {
    const { requests, fetch } = recording();
    const asked = [];
    const weather = betaTool({
      name: 'weather',
      description: 'Tells the weather.',
      inputSchema: schema,
      run: (input) => {
        asked.push(input);
        return 'snow';
      },
    });
    const runner = anthropicBy(fetch).beta.messages.toolRunner({
      model,
      max_tokens: 200,
      temperature: 0,
      system: 'Be kind.',
      messages: [{ role: 'user', content: 'Weather?' }],
      tools: [weather],
      tool_choice: { type: 'any' },
      max_iterations: 3,
    });
    await runner.runUntilDone();
    isCity(asked[0], 'the call');
    const answered = requests.filter(({ status }) => status === 200).map(({ body }) => body);
    same(answered.length, 3, 'turns that were answered');
    same(
      answered.map(({ system, tools, messages }) => [system, tools?.length, messages.length]),
      [1, 3, 5].map((n) => ['Be kind.', 1, n]),
      'what the answered requests had',
    );
    same(
      requests.filter(({ status }) => status !== 200).map(({ status, body }) => [status, body.thread?.type]),
      [[400, 'continue']],
      'refused',
    );
  },
  async "Anthropic's threads: without state, or an error that says so"() {
    const { requests, fetch } = recording();
    const ask = { model, max_tokens: 24, temperature: 0, system: 'Be kind.' };
    const thread = anthropicBy(fetch).beta.messages.thread({ ...ask, unsupportedRequestBehavior: 'continue_unthreaded' });
    await thread.send({ role: 'user', content: 'Tell me a story' });
    await thread.send({ role: 'user', content: 'Go on' });
    const last = requests.at(-1);
    same([last.status, last.body.thread, last.body.system, last.body.messages.length], [200, undefined, 'Be kind.', 3], 'the second turn');
    const strict = anthropicBy(fetch).beta.messages.thread(ask);
    await strict.send({ role: 'user', content: 'Tell me a story' });
    const error = await strict.send({ role: 'user', content: 'Go on' }).then(
      () => undefined,
      (failure) => failure,
    );
    same([error?.status, error?.error?.error?.details?.error_code], [400, 'thread_unsupported_request'], 'the error');
  },
  async '@ai-sdk/openai, its default provider (responses)'() {
    const responses = createOpenAI({ apiKey: 'key', baseURL: `${url}/v1` })(model);
    await aiSdk(responses, { openai: { store: false } });
    // Without it, the second turn refers to items that the library believes are stored.
    const messages = [{ role: 'user', content: 'Tell me a story' }];
    const ask = { model: responses, maxOutputTokens: 24, maxRetries: 0 };
    const first = await generateText({ ...ask, messages });
    const error = await generateText({
      ...ask,
      messages: [...messages, ...first.response.messages, { role: 'user', content: 'Go on' }],
    }).then(
      () => undefined,
      (failure) => failure,
    );
    if (!/`store: false`/.test(error?.message)) throw new Error(`the second turn with store: ${error?.message ?? 'was answered'}`);
  },
  '@ai-sdk/openai, chat': () => aiSdk(createOpenAI({ apiKey: 'key', baseURL: `${url}/v1` }).chat(model)),
  '@ai-sdk/anthropic': () => aiSdk(createAnthropic({ apiKey: 'key', baseURL: `${url}/v1` })(model)),
  '@ai-sdk/openai-compatible': () => aiSdk(createOpenAICompatible({ name: 'quantlet', apiKey: 'key', baseURL: `${url}/v1` })(model)),
  '@langchain/openai, chat': () => langchain(langchainOpenAI({})),
  '@langchain/openai, responses': () => langchain(langchainOpenAI({ useResponsesApi: true }), { choosesTools: false }),
  async '@langchain/ollama'() {
    const options = { model, baseUrl: url, temperature: 0, numPredict: 60, maxRetries: 0 };
    const chat = new ChatOllama(options);
    await langchain(chat, { choosesTools: false });
    const { usage_metadata: usage } = await chat.invoke('Tell me a story');
    same(usage.input_tokens > 5 && usage.output_tokens === 60, true, `usage ${JSON.stringify(usage)}`);
    isCity(await chat.withStructuredOutput(schema, { method: 'jsonSchema' }).invoke('Weather?'), 'the object');
    isText(await new OllamaText(options).invoke('Tell me a story'), 'the text');
  },
  ollama: () => ollama(new Ollama({ host: url })),
  'OpenAI Agents, responses': () => agents(new OpenAIResponsesModel(new OpenAI({ apiKey: 'key', baseURL: `${url}/v1` }), model)),
  'OpenAI Agents, chat': () => agents(new OpenAIChatCompletionsModel(new OpenAI({ apiKey: 'key', baseURL: `${url}/v1` }), model)),
};

setTracingDisabled(true);
globalThis.AI_SDK_LOG_WARNINGS = false;
const faults = [];
for (const [name, check] of Object.entries(checks)) await check().catch((error) => faults.push(`${name}: ${error.message}`));
console.log(JSON.stringify({ faults, count: Object.keys(checks).length }));
// Some of these libraries keep connections open.
process.exit(0);
