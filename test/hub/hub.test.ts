/** `-m` and `-hf`: the chosen file, the requests to the hub, the files in the cache. */
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { cacheFolder } from '../../src/hub/cache-folder.ts';
import { resolveModel, type HubFlags } from '../../src/cli/hub.ts';
import { chooseFile, filesOf } from '../../src/hub/choose-file.ts';
import { hubFor } from '../../src/hub/locate.ts';
import { listRepo } from '../../src/hub/requests.ts';
import { writeGGUF, type WriteValue } from '../../src/gguf/write.ts';
import { failure, llamaModel, runCli, temporaryFolder } from '../support.ts';
import { listen, startHub } from './server.ts';

const { signal } = new AbortController();
const root = temporaryFolder();
let folders = 0;
beforeAll(() => void vi.spyOn(process.stderr, 'write').mockReturnValue(true)); // one line per download
afterAll(() => vi.restoreAllMocks());
const bytes = (text: string): Uint8Array => Buffer.from(`GGUF${text}`);

/**
 * A hub, and a function that opens what a command with these flags would. Each has its own cache.
 */
async function repository(files: Record<string, Uint8Array>) {
  const hub = await startHub(files);
  const cache = join(root, String(folders++));
  const env = { MODEL_ENDPOINT: hub.url, QUANTLET_CACHE: cache };
  return {
    hub,
    cache,
    env,
    open: (flags: HubFlags, more: Record<string, string> = {}) => resolveModel(flags, signal, { ...env, ...more }),
  };
}

/**
 * Part `no` of a model in `count` files, as gguf-split writes it. `said`: the number of files in
 * its header.
 */
const part = (no: number, count: number, said = count): Uint8Array =>
  writeGGUF(
    new Map<string, WriteValue>([
      ['split.no', { type: 'u16', value: no - 1 }],
      ['split.count', { type: 'u16', value: said }],
      ['split.tensors.count', { type: 'i32', value: 0 }],
      ['name', { type: 'str', value: `part ${no}` }],
    ]),
    [],
  );

const names = (...paths: string[]) => paths.map((path) => ({ path }));

/** Names of files that are incomplete language models, as tools and people choose them. */
const helpers = [
  'adapter-lora-q8_0.gguf',
  'm-LoRA-Q4_K_M.gguf',
  'm-F16-LoRA.gguf',
  'lora.gguf',
  'loras/style.gguf',
  'adapters/m-Q4_K_M.gguf',
  'm_adapter.f16.gguf',
  'vae.gguf',
  'ae-f16.gguf',
  'vae/m-Q8_0.gguf',
  'clip_l-Q8_0.gguf',
  't5xxl_fp16.gguf',
  't5-xxl-Q8_0.gguf',
  'text_encoder/model-Q8_0.gguf',
  'm-text-encoder-Q4_K_M.gguf',
  'MTP/m-Q4_K_M.gguf',
  'a/mtp/m.gguf',
  'MTP-m-Q8_0.gguf',
  'm-draft-Q4_K_M.gguf',
  'draft/m.gguf',
  'm.DRAFT.gguf',
  'EAGLE3/m-Q8_0.gguf',
  'm-Eagle3.gguf',
  'imatrix-m.gguf',
  'm.imatrix.gguf',
  'm-mm-projector-f16.gguf',
  'control-vector-happy.gguf',
  'control_vectors/happy.gguf',
  'm-cvector.gguf',
  'ggml-vocab-llama-bpe.gguf',
  'WavTokenizer-Large-75-F16.gguf',
  'vocoder.gguf',
];

it.each<[string, string[], string | undefined, string | undefined]>([
  ['Q4_K_M by itself', ['README.md', 'm-F16.gguf', 'm-Q4_K_M.gguf'], undefined, 'm-Q4_K_M.gguf'],
  ['else the first model', ['README.md', 'mmproj-m-f16.gguf', 'imatrix.gguf', 'm-Q8_0.gguf', 'm-F16.gguf'], undefined, 'm-Q8_0.gguf'],
  ['a quant in any case', ['m-Q8_0.gguf', 'm.q5_k_m.gguf'], 'Q5_K_M', 'm.q5_k_m.gguf'],
  ['a quant is a whole word', ['m-IQ4_XS.gguf', 'm-UD-Q4_K_XL.gguf', 'm-BF16.gguf', 'm-Q4_K_M.gguf', 'm-F16.gguf'], 'f16', 'm-F16.gguf'],
  ['a quant that is not there', ['m-Q8_0.gguf'], 'Q4_0', undefined],
  [
    'the first part of a split model',
    ['Q8_0/m-Q8_0-00002-of-00002.gguf', 'Q8_0/m-Q8_0-00001-of-00002.gguf'],
    'q8_0',
    'Q8_0/m-Q8_0-00001-of-00002.gguf',
  ],
  ['else Q8_0', ['m-BF16.gguf', 'm-Q2_K.gguf', 'm-Q8_0.gguf'], undefined, 'm-Q8_0.gguf'],
  ['Q4_K_M before Q8_0, wherever it stands', ['m-Q8_0.gguf', 'z/m-Q4_K_M.gguf'], undefined, 'z/m-Q4_K_M.gguf'],
  ['the first where there is neither', ['m-IQ2_M.gguf', 'm-F16.gguf'], undefined, 'm-IQ2_M.gguf'],
  [
    'a helper file is not a model',
    [
      'mtp-m-Q4_K_M.gguf',
      'eagle3-m-Q4_K_M.gguf',
      'x/dflash-Q8_0.gguf',
      'dspark-Q8_0.gguf',
      'm-mmproj-Q8_0.gguf',
      'MMPROJ-Q8_0.gguf',
      'm-Q6_K.gguf',
    ],
    undefined,
    'm-Q6_K.gguf',
  ],
  ['what only helps a model, asked for by its quant', ['mtp-m-Q4_0.gguf', 'm-Q8_0.gguf'], 'Q4_0', undefined],
  ['a model whose name has MTP', ['m-MTP-Q8_0.gguf'], undefined, 'm-MTP-Q8_0.gguf'],
  ['a folder named after a drafter', ['mtp-tests/m-Q8_0.gguf'], undefined, 'mtp-tests/m-Q8_0.gguf'],
  ['a quant that only a folder names', ['Q8_0/m.gguf', 'Q4_K_M/m.gguf'], 'q4_k_m', 'Q4_K_M/m.gguf'],
  [
    'the same without a wish',
    ['BF16/m.gguf', 'Q8_0/m-00001-of-00002.gguf', 'Q8_0/m-00002-of-00002.gguf'],
    undefined,
    'Q8_0/m-00001-of-00002.gguf',
  ],
  ['a name before a folder', ['Q4_0/m-Q8_0.gguf', 'x/m-Q4_0.gguf'], 'Q4_0', 'x/m-Q4_0.gguf'],
  ['a folder whose name only ends so', ['IQ4_0/m.gguf'], 'Q4_0', undefined],
  ['no model', ['README.md', 'mmproj.gguf'], undefined, undefined],
  ...helpers.flatMap((helper): [string, string[], string | undefined, string | undefined][] => [
    [`${helper} comes first`, [helper, 'm-F16.gguf'], undefined, 'm-F16.gguf'],
    [`${helper} alone`, [helper], undefined, undefined],
  ]),
  ...[
    'Draftsman-7B-Q6_K.gguf',
    'm-qlora-merged.Q6_K.gguf',
    'Florae-2B.gguf',
    'Eclipse-7B.gguf',
    'm-vision-instruct-Q6_K.gguf',
    'Michaela-7B.gguf',
    'vocabularist-3b.gguf',
    'lora-tests/m.gguf',
    'imatrix/m-IQ2_M.gguf',
    'm-Control-7B.gguf',
  ].map((model): [string, string[], undefined, string] => [`${model} is a model`, [model, 'z-F16.gguf'], undefined, model]),
])('of several files: %s', (_, paths, quant, want) => {
  expect(chooseFile(names(...paths), quant)?.path).toBe(want);
});

it('words that a repository has in its own name set none of its files apart', () => {
  const chosen = (repo: string, ...paths: string[]) => chooseFile(names(...paths), undefined, repo)?.path;
  expect(chosen('org/R1-DRAFT-0.6B-GGUF', 'R1-DRAFT-0.6B-Q4_0.gguf')).toBe('R1-DRAFT-0.6B-Q4_0.gguf');
  expect(chosen('org/m-dpo-lora-GGUF', 'm-adapter.gguf', 'm-dpo-lora.Q4_0.gguf')).toBe('m-dpo-lora.Q4_0.gguf');
  expect(chosen('draft/m-GGUF', 'm-draft.gguf', 'm.gguf')).toBe('m.gguf'); // the owner's name is ignored
  expect(chosen('org/mmproj-m', 'mmproj-m.gguf')).toBeUndefined();
});

it('a repository without a model says what it has; a file that is named exactly is taken', () => {
  const files = [{ path: 'adapter-lora.gguf' }, { path: 'vae.gguf' }, { path: 'README.md' }].map((file) => ({ ...file, size: 1 }));
  const repo = { name: 'org/m', revision: 'main' };
  expect(() => filesOf(files, repo, { quant: undefined })).toThrow(
    'org/m has no GGUF model; it has adapter-lora.gguf (by its name an adapter), vae.gguf (by its name a part of a model of images or sounds); to use one of them all the same, name it: hf:org/m/adapter-lora.gguf',
  );
  expect(() => filesOf([...files, { path: 'm-F16.gguf', size: 1 }], repo, { quant: 'Q4_0' })).toThrow(/vae\.gguf \(.*\), m-F16\.gguf$/);
  expect(filesOf(files, repo, { file: 'vae.gguf' })).toEqual([files[1]]);
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
  for (const flags of [{ model: 'a.gguf', hf: 'org/repo' }, { hfFile: 'a.gguf' }])
    expect((await failure(open(flags))).code, JSON.stringify(flags)).toBe('ERR_USAGE');
  for (const flags of [
    { hf: 'repo' },
    { hf: 'org/..' },
    { hf: 'org/repo:' },
    { hf: 'org/repo/x' },
    { model: 'https://host/' },
    { model: 'hf:repo' },
  ]) {
    const { code, message } = await failure(open(flags));
    expect([code, message], JSON.stringify(flags)).toEqual([
      'ERR_INVALID_ARGUMENT',
      expect.stringMatching('hf' in flags ? /^-hf is / : /^-m is /),
    ]);
  }
  for (const hfFile of ['../m.gguf', '/m.gguf', 'a\\b.gguf', 'c:m.gguf'])
    expect((await failure(open({ hf: 'org/repo', hfFile }))).message).toMatch(/cannot be the name of a file/);
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
  expect(readdirSync(join(cache, 'org', 'repo')).sort(), 'nothing else is left').toEqual([
    'list.json',
    'm-Q4_K_M.gguf',
    'm-Q4_K_M.gguf.json',
  ]);
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
  const pathOf = (i: number): string => `sub dir/m-0000${i}-of-00003.gguf`;
  const { hub, cache, open } = await repository({
    [pathOf(1)]: part(1, 3),
    [pathOf(2)]: part(2, 3),
    [pathOf(3)]: part(3, 3),
    'other.gguf': bytes('o'),
  });
  expect(await open({ hf: 'org/repo', hfFile: 'other.gguf' })).toBe(join(cache, 'org', 'repo', 'other.gguf'));
  const path = await open({ hf: 'org/repo' });
  expect(path).toBe(join(cache, 'org', 'repo', 'sub dir', 'm-00001-of-00003.gguf'));
  expect([1, 2, 3].map((i) => Buffer.compare(readFileSync(join(cache, 'org', 'repo', pathOf(i))), part(i, 3)))).toEqual([0, 0, 0]);
  expect(await open({ hf: 'org/repo', offline: true })).toBe(path);
  const missing = await failure(open({ hf: 'org/repo', hfFile: 'none.gguf' }));
  expect(missing.message).toMatch(/no none\.gguf; it has .*other\.gguf/);
  hub.files.delete(pathOf(2));
  const incomplete = await repository(Object.fromEntries(hub.files));
  expect((await failure(incomplete.open({ hf: 'org/repo' }))).message).toMatch(/00002-of-00003.*incomplete/);
  expect(incomplete.hub.log, 'nothing of it is downloaded').toEqual(['list', 'list']);
});

it('a name that promises more parts than the header of the first: nothing else is asked for', async () => {
  const all = Object.fromEntries(Array.from({ length: 4 }, (_, i) => [`m-0000${i + 1}-of-99999.gguf`, part(i + 1, 4)]));
  const { hub, open } = await repository(all);
  const url = `${hub.url}/org/repo/resolve/main/m-00001-of-99999.gguf`;
  const { code, message } = await failure(open({ model: url }, { MODEL_ENDPOINT: 'http://127.0.0.1:9' }));
  expect([code, message]).toEqual([
    'ERR_DOWNLOAD',
    expect.stringMatching(/m-00001-of-99999\.gguf says that its model has 4 parts, but its name says 99999/),
  ]);
  expect(hub.log).toEqual(['resolve m-00001-of-99999.gguf', 'bytes m-00001-of-99999.gguf bytes=0-']);
  hub.log.length = 0;
  expect((await failure(open({ hf: 'org/repo' }))).message).toMatch(/has no m-00005-of-99999\.gguf.*incomplete/);
  expect(hub.log).toEqual(['list', 'list']);
  const three = await repository({ 'm-00001-of-00002.gguf': part(1, 2, 3), 'm-00002-of-00002.gguf': part(2, 2, 3) });
  expect((await failure(three.open({ hf: 'org/repo' }))).message).toMatch(/has 3 parts, but its name says 2/);
  expect(three.hub.log.filter((line) => line.startsWith('resolve'))).toEqual(['resolve m-00001-of-00002.gguf']);
});

it('choosing among thousands of names that promise thousands of parts takes no time', () => {
  const paths = Array.from({ length: 20_000 }, (_, i) => `m${i}-00002-of-99999.gguf`);
  expect(chooseFile(names(...paths, 'm-00001-of-99999.gguf'))?.path).toBe('m-00001-of-99999.gguf');
});

it('a list that is invalid, endless or too long is refused; entries that are not files are skipped', async () => {
  const { hub, cache, open } = await repository({ 'm.gguf': bytes('x') });
  const listed = (path: string): string => JSON.stringify({ type: 'file', path, size: 5 });
  const answers = async (page: NonNullable<typeof hub.page>): Promise<string> => {
    hub.page = page;
    const { code, message } = await failure(open({ hf: 'org/repo' }));
    return `${code} ${message}`;
  };
  expect(await answers(() => ({ body: 'null' }))).toMatch(/^ERR_DOWNLOAD .*not a list/);
  expect(await answers(() => ({ body: '[null' }))).toMatch(/^ERR_DOWNLOAD .*not JSON/);
  expect(
    await answers(() => ({
      body: `[null, 7, "x", [], {"type":"file"}, {"type":"file","path":"a.gguf","size":1e999}, {"type":"file","path":"b.gguf","size":-1}, ${listed('c.bin')}]`,
    })),
  ).toMatch(/^ERR_DOWNLOAD .*no GGUF model/);
  hub.log.length = 0;
  expect(await answers((cursor) => ({ body: `[${listed(`${cursor}.gguf`)}]`, next: `?cursor=${Number(cursor) + 1}` }))).toMatch(
    /^ERR_DOWNLOAD .*has more than 100 pages \(100 files\)/,
  );
  expect(hub.log.length).toBe(100);
  expect(await answers(() => ({ body: '[]', next: 'http://' }))).toMatch(/^ERR_DOWNLOAD .*names "http:\/\/" as the next page/);
  expect(await answers((cursor) => ({ body: `[${listed('x'.repeat(5 << 20))}]`, next: `?cursor=${Number(cursor) + 1}` }))).toMatch(
    /^ERR_DOWNLOAD .*more than 33554432 bytes/,
  );
  expect(await answers(() => ({ body: `[${listed('a\u001b[2J.gguf')}]` }))).toMatch(/^ERR_DOWNLOAD .*cannot be the name of a file/);

  delete hub.page;
  const path = await open({ hf: 'org/repo' });
  for (const list of ['null', '[null, {}, 3]', '{', '{"path":1}']) {
    writeFileSync(join(cache, 'org', 'repo', 'list.json'), list);
    expect(await open({ hf: 'org/repo', offline: true }), list).toBe(path);
  }
});

it('a hub at a port that fetch() refuses is not asked, again and again', async () => {
  const hub = { ...hubFor({ hub: { endpoint: 'http://127.0.0.1:6000' } }), retryMs: 60_000 };
  expect(await failure(listRepo(hub, { name: 'org/repo', revision: 'main' }))).toMatchObject({
    code: 'ERR_DOWNLOAD',
    message: expect.stringMatching(/refuses port 6000/) as string,
  });
});

it('a list is asked for again where the hub is busy or drops the connection; the wait ends with the signal', async () => {
  const files = JSON.stringify([{ type: 'file', path: 'm.gguf', size: 5 }]);
  const faults: ((response: ServerResponse) => void)[] = [
    (response) => void response.writeHead(429, { 'retry-after': '0' }).end(),
    (response) => void response.writeHead(503).end(),
    (response) => void response.destroy(),
    (response) => void response.writeHead(504).end(),
  ];
  let n = 0;
  const busy = await listen((_, response) => (faults[n++] ? faults[n - 1](response) : void response.end(files)));
  const hub = { ...hubFor({ hub: { endpoint: busy } }), retryMs: 1 };
  expect(await listRepo(hub, { name: 'org/repo', revision: 'main' })).toEqual([{ path: 'm.gguf', size: 5, sha256: undefined }]);
  expect(n).toBe(5);

  const never = await listen((_, response) => void response.writeHead(503).end());
  const refused = await failure(listRepo({ ...hub, endpoint: never }, { name: 'org/repo', revision: 'main' }));
  expect([refused.code, refused.message]).toEqual(['ERR_DOWNLOAD', expect.stringMatching(/answered 503; .*try again later/)]);
  const stopping = new AbortController();
  setTimeout(() => stopping.abort(new Error('stopped')), 100);
  const slow = { ...hub, endpoint: never, retryMs: 60_000, signal: stopping.signal };
  expect((await failure(listRepo(slow, { name: 'org/repo', revision: 'main' }))).message).toBe('stopped');
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
  const { hub, cache, env, open } = await repository({
    'm.gguf': bytes('x'),
    's-00001-of-00002.gguf': part(1, 2),
    's-00002-of-00002.gguf': part(2, 2),
  });
  for (const kind of ['resolve', 'blob'])
    expect(await open({ model: `${hub.url}/org/repo/${kind}/main/m.gguf?download=true` })).toBe(join(cache, 'org', 'repo', 'm.gguf'));
  const elsewhere = { ...env, MODEL_ENDPOINT: 'http://127.0.0.1:9' };
  const path = await resolveModel(
    { model: `${hub.url}/org/repo/resolve/main/s-00001-of-00002.gguf`, hfToken: 'secret' },
    signal,
    elsewhere,
  );
  expect(Buffer.compare(readFileSync(path!), part(1, 2))).toBe(0);
  expect(Buffer.compare(readFileSync(path!.replace('00001-of', '00002-of')), part(2, 2))).toBe(0);
  expect(hub.leaked.every((token) => token === undefined)).toBe(true);
  expect(await resolveModel({ model: `${hub.url}/org/repo/resolve/main/s-00001-of-00002.gguf`, offline: true }, signal, elsewhere)).toBe(
    path,
  );
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
