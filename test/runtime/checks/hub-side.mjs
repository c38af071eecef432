// quantlet/hub in Node, Deno or Bun: a download breaks off, is resumed, loaded, listed and removed.
// Prints the faults.
//   node hub-side.mjs MODEL
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadModel } from 'quantlet';
import { download, list, remove } from 'quantlet/hub';

const bytes = readFileSync(process.argv[2]);
const ranges = [];
const listed = {
  type: 'file',
  path: 'm-Q4_0.gguf',
  size: bytes.length,
  lfs: { oid: createHash('sha256').update(bytes).digest('hex'), size: bytes.length },
};
const server = createServer((request, response) => {
  if (request.url.startsWith('/api/models/org/repo/tree/main')) return void response.end(JSON.stringify([listed]));
  ranges.push(request.headers.range);
  const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
  const range = request.headers.range && { 'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` };
  response.writeHead(range ? 206 : 200, { etag: '"1"', 'content-length': bytes.length - from, ...range });
  response.end(bytes.subarray(from));
});
await new Promise((resolve) => void server.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${server.address().port}/m.gguf`;
const folder = mkdtempSync(join(tmpdir(), 'quantlet-hub-'));
const faults = [];
const expect = (what, is) => is || faults.push(what);

const stopping = new AbortController();
const stop = ({ loaded }) => loaded > 0 && stopping.abort(new Error('enough'));
await download(url, { folder, signal: stopping.signal, onProgress: stop }).catch((error) =>
  expect(error.message, error.message === 'enough'),
);
expect(
  'a part is listed',
  (await list({ folder })).some(({ complete }) => !complete),
);
const model = await loadModel(url, { hub: { folder }, warmUp: false });
expect('it went on where it ended', /^bytes=[1-9]/.test(ranges.at(-1)));
expect('it generates', (await model.generate('Once', { maxTokens: 2, temperature: 0 }).result()).ids.length === 2);
await model.dispose();
const asked = ranges.length;
await (await loadModel(url, { hub: { folder, offline: true }, warmUp: false })).dispose();
expect('offline asks nobody', ranges.length === asked);
expect(
  'it is listed by its source',
  (await list({ folder })).some(({ source, size, complete }) => complete && source === url && size === bytes.length),
);
const endpoint = new URL(url).origin;
const mirrored = await download('hf:org/repo:Q4_0', { folder, endpoint });
expect('a mirror of the hub is read', readFileSync(mirrored).equals(bytes));
expect('it is removed by the path that is listed', (await remove(mirrored, { folder })) === bytes.length);
expect('it is removed', (await remove(url, { folder })) === bytes.length && (await list({ folder })).length === 0);
server.close();
server.closeAllConnections?.();
rmSync(folder, { recursive: true });
console.log(faults.length > 0 ? `faults: ${faults.join('; ')}` : 'all right');
