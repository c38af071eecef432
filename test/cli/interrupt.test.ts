/** Ctrl-C at the worst moment: before the command began to listen. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { COMMAND_NAMES, loadCommand } from '../../src/cli/commands.ts';
import { temporaryFolder } from '../support.ts';
import { listening, type Args } from './commands.ts';

const folder = temporaryFolder();
const text = join(folder, 'text.txt');
writeFileSync(text, 'Once upon a time there was a dog. '.repeat(200));
const lines = join(folder, 'in.jsonl');
writeFileSync(lines, '{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Once", "max_tokens": 2}}\n');
const out = join(folder, 'out');

/** Arguments that start each long-running command. The other commands finish at once. */
const LONG: Readonly<Record<string, Args>> = {
  run: ['-p', 'Once', '-n', 2],
  chat: ['-p', 'Once', '-n', 2],
  serve: ['--port', 0],
  batch: ['-i', lines, '-o', out],
  embed: ['-p', 'Once'],
  bench: ['-p', 8, '-n', 2, '-r', 1],
  perplexity: ['-f', text, '-c', 64],
  imatrix: ['-f', text, '-c', 64, '-o', out],
};

describe('a command that is interrupted before it begins', () => {
  it.each(Object.keys(LONG))('%s ends', { timeout: 60_000 }, async (name) => {
    const interrupted = AbortSignal.abort(new DOMException('interrupted', 'AbortError'));
    const command = (await loadCommand(name))!;
    const ended = await listening(() => command.run(LONG[name].map(String), interrupted).catch((error: unknown) => error));
    expect(ended === 130 || ended === interrupted.reason, String(ended)).toBe(true);
  });

  it('is among those that there are', () => expect(COMMAND_NAMES).toEqual(expect.arrayContaining(Object.keys(LONG))));
});
