// A static server for the repository with everything that browsers request, and the faults that
// downloads meet.
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize, sep } from 'node:path';
import { gzipSync } from 'node:zlib';

/**
 * Wait before cutting a connection, so that written bytes have reached the page: a failing body
 * discards unread bytes.
 */
const ARRIVE_MS = 500;

const TYPES = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};

/**
 * Serves `mounts` (url prefix -> folder). Query parameters of a request change the answer:
 *   coi=1         cross-origin isolation
 *   csp=TEXT      a content security policy
 *   norange=1     no range requests
 *   cut=N         closes after N bytes (once=1: the first time only)
 *   gzip=1        compressed
 *   nocors=1      not for other origins
 *   etag=TEXT     another version
 *   status=N      that status
 *   slow=MS       a pause between chunks
 *   nolength=1    no content-length
 */
export async function serve(mounts, routes = {}) {
  const requests = [];
  /** Query parameters added to every request for a model, while the page's URL stays the same. */
  const state = { conditions: '' };
  const cutBefore = new Set();
  const server = createServer(async (req, res) => {
    const url = new URL(req.url, 'http://x');
    const q = new URLSearchParams([
      ...url.searchParams,
      ...(url.pathname.startsWith('/model/') ? new URLSearchParams(state.conditions) : []),
    ]);
    requests.push({ path: url.pathname, query: url.search, range: req.headers.range, method: req.method });
    try {
      const headers = { 'cache-control': 'no-store', ...(!q.has('nocors') && { 'access-control-allow-origin': '*' }) };
      // Scripts and workers of an isolated page need the headers too.
      if (q.has('coi') || (req.headers.referer ?? '').includes('coi=1'))
        Object.assign(headers, {
          'cross-origin-opener-policy': 'same-origin',
          'cross-origin-embedder-policy': 'require-corp',
          'cross-origin-resource-policy': 'cross-origin',
        });
      if (q.has('csp')) headers['content-security-policy'] = q.get('csp');
      if (q.has('status')) return void res.writeHead(Number(q.get('status')), headers).end('refused');
      const route = routes[url.pathname];
      if (route) {
        const { type, body } = await route(url);
        return void res.writeHead(200, { ...headers, 'content-type': type }).end(body);
      }
      const prefix = Object.keys(mounts)
        .filter((p) => url.pathname.startsWith(p))
        .sort((a, b) => b.length - a.length)[0];
      const path = prefix && normalize(join(mounts[prefix], decodeURIComponent(url.pathname.slice(prefix.length)) || 'index.html'));
      if (!path?.startsWith(normalize(mounts[prefix]).replace(/[\\/]$/, '') + sep))
        return void res.writeHead(404, headers).end('not found');
      const file = path.endsWith(sep) ? path + 'index.html' : path;
      headers['content-type'] = TYPES[extname(file)] ?? 'application/octet-stream';
      const { size, mtimeMs } = await stat(file);
      headers.etag = `"${q.get('etag') ?? Math.round(mtimeMs)}-${size}"`;
      if (q.has('gzip')) {
        const body = gzipSync(await readFile(file));
        return void res.writeHead(200, { ...headers, 'content-encoding': 'gzip', 'content-length': body.length }).end(body);
      }
      const range = q.has('norange') ? null : /^bytes=(\d+)-(\d*)$/.exec(req.headers.range ?? '');
      const start = range ? Number(range[1]) : 0;
      const end = range?.[2] ? Number(range[2]) + 1 : size;
      if (range && start >= size) return void res.writeHead(416, { ...headers, 'content-range': `bytes */${size}` }).end();
      if (!q.has('norange')) headers['accept-ranges'] = 'bytes';
      if (range) headers['content-range'] = `bytes ${start}-${end - 1}/${size}`;
      if (!q.has('nolength')) headers['content-length'] = end - start;
      res.writeHead(range ? 206 : 200, headers);
      if (req.method === 'HEAD') return void res.end();
      const asked = url.pathname + url.search;
      const cut = q.has('cut') && !(q.has('once') && cutBefore.has(asked)) ? Number(q.get('cut')) : Infinity;
      cutBefore.add(asked);
      let sent = 0;
      const closed = once(res, 'close');
      for await (const chunk of createReadStream(file, { start, end: end - 1, highWaterMark: q.has('slow') ? 64 * 1024 : 1 << 20 })) {
        if (sent + chunk.length > cut)
          return void res.write(chunk.subarray(0, cut - sent), () => setTimeout(() => res.destroy(), ARRIVE_MS));
        if (!res.write(chunk)) await Promise.race([once(res, 'drain'), closed]);
        if (res.destroyed) return;
        sent += chunk.length;
        if (q.has('slow')) await new Promise((resolve) => setTimeout(resolve, Number(q.get('slow'))));
      }
      res.end();
    } catch (error) {
      if (!res.headersSent) res.writeHead(error.code === 'ENOENT' || error.code === 'EISDIR' ? 404 : 500);
      res.end();
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    state,
    origin: `http://127.0.0.1:${server.address().port}`,
    requests,
    close: () => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve))),
  };
}
