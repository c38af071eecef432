// The official clients against a server in any runtime: chat, responses, messages, streams, tools,
// JSON, vectors, errors, abort, many at once.
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { STEP_MS, within } from './wait.mjs';

const user = (content) => [{ role: 'user', content }];
const model = 'any';
const greedy = { model, temperature: 0, max_tokens: 24 };
const parameters = { type: 'object', properties: { city: { enum: ['Oslo', 'Rome'] } }, required: ['city'], additionalProperties: false };
const same = (got, want, what) => {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
};

/**
 * @param noticesLeaving false: the runtime may not report that a client has left before there was
 * an answer, which is then computed to its end
 * @returns the faults, and the number of checks
 */
export async function checkServer(url, { noticesLeaving = true } = {}) {
  const clientOf = (apiKey, path = '/v1') => new OpenAI({ apiKey, baseURL: url + path, maxRetries: 0, timeout: 60_000 });
  const client = clientOf('key');
  const anthropic = new Anthropic({ apiKey: 'key', baseURL: url, maxRetries: 0, timeout: 60_000 });
  const faults = [];
  const raw = (path, body, headers = {}) =>
    fetch(url + path, {
      method: 'POST',
      headers: { authorization: 'Bearer key', 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  const processing = async () =>
    Number(
      /^llamacpp:requests_processing (\d+)/m.exec(
        await (await fetch(`${url}/metrics`, { headers: { authorization: 'Bearer key' } })).text(),
      )[1],
    );
  const streamed = async (messages) => {
    let text = '';
    let chunks = 0;
    let usage;
    for await (const chunk of await client.chat.completions.create({
      ...greedy,
      messages,
      stream: true,
      stream_options: { include_usage: true },
    })) {
      text += chunk.choices[0]?.delta.content ?? '';
      usage = chunk.usage ?? usage;
      chunks++;
    }
    return { text, chunks, usage };
  };
  const whole = async (messages) => (await client.chat.completions.create({ ...greedy, messages })).choices[0].message.content;
  const refused = (want, call, told = ({ error }) => error) =>
    call.then(
      () => {
        throw new Error(`was answered, expected ${want}`);
      },
      (error) => {
        if (error.status !== want || typeof told(error)?.message !== 'string')
          throw new Error(`status ${error.status} (${error.message}), expected ${want} with an error in its protocol's shape`);
      },
    );

  const checks = {
    async 'models and health'() {
      same((await client.models.list()).data.length, 1, 'models');
      same((await fetch(`${url}/health`)).status, 200, 'health');
    },
    async 'chat, whole and streamed'() {
      const { choices, usage } = await client.chat.completions.create({ ...greedy, messages: user('Tell me a story') });
      if (choices[0].message.content.length < 20) throw new Error(`said ${JSON.stringify(choices[0].message.content)}`);
      const { text, chunks, usage: counted } = await streamed(user('Tell me a story'));
      same(text, choices[0].message.content, 'the streamed text');
      same([counted.completion_tokens, counted.prompt_tokens], [usage.completion_tokens, usage.prompt_tokens], 'usage');
      if (chunks < 10) throw new Error(`24 tokens came in ${chunks} chunks`);
    },
    async completions() {
      const { choices } = await client.completions.create({ ...greedy, prompt: 'Once upon a time', logprobs: 2, n: 2 });
      same([choices.length, choices[0].text === choices[1].text, choices[0].logprobs.tokens.length > 5], [2, true, true], 'choices');
    },
    async 'tools, whole and streamed'() {
      const request = {
        model,
        max_tokens: 200,
        temperature: 0.7,
        seed: 5,
        messages: user('Weather?'),
        tools: [{ type: 'function', function: { name: 'get_weather', parameters } }],
        tool_choice: 'required',
      };
      const { choices } = await client.chat.completions.create(request);
      const [call] = choices[0].message.tool_calls;
      same(
        [choices[0].finish_reason, call.function.name, ['Oslo', 'Rome'].includes(JSON.parse(call.function.arguments).city)],
        ['tool_calls', 'get_weather', true],
        'the call',
      );
      const final = await client.chat.completions.stream(request).finalChatCompletion();
      same(final.choices[0].message.tool_calls[0].function.arguments, call.function.arguments, 'the streamed call');
    },
    async 'JSON that fits a schema'() {
      const { choices } = await client.chat.completions.create({
        model,
        max_tokens: 200,
        temperature: 0.7,
        seed: 5,
        messages: user('Where?'),
        response_format: { type: 'json_schema', json_schema: { name: 'place', schema: parameters } },
      });
      if (!['Oslo', 'Rome'].includes(JSON.parse(choices[0].message.content).city)) throw new Error(choices[0].message.content);
    },
    async 'responses: whole, streamed, tools, errors'() {
      const request = { model, temperature: 0, max_output_tokens: 24, input: 'Tell me a story' };
      const response = await client.responses.create(request);
      same(response.status, 'incomplete', 'a response that was cut');
      if (response.output_text.length < 20) throw new Error(`said ${JSON.stringify(response.output_text)}`);
      same((await client.responses.stream(request).finalResponse()).output_text, response.output_text, 'the streamed text');
      const tools = [{ type: 'function', name: 'get_weather', parameters, strict: true }];
      const asked = { model, temperature: 0.7, seed: 5, max_output_tokens: 200, input: 'Weather?', tools, tool_choice: 'required' };
      const [call] = (await client.responses.create(asked)).output;
      same([call.type, ['Oslo', 'Rome'].includes(JSON.parse(call.arguments).city)], ['function_call', true], 'the call');
      const [streamed] = (await client.responses.stream(asked).finalResponse()).output;
      same(streamed.arguments, call.arguments, 'the streamed call');
      const result = { type: 'function_call_output', call_id: call.call_id, output: 'snow' };
      const next = await client.responses.create({
        ...asked,
        tool_choice: 'none',
        input: [{ role: 'user', content: 'Weather?' }, call, result],
      });
      if (typeof next.output_text !== 'string') throw new Error(JSON.stringify(next.output));
      await refused(400, client.responses.create({ ...request, input: [] }));
      await refused(400, client.responses.create({ ...request, previous_response_id: 'resp_1' }));
      const stream = await client.responses.create({ ...request, max_output_tokens: 400, stream: true });
      let events = 0;
      for await (const _ of stream) if (++events === 8) stream.controller.abort();
      for (let i = 0; i < 100 && (await processing()) > 0; i++) await new Promise((resolve) => setTimeout(resolve, 50));
      same(await processing(), 0, 'responses under way 5 s after the client has gone');
    },
    async 'messages: whole, streamed, tools, errors, counts'() {
      const request = { model, temperature: 0, max_tokens: 24, messages: user('Tell me a story') };
      const message = await anthropic.messages.create(request);
      same(message.stop_reason, 'max_tokens', 'why it ended');
      if (message.content[0].text.length < 20) throw new Error(`said ${JSON.stringify(message.content)}`);
      same((await anthropic.messages.stream(request).finalMessage()).content, message.content, 'the streamed blocks');
      const { input_tokens } = await anthropic.messages.countTokens({ model, messages: request.messages });
      same(input_tokens, message.usage.input_tokens + message.usage.cache_read_input_tokens, 'tokens of the prompt');
      const tools = [{ name: 'get_weather', input_schema: parameters }];
      const asked = { model, temperature: 0.7, seed: 5, max_tokens: 200, messages: user('Weather?'), tools, tool_choice: { type: 'any' } };
      const called = await anthropic.messages.create(asked);
      const [call] = called.content;
      same([called.stop_reason, call.name, ['Oslo', 'Rome'].includes(call.input.city)], ['tool_use', 'get_weather', true], 'the call');
      const [streamed] = (await anthropic.messages.stream(asked).finalMessage()).content;
      same(streamed.input, call.input, 'the streamed call');
      await refused(400, anthropic.messages.create({ ...request, messages: [] }), ({ error }) => error.error);
      const stream = await anthropic.messages.create({ ...request, max_tokens: 400, stream: true });
      let events = 0;
      for await (const _ of stream) if (++events === 8) stream.controller.abort();
      for (let i = 0; i < 100 && (await processing()) > 0; i++) await new Promise((resolve) => setTimeout(resolve, 50));
      same(await processing(), 0, 'messages under way 5 s after the client has gone');
    },
    async embeddings() {
      const { data } = await clientOf('key', '/vectors/v1').embeddings.create({ model, input: ['a cat', 'a dog', 'a cat'] });
      const [a, b, c] = data.map(({ embedding }) => embedding);
      const dot = (x, y) => x.reduce((sum, v, i) => sum + v * y[i], 0);
      same(a, c, 'the same text, the same vector');
      if (Math.abs(dot(a, a) - 1) > 1e-5 || !(dot(a, b) < 0.9999)) throw new Error(`lengths and cosines: ${dot(a, a)}, ${dot(a, b)}`);
      await refused(400, clientOf('key', '/vectors/v1').embeddings.create({ model, input: [''] }));
    },
    async errors() {
      await refused(401, clientOf('kex').models.list());
      await refused(400, client.chat.completions.create({ model, messages: [] }));
      await refused(400, client.completions.create({ ...greedy, prompt: 'a', max_tokens: -5 }));
      await refused(400, client.completions.create({ ...greedy, prompt: 'word '.repeat(2000) }));
      await refused(400, client.completions.create({ ...greedy, prompt: 'a', grammar: 'root ::= (' }));
      await refused(
        400,
        client.chat.completions.create({
          ...greedy,
          messages: user('a'),
          response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { enum: [] } } },
        }),
      );
      await refused(413, client.completions.create({ ...greedy, prompt: 'x'.repeat(200_000) }));
      await refused(404, client.get('/nothing'));
      const broken = await raw('/v1/completions', '{"prompt": ');
      same([broken.status, (await broken.json()).error.code], [400, 'invalid_json'], 'malformed JSON');
      same((await fetch(`${url}/health`)).status, 200, 'health afterwards');
    },
    async abort() {
      const stream = await client.completions.create({ ...greedy, prompt: 'Once', max_tokens: 480, ignore_eos: true, stream: true });
      let chunks = 0;
      for await (const _ of stream) if (++chunks === 3) stream.controller.abort();
      for (let i = 0; i < 100 && (await processing()) > 0; i++) await new Promise((resolve) => setTimeout(resolve, 50));
      same(await processing(), 0, 'generations under way 5 s after the client has gone');
      const leaving = new AbortController();
      // Four answers in sequence take long enough on any machine. The request is aborted as soon as
      // the server reports that it runs.
      const waiting = client.completions.create(
        { ...greedy, prompt: 'Once', max_tokens: 480, ignore_eos: true, n: noticesLeaving ? 4 : 1 },
        { signal: leaving.signal },
      );
      const given = (async () => {
        while ((await processing()) === 0) await new Promise((resolve) => setTimeout(resolve, 5));
        leaving.abort();
      })();
      await waiting.then(
        () => {
          throw new Error('was answered before it was given up');
        },
        (error) => same(error.constructor.name, 'APIUserAbortError', 'the error'),
      );
      await given;
      // The whole check has STEP_MS, long enough for an answer whose client has left.
      for (let i = 0; (i < 100 || !noticesLeaving) && (await processing()) > 0; i++)
        await new Promise((resolve) => setTimeout(resolve, 50));
      same(await processing(), 0, 'the same, not streamed');
    },
    async '8 at once, each as if it were alone'() {
      const prompts = ['Once', 'The cat', 'A girl', 'Tom'].map((p) => user(p));
      const alone = [];
      for (const messages of prompts) alone.push(await whole(messages));
      const together = await Promise.all(
        [...prompts, ...prompts].map(async (messages, i) => (i % 2 ? whole(messages) : (await streamed(messages)).text)),
      );
      same(together, [...alone, ...alone], 'the answers');
    },
  };
  for (const [name, check] of Object.entries(checks))
    await within(STEP_MS, name, check()).catch((error) => faults.push(`${name}: ${error.message}`));
  return { faults, count: Object.keys(checks).length };
}
