/** Shared by the tests of flags: the usual arguments of each command, and a test for every flag. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Command } from '../../../src/cli/command.ts';
import { FLAGS, type FlagKey } from '../../../src/cli/flags.ts';
import { serve } from '../../../src/cli/serve.ts';
import { sparsify } from '../../../src/cli/sparsify.ts';
import { goldenModel } from '../../arch/golden-models.ts';
import { at, llamaModel, runCli, temporaryFolder, writeTo } from '../../support.ts';
import { invoke, listening, type Args } from '../commands.ts';

export const folder = temporaryFolder();
/** Defines a test for the effect of flags. */
export type Effect = (keys: readonly FlagKey[], what: string, test: () => Promise<void>) => void;

/**
 * Defines the tests of a command's flags: first of --help, then those of `define`. A last test
 * fails for flags without a case.
 */
export function describeFlags(c: Command, define: (effect: Effect) => void): void {
  const covered = new Set<FlagKey>();
  const effect: Effect = (keys, what, test) => {
    for (const key of keys) covered.add(key);
    it(`${keys.map((key) => `--${FLAGS[key].name}`).join(', ')}: ${what}`, test);
  };
  describe(`the flags of ${c.name}`, () => {
    helpText(c, effect);
    define(effect);
    it('every flag has a case', () => expect(c.flags.filter((key) => !covered.has(key))).toEqual([]));
  });
}

function helpText(c: Command, effect: Effect): void {
  effect(['help'], 'usage, flags, examples whose flags the command takes', async () => {
    const { code, stdout, stderr } = await runCli([c.name, '--help']);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toContain(`usage: quantlet ${c.name}`);
    const [before, examples] = stdout.split('\nexamples:\n');
    const lines = examples
      .trim()
      .split('\n')
      .filter((line) => line.includes(`quantlet ${c.name}`));
    expect(lines.length).toBeGreaterThan(0);
    const known = new Set(before.split('\n').flatMap((line) => /^ {2}(-[^ ,]+(?:, -[^ ,]+)*)/.exec(line)?.[1].split(', ') ?? []));
    for (const key of c.flags) expect(known).toContain(`--${FLAGS[key].name}`);
    const flagsOf = (line: string): string[] =>
      [...line.replace(/'[^']*'|"[^"]*"/g, '""').matchAll(/ (--?[a-z][\w-]*)/g)].map(([, flag]) => flag);
    for (const line of lines) for (const flag of flagsOf(line)) expect(known, `${flag} of: ${line}`).toContain(flag);
  });
}

export const golden = (name: string): string => llamaModel.replace('llama.gguf', name);
/** A text of 12 lines. */
export const text = writeTo(folder, 'text.txt', 'the cat sat on the mat\n'.repeat(12));
/** A template whose mark before each message shows that the template was used. */
export const template = (mark: string): string => `{% for m in messages %}${mark}{{ m.role[0] }}{{ m.content }}{% endfor %}`;
/** A batch line. */
export const asked = (url: string, body: object, id = 'a'): string => `${JSON.stringify({ custom_id: id, method: 'POST', url, body })}\n`;
const lines = writeTo(folder, 'lines.jsonl', asked('/v1/completions', { prompt: 'the cat', max_tokens: 3 }));
export const answers = join(folder, 'answers.jsonl');

/** Override that gives a llama ReLU. */
export const RELU = 'powerinfer.sparse_threshold=float:0';
/** A llama with predictors of firing neurons. */
export const predictedModel = (): string => writeTo(folder, 'predicted.gguf', goldenModel('llama-predicted'));
/** A llama with its attention heads stored as rows. */
export async function headsModel(): Promise<string> {
  const file = join(folder, 'heads.gguf');
  await invoke(sparsify, ['-m', llamaModel, '-o', file, '--heads']);
  return file;
}

/** A model that sees images, and its projector. */
export const seeing = {
  model: at('test/golden/vision/idefics3.gguf'),
  mmproj: at('test/golden/vision/mmproj-idefics3.gguf'),
} as const;

/** The usual arguments of each command, chosen to run quickly. */
export const BASE: Readonly<Record<string, Args>> = {
  run: ['-m', llamaModel, '-p', 'the cat', '-n', 3, '--build', 'simd', '--no-warmup', '--json'],
  chat: ['-m', llamaModel, '-p', 'the cat', '-n', 3, '--build', 'simd', '--no-warmup', '--json', '--chat-template', template('')],
  serve: ['-m', llamaModel, '--port', 0, '--build', 'simd', '--no-warmup', '--chat-template', template('')],
  batch: ['-m', llamaModel, '-i', lines, '-o', answers, '--build', 'simd', '--no-warmup'],
  embed: ['-m', llamaModel, '-p', 'the cat', '--build', 'simd', '--no-warmup', '--embd-output-format', 'json'],
  bench: ['-m', llamaModel, '-p', 4, '-n', 2, '-r', 1, '-o', 'json', '-t', 1, '--build', 'simd', '--no-warmup'],
  perplexity: ['-m', llamaModel, '-f', text, '-c', 24, '--build', 'simd', '--json'],
  imatrix: ['-m', llamaModel, '-f', text, '-c', 24, '--build', 'simd', '--json', '-o', join(folder, 'imatrix.gguf')],
  sparsify: ['-m', llamaModel, '--override-kv', RELU, '-f', text, '-c', 24, '-t', 1, '--json', '-o', join(folder, 'sparse.gguf')],
  tokenize: ['-m', llamaModel, '-p', 'the cat', '--ids'],
  grammar: ['--json-schema', '{}'],
  inspect: ['-m', golden('llama-moe.gguf'), '--experts', '-f', text, '--json'],
};

/** Runs a server with these arguments after the usual ones, then stops it. */
export const served = <T>(args: Args, use: (url: string, stderr: () => string) => Promise<T>, base = BASE.serve): Promise<T> =>
  listening(async (said) => {
    const stop = new AbortController();
    const running = serve.run([...base, ...args].map(String), stop.signal);
    try {
      const up = async (): Promise<string> => {
        for (;;) {
          const url = /serves .* at (https?:\S+)/.exec(said().stderr)?.[1];
          if (url) return url;
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      };
      const url = await Promise.race([up(), running.then(() => Promise.reject(new Error('the server ended by itself')))]);
      return await use(url, () => said().stderr);
    } finally {
      stop.abort();
      await running.catch(() => 0);
    }
  });

/** Runs a command with these arguments after the usual ones. */
export const work = (c: Command, args: Args, base = BASE[c.name]): Promise<unknown> =>
  c === serve ? served(args, () => Promise.resolve(), base) : invoke(c, [...base, ...args]);
/** Removes a flag and its value, or a switch, from arguments. */
export const without = (args: Args, flag: string, n = 2): Args => (args.includes(flag) ? args.toSpliced(args.indexOf(flag), n) : args);

/** The JSON that a command prints for the usual arguments and these. */
export const json = async <T>(c: Command, ...args: Args): Promise<T> =>
  JSON.parse((await invoke(c, [...BASE[c.name], ...args])).stdout) as T;

export interface RunReport {
  prompt_ids: number[];
  ids: number[];
  text: string;
  content: string;
  stop_reason: string;
  build: string;
}
export const report = (c: Command, ...args: Args): Promise<RunReport> => json<RunReport>(c, ...args);
