/** loadModel with remote models, and quantlet/hub: downloads, lists, removals. */
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadModel, type LoadProgress } from 'quantlet';
import { expect, it } from 'vitest';
import { download, list, remove, type KeptModel } from '../../src/entry/hub-node.ts';
import { failure, llamaModel, temporaryFolder } from '../support.ts';
import { randomBytes } from '../web/server.ts';
import { listen, sendBytes, startHub } from './server.ts';

const root = temporaryFolder();
let folders = 0;
const model = readFileSync(llamaModel);
const other = randomBytes(200_000, 5);
other.set(Buffer.from('GGUF'));

/** A hub with an empty folder for downloads. */
async function repository(files: Record<string, Uint8Array>) {
  const hub = await startHub(files);
  return { hub, options: { endpoint: hub.url, folder: join(root, String(folders++)) } };
}
const quick = { build: 'simd', warmUp: false, threads: 1 } as const;

it('loadModel takes hf:OWNER/REPO and an address: downloaded once, with progress, then from the folder', async () => {
  const { hub, options } = await repository({ 'm-Q8_0.gguf': model, 'b.gguf': model });
  const seen: LoadProgress[] = [];
  const first = await loadModel('hf:org/repo:Q8_0', { ...quick, hub: options, onProgress: (p) => seen.push(p) });
  await first.dispose();
  const downloads = seen.filter(({ phase }) => phase === 'download');
  expect(downloads.at(-1)).toEqual({ phase: 'download', loaded: model.length, total: model.length, file: 'm-Q8_0.gguf' });
  expect(seen.at(-1)!.phase).toBe('load');
  expect(existsSync(join(options.folder, 'org/repo/m-Q8_0.gguf'))).toBe(true);

  hub.log.length = 0;
  await (await loadModel('hf:org/repo:Q8_0', { ...quick, hub: options })).dispose();
  expect(hub.log, 'only the list was asked for').toEqual(['list']);
  await (await loadModel('hf:org/repo:Q8_0', { ...quick, hub: { ...options, offline: true } })).dispose();
  expect(hub.log).toEqual(['list']);
  await (await loadModel('hf:org/repo:Q8_0', { ...quick, cache: 'reload', hub: options })).dispose();
  expect(hub.log).toContain('resolve m-Q8_0.gguf');

  const url = `${hub.url}/org/repo/resolve/main/b.gguf`;
  for (const source of [url, new URL(url), 'hf:org/repo/b.gguf']) await (await loadModel(source, { ...quick, hub: options })).dispose();
  expect(hub.log.filter((line) => line === 'resolve b.gguf').length).toBe(1);
});

it('cache: false keeps nothing', async () => {
  const { hub, options } = await repository({ 'm.gguf': model });
  for (const source of ['hf:org/repo', `${hub.url}/org/repo/resolve/main/m.gguf`])
    await (await loadModel(source, { ...quick, cache: false, hub: options })).dispose();
  expect(hub.log.filter((line) => line.startsWith('bytes')).length).toBe(2);
  expect(existsSync(options.folder)).toBe(false);
});

it('the token goes to the hub, headers to every server; errors name the options', async () => {
  const { hub, options } = await repository({ 'm.gguf': model });
  hub.refuse = (token) => (token === 'good' ? undefined : 401);
  const { code, message } = await failure(loadModel('hf:org/repo', { hub: options }));
  expect([code, message]).toEqual(['ERR_DOWNLOAD', expect.stringMatching(/hub\.token or HF_TOKEN/)]);
  await download('hf:org/repo', { ...options, token: 'good' });
  expect(hub.leaked).toEqual([undefined]);
  const never = await failure(download('hf:org/repo:Q2_K', { ...options, offline: true }));
  expect([never.code, never.message]).toEqual(['ERR_DOWNLOAD', expect.stringContaining('hub.offline forbids downloads')]);

  const got: (string | undefined)[] = [];
  const url = await listen((request, response) => {
    got.push(request.headers['x-key'] as string | undefined);
    sendBytes(model, request, response);
  });
  await download(`${url}/m.gguf`, { folder: options.folder, headers: { 'x-key': 'k' } });
  expect(new Set(got)).toEqual(new Set(['k']));
});

it.each(['hf:', 'hf:repo', 'hf:org/..', 'hf:org/repo:', 'hf:org/repo/x', 'http://', 'https://host/'])(
  '%s is refused before anything is asked',
  async (source) => {
    expect((await failure(loadModel(source))).code).toBe('ERR_INVALID_ARGUMENT');
  },
);
it('a name that leads out of the folder is refused', async () => {
  expect((await failure(download('hf:org/repo/../../x.gguf', { folder: root }))).code).toBe('ERR_DOWNLOAD');
});

it('list() tells what is kept by a source that loads, downloads and removes it', async () => {
  const { hub, options } = await repository({ 'a/m-Q8_0.gguf': model, 'n.gguf': other });
  const file = await listen((request, response) => sendBytes(other, request, response));
  const paths = [
    await download('hf:org/repo:Q8_0', options),
    await download('hf:org/repo/n.gguf', options),
    await download(`${file}/x.gguf?key=1`, options),
  ];
  const kept = await list(options);
  const by = (a: KeptModel, b: KeptModel): number => a.source.localeCompare(b.source);
  expect(kept.sort(by)).toEqual(
    [
      { source: 'hf:org/repo/a/m-Q8_0.gguf', path: paths[0], size: model.length, complete: true },
      { source: 'hf:org/repo/n.gguf', path: paths[1], size: other.length, complete: true },
      { source: `${file}/x.gguf?key=1`, path: paths[2], size: other.length, complete: true },
    ].sort(by),
  );
  expect(await remove('hf:org/repo:Q8_0', options)).toBe(model.length);
  expect(await remove('hf:org/repo:Q8_0', options)).toBe(0);
  expect(readdirSync(join(options.folder, 'org/repo')).sort()).toEqual(['list.json', 'n.gguf', 'n.gguf.json']);
  expect(await remove(paths[1], options)).toBe(other.length);
  expect(await remove(`${file}/x.gguf?key=1`, options)).toBe(other.length);
  expect(await list(options)).toEqual([]);
  expect(existsSync(options.folder) ? readdirSync(options.folder, { recursive: true }) : [], 'no empty folders').toEqual([]);
  expect(hub.log.length).toBeGreaterThan(0);
});

it('a download that broke off is listed, taken up again, or removed', async () => {
  const { hub, options } = await repository({ 'n.gguf': other });
  const begin = async (): Promise<void> => {
    const stopping = new AbortController();
    const onProgress = ({ loaded }: LoadProgress): void => (loaded > 0 ? stopping.abort(new Error('stopped')) : undefined);
    expect((await failure(download('hf:org/repo', { ...options, signal: stopping.signal, onProgress }))).message).toBe('stopped');
  };
  await begin();
  const [half] = await list(options);
  expect(half).toMatchObject({ source: 'hf:org/repo/n.gguf', complete: false });
  expect(half.size).toBeGreaterThan(0);
  hub.log.length = 0;
  await download(half.source, options);
  expect(hub.log.at(-1)).toMatch(/^bytes n\.gguf bytes=[1-9]/);
  expect(await list(options)).toMatchObject([{ complete: true, size: other.length }]);
  await remove(half.source, options);
  await begin();
  expect(await remove('hf:org/repo', options)).toBeGreaterThan(0);
  expect(await list(options)).toEqual([]);
});

it('only what lies in the folder can be removed, and what a progress callback throws is what rejects', async () => {
  const { options } = await repository({ 'n.gguf': other });
  const mine = join(root, 'mine.gguf');
  writeFileSync(mine, 'GGUF');
  for (const source of [mine, join(options.folder, '..', 'mine.gguf')])
    expect((await failure(remove(source, options))).code).toBe('ERR_INVALID_ARGUMENT');
  expect(existsSync(mine)).toBe(true);
  const reason = new TypeError('a mistake of the program');
  const onProgress = (): never => {
    throw reason;
  };
  expect((await failure(download('hf:org/repo', { ...options, onProgress }))).error).toBe(reason);
});
