/** Errors name the fields of the request, never options of the library. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadModel, type Model } from '../../src/entry/node.ts';
import { QuantletError } from '../../src/errors.ts';
import { createHandler } from '../../src/server/handler.ts';
import { toHttpError } from '../../src/server/http/http-error.ts';
import { shippedModel } from '../support.ts';

let model: Model;
let handler: (request: Request) => Promise<Response>;
beforeAll(async () => {
  model = await loadModel(shippedModel, { contextLength: 64, threads: 1, warmUp: false });
  handler = createHandler(model, { contextShift: { keep: 0 } });
});
afterAll(() => model.dispose());

async function refusal(path: string, body: object): Promise<{ message: string; param: string | null }> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const response = await handler(new Request(`http://server${path}`, init));
  expect(response.status).toBe(400);
  return ((await response.json()) as { error: { message: string; param: string | null } }).error;
}

const messages = [{ role: 'user', content: 'hi' }];
const schema = { type: 'object' };
const format = { type: 'json_schema', json_schema: { schema } };
const grammar = 'root ::= "a"';

describe('a length that is too large for any number of tokens', () => {
  it.each([
    ['/v1/chat/completions', { messages, max_completion_tokens: 1e300 }, 'max_completion_tokens'],
    ['/v1/chat/completions', { messages, max_tokens: 1e300 }, 'max_tokens'],
    ['/v1/chat/completions', { messages, n_keep: 1e300 }, 'n_keep'],
    ['/v1/completions', { prompt: 'a', max_tokens: 1e300 }, 'max_tokens'],
    ['/v1/responses', { input: 'hi', max_output_tokens: 1e300 }, 'max_output_tokens'],
    ['/v1/messages', { messages, max_tokens: 1e300 }, 'max_tokens'],
    ['/completion', { prompt: 'a', n_predict: 1e300 }, 'n_predict'],
  ])('%s %j', async (path, body, param) => {
    expect(await refusal(path, body)).toMatchObject({
      param,
      message: expect.stringMatching(
        new RegExp(`^'${param}' is 1e\\+300; expected a whole number from (-1|0) to 9007199254740991\\.$`),
      ) as string,
    });
  });
});

describe('a grammar next to a format', () => {
  it.each([
    ['/v1/chat/completions', { messages, grammar, response_format: format }, 'response_format'],
    [
      '/v1/messages',
      { messages, max_tokens: 5, grammar, output_config: { format: { type: 'json_schema', schema } } },
      'output_config.format',
    ],
    ['/v1/responses', { input: 'hi', grammar, text: { format: { type: 'json_schema', name: 'a', schema } } }, 'text.format'],
    ['/completion', { prompt: 'a', grammar, json_schema: schema }, 'json_schema'],
  ])('%s', async (path, body, field) => {
    expect((await refusal(path, body)).message).toBe(`grammar and '${field}' are both given; expected one of them`);
  });
});

it('a prompt that does not fit tells no client of options of the library', async () => {
  const long = 'word '.repeat(200);
  for (const [path, body] of [
    ['/v1/chat/completions', { messages: [{ role: 'user', content: long }] }],
    ['/v1/messages', { messages: [{ role: 'user', content: long }], max_tokens: 5 }],
    ['/v1/responses', { input: long }],
  ] as const)
    expect((await refusal(path, body)).message).toMatch(/shorten the prompt, or load the model with a larger context$/);
});

describe('any error of the library', () => {
  const said = (message: string, body: object, code: 'ERR_INVALID_ARGUMENT' | 'ERR_GRAMMAR' = 'ERR_INVALID_ARGUMENT') => {
    const { message: text, param } = toHttpError(new QuantletError(code, message), { ...body });
    return [text, param];
  };
  it('names the field that the request has', () => {
    const wrong = 'chat: reasoningBudget is "x"; expected a whole number';
    expect(said(wrong, { thinking: { budget_tokens: 'x' } })).toEqual([
      `'thinking.budget_tokens' is "x"; expected a whole number`,
      'thinking.budget_tokens',
    ]);
    expect(said(wrong, {})[1]).toBe('reasoning_budget_tokens');
    expect(said('generate: stop is 3; expected texts', { stop_sequences: 3 })[1]).toBe('stop_sequences');
    expect(said('topNSigma is -2; expected more than with minKeep', {})).toEqual([
      "'top_n_sigma' is -2; expected more than with 'min_keep'",
      'top_n_sigma',
    ]);
  });
  it('leaves the words of others as they are', () => {
    expect(said('toolChoice asks for a call of the tool "maxTokens"', {})[0]).toBe(`'tool_choice' asks for a call of the tool "maxTokens"`);
    expect(said('schema #/properties/maxTokens: found nothing', {}, 'ERR_GRAMMAR')[0]).toBe('schema #/properties/maxTokens: found nothing');
    expect(said('grammar, line 1: found the name minKeep', {}, 'ERR_GRAMMAR')[0]).toBe('grammar, line 1: found the name minKeep');
  });
});
