/**
 * Rules for Windows and old kernels in the command line, tested on any system by passing the
 * platform or faking its calls.
 */
import { mkdirSync, writeFileSync, type Stats } from 'node:fs';
import * as files from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { batch } from '../../src/cli/batch.ts';
import { isPiped, textLines, withoutLastBreak } from '../../src/cli/command.ts';
import { completions } from '../../src/cli/message-input.ts';
import { writeNewFile } from '../../src/tools/new-file.ts';
import { folderSlots } from '../../src/cli/serve-files.ts';
import { freeMemory } from '../../src/entry/free-memory.ts';
import { cacheFolder } from '../../src/hub/cache-folder.ts';
import { defaultThreads, quotas } from '../../src/threads/node.ts';
import { runCli, llamaModel, temporaryFolder, runNode, cliPath } from '../support.ts';
import { invoke } from './commands.ts';

vi.mock('node:fs/promises', async (original) => {
  const real = await original<typeof files>();
  // Windows: a handle opened for appending cannot truncate.
  const open = async (...args: Parameters<typeof real.open>): Promise<files.FileHandle> => {
    const file = await real.open(...args);
    if (args[1] === 'a')
      file.truncate = () => Promise.reject(Object.assign(new Error('EPERM: operation not permitted, ftruncate'), { code: 'EPERM' }));
    return file;
  };
  // Windows: renaming onto a file that another program has open fails.
  const rename = (from: string, to: string): Promise<void> =>
    to.endsWith('held') && tries++ < 2
      ? Promise.reject(Object.assign(new Error('EPERM: operation not permitted, rename'), { code: 'EPERM' }))
      : real.rename(from, to);
  // A file system that ignores case.
  const stat = (path: string): Promise<Stats> =>
    real.stat(path.includes('caseless') ? join(dirname(path), basename(path).toLowerCase()) : path);
  return { ...real, open, rename, stat };
});

let tries = 0;

const folder = temporaryFolder();
const at = (name: string): string => join(folder, name);

describe('batch -o', () => {
  it('writes over a file and behind its records where a handle that appends cannot truncate', async () => {
    const line = (id: string): string =>
      JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/completions', body: { prompt: 'the cat', max_tokens: 2, temperature: 0 } });
    writeFileSync(at('out.jsonl'), 'x'.repeat(5000));
    const run = async (lines: readonly string[], ...more: string[]): Promise<string[]> => {
      writeFileSync(at('in.jsonl'), lines.join('\n'));
      await invoke(batch, ['-m', llamaModel, '-i', at('in.jsonl'), '-o', at('out.jsonl'), '--no-warmup', '-t', 1, ...more]);
      const text = await files.readFile(at('out.jsonl'), 'utf8');
      return text
        .trimEnd()
        .split('\n')
        .map((record) => (JSON.parse(record) as { custom_id: string }).custom_id);
    };
    expect(await run([line('a')])).toEqual(['a']);
    expect(await run([line('a'), line('b')], '--resume')).toEqual(['a', 'b']);
  });
});

describe('saved slots', () => {
  it('of names that differ in case alone are two', async () => {
    const slots = await folderSlots(at('sensitive'));
    await slots.write('a', Uint8Array.of(1));
    await slots.write('A', Uint8Array.of(2));
    expect([[...(await slots.read('a'))!], [...(await slots.read('A'))!]]).toEqual([[1], [2]]);
  });

  it('are not written over each other on a disk that takes such names for one', async () => {
    const slots = await folderSlots(at('caseless'));
    await slots.write('a', Uint8Array.of(1));
    await expect(slots.write('A', Uint8Array.of(2))).rejects.toMatchObject({ status: 409 });
    await slots.write('a', Uint8Array.of(3));
    expect([[...(await slots.read('a'))!], await slots.read('A')]).toEqual([[3], undefined]);
  });

  it.each(['aux', 'NUL', 'com1', 'con.txt'])('%s, which is a device on Windows, is refused everywhere', async (name) => {
    const slots = await folderSlots(at('devices'));
    expect(await slots.read(name)).toBeUndefined();
    await expect(slots.write(name, Uint8Array.of(1))).rejects.toMatchObject({ status: 400 });
  });
});

it('an output that a virus scanner holds for a moment gets its name', async () => {
  await writeNewFile(at('held'), (write) => write(Uint8Array.of(1), 0));
  expect([tries, [...(await files.readFile(at('held')))]]).toEqual([3, [1]]);
});

describe('texts', () => {
  it('come from a pipe on Windows too, where isFIFO() is false', () => {
    const kinds = [0o010000, 0o010600, 0o140777, 0o020600, 0o100644]; // pipes, a socket, a terminal, a file
    const stat = (mode: number): Stats => ({ mode, isFIFO: () => false, isFile: () => mode >> 12 === 0o10 }) as Stats;
    expect(kinds.map((mode) => isPiped(() => stat(mode)))).toEqual([true, true, false, false, true]);
  });

  it('\\r\\n is \\n on Windows, as in files that llama.cpp opens as text; a last line break goes everywhere', () => {
    expect(textLines('a\r\nb\rc\n', 'win32')).toBe('a\nb\rc\n');
    expect(textLines('a\r\nb', 'linux')).toBe('a\r\nb');
    for (const text of ['a\nb', 'a\nb\n', 'a\nb\r\n']) expect(withoutLastBreak(text)).toBe('a\nb');
    expect(withoutLastBreak('a\n\n')).toBe('a\n');
  });

  it('a prompt from a file of Windows is the prompt', async () => {
    writeFileSync(at('unix.txt'), 'the cat\n');
    writeFileSync(at('windows.txt'), 'the cat\r\n');
    const ids = async (name: string): Promise<unknown> => {
      const { stdout } = await runCli(['run', '-m', llamaModel, '-f', at(name), '-n', 1, '--temp', 0, '--json', '--no-warmup']);
      return (JSON.parse(stdout) as { prompt_ids: number[] }).prompt_ids;
    };
    expect(await ids('windows.txt')).toEqual(await ids('unix.txt'));
  });
});

it('Tab completes paths behind \\ on Windows, where it is a letter elsewhere', () => {
  const commands = { commands: ['load'], pathCommands: ['load'] };
  // On Linux `a\` is a valid folder name, so this Windows path can be read here.
  mkdirSync(at('a\\'));
  writeFileSync(join(at('a\\'), 'one.gguf'), '');
  expect(completions(`/load ${folder}/a\\/o`, commands, 'win32')[0]).toEqual([`${folder}/a\\/one.gguf`]);
  expect(completions(`/load ${folder}/a\\o`, commands, 'win32')[0]).toEqual([`${folder}/a\\one.gguf`]);
  expect(completions(`/load ${folder}/a\\`, commands, 'linux')[0]).toEqual([`${folder}/a\\/`]);
});

describe('the cache folder on Windows', () => {
  it.each([{}, { LOCALAPPDATA: '' }])('%o', (env) => {
    expect(cacheFolder(env, 'win32')).toMatch(/AppData.Local.quantlet$/);
  });
});

describe('free memory on Linux', () => {
  const meminfo = 'MemTotal:  9000 kB\nMemAvailable:    8000 kB\nSwapFree:   1000 kB\n';
  const read = (given: { readonly [path: string]: string }) => (path: string) => {
    if (given[path] === undefined) throw new Error('ENOENT');
    return given[path];
  };
  const v1 = '/sys/fs/cgroup/memory';
  it.each<[string, { readonly [path: string]: string }, number | undefined]>([
    ['another system', {}, undefined],
    ['no container', { '/proc/meminfo': meminfo }, 9000 * 1024],
    [
      'cgroup v2',
      {
        '/proc/meminfo': meminfo,
        '/sys/fs/cgroup/memory.max': '5000000\n',
        '/sys/fs/cgroup/memory.current': '3000000\n',
        '/sys/fs/cgroup/memory.stat': 'anon 1\nfile 1000000\n',
      },
      3_000_000,
    ],
    [
      'cgroup v2 without a limit',
      {
        '/proc/meminfo': meminfo,
        '/sys/fs/cgroup/memory.max': 'max\n',
        '/sys/fs/cgroup/memory.current': '3000000\n',
        '/sys/fs/cgroup/memory.stat': 'file 1000000\n',
      },
      9000 * 1024,
    ],
    [
      'cgroup v1',
      {
        '/proc/meminfo': meminfo,
        [`${v1}/memory.limit_in_bytes`]: '5000000\n',
        [`${v1}/memory.usage_in_bytes`]: '3000000\n',
        [`${v1}/memory.stat`]: 'cache 7\nrss 5\ntotal_cache 1000000\ntotal_rss 5\n',
      },
      3_000_000,
    ],
    [
      'cgroup v1 without a limit',
      {
        '/proc/meminfo': meminfo,
        [`${v1}/memory.limit_in_bytes`]: '9223372036854771712\n',
        [`${v1}/memory.usage_in_bytes`]: '3000000\n',
        [`${v1}/memory.stat`]: 'total_cache 0\n',
      },
      9000 * 1024,
    ],
    [
      'a service of systemd, limited by the group around it',
      {
        '/proc/meminfo': meminfo,
        '/proc/self/cgroup': '0::/system.slice/model.service\n',
        '/sys/fs/cgroup/system.slice/memory.max': '5000000\n',
        '/sys/fs/cgroup/system.slice/memory.current': '3000000\n',
        '/sys/fs/cgroup/system.slice/memory.stat': 'file 0\n',
        '/sys/fs/cgroup/system.slice/model.service/memory.max': 'max\n',
      },
      2_000_000,
    ],
    [
      'a job of cgroup v1, in a group of its own',
      {
        '/proc/meminfo': meminfo,
        '/proc/self/cgroup': '4:memory:/slurm/job_7\n3:cpu,cpuacct:/elsewhere\n0::/\n',
        [`${v1}/slurm/job_7/memory.limit_in_bytes`]: '4000000\n',
        [`${v1}/slurm/job_7/memory.usage_in_bytes`]: '3000000\n',
        [`${v1}/slurm/job_7/memory.stat`]: 'total_cache 0\n',
      },
      1_000_000,
    ],
    [
      'a container that knows the path of the machine alone',
      { '/proc/meminfo': meminfo, '/proc/self/cgroup': '4:memory:/docker/a\n' },
      9000 * 1024,
    ],
  ])('%s', (_, given, want) => expect(freeMemory(read(given))).toBe(want));
});

describe('cores that the control groups give', () => {
  const v1 = '/sys/fs/cgroup/cpu';
  it.each<[string, { readonly [path: string]: string }, readonly number[]]>([
    ['no group', {}, []],
    ['cgroup v2', { '/sys/fs/cgroup/cpu.max': '250000 100000\n' }, [2]],
    ['cgroup v2 without a limit', { '/sys/fs/cgroup/cpu.max': 'max 100000\n' }, []],
    ['cgroup v1', { [`${v1}/cpu.cfs_quota_us`]: '300000\n', [`${v1}/cpu.cfs_period_us`]: '100000\n' }, [3]],
    ['cgroup v1 without a limit', { [`${v1}/cpu.cfs_quota_us`]: '-1\n', [`${v1}/cpu.cfs_period_us`]: '100000\n' }, []],
    [
      'groups in groups',
      { '/proc/self/cgroup': '0::/a/b\n', '/sys/fs/cgroup/a/cpu.max': '400000 100000\n', '/sys/fs/cgroup/a/b/cpu.max': '50000 100000\n' },
      [4, 0],
    ],
  ])('%s', (_, given, want) => {
    const text = (path: string): string => {
      if (given[path] === undefined) throw new Error('ENOENT');
      return given[path];
    };
    expect(quotas(text)).toEqual(want);
  });

  it('is one at least', () => expect(defaultThreads()).toBeGreaterThanOrEqual(1));
});

it.each([
  ['SIGINT', 130],
  ['SIGHUP', 129],
] as const)('%s ends a run in order: %i', async (signal, code) => {
  const args = [cliPath, 'run', '-m', llamaModel, '-p', 'the cat', '-n', '100000', '--ignore-eos', '--context-shift', '--no-warmup'];
  let sent = false;
  const exit = await runNode(args, {
    onStdout(text, kill) {
      if (!sent && text.length > 40) kill(signal);
      sent ||= text.length > 40;
    },
  });
  expect([exit.code, exit.stderr]).toEqual([code, '']);
});
