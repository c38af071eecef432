/**
 * Outputs that would destroy something else: files that a command reads, and files that `batch`
 * appends records to.
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, linkSync, lstatSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { batch } from '../../src/cli/batch.ts';
import type { Command } from '../../src/cli/command.ts';
import { imatrix } from '../../src/cli/imatrix.ts';
import { perplexity } from '../../src/cli/perplexity.ts';
import { quantize } from '../../src/cli/quantize.ts';
import { rotate } from '../../src/cli/rotate.ts';
import { run } from '../../src/cli/run.ts';
import { sparsify } from '../../src/cli/sparsify.ts';
import { cliPath, failure, llamaModel, temporaryFolder } from '../support.ts';
import { invoke, socketAt, written, type Args } from './commands.ts';

const folder = temporaryFolder();
const at = (name: string): string => join(folder, name);
const text = at('text.txt');
beforeEach(() => {
  for (const name of readdirSync(folder)) rmSync(at(name), { recursive: true });
  writeFileSync(text, 'Once upon a time there was a little dog who lived in a big house. '.repeat(8));
});

describe('what a command reads is not written over', () => {
  const model = at('model.gguf');
  const lines = at('in.jsonl');
  const measured = ['-m', model, '-f', text, '-c', 32, '-t', 1, '--chunks', 2];
  beforeEach(() => {
    copyFileSync(llamaModel, model);
    writeFileSync(lines, '');
  });

  it.each<[string, Command, string, Args]>([
    ['imatrix', imatrix, model, [...measured, '-o']],
    ['imatrix, the text', imatrix, text, [...measured, '-o']],
    ['perplexity', perplexity, model, [...measured, '--save-all-logits']],
    ['perplexity, the text', perplexity, text, [...measured, '--save-all-logits']],
    ['run, the draft model', run, model, ['-m', llamaModel, '-md', model, '-p', 'x', '-n', 1, '--prompt-cache']],
    ['run, the text', run, text, ['-m', model, '-f', text, '-n', 1, '--prompt-cache']],
    ['run, an adapter', run, text, ['-m', model, '-p', 'x', '-n', 1, '--lora', `no.gguf,${text}`, '--prompt-cache']],
    ['run, a scaled adapter', run, text, ['-m', model, '-p', 'x', '-n', 1, '--lora-scaled', `${text}:0.5`, '--prompt-cache']],
    ['batch', batch, model, ['-m', model, '-i', lines, '-o']],
    ['batch, the lines', batch, lines, ['-m', model, '-i', lines, '-o', at('out'), '--errors']],
    ['batch, errors', batch, model, ['-m', model, '-i', lines, '-o', at('out'), '--errors']],
    ['batch, a template', batch, text, ['-m', model, '-i', lines, '--chat-template-file', text, '-o']],
    ['sparsify, the text', sparsify, text, ['-m', model, '-f', text, '-o']],
    ['rotate, the text', rotate, text, [model, at('out'), '--learn', text, '--checkpoint']],
  ])('%s', async (_, command, output, args) => {
    const [old, link] = [readFileSync(output), at('same')];
    linkSync(output, link); // so that a copy of the old file would remain
    expect(await failure(invoke(command, [...args, output]))).toMatchObject({
      code: 'ERR_USAGE',
      message: expect.stringContaining(output),
    });
    expect([readFileSync(output).equals(old), existsSync(at('out'))]).toEqual([true, false]);
  });

  it('rotate: the result and the checkpoint are two files', async () => {
    const learning = [model, at('out'), '--learn', text, '--checkpoint', join(folder, '.', 'out')];
    expect((await failure(invoke(rotate, learning))).code).toBe('ERR_USAGE');
  });

  it('quantize, the importance weights', async () => {
    await invoke(imatrix, [...measured, '-o', at('i.gguf')]);
    const same = ['--allow-requantize', '--imatrix', at('i.gguf'), model, at('i.gguf'), 'Q4_0', 1];
    expect((await failure(invoke(quantize, same))).code).toBe('ERR_USAGE');
  });

  it('imatrix: what --in-file gave may be added to', async () => {
    await invoke(imatrix, [...measured, '-o', at('i.gguf')]);
    await invoke(imatrix, [...measured, '--in-file', at('i.gguf'), '-o', at('i.gguf')]);
  });
});

/** A batch of one line. */
const batchLines = (): void =>
  writeFileSync(
    text,
    JSON.stringify({ custom_id: 'a', method: 'POST', url: '/v1/completions', body: { prompt: 'the cat', max_tokens: 2, temperature: 0 } }),
  );
const batchTo = (...output: string[]): Args => ['-m', llamaModel, '-i', text, '--no-warmup', '-t', 1, '-o', ...output];

describe('pipes and devices of batch', () => {
  beforeEach(batchLines);
  const answered = (got: Buffer): string[] =>
    got
      .toString()
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as { custom_id: string }).custom_id);

  it('a pipe gets the records', async () => {
    const pipe = at('pipe');
    execFileSync('mkfifo', [pipe]);
    const [{ code }, got] = await Promise.all([invoke(batch, batchTo(pipe)), written('cat', pipe)]);
    expect([code, answered(got), lstatSync(pipe).isFIFO()]).toEqual([0, ['a'], true]);
  });

  it('a socket gets them', async () => {
    const { server, received } = await socketAt(at('socket'));
    await invoke(batch, batchTo(at('socket')));
    expect(answered(await received)).toEqual(['a']);
    server.close();
  });

  it('a pipe that nobody reads does not hold up the end', async () => {
    execFileSync('mkfifo', [at('pipe')]);
    const stop = new AbortController();
    setTimeout(() => stop.abort(Object.assign(new Error('stopped'), { exitCode: 130 })), 200);
    expect(await batch.run(batchTo(at('pipe')).map(String), stop.signal)).toBe(130);
  });

  it('standard output keeps what the file has, and gets no summary', () => {
    writeFileSync(at('out'), '{"custom_id":"before"}\n');
    const line = `"$0" "$@" >> '${at('out')}'`;
    execFileSync('sh', ['-c', line, process.execPath, cliPath, 'batch', ...batchTo('/dev/stdout').map(String)], { stdio: 'pipe' });
    expect(answered(readFileSync(at('out')))).toEqual(['before', 'a']);
  });
});
