/** Rules for all flags of the table: every spelling is read, and wrong forms are refused. */
import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { allCommands } from '../../../src/cli/commands.ts';
import { FLAGS, type FlagKey } from '../../../src/cli/flags.ts';
import { spellingsOf, type Flag } from '../../../src/cli/flags/flag.ts';
import { parseFlags } from '../../../src/cli/parse-flags.ts';
import { at, failure, runCli } from '../../support.ts';
import { never } from '../commands.ts';

const COMMANDS = await allCommands();

describe('spellings', () => {
  /** A value of each type, as written and as parsed. */
  const VALUES: Readonly<Record<Flag['type'], readonly [written: string, read: unknown]>> = {
    string: ['-a b=c', '-a b=c'],
    strings: ['--x', ['--x']],
    number: ['-1.5', -1.5],
    integer: ['-1', -1],
    integers: ['3,4', [3, 4]],
    boolean: ['', true],
  };

  it.each(COMMANDS.map((c) => [c.name, c] as const))('%s: each is read, alone and with =, and given twice', (_, c) => {
    for (const key of c.flags) {
      const flag: Flag = FLAGS[key];
      const [written, read] = flag.value?.startsWith('[') ? ['off', 'off'] : flag.cores ? ['3', 3] : VALUES[flag.type];
      for (const spelling of spellingsOf(flag)) {
        const values = (...argv: string[]): unknown => parseFlags(argv, c.flags).values;
        if (flag.type === 'boolean') expect(values(spelling), spelling).toEqual({ [key]: !flag.off?.includes(spelling) });
        else expect(values(spelling, written), spelling).toEqual({ [key]: read });
        if (flag.type !== 'boolean' && spelling.startsWith('--'))
          expect(values(`${spelling}=${written}`), spelling).toEqual({ [key]: read });
        const twice = flag.type === 'strings' || flag.type === 'integers' ? [...(read as unknown[]), ...(read as unknown[])] : read;
        if (flag.type !== 'boolean') expect(values(spelling, written, spelling, written), spelling).toEqual({ [key]: twice });
        // A negative number means all cores, as in llama.cpp.
        if (flag.cores) expect(values(spelling, written, spelling, '-1'), spelling).toEqual({});
      }
    }
  });

  it.each(COMMANDS.map((c) => [c.name, c] as const))('%s: no two flags share one', (_, c) => {
    const all = c.flags.flatMap((key) => spellingsOf(FLAGS[key]));
    expect(all.filter((s, i) => all.indexOf(s) !== i)).toEqual([]);
  });

  it("every flag of the table is some command's", () => {
    const taken = new Set(COMMANDS.flatMap((c) => c.flags));
    expect((Object.keys(FLAGS) as FlagKey[]).filter((key) => !taken.has(key))).toEqual([]);
  });

  it.each(COMMANDS.map((c) => [c.name, c] as const))('%s: what cannot be read is refused by the command itself', async (_, c) => {
    for (const key of c.flags) {
      const flag: Flag = FLAGS[key];
      const long = `--${flag.name}`;
      const wrong = {
        boolean: [[`${long}=1`]],
        string: flag.value?.startsWith('[') ? [[long, 'x']] : [[long]],
        strings: [[long]],
        number: [[long], [long, 'x'], [long, '']],
        integer: [[long], [long, 'x'], [long, ''], [long, '1.5']],
        integers: [[long], [long, '1,x'], [long, '1.5']],
      }[flag.type];
      for (const args of wrong) {
        const { code, message } = await failure(() => c.run(args, never));
        expect([code, message], args.join(' ')).toEqual([
          'ERR_USAGE',
          expect.stringContaining(flag.value?.startsWith('[') ? 'is not a flag' : long),
        ]);
      }
    }
  });
});

describe('--help', () => {
  it('names all commands', async () => {
    const { stdout } = await runCli(['--help']);
    expect([...stdout.matchAll(/^ {2}([\w-]+) {2,}\S/gm)].map(([, name]) => name)).toEqual(COMMANDS.map((c) => c.name));
  });
});

it('the flags of every command have tests, in a file of its name', () => {
  const files = readdirSync(at('test/cli/flags'));
  expect(COMMANDS.filter((c) => !files.includes(`${c.name}.test.ts`)).map((c) => c.name)).toEqual([]);
});
