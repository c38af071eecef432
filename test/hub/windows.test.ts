/**
 * Windows' rules for open files, by a fake of node:fs/promises. An open file cannot be replaced or
 * removed. A file that is being deleted cannot be opened or created.
 */
import { readFileSync, readdirSync } from 'node:fs';
import type * as Fs from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { beforeEach, expect, it, vi } from 'vitest';
import { failure, temporaryFolder } from '../support.ts';

/** Open files, the number of times that a name refuses, and files with a handle of this process. */
const rules = vi.hoisted(() => ({
  open: new Set<string>(),
  refusals: new Map<string, number>(),
  handles: new Map<string, number>(),
}));

vi.mock('node:fs/promises', async (importOriginal) => {
  const fs = await importOriginal<typeof Fs>();
  const check = (path: unknown, code: string): void => {
    const name = String(path);
    const left = rules.refusals.get(basename(name)) ?? 0;
    if (left > 0) rules.refusals.set(basename(name), left - 1);
    if (left > 0 || rules.open.has(name) || (rules.handles.get(name) ?? 0) > 0)
      throw Object.assign(new Error(`${code}: operation not permitted, '${name}'`), { code });
  };
  return {
    ...fs,
    rename: async (from: string, to: string) => {
      check(from, 'EBUSY');
      check(to, 'EPERM');
      return fs.rename(from, to);
    },
    rm: async (path: string, options?: object) => {
      check(path, 'EPERM');
      return fs.rm(path, options);
    },
    open: async (path: string, flags?: string) => {
      if (flags === 'wx' && (rules.refusals.get(basename(path)) ?? 0) > 0) check(path, 'EPERM');
      const handle = await fs.open(path, flags);
      rules.handles.set(path, (rules.handles.get(path) ?? 0) + 1);
      const close = handle.close.bind(handle);
      let closed = false;
      handle.close = async () => {
        if (!closed) rules.handles.set(path, rules.handles.get(path)! - 1);
        closed = true;
        return close();
      };
      return handle;
    },
  };
});

const { download } = await import('../../src/entry/hub-node.ts');
const { startHub } = await import('./server.ts');
const root = temporaryFolder();
let folders = 0;
const bytes = (text: string): Uint8Array => Buffer.from(`GGUF${text}`);
const textAt = (path: string): string => readFileSync(path, 'latin1');
const warned = vi.spyOn(process, 'emitWarning').mockReturnValue();
beforeEach(() => {
  rules.open.clear();
  rules.refusals.clear();
  warned.mockClear();
});

async function repository(text = 'old') {
  const hub = await startHub({ 'm.gguf': bytes(text) });
  const options = { endpoint: hub.url, folder: join(root, String(folders++)) };
  return { hub, options, bring: (more = {}) => download('hf:org/repo', { ...options, ...more }) };
}
const filesBeside = (path: string): string[] => readdirSync(dirname(path)).sort();

it('processes that load one model at the same time: renaming the list may fail, and leaves nothing', async () => {
  const { bring } = await repository();
  const path = await bring();
  rules.open.add(join(dirname(path), 'list.json'));
  expect(await bring()).toBe(path);
  expect(await Promise.all([bring(), bring(), bring()])).toEqual([path, path, path]);
  expect(filesBeside(path)).toEqual(['list.json', 'm.gguf', 'm.gguf.json']);
});

it('many at once on a fresh folder', async () => {
  const { bring } = await repository();
  const paths = await Promise.all(Array.from({ length: 8 }, () => bring()));
  expect(new Set(paths).size).toBe(1);
  expect(filesBeside(paths[0])).toEqual(['list.json', 'm.gguf', 'm.gguf.json']);
});

it.each([
  ['the hub has newer bytes', {}],
  ['reload', { reload: true }],
])('a model that is open: %s', async (_, more) => {
  const { hub, bring } = await repository();
  const path = await bring();
  hub.files.set('m.gguf', bytes('newer'));
  rules.open.add(path);
  expect(await bring(more)).toBe(path);
  expect(textAt(path)).toBe('GGUFold');
  expect(warned.mock.calls.map(([text]) => String(text))).toEqual([
    expect.stringMatching(/m\.gguf is open in another program.*the download is kept; the file that was downloaded before is used/),
  ]);
  // After the file is closed, the next run replaces it, and downloads at most one byte again.
  rules.open.clear();
  hub.log.length = 0;
  expect(await bring()).toBe(path);
  expect(textAt(path)).toBe('GGUFnewer');
  expect(hub.log.filter((line) => line.startsWith('bytes'))).toEqual(['bytes m.gguf bytes=8-']);
  expect(filesBeside(path)).toEqual(['list.json', 'm.gguf', 'm.gguf.json']);
});

it('what is open for a moment only is waited for', async () => {
  const { hub, bring } = await repository();
  const path = await bring();
  hub.files.set('m.gguf', bytes('newer'));
  for (const name of ['m.gguf', 'm.gguf.json', 'm.gguf.lock', 'list.json']) rules.refusals.set(name, 2);
  expect(await bring()).toBe(path);
  expect(textAt(path)).toBe('GGUFnewer');
  expect(warned).not.toHaveBeenCalled();
});

it('a folder that may not be written is said, not waited for without end', async () => {
  const { bring } = await repository();
  rules.refusals.set('m.gguf.lock', Infinity);
  expect(await failure(bring())).toMatchObject({ code: 'ERR_IO', message: expect.stringMatching(/cannot be written \(EPERM\)/) as string });
});
