/**
 * Wrong arguments of loadModel: the error says what it accepts, and how to name models of the hub.
 */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { loadModel } from 'quantlet';
import { expect, it } from 'vitest';
import { repoHint } from '../../src/io/open-url.ts';
import { failure, temporaryFolder } from '../support.ts';

it.each([undefined, null, '', 5, true, () => 'm.gguf'])('%s: the error says what is accepted', async (source) => {
  for (const given of [source, [source]]) {
    const { code, message } = await failure(loadModel(given as never));
    expect([code, message]).toEqual([
      'ERR_INVALID_ARGUMENT',
      expect.stringMatching(/^the model is .*; expected a path or URL of a \.gguf file, hf:OWNER\/REPO, its bytes/),
    ]);
  }
});

it.each(['owner/repo', 'Qwen/Qwen2.5-0.5B-Instruct-GGUF', 'owner/repo:Q8_0', 'owner/repo/m-Q4_0.gguf'])(
  '%s: hints at hf:',
  async (source) => {
    const { code, message } = await failure(loadModel(source));
    expect([code, message]).toEqual([
      'ERR_SOURCE',
      expect.stringContaining(`there is no such file; a repository of the Hugging Face hub is written hf:${source}`),
    ]);
  },
);
it.each(['m.gguf', 'models/m.gguf', './owner/repo', '/owner/repo', 'a/b/c', 'owner/repo:', 'C:\\owner\\repo', '../repo'])(
  '%s: no hint',
  (path) => {
    expect(repoHint(path)).toBe('');
  },
);

it.each(['~/models/m.gguf', '~\\m.gguf'])('%s: explains that only shells expand ~', async (source) => {
  const { code, message } = await failure(loadModel(source));
  expect([code, message]).toEqual(['ERR_SOURCE', expect.stringContaining('only a shell replaces ~ by the home folder')]);
});

it('file://host/m.gguf: a coded error; on Windows the host is a share', async () => {
  const { code, message } = await failure(loadModel(new URL('file://host.invalid/m.gguf')));
  expect([code, message]).toEqual(
    process.platform === 'win32'
      ? ['ERR_SOURCE', expect.stringContaining('\\\\host.invalid\\m.gguf')]
      : ['ERR_INVALID_ARGUMENT', expect.stringMatching(/^the source is "file:\/\/host.invalid\/m.gguf".*expected/)],
  );
  expect((await failure(loadModel('file://host.invalid/m.gguf'))).code).toBe(code);
});

it.each(['file:///a%2Fb.gguf', 'file://[', 'http://['])('%s: a coded error', async (source) => {
  const { code, message } = await failure(loadModel(source));
  expect([code, message]).toEqual(['ERR_INVALID_ARGUMENT', expect.stringMatching(/^the source is ".*expected/)]);
  if (URL.canParse(source)) expect((await failure(loadModel(new URL(source)))).code).toBe('ERR_INVALID_ARGUMENT');
});

it('a pipe that nobody writes to and a device are refused at once', async () => {
  const pipe = join(temporaryFolder(), 'pipe');
  execFileSync('mkfifo', [pipe]);
  for (const source of [pipe, '/dev/null'])
    expect(await failure(loadModel(source))).toMatchObject({ code: 'ERR_SOURCE', message: expect.stringContaining('it is a pipe') });
});
