/** The models of a server's cache folder, and the address of OLLAMA_HOST. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { ollamaHost } from '../../src/cli/serve-http.ts';
import { cachedModels, Library } from '../../src/cli/serve-library.ts';
import { llamaModel, temporaryFolder } from '../support.ts';

it('names models of the cache folder by repository and quant', async () => {
  const folder = temporaryFolder();
  const files = [
    'a/b/b-Q4_K_M.gguf',
    'a/b/b-q8_0.gguf',
    'a/b/other-Q4_K_M.gguf',
    'a/b/mmproj-F16.gguf',
    'a/b/half-Q6_K.gguf.01234567.part',
    'a/c/BF16/c-BF16-00001-of-00002.gguf',
    'a/c/BF16/c-BF16-00002-of-00002.gguf',
    'a/d/plain.gguf',
    'a/e/x-UD-IQ2_XXS.gguf',
  ];
  for (const file of files) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), 'x');
  }
  expect((await cachedModels({ folder })).map(({ id }) => id).sort()).toEqual([
    'hf.co/a/b/other-Q4_K_M.gguf',
    'hf.co/a/b:Q4_K_M',
    'hf.co/a/b:q8_0',
    'hf.co/a/c:BF16',
    'hf.co/a/d/plain.gguf',
    'hf.co/a/e:UD-IQ2_XXS',
  ]);
});

it('a file of names that cannot be read stays as it is', async () => {
  const folder = temporaryFolder();
  vi.stubEnv('QUANTLET_CACHE', folder);
  try {
    const signal = new AbortController().signal;
    const library = new Library({ token: undefined, offline: true, signal, open: () => Promise.reject(new Error()) });
    expect(await library.cached()).toEqual([]);
    for (const text of ['{"mine": "hf:a/b/c', '[]', '{"mine": 7}']) {
      writeFileSync(join(folder, 'names.json'), text);
      await expect(library.cached()).rejects.toMatchObject({
        code: 'ERR_IO',
        message: expect.stringMatching(/names.json .*; expected/) as string,
      });
      expect(readFileSync(join(folder, 'names.json'), 'utf8')).toBe(text);
    }
  } finally {
    vi.unstubAllEnvs();
  }
});

it('describes a model by its header; another file has no description', async () => {
  const folder = temporaryFolder();
  const library = new Library({
    token: undefined,
    offline: true,
    signal: new AbortController().signal,
    open: () => Promise.reject(new Error()),
  });
  writeFileSync(join(folder, 'bad.gguf'), 'no');
  library.addFile('llama', llamaModel);
  library.addFile('bad', join(folder, 'bad.gguf'));
  library.addFile('far', 'https://example.com/a.gguf');
  const { describe } = library.forHandler(false);
  const llama = await describe('llama');
  expect(llama).toMatchObject({ bytes: readFileSync(llamaModel).length });
  expect(llama!.parameters).toBeGreaterThan(1000);
  expect(llama!.metadata.get('general.architecture')).toBe('llama');
  expect([await describe('bad'), await describe('far'), await describe('none')]).toEqual([undefined, undefined, undefined]);
  expect(Object.keys(library.forHandler(false))).toEqual(['describe']);
});

it.each<[text: string | undefined, address: object]>([
  [undefined, {}],
  ['', {}],
  ['0.0.0.0', { host: '0.0.0.0', port: 11434 }],
  ['127.0.0.1:5656', { host: '127.0.0.1', port: 5656 }],
  [':5656', { port: 5656 }],
  [' http://localhost:8080/ ', { host: 'localhost', port: 8080 }],
  ['[::1]:1337', { host: '::1', port: 1337 }],
  ['[::1]', { host: '::1', port: 11434 }],
])('OLLAMA_HOST=%s', (text, address) => expect(ollamaHost(text)).toEqual(address));
it.each(['a b', 'host:99999', 'http://a/b/c', '::1'])('refuses OLLAMA_HOST=%s', (text) =>
  expect(() => ollamaHost(text)).toThrow(/^OLLAMA_HOST is .*; expected HOST, HOST:PORT or :PORT/),
);
