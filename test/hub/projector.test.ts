/** Projectors of repositories: llama.cpp's choice, and loading of `hf:OWNER/REPO` with one. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadModel, type LoadOptions } from '../../src/entry/node.ts';
import { download, list, remove } from '../../src/entry/hub-node.ts';
import { Library } from '../../src/cli/serve-library.ts';
import { chooseProjector } from '../../src/hub/choose-file.ts';
import { hubFor, locate } from '../../src/hub/locate.ts';
import type { Model } from '../../src/model.ts';
import { at, failure, llamaModel, temporaryFolder } from '../support.ts';
import { startHub } from './server.ts';

it.each<[string, string[], string, string | undefined]>([
  ['the only one', ['m-Q4_K_M.gguf', 'mmproj-m-F16.gguf'], 'm-Q4_K_M.gguf', 'mmproj-m-F16.gguf'],
  ['none', ['m-Q4_K_M.gguf', 'mmproj.bin', 'README-mmproj.md'], 'm-Q4_K_M.gguf', undefined],
  ['the nearest number of bits', ['mmproj-m-F32.gguf', 'mmproj-m-F16.gguf', 'mmproj-m-Q8_0.gguf'], 'm-Q4_K_M.gguf', 'mmproj-m-Q8_0.gguf'],
  ['of a model of 16 bits', ['mmproj-m-Q8_0.gguf', 'mmproj-m-f16.gguf', 'mmproj-m-F32.gguf'], 'm-BF16.gguf', 'mmproj-m-f16.gguf'],
  ['the first of two that are as near', ['mmproj-BF16.gguf', 'mmproj-F16.gguf'], 'm-Q4_0.gguf', 'mmproj-BF16.gguf'],
  ['a name without a quant has none', ['mmproj-F16.gguf', 'mmproj-model.gguf'], 'm-Q4_0.gguf', 'mmproj-model.gguf'],
  ['digits of the name are no quant', ['mmproj-x-8.F16.gguf', 'mmproj-4-Q8_0.gguf'], 'm-4b-F16.gguf', 'mmproj-x-8.F16.gguf'],
  ['the model’s folder before one around it', ['mmproj-Q4_0.gguf', 'a/mmproj-F16.gguf'], 'a/m-Q4_0.gguf', 'a/mmproj-F16.gguf'],
  ['a folder around it', ['b/mmproj-Q4_0.gguf', 'mmproj-F16.gguf'], 'a/m-Q4_0.gguf', 'mmproj-F16.gguf'],
  ['not one of another folder', ['b/mmproj-Q4_0.gguf', 'a/deep/mmproj-Q4_0.gguf'], 'a/m-Q4_0.gguf', undefined],
  ['a split model', ['mmproj-F16.gguf', 'mmproj-Q8_0.gguf'], 'm-Q8_0-00001-of-00002.gguf', 'mmproj-Q8_0.gguf'],
  ['a folder named after it', ['mmproj/F16.gguf', 'mmproj-F16.gguf'], 'mmproj/m.gguf', 'mmproj/F16.gguf'],
])('%s', (_, files, model, want) => {
  expect(
    chooseProjector(
      [...files, model].map((path) => ({ path })),
      model,
    )?.path,
  ).toBe(want);
});

const seeing = readFileSync(at('test/golden/vision/idefics3.gguf'));
const mmproj = readFileSync(at('test/golden/vision/mmproj-idefics3.gguf'));
const root = temporaryFolder();
let folders = 0;

async function repository(files: Record<string, Uint8Array>) {
  const hub = await startHub(files);
  const settings = { endpoint: hub.url, folder: join(root, String(folders++)) };
  const load = (source: string, options: LoadOptions = {}): Promise<Model> =>
    loadModel(source, { contextLength: 256, warmUp: false, ...options, hub: { ...settings, ...options.hub } });
  const asked = () => hub.log.filter((line) => line.startsWith('resolve')).map((line) => line.slice(8));
  return { hub, settings, load, asked };
}
const both = { 'm-F16.gguf': seeing, 'mmproj-m-F16.gguf': mmproj };

describe('hf:OWNER/REPO', () => {
  it('takes the projector, unless mmproj says otherwise', async () => {
    const { hub, load, asked } = await repository(both);
    for (const source of ['hf:org/repo', 'hf:org/repo/m-F16.gguf', `${hub.url}/org/repo`]) {
      await using model = await load(source);
      expect([model.modalities, model.warnings]).toEqual([{ vision: true, audio: false }, []]);
    }
    expect(asked()).toEqual(['m-F16.gguf', 'mmproj-m-F16.gguf']);
    expect(
      hub.log.filter((line) => line === 'list'),
      'one for each load',
    ).toHaveLength(3);
    await using text = await load('hf:org/repo', { mmproj: false });
    await using other = await load('hf:org/repo', { mmproj: new Blob([mmproj]) });
    await using file = await load(`${hub.url}/org/repo/resolve/main/m-F16.gguf`);
    expect([text, other, file].map(({ modalities }) => modalities.vision)).toEqual([false, true, false]);
  });

  it('reads it from the network with cache: false', async () => {
    const { load, asked, settings } = await repository(both);
    await using model = await load('hf:org/repo', { cache: false });
    expect([model.modalities.vision, new Set(asked()), await list({ folder: settings.folder })]).toEqual([
      true,
      new Set(['m-F16.gguf', 'mmproj-m-F16.gguf']),
      [],
    ]);
  });

  it('offline, a projector that was not downloaded is left out with a word', async () => {
    const { load, hub, settings } = await repository(both);
    await download('hf:org/repo', { ...settings, mmproj: false });
    hub.refuse = () => 404;
    const offline = { hub: { offline: true } };
    await using blind = await load('hf:org/repo', offline);
    expect(blind.modalities.vision).toBe(false);
    hub.refuse = () => undefined;
    await download('hf:org/repo', settings);
    hub.refuse = () => 404;
    await using model = await load('hf:org/repo', offline);
    expect(model.modalities.vision).toBe(true);
  });

  it('is downloaded, listed and removed as other files are', async () => {
    const { hub, settings } = await repository(both);
    await download('hf:org/repo', settings);
    expect(hub.log.filter((line) => line === 'list')).toHaveLength(1);
    const kept = await list({ folder: settings.folder });
    expect(kept.map(({ source, size }) => [source, size])).toEqual([
      ['hf:org/repo/m-F16.gguf', seeing.length],
      ['hf:org/repo/mmproj-m-F16.gguf', mmproj.length],
    ]);
    expect(await remove('hf:org/repo/mmproj-m-F16.gguf', settings)).toBe(mmproj.length);
    expect(await list({ folder: settings.folder })).toHaveLength(1);
  });

  it.each<[string, Record<string, Uint8Array>, LoadOptions, RegExp]>([
    ['of another model', { 'm-Q8_0.gguf': readFileSync(llamaModel), 'mmproj-F16.gguf': mmproj }, {}, /makes embeddings of 64 numbers/],
    ['that is a model', { 'm-F16.gguf': seeing, 'mmproj-F16.gguf': seeing }, {}, /"llama" model; expected a projector/],
    ['next to options that images exclude', both, { speculation: { type: 'ngram-simple' } }, /speculation \(ngram-simple\)/],
  ])('a projector %s is left out, and a warning says why', async (_, files, options, why) => {
    const { load } = await repository(files);
    await using model = await load('hf:org/repo', options);
    expect([model.modalities.vision, model.warnings]).toEqual([false, [expect.stringMatching(why)]]);
    expect(model.warnings[0]).toMatch(
      /^the model takes neither images nor sounds, because the projector in its repository cannot be used: .*mmproj: false/,
    );
    expect((await model.generate('a', { maxTokens: 2 }).result()).ids).toHaveLength(2);
  });

  it('a damaged projector is an error', async () => {
    const { load } = await repository({ ...both, 'mmproj-m-F16.gguf': mmproj.subarray(0, 5000) });
    expect((await failure(load('hf:org/repo'))).code).toBe('ERR_GGUF_TRUNCATED');
  });
});

it('for pages, the address of the projector comes with that of the model', async () => {
  const { hub } = await repository(both);
  const found = await locate(hubFor({ hub: { endpoint: hub.url } }), 'hf:org/repo');
  expect(found.projector?.href).toBe(`${hub.url}/org/repo/resolve/main/mmproj-m-F16.gguf`);
});

it('models of a server are downloaded, loaded and removed with their projector', async () => {
  const { hub, settings } = await repository(both);
  const { QUANTLET_CACHE, MODEL_ENDPOINT } = process.env;
  Object.assign(process.env, { QUANTLET_CACHE: settings.folder, MODEL_ENDPOINT: hub.url });
  try {
    const opened: (string | undefined)[] = [];
    const open = (_: string, __: string, projector: string | undefined): Promise<Model> => (
      opened.push(projector),
      Promise.reject(new Error('not here'))
    );
    const { signal } = new AbortController();
    const library = new Library({ token: undefined, offline: undefined, open, signal });
    const changes = library.forHandler(true);
    const entry = await changes.pull!('hf.co/org/repo', signal, () => {});
    await entry.load().catch(() => {});
    expect(opened).toEqual([join(settings.folder, 'org', 'repo', 'mmproj-m-F16.gguf')]);
    const blind = new Library({ token: undefined, offline: undefined, projectors: false, open, signal });
    await (await blind.cached())[0].load().catch(() => {});
    expect(opened[1]).toBeUndefined();
    await changes.remove!(entry.id, () => Promise.resolve());
    expect(await list({ folder: settings.folder })).toEqual([]);
  } finally {
    Object.assign(process.env, { QUANTLET_CACHE, MODEL_ENDPOINT });
    for (const [name, value] of Object.entries({ QUANTLET_CACHE, MODEL_ENDPOINT })) if (value === undefined) delete process.env[name];
  }
});
