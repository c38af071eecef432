/**
 * Names from outside: valid file names on every system, revisions, names that differ only in case.
 */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { isAbsolute, join, relative, sep } from 'node:path';
import { describe, expect, it } from 'vitest';
import { download, list, remove, type HubOptions } from '../../src/entry/hub-node.ts';
import { whyNoName } from '../../src/hub/names.ts';
import { remoteOf } from '../../src/hub/addresses.ts';
import { failure, temporaryFolder } from '../support.ts';
import { listen, sendBytes, startHub } from './server.ts';

const root = temporaryFolder();
let folders = 0;
const freshFolder = (): string => join(root, String(folders++));
const bytes = (text: string): Uint8Array => Buffer.from(`GGUF${text}`);
const hub = { endpoint: 'https://hub.test' };

describe('a name', () => {
  it.each([
    'con',
    'NUL',
    'nul.gguf',
    'Aux.tar.gz',
    'COM1',
    'com9.x',
    'LPT¹',
    'prn .gguf',
    'CONIN$',
    'm.gguf.',
    'm.gguf ',
    'a\\b',
    'a:b',
    'a*b',
    'a?b',
    'a"b',
    'a<b',
    'a|b',
    'a\u0000b',
    'a\u0085b',
    '..',
    '...',
    '',
    'x'.repeat(300),
    'ü'.repeat(130),
  ])('%j is not a name', (name) => {
    expect(whyNoName(name)).toBeDefined();
  });
  it.each([
    'm.gguf',
    'console',
    'com',
    'COM10',
    'nulls.gguf',
    'a b.gguf',
    '.hidden',
    'größe.gguf',
    'Qwen2.5-1.5B@x',
    'a..b',
    "it's (1) [2]",
  ])('%j is one', (name) => {
    expect(whyNoName(name)).toBeUndefined();
  });
});

describe('addresses', () => {
  const of = (source: string): string => {
    const remote = remoteOf(source, hub, 'the source');
    if ('url' in remote) return `${remote.before} ${remote.name}`;
    return `${remote.repo.name} ${remote.repo.revision} ${'file' in remote.wanted ? remote.wanted.file : ''}`;
  };
  it.each([
    ['org/repo/resolve/main/m.gguf', 'org/repo main m.gguf'],
    ['org/repo/resolve/refs%2Fpr%2F1/m.gguf', 'org/repo refs/pr/1 m.gguf'],
    ['org/repo/resolve/refs/pr/12/a/m.gguf', 'org/repo refs/pr/12 a/m.gguf'],
    ['org/repo/blob/refs%2fconvert%2fgguf/m.gguf', 'org/repo refs/convert/gguf m.gguf'],
    ['org/repo/raw/v1.0/a%20b/m%2B.gguf', 'org/repo v1.0 a b/m+.gguf'],
    ['org/repo/resolve/feature%2Fx/a%2Fm.gguf', 'org/repo feature/x a/m.gguf'],
  ])('%s', (path, want) => {
    expect(of(`https://hub.test/${path}`)).toBe(want);
  });
  it.each([
    ['https://hub.test/org/repo', 'org/repo main '],
    ['https://hub.test/org/repo/', 'org/repo main '],
    ['https://hub.test/org/repo/tree/v1.0', 'org/repo v1.0 '],
    ['https://huggingface.co/org/repo-GGUF?library=llama', 'org/repo-GGUF main '],
    ['https://hf.co/org/repo', 'org/repo main '],
    ['hf:hf.co/org/repo', 'org/repo main '],
    ['hf:https://huggingface.co/org/repo', 'org/repo main '],
    ['hf:https://hub.test/org/repo/blob/v1.0/m.gguf', 'org/repo v1.0 m.gguf'],
    ['https://hub.test/org/m.gguf', '/org/ m.gguf'],
    ['https://other.test/org/repo', '/org/ repo'],
  ])('%s, as a browser shows it', (source, want) => {
    expect(of(source)).toBe(want);
  });
  it.each(['https://hub.test/org/repo:Q8_0', 'hf:huggingface.co/org/repo:Q8_0'])('%s has a quant', (source) => {
    expect(remoteOf(source, hub, 'the source')).toEqual({ repo: { name: 'org/repo', revision: 'main' }, wanted: { quant: 'Q8_0' } });
  });
  it('of other servers keep their path as it is sent', () => {
    expect(of('https://other.test/a%2Fb/c%20d/m%2B.gguf')).toBe('/a%2Fb/c%20d/ m+.gguf');
    expect(of('https://other.test/files/a%2Fm.gguf?x=1')).toBe('/files/a%2F m.gguf');
  });

  it.each([
    'org/repo/resolve/..%5C..%5C..%5Cevil/m.gguf',
    'org/repo/resolve/%2e%2e%2F%2e%2e%2Fevil/m.gguf',
    'org/repo/resolve/a%2F/m.gguf',
    'org/repo/resolve/NUL/m.gguf',
    'org/repo/resolve/main./m.gguf',
    'org/repo/resolve/a%00b/m.gguf',
    'org/repo/resolve/C%3A/m.gguf',
    'org/repo/resolve/main/..%5C..%5Cm.gguf',
    'org/repo/resolve/main/a%2F..%2F..%2Fm.gguf',
    'org/repo/resolve/main/aux.gguf',
    'org/repo/resolve/main/m.gguf%20',
    'org/repo/resolve/main/dir./m.gguf',
    'org/repo/resolve/main/a:b.gguf',
    'x/y%5C..%5C..%5Cm.gguf',
    'x/CON.gguf',
  ])('%s is refused by the library, to download and to remove', async (path) => {
    const options = { endpoint: 'https://hub.test', folder: freshFolder() };
    for (const act of [download, remove]) {
      const { code, message } = await failure(act(`https://hub.test/${path}`, options));
      expect(['ERR_DOWNLOAD', 'ERR_INVALID_ARGUMENT']).toContain(code);
      expect(message).toMatch(/expected (folders and a name|the name of a branch)/);
    }
    expect(existsSync(options.folder)).toBe(false);
  });
  it.each(['hf:con/repo', 'hf:org/nul', 'hf:org./repo', 'hf:org/repo.', 'hf:org/COM1.x'])('%s is refused', async (source) => {
    expect((await failure(download(source, { ...hub, folder: freshFolder() }))).code).toBe('ERR_INVALID_ARGUMENT');
  });
  it('a list whose files have such names: refused before anything is asked', async () => {
    for (const path of ['nul.gguf', 'a/../../m.gguf', 'a\\m.gguf', 'm.gguf.']) {
      const server = await startHub({ [path]: bytes('x') });
      const folder = freshFolder();
      const { code } = await failure(download(`hf:org/repo/${path}`.replace(/\.$/, '..gguf'), { endpoint: server.url, folder }));
      expect(['ERR_DOWNLOAD', 'ERR_INVALID_ARGUMENT'], path).toContain(code);
      expect(server.log.filter((line) => line !== 'list')).toEqual([]);
    }
  });
});

/**
 * Lower-case paths of all files in a folder, to find files that a case-insensitive disk would
 * merge.
 */
const twins = (folder: string): string[] => {
  const all = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).toLowerCase());
  return all.filter((path, i) => all.indexOf(path) !== i);
};
const textAt = (path: string): string => readFileSync(path, 'latin1');

describe('names that differ in case alone', () => {
  it('repositories', async () => {
    const one = await startHub({ 'm.gguf': bytes('one') }, 'Org/Repo');
    const two = await startHub({ 'm.gguf': bytes('two') }, 'org/repo');
    const folder = freshFolder();
    const first = await download('hf:Org/Repo', { endpoint: one.url, folder });
    const second = await download('hf:org/repo', { endpoint: two.url, folder });
    expect([textAt(first), textAt(second), twins(folder)]).toEqual(['GGUFone', 'GGUFtwo', []]);
    expect(relative(folder, first).split(sep)).toEqual(['Org', 'Repo', 'm.gguf']);
    expect((await list({ folder })).map(({ source }) => source).sort()).toEqual(['hf:Org/Repo/m.gguf', 'hf:org/repo/m.gguf']);
    expect(await download('hf:org/repo', { endpoint: two.url, folder, offline: true })).toBe(second);
    expect(await download('hf:Org/Repo', { endpoint: one.url, folder, offline: true })).toBe(first);
    expect(await remove('hf:org/repo/m.gguf', { folder })).toBe(7);
    expect([existsSync(first), existsSync(second)]).toEqual([true, false]);
  });

  it('files of a repository, in folders or not', async () => {
    const server = await startHub({ 'a/m.gguf': bytes('one'), 'A/m.gguf': bytes('two'), 'a/M.gguf': bytes('three') });
    const options: HubOptions = { endpoint: server.url, folder: freshFolder() };
    const paths: string[] = [];
    for (const name of ['a/m.gguf', 'A/m.gguf', 'a/M.gguf']) paths.push(await download(`hf:org/repo/${name}`, options));
    expect(paths.map(textAt)).toEqual(['GGUFone', 'GGUFtwo', 'GGUFthree']);
    expect(twins(options.folder!)).toEqual([]);
    server.log.length = 0;
    for (const [i, name] of ['a/m.gguf', 'A/m.gguf', 'a/M.gguf'].entries())
      expect(await download(`hf:org/repo/${name}`, options)).toBe(paths[i]);
    expect(
      server.log.filter((line) => line !== 'list'),
      'nothing comes twice',
    ).toEqual([]);
    const kept = await list(options);
    expect(kept.map(({ source }) => source).sort()).toEqual(['hf:org/repo/A/m.gguf', 'hf:org/repo/a/M.gguf', 'hf:org/repo/a/m.gguf']);
    for (const { source } of kept) expect(await remove(source, options)).toBeGreaterThan(0);
    expect(existsSync(options.folder!) ? readdirSync(options.folder!, { recursive: true }) : []).toEqual([]);
  });

  it('files of another server; a repository of an owner named as our own folders', async () => {
    const url = await listen((request, response) => sendBytes(bytes(request.url!), request, response));
    const folder = freshFolder();
    const paths = [await download(`${url}/a.gguf`, { folder }), await download(`${url}/A.GGUF`, { folder })];
    expect([paths.map(textAt), twins(folder)]).toEqual([['GGUF/a.gguf', 'GGUF/A.GGUF'], []]);
    const server = await startHub({ 'm.gguf': bytes('x') }, 'url/repo');
    await download('hf:url/repo', { endpoint: server.url, folder });
    expect((await list({ folder })).map(({ source }) => source).sort()).toEqual(
      ['hf:url/repo/m.gguf', `${url}/A.GGUF`, `${url}/a.gguf`].sort(),
    );
  });
});

it.each([
  ['./', (path: string) => relative('.', path).replace(/^(?![A-Z]:)/i, `.${sep}`)], // paths on another drive cannot be relative
  ['a slash at its end', (path: string) => path + sep],
  ['a detour', (path: string) => [path, '..', path.split(sep).at(-1)!].join(sep)],
])('a folder written with %s: its paths can be removed', async (_, written) => {
  const server = await startHub({ 'm.gguf': bytes('x') });
  const options = { endpoint: server.url, folder: written(freshFolder()) };
  const got = await download('hf:org/repo', options);
  expect(isAbsolute(got)).toBe(true);
  const [{ path }] = await list(options);
  expect(path).toBe(got);
  expect(await remove(relative('.', path!), options)).toBe(5);
  expect(await list(options)).toEqual([]);
});

it('only models can be removed by their path', async () => {
  const server = await startHub({ 'm.gguf': bytes('x') });
  const options = { endpoint: server.url, folder: freshFolder() };
  const path = await download('hf:org/repo', options);
  expect((await failure(remove(join(path, '..', 'list.json'), options))).code).toBe('ERR_INVALID_ARGUMENT');
  expect(existsSync(path)).toBe(true);
});
