/**
 * Readers of stdout and stderr that go away: no command fails, files are finished, and the exit
 * code stays the same.
 */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { at, cliPath, type Exit, hasFullDisk, llamaModel, runCli, runProgram, shippedModel, temporaryFolder, writeTo } from '../support.ts';

const folder = temporaryFolder();
const text = writeTo(folder, 'text.txt', 'Once upon a time there was a little dog who lived in a big house. '.repeat(8));
const bert = at('test/golden/arch/bert.gguf');
const base = join(folder, 'base.kld');
const manifest = join(folder, 'wrong.manifest');
const lines = join(folder, 'lines.jsonl');
const schema = '{"type":"object","properties":{"a":{"type":"string","maxLength":40}},"required":["a"]}';

beforeAll(async () => {
  await runCli(['perplexity', '-m', llamaModel, '-f', text, '-c', 32, '--kl-divergence-base', base]);
  const { stdout } = await runCli(['gguf-hash', '--no-layer', llamaModel]);
  writeFileSync(manifest, stdout.replace(/ [0-9a-f]{64} /, ` ${'0'.repeat(64)} `));
  const line = (id: number): string =>
    JSON.stringify({
      custom_id: `${id}`,
      method: 'POST',
      url: '/v1/completions',
      body: { prompt: 'the', max_tokens: 4, temperature: 0, seed: 1 },
    });
  writeFileSync(lines, `${[1, 2, 3, 4].map(line).join('\n')}\n`);
});

interface Case {
  readonly args: readonly (string | number)[];
  /** Exit code of an undisturbed run. */
  readonly code?: number;
  /** Exit code if nobody reads stdout. */
  readonly unread?: number;
  readonly input?: string;
  /** Reads the file that the command makes, which is OUT in its arguments. */
  readonly makes?: (bytes: Buffer) => unknown;
  /** True if the command writes to stdout while it works. */
  readonly streams?: true;
}

const exact = (bytes: Buffer): string => bytes.toString('latin1');
/** Sorted lines, without fields that differ between two runs. */
const answers = (bytes: Buffer): unknown =>
  String(bytes)
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { response: { body: { choices: unknown } } }).response.body.choices);

const RUN = ['run', '-m', llamaModel, '-t', 1, '--temp', 0, '--ignore-eos', '--verbose', '-p', 'the cat'] as const;
const CHAT = ['chat', '-m', shippedModel, '-t', 1, '--temp', 0, '--verbose'] as const;
const CASES: Readonly<Record<string, Case>> = {
  run: { args: [...RUN, '-n', 40] },
  'run --json': { args: [...RUN, '-n', 8, '--json'] },
  'run with a schema': { args: [...RUN, '-n', 60, '-j', schema] },
  'run --prompt-cache': { args: [...RUN, '-n', 40, '--prompt-cache', 'OUT'], makes: exact, streams: true },
  'run --json --prompt-cache': { args: [...RUN, '-n', 8, '--json', '--prompt-cache', 'OUT'], makes: exact },
  chat: { args: [...CHAT, '-p', 'Tell me a story', '-n', 40, '--show-timings'], streams: true },
  'chat --json': { args: [...CHAT, '-p', 'Tell me a story', '-n', 8, '--json'] },
  'chat from a pipe': { args: [...CHAT, '-n', 8], input: 'Tell me a story\nAnother\n/speed\n', streams: true },
  'batch, its results in a file': {
    args: ['batch', '-m', llamaModel, '-i', lines, '-o', 'OUT', '--parallel', 1, '--verbose'],
    makes: answers,
  },
  // Lines whose results nobody read stay unfinished.
  'batch, its results on stdout': { args: ['batch', '-m', llamaModel, '-i', lines, '-o', '-', '--parallel', 1, '--verbose'], unread: 1 },
  quantize: { args: ['quantize', '--allow-requantize', llamaModel, 'OUT', 'Q8_0', 1], makes: exact },
  'quantize --dry-run': { args: ['quantize', '--dry-run', llamaModel, 'Q8_0'] },
  rotate: { args: ['rotate', llamaModel, 'OUT', '-t', 1], makes: exact },
  'gguf-split': { args: ['gguf-split', '--merge', llamaModel, 'OUT'], makes: exact },
  'gguf-split --dry-run': { args: ['gguf-split', '--dry-run', llamaModel, join(folder, 'split')] },
  imatrix: { args: ['imatrix', '-m', llamaModel, '-f', text, '-c', 32, '-t', 1, '--verbose', '-o', 'OUT'], makes: (b) => b.length },
  perplexity: { args: ['perplexity', '-m', llamaModel, '-f', text, '-c', 32, '--verbose'], streams: true },
  'perplexity --save-all-logits': {
    args: ['perplexity', '-m', llamaModel, '-f', text, '-c', 32, '--verbose', '--save-all-logits', 'OUT'],
    makes: exact,
    streams: true,
  },
  'perplexity --kl-divergence': {
    args: ['perplexity', '-m', llamaModel, '--kl-divergence-base', base, '--kl-divergence', '--verbose'],
    streams: true,
  },
  embed: { args: ['embed', '-m', bert, '-p', 'the cat', '--verbose'] },
  bench: { args: ['bench', '-m', llamaModel, '-p', 8, '-n', 4, '-r', 1, '--verbose'] },
  tokenize: { args: ['tokenize', '-m', llamaModel, '-p', 'the cat'] },
  inspect: { args: ['inspect', llamaModel] },
  'inspect --json': { args: ['inspect', shippedModel, '--json'] },
  'gguf-hash': { args: ['gguf-hash', llamaModel] },
  'gguf-hash --check': { args: ['gguf-hash', '--check', manifest, llamaModel], code: 1 },
  completion: { args: ['completion', 'bash'] },
  '--help': { args: ['--help'] },
  'run --help': { args: ['run', '--help'] },
  '--version': { args: ['--version'] },
  'no command': { args: [], code: 2 },
  'a file that is not there': { args: ['run', '-m', join(folder, 'none.gguf')], code: 1 },
  'bad usage': { args: ['run', '--dance'], code: 2 },
};

type Stream = 'stdout' | 'stderr';

/** Runs the command line with a stream whose reader leaves before or after the first byte. */
function leaving(
  args: readonly string[],
  gone: Stream | undefined,
  early: boolean,
  input = '',
): Promise<{ code: unknown; stderr: string }> {
  const child = spawn(process.execPath, [cliPath, ...args], { timeout: 60_000, killSignal: 'SIGKILL' });
  let stderr = '';
  child.stderr.on('data', (bytes) => (stderr += String(bytes)));
  child.stdout.on('data', () => {});
  if (gone && early) child[gone].destroy();
  else if (gone) child[gone].once('data', () => child[gone].destroy());
  child.stdin.on('error', () => {}).end(input);
  return new Promise((resolve) => child.on('close', (code, signal) => resolve({ code: code ?? signal, stderr })));
}

describe.each(Object.entries(CASES))('%s', (name, { args, code = 0, unread = code, input, makes, streams }) => {
  const output = (run: string): string => join(folder, `${name} ${run}`.replaceAll(/\W/g, '_'));
  const named = (run: string): string[] => args.map((arg) => (arg === 'OUT' ? output(run) : String(arg)));
  const made = (run: string): unknown => makes?.(readFileSync(output(run)));
  const goes = async (run: string, gone: Stream | undefined, early: boolean): Promise<unknown> => {
    const { code, stderr } = await leaving(named(run), gone, early, input);
    expect(stderr, run).not.toMatch(/EPIPE.*\n +at |^ +at /m);
    return [code, made(run)];
  };

  it('ends as it would', async () => {
    const want = makes && ((await goes('whole', undefined, true)) as [unknown, unknown])[1];
    const [early, middle, deaf] = await Promise.all([
      goes('early', 'stdout', true),
      streams && goes('middle', 'stdout', false),
      goes('deaf', 'stderr', true),
    ]);
    expect({ early, deaf }).toEqual({ early: [unread, want], deaf: [code, want] });
    if (streams) expect(middle).toEqual([unread, want]);
  }, 120_000);
});

describe('a run without an end', () => {
  const endless = [...RUN, '-n', -1, '--context-shift'];
  it.each<[string, Case['args']]>([
    ['that only prints', []],
    ['that writes its cache', ['--prompt-cache', join(folder, 'endless.cache')]],
  ])('%s', async (_, [flag, cache]) => {
    const args = flag === undefined ? endless : [...endless, flag, cache];
    expect(await leaving(args.map(String), 'stdout', false)).toMatchObject({ code: 0 });
    if (flag !== undefined) expect(existsSync(String(cache))).toBe(true);
  });
});

/** If output cannot be written, the exit code says so, and files are still finished. */
describe.runIf(hasFullDisk)('a disk that is full', () => {
  const shell = (redirect: string, ...args: readonly (string | number)[]): Promise<Exit> =>
    runProgram('sh', ['-c', `"$@" ${redirect}`, 'sh', process.execPath, cliPath, ...args.map(String)]);
  const output = join(folder, 'full.gguf');
  const quantize = ['quantize', '--allow-requantize', llamaModel, output, 'Q8_0', 1];

  it('under stdout', async () => {
    const { code, stderr } = await shell('> /dev/full', ...quantize);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/cannot write the output: there is no space left \(ERR_IO\)\n$/)]);
    expect(existsSync(output)).toBe(true);
    expect(await shell('> /dev/full', 'run', '-m', llamaModel, '-p', 'the', '-n', 4)).toMatchObject({
      code: 1,
      stderr: 'quantlet: cannot write the output: there is no space left (ERR_IO)\n',
    });
  });

  it('under stderr', async () => {
    for (const args of [quantize, [...RUN, '-n', 4]]) expect((await shell('2> /dev/full', ...args)).code).toBe(0);
  });
});
