/**
 * The completion scripts contain every command and flag, and offer the right words. bash runs its
 * script. The scripts of zsh and fish are interpreted here by those shells' manuals, and also by
 * the shells if installed.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Flag } from '../../src/cli/flags/flag.ts';
import { FLAGS } from '../../src/cli/flags.ts';
import { runCli, temporaryFolder, writeTo } from '../support.ts';
import { bench } from '../../src/cli/bench.ts';
import { serve } from '../../src/cli/serve.ts';

const folder = temporaryFolder();
const script = async (shell: string): Promise<string> => writeTo(folder, `quantlet.${shell}`, (await runCli(['completion', shell])).stdout);
const scripts = { bash: await script('bash'), zsh: await script('zsh'), fish: await script('fish') };
const has = (shell: string): boolean => spawnSync(shell, ['--version']).status === 0;

it('bash: every command, every flag of serve and bench in every spelling', () => {
  const text = readFileSync(scripts.bash, 'utf8');
  for (const command of ['run', 'chat', 'serve', 'bench', 'quantize', 'inspect', 'completion'])
    expect(text).toMatch(new RegExp(`\\b${command}\\b`));
  for (const key of [...serve.flags, ...bench.flags])
    for (const spelling of [...FLAGS[key].aliases, `--${FLAGS[key].name}`]) expect(text).toContain(spelling);
});

it('one shell is named, a known one', async () => {
  for (const args of [[], ['tcsh'], ['bash', 'zsh'], ['toString']])
    expect((await runCli(['completion', ...args])).code, args.join(' ')).toBe(2);
});

const QUESTIONS: readonly (readonly [line: string, want: readonly string[]])[] = [
  ['quantlet per', ['perplexity']],
  ['quantlet serve --para', ['--parallel']],
  ['quantlet run --cache-type-k q', ['q8_0', 'q5_1', 'q5_0', 'q4_1', 'q4_0']],
  ['quantlet run --grammar-f', ['--grammar-file']],
  ['quantlet completion z', ['zsh']],
];

/**
 * Splits words like zsh and fish: blanks, single quotes, and a backslash before a quote outside of
 * quotes.
 */
function shellWords(text: string): string[] {
  const words: string[] = [];
  let rest = text.trim();
  while (rest !== '') {
    const [word] = /^(?:'[^']*'|\\.|[^\s'\\])+/s.exec(rest) ?? [];
    if (word === undefined) throw new Error(`no shell reads this: ${rest.slice(0, 60)}`);
    words.push(word.replace(/'([^']*)'|\\(.)/gs, (_, quoted?: string, escaped?: string) => quoted ?? escaped!));
    rest = rest.slice(word.length).trimStart();
  }
  return words;
}

/** An option of a command: its spellings, if a value follows, and the possible values. */
interface Option {
  readonly spellings: readonly string[];
  readonly takesValue: boolean;
  readonly values: readonly string[];
}
/** Completions of a command: its options and its other words. */
interface Offers {
  readonly options: readonly Option[];
  readonly words: readonly string[];
}

/** The words that a shell offers for the last word of a line. */
function completions(line: string, commands: readonly string[], of: (command: string) => Offers): string[] {
  const [, ...words] = line.split(' ');
  const last = words.pop()!;
  const [command] = words;
  const begins = (all: readonly string[]): string[] => all.filter((word) => word.startsWith(last));
  if (command === undefined) return begins(commands);
  const { options, words: others } = of(command);
  const before = options.find((option) => option.takesValue && option.spellings.includes(words.at(-1)!));
  if (before) return begins(before.values);
  return begins(last.startsWith('-') ? options.flatMap((option) => option.spellings) : others);
}

/** Interprets fish's `complete` by its manual. Anything else in the script is an error. */
function readFish(text: string): { commands: string[]; of: (command: string) => Offers } {
  const commands: string[] = [];
  const offers = new Map<string, { options: Option[]; words: string[] }>();
  for (const line of text.split('\n').filter((l) => l !== '' && !l.startsWith('#'))) {
    const [complete, ...args] = shellWords(line);
    expect(complete).toBe('complete');
    const given: Record<string, string[]> = {};
    while (args.length > 0) {
      const flag = args.shift()!;
      expect('-c -n -a -d -s -l -o -f -x -r -F'.split(' '), line).toContain(flag);
      (given[flag] ??= []).push('-f -x -r -F'.split(' ').includes(flag) ? '' : args.shift()!);
    }
    expect([given['-c'], given['-n'].length], line).toEqual([['quantlet'], 1]);
    const [, command] = /^__fish_seen_subcommand_from ([\w-]+)$/.exec(given['-n'][0]) ?? [];
    const words = given['-a']?.[0].split(' ') ?? [];
    if (command === undefined) {
      expect(given['-n']).toEqual(['__fish_use_subcommand']);
      commands.push(...words);
      continue;
    }
    if (!offers.has(command)) offers.set(command, { options: [], words: [] });
    const spelled = (flag: string, dashes: string): string[] => (given[flag] ?? []).map((name) => dashes + name);
    const spellings = [...spelled('-s', '-'), ...spelled('-o', '-'), ...spelled('-l', '--')];
    for (const name of given['-s'] ?? []) expect(name, line).toHaveLength(1);
    if (spellings.length === 0) offers.get(command)!.words.push(...words);
    else offers.get(command)!.options.push({ spellings, takesValue: '-x' in given || '-r' in given, values: words });
  }
  return { commands, of: (command) => offers.get(command)! };
}

/**
 * Interprets the specifications of zsh's _arguments: `*(exclusions)option[help]:message:action`,
 * and `*:message:action` for words.
 */
function readZsh(text: string): { commands: string[]; of: (command: string) => Offers } {
  const [, list] = /local -a commands=\((.*)\)\n/.exec(text)!;
  const commands = shellWords(list).map((item) => item.slice(0, item.indexOf(':')));
  const offers = new Map<string, Offers>();
  for (const [, command, specs] of text.matchAll(/^ {4}([\w-]+)\) _arguments ([^]*?) ;;$/gm)) {
    const options: Option[] = [];
    const words: string[] = [];
    const listed = (action: string | undefined): string[] => /^\((.*)\)$/.exec(action ?? '')?.[1].split(' ') ?? [];
    for (const spec of shellWords(specs.replaceAll('\\\n', ' '))) {
      const option =
        /^(?:\*|\((?<not>[^)]*)\))?(?<name>-[\w-]+)\[(?:[^[\]\\:]|\\.)+\](?<value>:(?:[^:\\]|\\.)+:(?<action>\([^)]*\)|_files)?)?$/s.exec(
          spec,
        )?.groups;
      const rest = /^\*:\w+:(\(.*\)|_files)$/.exec(spec);
      expect(option ?? rest, spec).toBeTruthy();
      if (rest) words.push(...listed(rest[1]));
      else {
        if (option!.not !== undefined) expect(option!.not.split(' '), spec).toContain(option!.name);
        options.push({ spellings: [option!.name], takesValue: option!.value !== undefined, values: listed(option!.action) });
      }
    }
    offers.set(command, { options, words });
  }
  return { commands, of: (command) => offers.get(command)! };
}

describe.each([
  ['zsh', readZsh],
  ['fish', readFish],
] as const)('%s', (shell, read) => {
  const { commands, of } = read(readFileSync(scripts[shell], 'utf8'));

  it('is written as its manual wants it, and answers', () => {
    for (const [line, want] of QUESTIONS) expect(completions(line, commands, of).sort(), line).toEqual([...want].sort());
  });

  it('every option in every spelling, with its values', () => {
    expect(commands).toContain('completion');
    for (const [name, { flags }] of Object.entries({ serve, bench })) {
      for (const key of flags) {
        const flag: Flag = FLAGS[key];
        for (const spelling of [...flag.aliases, `--${flag.name}`]) {
          const found = of(name).options.find((option) => option.spellings.includes(spelling));
          expect(found, `${name} ${spelling}`).toMatchObject({ takesValue: flag.type !== 'boolean', values: flag.choices ?? [] });
        }
      }
    }
  });

  // With the shell itself, if installed.
  if (has(shell)) it(`${shell} reads it`, () => void execFileSync(shell, ['-n', scripts[shell]]));
});

if (has('fish')) {
  it('fish completes with it', () => {
    for (const [line, want] of QUESTIONS) {
      const got = execFileSync('fish', ['-c', `source $argv[1]; complete -C $argv[2]`, scripts.fish, line], { encoding: 'utf8' });
      const words = got
        .trim()
        .split('\n')
        .map((l) => l.split('\t')[0]);
      expect(words.sort(), line).toEqual([...want].sort());
    }
  });
}

describe('bash', () => {
  it('reads it and completes', () => {
    execFileSync('bash', ['-n', scripts.bash]);
    for (const [line, want] of QUESTIONS) {
      const words = line.split(' ');
      const ask = `source "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _quantlet; printf '%s\\n' "\${COMPREPLY[@]}"`;
      const got = execFileSync('bash', ['-c', ask, 'bash', scripts.bash, ...words], { encoding: 'utf8' });
      expect(got.trim().split('\n').sort(), line).toEqual([...want].sort());
    }
  });
});
