/**
 * Sparse files of more than 4 GiB: all weights of a small model follow a tensor of zeros that no
 * layer reads.
 */
import { closeSync, createReadStream, ftruncateSync, openSync, readFileSync, readSync, statSync, writeSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { loadModel, type LoadOptions, type Model } from 'quantlet';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inspectToJson } from '../../src/cli/inspect.ts';
import { platform } from '../../src/entry/node-platform.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import { layoutGGUF } from '../../src/gguf/write.ts';
import { openModelFiles } from '../../src/io/model-files.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE } from '../../src/type-traits.ts';
import { shippedModel, temporaryFolder } from '../support.ts';

const path = join(temporaryFolder(), 'large.gguf');
const small = readFileSync(shippedModel);
const { metadata, metadataTypes, tensors } = await readGGUF(toBytes(small));
const layout = layoutGGUF(
  new Map([...metadata].map(([key, value]) => [key, { type: metadataTypes.get(key)!, value }])),
  [{ name: 'zeros', type: TYPE.f32, ne: [2 ** 20, 1025] }, ...[...tensors.values()].map(({ name, type, ne, nDims }) => ({ name, type, ne: ne.slice(0, nDims) }))], // prettier-ignore
);
const size = layout.byteLength;

let server: Server;
beforeAll(async () => {
  const fd = openSync(path, 'w');
  ftruncateSync(fd, size);
  writeSync(fd, layout.header, 0, layout.header.length, 0);
  for (const { name, offset } of layout.tensors) {
    const of = tensors.get(name);
    if (of) writeSync(fd, small, of.offset, of.byteLength, offset);
  }
  closeSync(fd);
  server = createServer((req, res) => {
    const start = Number(/^bytes=(\d+)-$/.exec(req.headers.range ?? '')?.[1] ?? 0);
    res.writeHead(206, { 'content-range': `bytes ${start}-${size - 1}/${size}`, 'content-length': size - start });
    const stream = createReadStream(path, { start }).on('error', () => res.destroy());
    res.on('close', () => stream.destroy());
    stream.pipe(res);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

async function text(source: Parameters<typeof loadModel>[0], options: LoadOptions): Promise<string> {
  const model: Model = await loadModel(source, { warmUp: false, contextLength: 256, ...options });
  try {
    return (await model.generate([1, 200, 31], { temperature: 0, maxTokens: 8, ignoreEos: true }).result()).ids.join();
  } finally {
    await model.dispose();
  }
}

const bytes = (start: number, end: number): Uint8Array => {
  const fd = openSync(path, 'r');
  const chunk = new Uint8Array(end - start);
  readSync(fd, chunk, 0, chunk.length, start);
  closeSync(fd);
  return chunk;
};

it.each<[what: string, source: () => Parameters<typeof loadModel>[0], options: LoadOptions]>([
  ['a file, read by threads', () => path, { build: 'simd-threads', threads: 2 }],
  ['layers of it, for every step', () => path, { build: 'simd-threads', threads: 2, weightsMemory: 900_000 }],
  ['a file, read by the host', () => path, { build: 'simd' }],
  ['slices', () => ({ byteLength: size, slice: bytes }), { build: 'simd', weightsMemory: 900_000 }],
  ['ranges', () => `http://127.0.0.1:${(server.address() as AddressInfo).port}/large.gguf`, { build: 'simd', cache: false }],
])('%s', async (_, source, options) => {
  expect(await text(source(), options)).toBe(await text(shippedModel, { build: options.build! }));
});

it('inspect lists all offsets', async () => {
  const { gguf, close } = await openModelFiles(platform, path);
  await close();
  expect(Math.min(...[...tensors.keys()].map((name) => gguf.tensors.get(name)!.offset))).toBeGreaterThan(2 ** 32);
  expect(inspectToJson(gguf)).toMatchObject({ file_bytes: statSync(path).size, tensor_bytes: 2 ** 32 + 2 ** 22 + inspectToJson(await readGGUF(toBytes(small))).tensor_bytes }); // prettier-ignore
});
