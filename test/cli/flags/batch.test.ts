/** The flags of quantlet batch. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, vi } from 'vitest';
import { batch } from '../../../src/cli/batch.ts';
import { loadModel } from '../../../src/entry/node.ts';
import { llamaModel, writeTo } from '../../support.ts';
import { invoke, type Args } from '../commands.ts';
import { loadOptions } from './load-options.ts';
import { modelFiles } from './model-files.ts';
import { BASE, folder, answers, template, asked, describeFlags } from './support.ts';

// Calls go through to the library, and a spy records them.
vi.mock(import('../../../src/entry/node.ts'), { spy: true });

describeFlags(batch, (effect) => {
  loadOptions(batch, effect);
  modelFiles(batch, effect);

  const records = (
    file = answers,
  ): { custom_id: string | null; response: { status_code: number; body: object } | null; error: object | null }[] =>
    readFileSync(file, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as never);
  const batched = async (content: string, ...args: Args): Promise<ReturnType<typeof records>> => {
    await invoke(batch, [...BASE.batch, '-i', writeTo(folder, 'in.jsonl', content), ...args]);
    return records();
  };
  const three = ['a', 'b', 'c'].map((id) => asked('/v1/completions', { prompt: id, max_tokens: 2 }, id)).join('');

  effect(['batchInput', 'batchOutput', 'errorsFile'], 'lines, answers, and what is wrong, apart or among them', async () => {
    expect((await batched(`${three}x\n`)).map((record) => record.custom_id).sort()).toEqual(['a', 'b', 'c', null]);
    const errors = join(folder, 'errors.jsonl');
    expect((await batched(`${three}x\n`, '--errors', errors)).map((record) => record.custom_id).sort()).toEqual(['a', 'b', 'c']);
    expect(records(errors)).toMatchObject([{ custom_id: null, error: { code: 'invalid_json', line: 4 } }]);
  });
  effect(['shard', 'resume'], 'some of the lines, and the rest', async () => {
    expect((await batched(three, '--shard', '1/3')).map((record) => record.custom_id)).toEqual(['b']);
    expect((await batched(three, '--resume')).map((record) => record.custom_id).sort()).toEqual(['a', 'b', 'c']);
    expect(await batched(three, '--shard', '0/3')).toHaveLength(1);
  });
  effect(['embeddings'], 'vectors of a model that could generate', async () => {
    const line = asked('/v1/embeddings', { input: 'the cat' });
    expect((await batched(line, '--embeddings'))[0]).toMatchObject({ response: { status_code: 200 }, error: null });
    expect((await batched(line))[0].error).toMatchObject({ message: expect.stringContaining('--embeddings') as string });
  });
  effect(['chatTemplate', 'chatTemplateFile'], 'how messages are written', async () => {
    const line = asked('/v1/chat/completions', { messages: [{ role: 'user', content: 'x' }], max_tokens: 1 });
    const tokens = async (...args: Args): Promise<unknown> => (await batched(line, ...args))[0].response!.body;
    const short = { usage: { prompt_tokens: await tokenCount(template('#')) } };
    expect(await tokens('--chat-template', template('#'))).toMatchObject(short);
    expect(await tokens('--chat-template-file', writeTo(folder, 'c.jinja', template('#')))).toMatchObject(short);
    expect(await tokens('--chat-template', template('# # # #'))).not.toMatchObject(short);
  });
  /** Number of tokens of the message "x" in a template. */
  const tokenCount = async (source: string): Promise<number> => {
    const model = await loadModel(llamaModel, { build: 'simd', warmUp: false, chatTemplate: source });
    const { promptIds } = await model.chat([{ role: 'user', content: 'x' }], { maxTokens: 1 }).result();
    await model.dispose();
    return promptIds.length;
  };
});
