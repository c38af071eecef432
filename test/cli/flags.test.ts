/** The table of flags against the commands: nothing is advertised that no code reads, and every help is whole. */
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { FLAGS, type Flag, type FlagKey } from '../../src/cli/flags.ts';
import { root, runCli } from '../support.ts';

// What quantize is told it hands on as it is.
const sources = ['src/cli/', 'src/quantize/'].flatMap((folder) => readdirSync(new URL(folder, root)).filter((name) => name !== 'flags.ts').map((name) => readFileSync(new URL(folder + name, root), 'utf8')));
const keys = Object.keys(FLAGS) as FlagKey[];

/** Read elsewhere (help, by cli.ts), or what is so anyway and only taken because llama.cpp's command lines have it. */
const NOT_READ: readonly FlagKey[] = ['help', 'escape'];

it('every flag is in the table of a command, and read as a value: a name that is neither quoted nor declared', () => {
  const listed = (key: string): boolean => sources.some((text) => text.includes(`'${key}'`));
  const read = (key: string): boolean => sources.some((text) => new RegExp(`(?<!['\\w])${key}(?!['\\w?])`).test(text.replace(/\/\*[^]*?\*\/|\/\/.*/g, '')));
  expect(keys.filter((key) => !listed(key)), 'in no table').toEqual([]);
  expect(keys.filter((key) => !read(key) && !NOT_READ.includes(key)), 'read by nothing').toEqual([]);
});

const { stdout: overview } = await runCli(['--help']);
const commands = [...overview.matchAll(/^ {2}(\w+) {2,}\S/gm)].map(([, name]) => name);

describe('--help', () => {
  it('names all commands', () => {
    expect(commands).toEqual(expect.arrayContaining(['run', 'chat', 'serve', 'embed', 'bench', 'perplexity', 'quantize', 'tokenize', 'inspect', 'completion']));
  });

  it.each(commands)('%s: usage, flags, examples whose flags the command takes', async (command) => {
    const { code, stdout, stderr } = await runCli([command, '--help']);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toContain(`usage: quantlet ${command}`);
    const [before, examples] = stdout.split('\nexamples:\n');
    const lines = examples.trim().split('\n').filter((line) => line.includes(`quantlet ${command}`));
    expect(lines.length).toBeGreaterThan(0);
    const known = new Set(before.split('\n').flatMap((line) => /^ {2}(-[^ ,]+(?:, -[^ ,]+)*)/.exec(line)?.[1].split(', ') ?? []));
    for (const line of lines) for (const [, flag] of line.replace(/'[^']*'|"[^"]*"/g, '""').matchAll(/ (--?[a-z][\w-]*)/g)) expect(known, `${flag} of: ${line}`).toContain(flag);
  });
});

it('no two flags of a command share a spelling', () => {
  const tables = sources.flatMap((text) => [...text.matchAll(/KEYS = (\[[^;]*?\]) as const/g)].map(([, table]) => [...table.matchAll(/'(\w+)'/g)].map(([, key]) => key as FlagKey)));
  expect(tables.length).toBeGreaterThan(8);
  for (const table of tables) {
    const spellings = table.flatMap((key) => [...(FLAGS[key] as Flag).aliases, `--${FLAGS[key].name}`]);
    expect(spellings.filter((s, i) => spellings.indexOf(s) !== i), table.join(' ')).toEqual([]);
  }
});
