/**
 * Text from an untrusted file reaches a terminal only as text: no escape sequence, no reversed
 * writing direction, no extra line.
 */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { forTerminal } from '../../src/cli/command.ts';
import { downloadProgress } from '../../src/cli/progress.ts';
import { QuantletError } from '../../src/errors.ts';
import { TYPE } from '../../src/type-traits.ts';
import { patchedLlama, runCli, temporaryFolder, writeTo } from '../support.ts';

const EVIL = 'a\u001b[2J\u009b31m\u0007\u202egood\rall is well\nquantlet: done';
const CONTROL = /[^\P{Cc}\n]|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;
const folder = temporaryFolder();
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

it('messages of errors', () => {
  const error = new QuantletError('ERR_GGUF_INVALID', `tensor "${EVIL}" is odd`);
  for (const text of [error.message, error.stack!.split('\n')[0]])
    expect(text).toContain('tensor "a\\u001b[2J\\u009b31m\\u0007\\u202egood\\u000dall is well\\nquantlet: done" is odd');
  expect(error.message).not.toMatch(CONTROL);
  expect(new QuantletError('ERR_IO', 'Überfluß, 数, 👩‍👩‍👧, عربى').message).toBe('Überfluß, 数, 👩‍👩‍👧, عربى');
});

describe('commands', () => {
  it.each<[string, Parameters<typeof patchedLlama>[0], string[]]>([
    ['an architecture', { metadata: { 'general.architecture': EVIL } }, ['run', '-p', 'x', '-n', '1']],
    ['a tokenizer', { metadata: { 'tokenizer.ggml.model': EVIL } }, ['tokenize', '-p', 'x']],
    [
      'a pre-tokenizer, in a warning',
      {
        metadata: {
          'tokenizer.ggml.model': 'gpt2',
          'tokenizer.ggml.pre': EVIL,
          'tokenizer.ggml.merges': { type: 'arr[str]', value: ['a b'] },
        },
      },
      ['tokenize', '-p', 'x'],
    ],
    [
      'a key of the wrong type',
      { metadata: { 'llama.block_count': { type: 'str', value: EVIL.slice(0, 20) } } },
      ['run', '-p', 'x', '-n', '1'],
    ],
    ['a tensor that nothing asks for', { tensors: { [EVIL]: { type: TYPE.f32, ne: [1] } } }, ['inspect']],
  ])('%s', async (name, patch, [command, ...args]) => {
    const tensors = Object.keys(patch?.tensors ?? {}).length > 0;
    const file = writeTo(folder, `${name.replaceAll(/\W/g, '')}.gguf`, await patchedLlama(patch));
    const { stdout, stderr } = await runCli([command, '-m', file, ...args]);
    expect(tensors ? stdout : stderr).toContain(tensors ? 'output_norm.weight' : 'a\\u001b[2J');
    expect(stderr).not.toMatch(CONTROL);
    expect(stderr.trim().split('\n').length, stderr).toBeLessThanOrEqual(1);
    expect(stdout).not.toMatch(CONTROL);
  });
});

it('what a model writes: told to a terminal, given to files as it is', () => {
  const text = 'one\ttwo\nthree\u001b[31m\u200fעברית';
  vi.stubGlobal('process', { ...process, stdout: { isTTY: true } });
  expect(forTerminal(text)).toBe('one\ttwo\nthree\\u001b[31m\u200fעברית');
  vi.stubGlobal('process', { ...process, stdout: { isTTY: false } });
  expect(forTerminal(text)).toBe(text);
});

it('the name of a file that is downloaded', () => {
  const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  const progress = downloadProgress(`${EVIL}.gguf`);
  progress.set(0, 1000);
  progress.waiting();
  expect(written).toHaveBeenCalledTimes(2);
  for (const [line] of written.mock.calls) expect(String(line)).not.toMatch(/[^\P{Cc}\n]|\n./u);
});
