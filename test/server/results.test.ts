/** Tool results that are empty, failed or not text: the model is told so, in every protocol. */
import { generateText, type ModelMessage } from 'ai';
import { describe, expect, it } from 'vitest';
import { languageModel } from '../../src/ai-sdk/language-model.ts';
import { failureText } from '../../src/chat/tools.ts';
import { createHandler } from '../../src/server/handler.ts';
import { everyTemplate, ownTemplates } from '../chat/templates.ts';
import { scriptedBackend } from './backend.ts';

const silent = 'Error: the tool failed and gave no message.';
const text = (text: string) => ({ type: 'text', text });

function serve(template: string = ownTemplates.hermes) {
  let prompt = '';
  const backend = scriptedBackend((given) => ((prompt = given), 'ok'), { template, contextLength: 65536 });
  const handler = createHandler(backend);
  const post = async (path: string, body: object) => {
    const headers = { 'content-type': 'application/json' };
    const response = await handler(new Request(`http://server${path}`, { method: 'POST', headers, body: JSON.stringify(body) }));
    return { status: response.status, text: await response.text(), prompt };
  };
  const anthropic = (result: object) =>
    post('/v1/messages', {
      max_tokens: 9,
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'abcdefgh1', name: 'f', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'abcdefgh1', ...result }] },
      ],
    });
  return { backend, post, anthropic, seen: () => prompt };
}

describe("Anthropic's tool_result", () => {
  it.each<[string, object, string]>([
    ['failed, without content', { is_error: true }, silent],
    ['failed, with an empty text', { is_error: true, content: '' }, silent],
    ['failed, with no blocks', { is_error: true, content: [] }, silent],
    ['failed, with an empty block', { is_error: true, content: [text('')] }, silent],
    ['failed, with blanks', { is_error: true, content: ' \n' }, silent],
    ['failed, with a text', { is_error: true, content: 'no such city' }, 'Error: no such city'],
    [
      'failed, with blocks',
      { is_error: true, content: [text(''), text('no such city'), text('try Oslo')] },
      'Error: no such city\ntry Oslo',
    ],
    ['failed, with a text that says so', { is_error: true, content: 'Error: gone' }, '<tool_response>\nError: gone'],
    ["failed, in Claude Code's words", { is_error: true, content: '<tool_use_error>gone</tool_use_error>' }, '\n<tool_use_error>gone'],
    ['not failed', { is_error: false, content: 'snow' }, '<tool_response>\nsnow'],
    ['null', { is_error: null, content: 'snow' }, '<tool_response>\nsnow'],
    ['empty', { content: '' }, '<tool_response>\n\n</tool_response>'],
  ])('%s', async (_, result, want) => expect((await serve().anthropic(result)).prompt).toContain(want));

  it.each(everyTemplate)('%s tells of a failure without a word, and of an empty result', async (_, source) => {
    const { anthropic } = serve(source);
    expect((await anthropic({ is_error: true })).prompt).toContain(silent);
    const [empty, full] = [await anthropic({ content: '' }), await anthropic({ content: 'SNOW' })];
    expect(empty.prompt).toBe(full.prompt.replace('SNOW', ''));
  });

  it.each<[object, RegExp]>([
    [{ content: [{ type: 'image', source: {} }] }, /content\[0\]\.source.*expected .*base64/],
    [{ content: [{ type: 'document' }] }, /documents and blocks of server tools are not read here/],
    [{ is_error: 'yes' }, /is_error.*expected true or false/],
  ])('%j is refused', async (result, message) => {
    const { status, text } = await serve().anthropic(result);
    expect([status, text]).toEqual([400, expect.stringMatching(message)]);
  });
});

it('a text block has no citations: the AI SDK takes a list alone, and null throws there', async () => {
  const body = { max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] };
  const { text } = await serve().post('/v1/messages', body);
  expect((JSON.parse(text) as { content: object[] }).content).toEqual([{ type: 'text', text: 'ok' }]);
  expect((await serve().post('/v1/messages', { ...body, stream: true })).text).not.toContain('citations');
});

describe('an image in a result is refused by a model without a projector, and other parts by their type', () => {
  const call = { id: 'abcdefgh1', type: 'function', function: { name: 'f', arguments: '{}' } };
  it.each<[string, object, RegExp]>([
    [
      '/v1/chat/completions',
      {
        messages: [
          { role: 'user', content: 'Hi' },
          { role: 'assistant', tool_calls: [call] },
          { role: 'tool', tool_call_id: 'abcdefgh1', content: [{ type: 'input_image', image_url: 'x' }] },
        ],
      },
      /input_image/,
    ],
    [
      '/v1/responses',
      {
        input: [
          { role: 'user', content: 'Hi' },
          { type: 'function_call', call_id: 'abcdefgh1', name: 'f', arguments: '{}' },
          { type: 'function_call_output', call_id: 'abcdefgh1', output: [{ type: 'input_image', image_url: 'x' }] },
        ],
      },
      /without a projector/,
    ],
    [
      '/v1/responses',
      {
        input: [
          { role: 'user', content: 'Hi' },
          { type: 'function_call', call_id: 'abcdefgh1', name: 'f', arguments: '{}' },
          { type: 'function_call_output', call_id: 'abcdefgh1', output: [{ type: 'input_file', file_id: 'x' }] },
        ],
      },
      /input_file/,
    ],
  ])('%s', async (path, body, message) => {
    const { status, text } = await serve().post(path, body);
    expect([status, text]).toEqual([400, expect.stringMatching(message)]);
  });
});

describe("the AI SDK's", () => {
  type Output = Extract<Extract<ModelMessage, { role: 'tool' }>['content'][number], { type: 'tool-result' }>['output'];
  it.each<[Output, string]>([
    [{ type: 'error-text', value: '' }, silent],
    [{ type: 'error-text', value: 'gone' }, 'Error: gone'],
    [{ type: 'error-json', value: { code: 7 } }, 'Error: {"code":7}'],
    [{ type: 'execution-denied', reason: '' }, 'The call was not allowed.'],
    [{ type: 'execution-denied' }, 'The call was not allowed.'],
    [{ type: 'text', value: 'snow' }, '<tool_response>\nsnow'],
  ])('%j', async (output, want) => {
    const { backend, seen } = serve();
    const messages: ModelMessage[] = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: [{ type: 'tool-call', toolCallId: 'a', toolName: 'f', input: {} }] },
      { role: 'tool', content: [{ type: 'tool-result', toolCallId: 'a', toolName: 'f', output }] },
    ];
    await generateText({ model: languageModel(backend), messages });
    expect(seen()).toContain(want);
  });
});

it('a tool that throws says that it is an error', () => {
  const said = ['', 'gone', 'Error: gone', 'TypeError: x', 'errors are rare'].map(failureText);
  expect(said).toEqual([silent, 'Error: gone', 'Error: gone', 'Error: TypeError: x', 'Error: errors are rare']);
});
