/** The flags of quantlet run. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { chat } from '../../../src/cli/chat.ts';
import type { Command } from '../../../src/cli/command.ts';
import { run } from '../../../src/cli/run.ts';
import { CONVERSATION_FLAGS } from '../../../src/cli/template-options.ts';
import { tokenize } from '../../../src/cli/tokenize.ts';
import { loadModel } from '../../../src/entry/node.ts';
import { failure, llamaModel, runCli, shippedModel, writeTo } from '../../support.ts';
import { bytesOf } from '../../vision/golden.ts';
import { invoke, type Args } from '../commands.ts';
import { generatedText } from './generated-text.ts';
import { loadOptions, loads } from './load-options.ts';
import { modelFiles } from './model-files.ts';
import { samplerFlags } from './sampler-flags.ts';
import { BASE, folder, seeing, template, without, json, report, describeFlags } from './support.ts';

// Calls go through to the library, and a spy records them.
vi.mock(import('../../../src/entry/node.ts'), { spy: true });

describeFlags(run, (effect) => {
  loadOptions(run, effect);
  modelFiles(run, effect);
  samplerFlags(run, effect);
  generatedText(run, effect);

  effect(['cacheRotation'], "llama.cpp's LLAMA_ATTN_ROT_DISABLE does the same where no flag says otherwise", async () => {
    vi.stubEnv('LLAMA_ATTN_ROT_DISABLE', '1');
    expect([...(await loads(run, [])), ...(await loads(run, ['--cache-rotation']))]).toMatchObject(
      [false, true].map((cacheRotation) => ({ cacheRotation })),
    );
    vi.stubEnv('LLAMA_ATTN_ROT_DISABLE', '0');
    expect((await loads(run, []))[0]).not.toMatchObject({ cacheRotation: false });
    vi.unstubAllEnvs();
  });
  const ids = async (...args: Args): Promise<number[]> => (await report(run, ...args)).prompt_ids;
  effect(['prompt', 'file', 'escape'], 'the prompt, its escapes read or not; the last of -p and -f counts', async () => {
    const real = await ids('-p', 'a\nb');
    expect(await ids('-p', 'a\\nb')).toEqual(real);
    expect(await ids('-p', 'a\\nb', '-e')).toEqual(real);
    expect(await ids('-p', 'a\\nb', '--no-escape')).not.toEqual(real);
    const file = writeTo(folder, 'prompt.txt', 'a\nb\n');
    expect(await ids('-f', file)).toEqual(real);
    expect(await ids('-f', file, '-p', 'x')).toEqual(await ids('-p', 'x'));
  });
  const looks = async (...args: Args): Promise<{ prompt_ids: number[]; ids: number[] }> => {
    const argv = [...without(BASE.run, '-m'), '-m', seeing.model, '--mmproj', seeing.mmproj, '--temp', 0, ...args];
    return JSON.parse((await invoke(run, argv)).stdout) as { prompt_ids: number[]; ids: number[] };
  };
  effect(['image'], 'images in place of the markers, or in front of the prompt', async () => {
    const picture = writeTo(folder, 'shapes.png', bytesOf('shapes.png'));
    const inFront = await looks('--image', picture, '-p', 'What?');
    expect(inFront.prompt_ids.filter((id) => id === -1)).toHaveLength(28);
    expect(await looks('--image', picture, '-p', '<__media__>What?')).toMatchObject({ prompt_ids: inFront.prompt_ids, ids: inFront.ids });
    const two = await looks('--image', `${picture},${picture}`, '-p', '<__media__> and <__media__>');
    expect(two.prompt_ids.filter((id) => id === -1)).toHaveLength(56);
    const { message } = await failure(() => looks('--image', picture, '-p', '<__media__> and <__media__>'));
    expect(message).toContain('2 markers');
  });
  effect(['contextShift', 'keep'], 'where the context is full the older half is left out, but for what is kept', async () => {
    const args = ['-c', 24, '-n', 60, '--temp', 0, '--ignore-eos'] as const;
    expect(await report(run, ...args)).toMatchObject({ stop_reason: 'length' });
    const shifted = await report(run, ...args, '--context-shift');
    expect(shifted).toMatchObject({ stop_reason: 'length', ids: { length: 60 } });
    expect((await report(run, ...args, '--context-shift', '--keep', -1)).ids).not.toEqual(shifted.ids);
    expect((await report(run, ...args, '--context-shift', '--no-context-shift')).stop_reason).toBe('length');
  });
  effect(['special'], 'control tokens are shown', async () => {
    const [, eos] = await json<number[]>(tokenize, '-p', '</s>');
    const likely = ['-n', 3, '-l', `${eos}+1000`, '--ignore-eos'] as const;
    const plain = (await report(run, ...likely)).text;
    expect(plain).not.toContain('</s>');
    expect((await report(run, '-l', `${eos - 1}+1000`, '-n', 3, '-sp')).text).toContain('<s>');
  });
  effect(['conversation', ...CONVERSATION_FLAGS, 'color'], 'a conversation, as chat has it', async () => {
    const args = ['-p', 'a dog', '-n', 8, '--temp', 0, '--json', '-m', llamaModel, '--build', 'simd', '--no-warmup'] as const;
    const said = async (c: Command, ...more: Args): Promise<unknown> => {
      const { content } = JSON.parse((await invoke(c, [...args, ...more])).stdout) as { content?: string };
      return content;
    };
    for (const more of [
      ['--chat-template', 'llama3'],
      ['--chat-template-file', writeTo(folder, 'run.jinja', template('#'))],
      ['-sys', 'Be kind.'],
      ['-sysf', writeTo(folder, 'system.txt', 'Be kind.\n')],
      ['-st'],
      ['--chat-template-kwargs', '{}'],
      ['-rea', 'off'],
      ['--reasoning-format', 'none'],
      ['--reasoning-budget', 0],
      ['--reasoning-effort', 'low'],
    ] as Args[])
      expect(await said(run, ...more), more.join(' ')).toBe(await said(chat, ...more));
    expect(await said(run, '-st', '-no-cnv')).toBeUndefined();
    // -cnv and -i then ask for messages; standard input is empty here.
    expect((await runCli(['run', ...without(args, '--json', 1), '-cnv'], { input: '' })).stdout).toBe(
      (await runCli(['chat', ...without(args, '--json', 1), '-i', '--color', 'off'], { input: '' })).stdout,
    );
  });
  effect(['quiet', 'perf'], 'no summary', async () => {
    const args = without(BASE.run, '--json', 1);
    expect((await invoke(run, args)).stderr).toContain('tokens/s');
    for (const flag of ['--log-disable', '--no-perf']) expect((await invoke(run, [...args, flag])).stderr).toBe('');
  });
  effect(['displayPrompt'], 'the text alone', async () => {
    const args = [...without(BASE.run, '--json', 1), '--temp', 0];
    const { text: want } = await report(run, '--temp', 0);
    expect((await invoke(run, args)).stdout).toBe(`the cat${want}\n`);
    expect((await invoke(run, [...args, '--no-display-prompt'])).stdout).toBe(`${want}\n`);
  });
  effect(['promptCache', 'promptCacheAll', 'promptCacheRo'], 'the state of the prompt, or of all, is written, or only read', async () => {
    const file = (name: string): string => join(folder, name);
    await report(run, '--prompt-cache', file('prompt.state'));
    await report(run, '--prompt-cache', file('all.state'), '--prompt-cache-all');
    const size = (name: string): number => readFileSync(file(name)).length;
    expect(size('all.state')).toBeGreaterThan(size('prompt.state'));
    const before = readFileSync(file('prompt.state'));
    await report(run, '-p', 'the cat sat on the mat', '--prompt-cache', file('prompt.state'), '--prompt-cache-ro');
    expect(readFileSync(file('prompt.state')).equals(before)).toBe(true);
    const { timings } = await json<{ timings: { prompt_n: number } }>(
      run,
      '-p',
      'the cat sat',
      '--prompt-cache',
      file('prompt.state'),
      '--prompt-cache-ro',
    );
    expect(timings.prompt_n).toBeLessThan((await ids('-p', 'the cat sat')).length);
  });
  it('the model that ships is the one that runs without -m', async () => {
    await invoke(run, ['-p', 'x', '-n', 1, '--build', 'simd', '--no-warmup', '--json']);
    expect(vi.mocked(loadModel).mock.calls.at(-1)![0]).toBe(shippedModel);
  });
});
