/** `-m` and `-hf`: which file is meant, what is asked of the hub, what is kept. */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { cacheFolder, chooseFile, resolveModel, type HubFlags } from '../../src/cli/hub.ts';
import { failure, llamaModel, runCli, temporaryFolder } from '../support.ts';
import { startHub } from './hub-server.ts';

const { signal } = new AbortController();
const root = temporaryFolder();
let folders = 0;
beforeAll(() => void vi.spyOn(process.stderr, 'write').mockReturnValue(true)); // a line for every download
afterAll(() => vi.restoreAllMocks());
const bytes = (text: string): Uint8Array => Buffer.from(`GGUF${text}`);

/** A hub, and what a command with these flags would open; each has a cache of its own. */
async function repository(files: Record<string, Uint8Array>) {
  const hub = await startHub(files), cache = join(root, String(folders++));
  const env = { MODEL_ENDPOINT: hub.url, QUANTLET_CACHE: cache };
  return { hub, cache, env, open: (flags: HubFlags, more: Record<string, string> = {}) => resolveModel(flags, signal, { ...env, ...more }) };
}

const names = (...paths: string[]) => paths.map((path) => ({ path }));

it.each<[string, string[], string | undefined, string | undefined]>([
  ['Q4_K_M by itself', ['README.md', 'm-F16.gguf', 'm-Q4_K_M.gguf'], undefined, 'm-Q4_K_M.gguf'],
  ['else the first model', ['README.md', 'mmproj-m-f16.gguf', 'imatrix.gguf', 'm-Q8_0.gguf', 'm-F16.gguf'], undefined, 'm-Q8_0.gguf'],
  ['a quant in any case', ['m-Q8_0.gguf', 'm.q5_k_m.gguf'], 'Q5_K_M', 'm.q5_k_m.gguf'],
  ['a quant is a whole word', ['m-IQ4_XS.gguf', 'm-UD-Q4_K_XL.gguf', 'm-BF16.gguf', 'm-Q4_K_M.gguf', 'm-F16.gguf'], 'f16', 'm-F16.gguf'],
  ['a quant that is not there', ['m-Q8_0.gguf'], 'Q4_0', undefined],
  ['the first part of a split model', ['Q8_0/m-Q8_0-00002-of-00002.gguf', 'Q8_0/m-Q8_0-00001-of-00002.gguf'], 'q8_0', 'Q8_0/m-Q8_0-00001-of-00002.gguf'],
  ['no model', ['README.md', 'mmproj.gguf'], undefined, undefined],
])('of several files: %s', (_, paths, quant, want) => {
  expect(chooseFile(names(...paths), quant)?.path).toBe(want);
});

it('the cache folder is QUANTLET_CACHE, else where the system keeps such things', () => {
  expect(cacheFolder({ QUANTLET_CACHE: '/a', XDG_CACHE_HOME: '/b' }, 'linux')).toBe('/a');
  expect(cacheFolder({ XDG_CACHE_HOME: '/b' }, 'linux')).toBe(join('/b', 'quantlet'));
  expect(cacheFolder({}, 'linux')).toMatch(/\.cache[\\/]quantlet$/);
  expect(cacheFolder({}, 'darwin')).toMatch(/Library[\\/]Caches[\\/]quantlet$/);
  expect(cacheFolder({ LOCALAPPDATA: 'L' }, 'win32')).toBe(join('L', 'quantlet'));
});

it('a path is a path; two names of a model, half of one, or an odd one are refused', async () => {
  const { open } = await repository({});
  expect(await open({ model: 'C:\\models\\m.gguf' })).toBe('C:\\models\\m.gguf');
  expect(await open({})).toBeUndefined();
  for (const flags of [{ model: 'a.gguf', hf: 'org/repo' }, { hfFile: 'a.gguf' }, { hf: 'repo' }, { hf: 'org/..' }, { hf: 'org/repo:' }, { hf: 'org/repo/x' }, { model: 'https://host/' }]) {
    expect((await failure(open(flags))).code, JSON.stringify(flags)).toBe('ERR_USAGE');
  }
  for (const hfFile of ['../m.gguf', '/m.gguf', 'a\\b.gguf', 'c:m.gguf']) expect((await failure(open({ hf: 'org/repo', hfFile }))).message).toMatch(/no name for a file/);
});

it('gets the file of a repository once, checked; anew when it changed there', async () => {
  const { hub, cache, open } = await repository({ 'README.md': bytes('r'), 'm-F16.gguf': bytes('f16'), 'm-Q4_K_M.gguf': bytes('one') });
  const path = await open({ hf: 'org/repo' });
  expect(path).toBe(join(cache, 'org', 'repo', 'm-Q4_K_M.gguf'));
  expect(readFileSync(path!, 'utf8')).toBe('GGUFone');
  expect(hub.log).toEqual(['list', 'list', 'resolve m-Q4_K_M.gguf', 'bytes m-Q4_K_M.gguf bytes=0-']);
  hub.log.length = 0;
  await open({ hf: 'org/repo:q4_k_m' });
  expect(hub.log, 'the list tells that it is still the same').toEqual(['list', 'list']);
  hub.files.set('m-Q4_K_M.gguf', bytes('two'));
  expect(readFileSync((await open({ hf: 'org/repo' }))!, 'utf8')).toBe('GGUFtwo');
  expect(readdirSync(join(cache, 'org', 'repo')).sort(), 'nothing else is left').toEqual(['list.json', 'm-Q4_K_M.gguf', 'm-Q4_K_M.gguf.json']);
});

it('--offline and a hub that is away use what is there', async () => {
  const { hub, open } = await repository({ 'm-Q8_0.gguf': bytes('x') });
  const none = await failure(open({ hf: 'org/repo', offline: true }));
  expect([none.code, none.message]).toEqual(['ERR_DOWNLOAD', expect.stringContaining('--offline')]);
  const path = await open({ hf: 'org/repo' });
  hub.log.length = 0;
  expect(await open({ hf: 'org/repo', offline: true })).toBe(path);
  expect(hub.log).toEqual([]);
  hub.refuse = () => 500;
  expect(await open({ hf: 'org/repo' })).toBe(path);
  expect(String(vi.mocked(process.stderr.write).mock.calls.at(-1)?.[0])).toMatch(/answered 500.*downloaded before/);
  expect((await failure(open({ hf: 'org/repo:Q4_0' }))).message).toContain('500');
  const away = await failure(open({ hf: 'org/repo:Q4_0' }, { MODEL_ENDPOINT: 'http://127.0.0.1:9' }));
  expect([away.code, away.message]).toEqual(['ERR_DOWNLOAD', expect.stringMatching(/no connection; --offline/)]);
});

it('a file by its name, a split model with all its parts', async () => {
  const part = (i: number): string => `sub dir/m-0000${i}-of-00003.gguf`;
  const { hub, cache, open } = await repository({ [part(1)]: bytes('1'), [part(2)]: bytes('22'), [part(3)]: bytes('333'), 'other.gguf': bytes('o') });
  expect(await open({ hf: 'org/repo', hfFile: 'other.gguf' })).toBe(join(cache, 'org', 'repo', 'other.gguf'));
  const path = await open({ hf: 'org/repo' });
  expect(path).toBe(join(cache, 'org', 'repo', 'sub dir', 'm-00001-of-00003.gguf'));
  expect([1, 2, 3].map((i) => readFileSync(join(cache, 'org', 'repo', part(i)), 'utf8'))).toEqual(['GGUF1', 'GGUF22', 'GGUF333']);
  expect(await open({ hf: 'org/repo', offline: true })).toBe(path);
  const missing = await failure(open({ hf: 'org/repo', hfFile: 'none.gguf' }));
  expect(missing.message).toMatch(/no none\.gguf; it has .*other\.gguf/);
  hub.files.delete(part(2));
  expect((await failure((await repository(Object.fromEntries(hub.files))).open({ hf: 'org/repo' }))).message).toMatch(/00002-of-00003.*not complete/);
});

it('the token goes to the hub and nowhere else; 401, 403 and 404 say what to do', async () => {
  const { hub, open } = await repository({ 'm.gguf': bytes('x') });
  hub.refuse = (token) => (token === undefined ? 401 : token === 'bad' ? 403 : undefined);
  const none = await failure(open({ hf: 'org/repo' }));
  expect([none.code, none.message]).toEqual(['ERR_DOWNLOAD', expect.stringMatching(/401.*--hf-token or HF_TOKEN/)]);
  expect((await failure(open({ hf: 'org/repo', hfToken: 'bad' }))).message).toMatch(/403.*terms/);
  expect(await open({ hf: 'org/repo' }, { HF_TOKEN: 'good' })).toBeDefined();
  expect(hub.leaked).toEqual([undefined]);
  expect((await failure(open({ hf: 'org/none', hfToken: 'good' }))).message).toMatch(/404.*check its name/);
});

it("an address of the hub is its file; another server's has a folder of its own", async () => {
  const { hub, cache, env, open } = await repository({ 'm.gguf': bytes('x'), 's-00001-of-00002.gguf': bytes('1'), 's-00002-of-00002.gguf': bytes('2') });
  for (const kind of ['resolve', 'blob']) expect(await open({ model: `${hub.url}/org/repo/${kind}/main/m.gguf?download=true` })).toBe(join(cache, 'org', 'repo', 'm.gguf'));
  const elsewhere = { ...env, MODEL_ENDPOINT: 'http://127.0.0.1:9' };
  const path = await resolveModel({ model: `${hub.url}/org/repo/resolve/main/s-00001-of-00002.gguf`, hfToken: 'secret' }, signal, elsewhere);
  expect(readFileSync(path!, 'utf8')).toBe('GGUF1');
  expect(readFileSync(path!.replace('00001-of', '00002-of'), 'utf8')).toBe('GGUF2');
  expect(hub.leaked.every((token) => token === undefined)).toBe(true);
  expect(await resolveModel({ model: `${hub.url}/org/repo/resolve/main/s-00001-of-00002.gguf`, offline: true }, signal, elsewhere)).toBe(path);
});

it('commands take them: run, inspect and tokenize with a model of the hub', async () => {
  const { hub, env, cache } = await repository({ 'm.gguf': readFileSync(llamaModel) });
  const run = await runCli(['run', '-hf', 'org/repo', '-p', 'x', '-n', 2, '--temp', 0, '--no-warmup'], { env });
  expect(run.code, run.stderr).toBe(0);
  expect(run.stderr).toMatch(/^quantlet: downloading m\.gguf: [\d.]+ kB\n/);
  const inspect = await runCli(['inspect', '-m', `${hub.url}/org/repo/resolve/main/m.gguf`, '--json'], { env });
  expect([inspect.code, inspect.stderr]).toEqual([0, '']);
  const offline = { ...env, MODEL_ENDPOINT: 'http://127.0.0.1:9' };
  expect((await runCli(['tokenize', '-hf', 'org/repo', '--offline', '-p', 'the cat', '--ids'], { env: offline })).code).toBe(0);
  expect((await runCli(['tokenize', '-hf', 'org/repo', '-hff', 'none.gguf', '--offline', '-p', 'x'], { env: offline })).code).toBe(1);
  expect(existsSync(join(cache, 'org', 'repo', 'm.gguf.lock'))).toBe(false);
});
