/** quantlet run in a shell: flags, output, exit codes, signals. */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  at,
  cliPath,
  failure,
  hasFullDisk,
  llamaModel,
  patchedLlama,
  root,
  runCli,
  runProgram,
  shippedModel,
  spawnWithInput,
  temporaryFolder,
  writeTo,
  type Exit,
} from '../support.ts';
import { invoke, never, type Args, type Said } from './commands.ts';
import { flagHelp, wrapped } from '../../src/cli/flag-help.ts';
import { run as runCommand } from '../../src/cli/run.ts';

const folder = temporaryFolder();
const BASE: Args = ['-m', llamaModel, '--temp', 0, '--no-warmup', '--ignore-eos'];
/** Runs the command in a process. */
const shell = (...args: Args): Promise<Exit> => runCli(['run', ...BASE, ...args]);
const run = (...args: Args): Promise<Said> => invoke(runCommand, [...BASE, ...args]);
interface Report {
  prompt_ids: number[];
  ids: number[];
  text: string;
  stop_reason: string;
  build: string;
  threads: number;
  timings: Record<string, number>;
}
const report = async (...args: Args): Promise<Report> => JSON.parse((await run('--json', ...args)).stdout) as Report;

describe('run', () => {
  it('stdout is the text, stderr one line of numbers, no colours, no progress bar', async () => {
    const { code, stdout, stderr } = await shell('-p', 'the cat', '-n', 12, '-t', 2, '--build', 'simd-threads');
    expect(code, stderr).toBe(0);
    expect(stdout.startsWith('the cat')).toBe(true);
    expect(stdout.endsWith('\n')).toBe(true);
    expect(stderr.trim()).toMatch(
      /^prompt \d+ tokens, [\d.]+ tokens\/s \| generation 12 tokens, [\d.]+ tokens\/s \| build simd-threads( with turbo)?, 2 threads$/,
    );
    expect(stderr).not.toMatch(/[\u001b█\r]/);
  });

  it('--json has the documented fields and nothing on stderr', async () => {
    const { code, stdout, stderr } = await shell('-p', 'the cat', '-n', 12, '-t', 2, '--json', '--build', 'simd-threads');
    expect([code, stderr]).toEqual([0, '']);
    const got = JSON.parse(stdout) as Report;
    expect(Object.keys(got)).toEqual(['prompt_ids', 'ids', 'text', 'stop_reason', 'build', 'turbo', 'threads', 'timings']);
    expect(Object.keys(got.timings)).toEqual([
      'load_ms',
      'warmup_ms',
      'prompt_n',
      'prompt_ms',
      'prompt_per_second',
      'predicted_n',
      'predicted_ms',
      'predicted_per_second',
    ]);
    expect(
      Object.values(got.timings).every((n) => Number.isFinite(n) && n >= 0),
      JSON.stringify(got.timings),
    ).toBe(true);
    expect([got.stop_reason, got.build, got.threads, got.ids.length, got.timings.prompt_n, got.timings.predicted_n]).toEqual([
      'length',
      'simd-threads',
      2,
      12,
      got.prompt_ids.length,
      12,
    ]);
    expect(got.prompt_ids[0], 'the beginning-of-text token comes first').toBe(1);
  });

  it('an empty prompt is the beginning-of-text token alone; the text streams as it comes in one piece', async () => {
    const { prompt_ids, text } = await report('-p', '', '-n', 20);
    expect(prompt_ids).toEqual([1]);
    expect((await run('-p', '', '-n', 20)).stdout).toBe(`${text.replace(/^ /, '')}\n`);
    expect((JSON.parse((await shell('--json', '-n', 20)).stdout) as Report).text).toBe(text);
  });

  it.each<[string, Args]>([
    ['-n -1 goes on to the end of the context', ['-p', 'x', '-n', -1, '-c', 32]],
    ['--seed -1', ['-p', 'x', '-n', 2, '--seed', -1]],
    ['-p "-5 + 3"', ['-p', '-5 + 3', '-n', 2]],
    ['-p --json is a text', ['-p', '--json', '-n', 2]],
    ['--temp=0 and --n-predict', ['-p', 'x', '--n-predict', 2, '--temp=0']],
    [
      'the sampling flags',
      [
        '-p',
        'x',
        '-n',
        2,
        '--temp',
        0.7,
        '--top-k',
        5,
        '--top-p',
        0.9,
        '--min-p',
        0.01,
        '--repeat-penalty',
        1.1,
        '--repeat-last-n',
        32,
        '--seed',
        3,
      ],
    ],
  ])('%s', async (_, args) => {
    const { code, stdout, stderr } = await run(...args);
    expect(code, stderr).toBe(0);
    expect(stdout).not.toBe('');
  });

  it.each<[string, Args]>([
    ['an unknown flag', ['--no-such-flag']],
    ['a value that cannot be', ['-p', 'x', '-t', 0]],
  ])('%s: one line, exit 2', async (_, args) => {
    const { code, stderr } = await shell(...args);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/^quantlet: [^\n]+\n$/)]);
  });

  // cli.ts maps both codes to the exit code 2, as the two cases above show.
  it.each<[string, string[], string]>([
    ['a flag of another command', ['-p', 'x', '--port', '5'], 'ERR_USAGE'],
    ['a bias without a sign', ['-l', '15'], 'ERR_USAGE'],
    ['a bias of plus infinity', ['-l', '15+inf'], 'ERR_USAGE'],
    ['a bias of no token', ['-l', '9999+1', '-n', '1'], 'ERR_INVALID_ARGUMENT'],
    ['a missing value', ['-p'], 'ERR_USAGE'],
    ['a word in place of a number', ['-n', 'many'], 'ERR_USAGE'],
    ['a whole number that is not', ['-n', '1.5'], 'ERR_USAGE'],
    ['an empty number', ['-n', ''], 'ERR_USAGE'],
    ['--temp nan', ['--temp', 'nan'], 'ERR_USAGE'],
    ['a value for a switch', ['--json=yes'], 'ERR_USAGE'],
    ['a word too many', ['-p', 'x', 'y'], 'ERR_USAGE'],
    ['-t 0', ['-t', '0'], 'ERR_INVALID_ARGUMENT'],
    ['-c -1', ['-c', '-1'], 'ERR_INVALID_ARGUMENT'],
    ['an unknown build', ['--build', 'avx2'], 'ERR_INVALID_ARGUMENT'],
  ])('bad usage: %s', async (_, args, want) => {
    const { code, message } = await failure(runCommand.run(['-m', llamaModel, ...args], never));
    expect(code, message).toBe(want);
  });

  it.each([
    ['--temprature', '--temperature'],
    ['--predic', '--predict'],
    ['--ctxsize', '--ctx-size'],
  ])('a flag that was misspelled: %s', async (given, meant) => {
    const { message } = await failure(runCommand.run([given, '1'], never));
    expect(message).toBe(`unknown flag ${given}; did you mean ${meant}? --help lists those of this command`);
  });

  it('what goes wrong behind the prompt has a line of its own', async () => {
    const { code, stdout } = await shell('-p', 'the cat', '--top-p', 5);
    expect([code, stdout]).toEqual([2, 'the cat\n']);
  });

  it('escapes in -p are read, unless --no-escape; -f reads a file', async () => {
    const ids = async (...args: string[]): Promise<number[]> => (await report(...args, '-n', 1)).prompt_ids;
    const real = await ids('-p', 'a\nb');
    const asIs = await ids('-p', 'a\\nb', '--no-escape');
    expect(await ids('-p', 'a\\nb')).toEqual(real);
    expect(asIs).not.toEqual(real);
    expect(await ids('-f', writeTo(folder, 'prompt.txt', 'a\nb\n'))).toEqual(real);
    expect((await shell('-f', `${folder}/none.txt`)).code).toBe(1);
  });

  it('-r ends the text where it comes up and is not shown; --no-display-prompt shows the rest alone', async () => {
    const { text } = await report('-p', 'the cat', '-n', 30);
    const stop = text.slice(6, 8);
    const shown = text.slice(0, text.indexOf(stop));
    expect((await run('-p', 'the cat', '-n', 30, '-r', stop, '-r', 'never to be seen')).stdout).toBe(`the cat${shown}\n`);
    expect((await report('-p', 'the cat', '-n', 30, '-r', stop)).stop_reason).toBe('stop');
    expect((await run('-p', 'the cat', '-n', 30, '--no-display-prompt')).stdout).toBe(`${text}\n`);
  });

  it('-l bans a token or makes it likely; --dry-sequence-breaker ends what DRY calls a repetition', async () => {
    const ids = async (...args: Args): Promise<number[]> =>
      (await report('-p', 'the cat', '-n', 6, '--temp', 0, '--ignore-eos', ...args)).ids;
    const [first] = await ids();
    const letter = (await report('-p', 'the cat', '-n', 1)).prompt_ids.at(-1)!;
    const likely = ['-l', `${letter}+1000`] as const;
    expect(await ids('-l', `${first}-inf`)).not.toContain(first);
    expect(await ids(...likely, '--logit-bias', `${first}-0.5`)).toEqual(Array(6).fill(letter));
    const dry = [...likely, '--dry-multiplier', 2000, '--dry-allowed-length', 1] as const;
    const { text } = await report('-p', 'the cat', '-n', 1, '--temp', 0, ...likely);
    expect(await ids(...dry, '--dry-sequence-breaker', 'none')).not.toEqual(Array(6).fill(letter));
    expect(await ids(...dry, '--dry-sequence-breaker', text), text).toEqual(Array(6).fill(letter));
  });

  it('QUANTLET_BUILD chooses the build, --build goes before it, a wrong one is refused', async () => {
    const build = async (env: Record<string, string>, ...args: string[]): Promise<string> => {
      const { code, stdout, stderr } = await runCli(['run', '-m', llamaModel, '-n', 1, '--json', '--no-warmup', ...args], { env });
      return code === 0 ? (JSON.parse(stdout) as Report).build : `${code} ${stderr}`;
    };
    expect(await build({ QUANTLET_BUILD: 'simd' })).toBe('simd');
    expect(await build({ QUANTLET_BUILD: 'simd' }, '--build', 'simd-threads')).toBe('simd-threads');
    // CPUs with a dot-add instruction use another build, which Node 20 computes wrong.
    expect(await build({ QUANTLET_BUILD: '' })).toMatch(/^(relaxed|dotadd)-threads$/);
    expect(await build({ QUANTLET_BUILD: 'mmx' })).toMatch(/^2 quantlet: .*"mmx".*\n$/);
  });

  it('the same seed gives the same text for any number of threads, another seed another', async () => {
    const text = async (seed: number, threads: number): Promise<string> =>
      (await report('-p', 'the', '-n', 40, '--temp', 1, '--seed', seed, '-t', threads)).text;
    const want = await text(7, 1);
    expect([await text(7, 2), await text(7, 3)]).toEqual([want, want]);
    expect(await text(8, 1)).not.toBe(want);
  });
});

describe('processes', () => {
  it.each(['simd', 'simd-threads'])('Ctrl-C in the middle of a generation, %s: the text so far, exit 130', async (build) => {
    // Thousands of tokens remain when the signal arrives.
    const long = writeTo(folder, 'long.gguf', await patchedLlama({ metadata: { 'llama.context_length': 16384 } }));
    let sent = false;
    const { code, stdout, stderr, ms } = await runCli(
      ['run', '-m', long, '-p', 'the', '-n', -1, '--ignore-eos', '--temp', 0, '--build', build, '-t', 2],
      {
        onStdout: (text, kill) => {
          if (!sent && text.length > 3) kill('SIGINT');
          sent ||= text.length > 3;
        },
      },
    );
    expect([code, stderr]).toEqual([130, '']);
    expect(stdout.startsWith('the')).toBe(true);
    expect(ms).toBeLessThan(10_000);
  });

  it('a reader that goes away is not an error', async () => {
    const child = spawn(process.execPath, [cliPath, 'run', '-m', llamaModel, '-p', 'the', '-n', '400', '--ignore-eos', '--temp', '0'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.stdout.once('data', () => child.stdout.destroy());
    const code = await new Promise((resolve) => child.on('close', resolve));
    expect(code, stderr).toBe(0);
    expect(stderr).not.toMatch(/EPIPE|\n\s+at /);
  });
});

describe('help and version', () => {
  it("--version is package.json's", async () => {
    const { version } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as { version: string };
    expect(await runCli(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n`, stderr: '' });
  });

  it.each([
    ['run', '0'],
    ['chat', '0'],
    ['serve', '0, or 4096 where that is more'],
    ['batch', '0, or 4096 where that is more'],
    ['embed', '0, or 4096 where that is more'],
    ['perplexity', '512'],
    ['imatrix', '512'],
    ['sparsify', '512'],
    ['inspect', '0, or 512 with --experts'],
  ])('--help of %s names the context that it takes without -c', async (command, size) => {
    expect((await runCli([command, '--help'])).stdout).toContain(`0: the length that the model was trained for (${size})\n`);
  });

  it('no command and an unknown one are usage errors', async () => {
    expect((await runCli([])).code).toBe(2);
    const { code, stderr } = await runCli(['dance']);
    expect([code, /dance.*run/.test(stderr)]).toEqual([2, true]);
  });

  it.each([
    [['sevre'], 'did you mean serve?'],
    [['info', shippedModel], 'did you mean inspect?'],
    [['server'], 'did you mean serve?'],
    [['-m', 'x.gguf', '-p', 'hi'], '-m is not a command; expected quantlet COMMAND -m ...'],
    [['--hlep'], 'did you mean --help?'],
    [['model.gguf'], 'use quantlet chat -m model.gguf to talk with the model'],
    [['serve', '--hots', '0.0.0.0'], 'did you mean --host?'],
    [['run', '-m', '', '-p', 'x'], '-m is empty; expected FILE|URL'],
    [['run', '-hf', ' ', '-p', 'x'], '-hf is empty; expected USER/REPO'],
    [['chat', '-p', 'x', '-j', 'schema.json'], '--json-schema-file (-jf) reads it from a file'],
  ])('%j is told what was meant', async (args, hint) => {
    const { code, stdout, stderr } = await runCli(args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(hint);
  });
});

describe('inspect', () => {
  it('lists metadata and tensors', async () => {
    const { code, stdout, stderr } = await runCli(['inspect', llamaModel]);
    expect([code, stderr]).toEqual([0, '']);
    for (const text of ['llama.block_count', 'general.architecture', 'blk.0.attn_q.weight', '[32, 32]', 'f32', '\nruns: makes text'])
      expect(stdout).toContain(text);
  });

  it('--json is one object', async () => {
    const { stdout } = await runCli(['inspect', shippedModel, '--json']);
    const all = JSON.parse(stdout) as {
      architecture: string;
      verdict: { runs: boolean };
      tensors: { name: string; type: string }[];
      metadata: Record<string, unknown>;
    };
    expect(all.architecture).toBe('llama');
    expect(all.verdict.runs).toBe(true);
    expect(all.tensors.find((t) => t.name === 'blk.0.attn_q.weight')?.type).toBe('q4_0');
    expect(all.metadata['general.architecture']).toBe('llama');
  });

  it.each<[string, string[], number]>([
    ['two files', ['a', 'b'], 2],
    ['a file that is not there', ['none.gguf'], 1],
    ['an unknown flag', ['--all'], 2],
  ])('%s', async (_, args, want) => {
    const { code, stderr } = await runCli(['inspect', ...args]);
    expect([code, stderr.split('\n').length], stderr).toEqual([want, 2]);
  });
});

describe('standard input and output', () => {
  const RUN = ['run', '-m', llamaModel, '--no-warmup', '--build', 'simd', '-n', 3, '--temp', 0];
  /**
   * Runs with input from a pipe of the shell. Except on Windows, Node would pass a socket, which
   * may never end and is not read.
   */
  const piped = async (input: string, ...args: string[]): Promise<string> => {
    const all = [cliPath, ...RUN.map(String), ...args];
    const onWindows = process.platform === 'win32';
    const words = onWindows ? all : ['-c', 'cat | "$0" "$@"', process.execPath, ...all];
    return (await runProgram(onWindows ? process.execPath : 'sh', words, { input })).stdout;
  };

  it.each([
    ['run', ['-n', 1]],
    ['chat', ['-n', 1, '--chat-template', 'chatml']],
    ['embed', []],
    ['tokenize', []],
  ])('%s says that a pipe next to a text is not read, and takes nothing of it', (name, more) => {
    const notes = writeTo(temporaryFolder(), 'notes.txt', 'a dog');
    const said = (...args: (string | number)[]): { stderr: string; status: number | null } => {
      const model = [
        '-m',
        name === 'embed' ? at('test/golden/arch/bert.gguf') : llamaModel,
        ...(name === 'tokenize' ? [] : ['--no-warmup']),
      ];
      return spawnWithInput(notes, name, ...[...model, ...more, ...args].map(String));
    };
    const told = process.platform === 'win32' ? '' : 'quantlet: standard input is not read, because a flag gives the text';
    for (const flag of ['-p', '-f']) {
      const { status, stderr } = said(flag, flag === '-p' ? 'the cat' : notes);
      expect([status, stderr.split(';')[0]]).toEqual([
        0,
        told === '' ? expect.not.stringContaining('standard input') : expect.stringContaining(told),
      ]);
    }
    expect(said('-f', '-').stderr).not.toContain('standard input');
    if (name === 'run' || name === 'chat') expect(said('-p', 'the cat', '--log-disable').stderr).not.toContain('standard input');
  });
  it('a text that is piped in is the prompt, -f - too; -p goes before it', async () => {
    const { stdout } = await shell('-p', 'the cat', '-n', 3, '--build', 'simd');
    expect(await piped('the cat\n')).toBe(stdout);
    expect(await piped('the cat\n', '-f', '-')).toBe(stdout);
    expect(await piped('a dog', '-p', 'the cat')).toBe(stdout);
  });

  it.runIf(hasFullDisk)('what cannot be written ends with one line', async () => {
    const args = [process.execPath, cliPath, ...RUN.map(String), '-p', 'x'];
    const { code, stderr } = await runProgram('sh', ['-c', '"$0" "$@" > /dev/full', ...args]);
    expect([code, stderr.match(/quantlet: .*/)?.[0]]).toEqual([1, 'quantlet: cannot write the output: there is no space left (ERR_IO)']);
  });

  it('a prompt that does not fit is refused before anything is printed, and named by its flags', async () => {
    const file = writeTo(folder, 'long.txt', 'the cat '.repeat(100));
    const { code, stdout, stderr } = await shell('-f', file, '-c', 16);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(
      /^quantlet: the prompt has \d+ tokens, and the context 16; shorten the prompt, or give a larger -c \(ERR_CONTEXT_FULL\)\n$/,
    );
  });

  it('a full context ends the text, as llama-completion does', async () => {
    const { code, stdout, stderr } = await shell('-p', 'the cat', '-c', 20, '-n', 64);
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(/^the cat/);
    expect(stderr).toContain('the context of 20 tokens is full');
  });

  it('messages about options name the flags that set them', async () => {
    expect((await shell('-p', 'x', '--top-p', 5)).stderr).toMatch(/^quantlet: --top-p is 5; expected /);
    expect((await shell('-p', 'x', '-n', -7)).stderr).toMatch(/^quantlet: --predict is -7; /);
    expect((await shell('-p', 'x', '-t', 0)).stderr).toMatch(/^quantlet: --threads is 0; /);
  });
});

it('help for a terminal ends its lines at words', () => {
  expect(wrapped('one two three four five six seven', 30, 4)).toBe('one two three four five\n    six seven');
  expect(wrapped('  /help            this list is a long one, longer than the terminal', 40, 0)).toBe(
    '  /help            this list is a long\n  one, longer than the terminal',
  );
  expect(wrapped(`at ${'x'.repeat(40)} end`, 30, 0)).toBe(`at\n${'x'.repeat(40)}\nend`);
  expect(wrapped('as it is', Infinity, 4)).toBe('as it is');
  const flags = flagHelp(['model', 'ctx', 'temp'], {}, 80).split('\n');
  expect(Math.max(...flags.map((line) => line.length))).toBeLessThanOrEqual(80);
  const words = (text: string): string[] => text.split(/\s+/);
  expect(words(flags.join('\n'))).toEqual(words(flagHelp(['model', 'ctx', 'temp'])));
});

it('help COMMAND is COMMAND --help; every command says its version', async () => {
  const { stdout } = await runCli(['run', '--help']);
  for (const same of [
    ['help', 'run'],
    ['run', '-h'],
  ])
    expect((await runCli(same)).stdout).toBe(stdout);
  expect((await runCli(['help'])).stdout).toBe((await runCli(['--help'])).stdout);
  expect((await runCli(['help', 'rnu'])).code).toBe(2);
  expect((await runCli(['llama-completion', '--version'])).stdout).toBe((await runCli(['--version'])).stdout);
});

it.each([['-t'], ['-tb']])('%s -1 is as many threads as without it', async (flag) => {
  const threads = async (...args: (string | number)[]): Promise<string | undefined> =>
    /build .*, (\d+) threads?/.exec((await shell('-p', 'the cat', '-n', 1, ...args)).stderr)?.[1];
  expect(await threads(flag, -1)).toBe(await threads());
});

it('-n below -2 is refused before anything is printed; one token has no speed', async () => {
  const { code, stdout, stderr } = await shell('-p', 'the cat', '-n', -5);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain('is -5; expected a whole number of at least 0, or -1 for no limit');
  expect((await shell('-p', 'the cat', '-n', 1)).stderr).toMatch(/generation 1 token \|/);
  expect(JSON.parse((await shell('-p', 'the cat', '-n', 1, '--json')).stdout)).toMatchObject({ timings: { predicted_per_second: 0 } });
});
