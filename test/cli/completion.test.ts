/** The completion scripts: every command and flag is in them, the shells read them, and bash and fish complete with them. */
import { execFileSync, spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { FLAGS, type FlagKey } from '../../src/cli/flags.ts';
import { root, runCli, temporaryFolder, writeTo } from '../support.ts';
import type * as Bench from '../../src/cli/bench.ts';
import type * as Serve from '../../src/cli/serve.ts';

const folder = temporaryFolder();
const dist = (name: string): string => new URL(`dist/cli/${name}.js`, root).href;
const { serve } = (await import(dist('serve'))) as typeof Serve;
const { bench } = (await import(dist('bench'))) as typeof Bench;
const script = async (shell: string): Promise<string> => writeTo(folder, `quantlet.${shell}`, (await runCli(['completion', shell])).stdout);
const scripts = { bash: await script('bash'), zsh: await script('zsh'), fish: await script('fish') };
const has = (shell: string): boolean => spawnSync(shell, ['--version']).status === 0;

it.each(Object.keys(scripts))('%s: every command, every flag of serve and bench in every spelling', async (shell) => {
  const text = (await runCli(['completion', shell])).stdout;
  for (const command of ['run', 'chat', 'serve', 'bench', 'quantize', 'inspect', 'completion']) expect(text).toMatch(new RegExp(`\\b${command}\\b`));
  for (const key of [...serve.flags, ...bench.flags] as FlagKey[]) {
    for (const spelling of [...FLAGS[key].aliases, `--${FLAGS[key].name}`]) expect(text, spelling).toContain(shell === 'fish' ? ` ${spelling.replace(/^--/, '-l ').replace(/^-(?=\w$)/, '-s ').replace(/^-(?=\w\w)/, '-o ').replace('-o -', '-')} ` : spelling);
  }
});

it('one shell is named, a known one', async () => {
  for (const args of [[], ['tcsh'], ['bash', 'zsh'], ['toString']]) expect((await runCli(['completion', ...args])).code, args.join(' ')).toBe(2);
});

const QUESTIONS: readonly (readonly [line: string, want: readonly string[]])[] = [
  ['quantlet per', ['perplexity']],
  ['quantlet serve --para', ['--parallel']],
  ['quantlet run --cache-type-k q', ['q8_0', 'q4_0']],
  ['quantlet run --grammar-f', ['--grammar-file']],
  ['quantlet completion z', ['zsh']],
];

describe.runIf(has('bash'))('bash', () => {
  it('reads it and completes', () => {
    execFileSync('bash', ['-n', scripts.bash]);
    for (const [line, want] of QUESTIONS) {
      const words = line.split(' ');
      const got = execFileSync('bash', ['-c', `source "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _quantlet; printf '%s\\n' "\${COMPREPLY[@]}"`, 'bash', scripts.bash, ...words], { encoding: 'utf8' });
      expect(got.trim().split('\n').sort(), line).toEqual([...want].sort());
    }
  });
});

describe.runIf(has('zsh'))('zsh', () => {
  it('reads it', () => {
    execFileSync('zsh', ['-n', scripts.zsh]);
  });
});

describe.runIf(has('fish'))('fish', () => {
  it('reads it and completes', () => {
    execFileSync('fish', ['-n', scripts.fish]);
    for (const [line, want] of QUESTIONS) {
      const got = execFileSync('fish', ['-c', `source $argv[1]; complete -C $argv[2]`, scripts.fish, line], { encoding: 'utf8' });
      expect(got.trim().split('\n').map((l) => l.split('\t')[0]).sort(), line).toEqual([...want].sort());
    }
  });
});
