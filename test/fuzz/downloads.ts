/**
 * Downloads from a server that breaks off, lies and changes the file. Either one version of the
 * file arrives whole, or no file does. With a hash it is the right version, whatever the server
 * does. Without a hash, any version that the server had is right, if the server tells the truth
 * about ranges and versions. Errors are coded, and only a partial file may stay.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { download } from '../../src/hub/download.ts';
import { resolveModel } from '../../src/cli/hub.ts';
import { randomBytes, seeded } from '../web/server.ts';
import { runCases, type CampaignOptions, type CampaignResult } from './campaign.ts';
import { below, mutate, pick, type Random } from './mutate.ts';

const SIZE = 20_000;
const LIMIT_MS = 120_000;
const STALL_MS = 100;
const REASON = new Error('the user stopped it');
const versionOf = (n: number): Uint8Array => {
  const bytes = randomBytes(SIZE, n);
  bytes.set(Buffer.from('GGUF'));
  return bytes;
};
const VERSIONS = [1, 2, 3].map(versionOf);
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** Sends the bytes, or only part of them without announcing it. */
function send(next: Random, response: ServerResponse, bytes: Uint8Array): void {
  if (next() < 0.5) return void response.end(bytes);
  const cut = below(next, bytes.length + 1);
  response.write(bytes.subarray(0, cut), () => setTimeout(() => response.destroy(), below(next, 3)));
}

/**
 * A server that tells the truth about ranges and versions. It may break off, be busy, not support
 * ranges, or change the file.
 */
function honest(next: Random): Answer {
  let version = 0;
  const validator = below(next, 2);
  const ranges = next() < 0.8;
  const lengths = next() < 0.9;
  return (request, response) => {
    if (next() < 0.15) version = below(next, VERSIONS.length);
    if (next() < 0.1) return void response.writeHead(pick(next, [500, 503, 429, 408])).end();
    const bytes = VERSIONS[version];
    const asked = ranges ? /^bytes=(\d+)-$/.exec(request.headers.range ?? '') : null;
    const start = asked ? Number(asked[1]) : 0;
    if (start >= bytes.length) return void response.writeHead(416).end();
    response.writeHead(asked ? 206 : 200, {
      ...(validator === 0 ? { etag: `"${version}"` } : { 'last-modified': new Date(1e12 + 1e6 * version).toUTCString() }),
      ...(lengths || asked ? { 'content-length': bytes.length - start } : {}),
      ...(asked ? { 'content-range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` } : {}),
    });
    send(next, response, bytes.subarray(start));
  };
}

/**
 * A server that tells the truth about nothing. `stalls`: lengths may be wrong too, so that a client
 * waits for more.
 */
function lying(next: Random, stalls = true): Answer {
  return (request, response) => {
    const start = Number(/\d+/.exec(request.headers.range ?? '')?.[0] ?? 0);
    const bytes = pick(next, [VERSIONS[0], VERSIONS[0], VERSIONS[1], mutate(next, VERSIONS[0]), new Uint8Array(0), Buffer.from('<html>')]);
    const from = next() < 0.7 ? Math.min(start, bytes.length) : below(next, bytes.length + 1);
    const part = bytes.subarray(from);
    const headers: Record<string, string | number> = {};
    if (next() < 0.5) headers.etag = pick(next, ['"a"', '"b"', '', 'W/"a"', '\u00ff']);
    if (next() < 0.6)
      headers['content-range'] = pick(next, [
        `bytes ${from}-${bytes.length - 1}/${bytes.length}`,
        `bytes ${start}-${SIZE - 1}/${SIZE}`,
        'bytes 0-0/1',
        `bytes */${SIZE}`,
        'bytes 99999999999999999999-1/0',
        'x',
        `bytes ${start}-${SIZE - 1}/${next() < 0.5 ? '*' : 2 ** 53}`,
      ]);
    if (next() < 0.2) headers['content-encoding'] = pick(next, ['gzip', 'identity', 'br', 'deflate', 'x']);
    const body = headers['content-encoding'] === 'gzip' && next() < 0.7 ? gzipSync(part) : part;
    if (next() < 0.7) headers['content-length'] = !stalls || next() < 0.8 ? body.length : pick(next, [0, 1, SIZE, SIZE + 1, 2 ** 40]);
    if (next() < 0.1) headers.location = pick(next, ['/again', 'file:///etc/passwd', 'http://', 'ftp://x/y']);
    try {
      response.writeHead(next() < 0.75 ? 206 : pick(next, [200, 200, 200, 203, 204, 301, 302, 307, 400, 404, 416, 500, 503]), headers);
      send(next, response, body);
    } catch {
      response.destroy();
    }
  };
}

const JUNK: readonly unknown[] = [
  null,
  7,
  'x',
  [],
  {},
  { type: 'file' },
  { type: 'file', path: '../../x.gguf', size: 1 },
  { type: 'file', path: 'a.gguf', size: -1 },
  { type: 'file', path: 'm\u0000.gguf', size: 3 },
  { type: 'file', path: 'x-00001-of-99999.gguf', size: 9 },
  { type: 'file', path: '__proto__', size: {} },
];

/** A hub that sends junk in its lists and has the lying server's files. */
function hub(next: Random): Answer {
  const bytes = lying(next, false); // no stalls: resolveModel has a long time-out
  let pages = 0;
  return (request, response) => {
    if (!request.url!.startsWith('/api/')) return bytes(request, response);
    const good = {
      type: 'file',
      path: 'm.gguf',
      size: SIZE,
      ...(next() < 0.9 ? { lfs: { oid: next() < 0.8 ? sha256(VERSIONS[0]) : pick(next, JUNK) } } : {}),
    };
    const list = JSON.stringify(
      next() < 0.1
        ? pick(next, JUNK)
        : [...Array.from({ length: below(next, 4) }, () => pick(next, JUNK)), ...(next() < 0.7 ? [good] : [])],
    );
    const link =
      pages++ < 5 && next() < 0.3
        ? { link: `<${pick(next, [request.url!, 'http://', '?cursor=2', 'data:application/json,[]', 'file:///etc/passwd'])}>; rel="next"` }
        : {};
    response
      .writeHead(next() < 0.9 ? 200 : pick(next, [401, 403, 404, 500]), link)
      .end(next() < 0.9 ? list : Buffer.from(mutate(next, Buffer.from(list))));
  };
}

export async function campaign(options: CampaignOptions): Promise<CampaignResult> {
  const root = mkdtempSync(join(tmpdir(), 'quantlet-fuzz-'));
  let answer: Answer = (_, response) => void response.end();
  const server = createServer((request, response) => {
    response.on('error', () => {});
    answer(request, response);
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const quiet = { set() {}, waiting() {}, end() {} };
  /** Identity of the present file, by inode: a download renames a new file into place. */
  const inode = (path: string): number => statSync(path, { throwIfNoEntry: false })?.ino ?? 0;
  /**
   * Checks the folder. A file may be there only if `right` contains it. `renewed`: it has just been
   * downloaded, so that parts of other versions must be gone.
   */
  const check = (folder: string, arrived: boolean, renewed: boolean, right: readonly Uint8Array[]): void => {
    const left = readdirSync(folder);
    const file = left.includes('m.gguf') ? readFileSync(join(folder, 'm.gguf')) : undefined;
    if (arrived && !file) throw new Error('it said that the file is there, and it is not');
    if (file && !right.some((bytes) => Buffer.compare(bytes, file) === 0))
      throw new Error(`a file of ${file.length} bytes was kept that no server had (or that has another hash)`);
    const odd = left.filter((name) => !['m.gguf', 'm.gguf.json', 'list.json'].includes(name) && (renewed || !name.endsWith('.part')));
    if (odd.length > 0) throw new Error(`${odd.join(', ')} ${odd.length > 1 ? 'were' : 'was'} left behind`);
  };
  const { write } = process.stderr;
  process.stderr.write = () => true; // resolveModel reports every download
  try {
    return await runCases(options, async (seed) => {
      const next = seeded(seed);
      const kind = pick(next, [0, 0, 0, 0, 1, 1, 1, 1, 2]);
      const folder = join(root, String(seed));
      const to = join(folder, 'm.gguf');
      mkdirSync(folder);
      answer = [honest, lying, hub][kind](next);
      const hash = kind === 0 && next() < 0.5 ? {} : { sha256: sha256(VERSIONS[0]), size: SIZE };
      for (let run = 0; run < 3; run++) {
        const before = inode(to);
        const stopping = new AbortController();
        const stop = next() < 0.2 ? setTimeout(() => stopping.abort(REASON), below(next, 20)) : undefined;
        const late = setTimeout(() => stopping.abort(new Error(`run ${run} took longer than ${LIMIT_MS} ms`)), LIMIT_MS);
        let error: unknown;
        try {
          if (kind === 2)
            await resolveModel({ hf: 'org/repo' }, stopping.signal, { MODEL_ENDPOINT: origin, QUANTLET_CACHE: root, XDG_CACHE_HOME: root });
          else
            await download(
              { url: `${origin}/m.gguf`, to, headers: {}, ...hash },
              { signal: stopping.signal, progress: quiet, retryMs: 1, stallMs: STALL_MS },
            );
        } catch (thrown) {
          error = thrown;
        } finally {
          clearTimeout(stop);
          clearTimeout(late);
        }
        const { name, code } = (error ?? {}) as { name?: string; code?: string };
        if (error !== undefined && error !== REASON && (name !== 'QuantletError' || (code !== 'ERR_DOWNLOAD' && code !== 'ERR_IO')))
          throw error;
        if (kind !== 2)
          check(folder, error === undefined, error === undefined && inode(to) !== before, 'sha256' in hash ? [VERSIONS[0]] : VERSIONS);
      }
      rmSync(folder, { recursive: true });
      rmSync(join(root, 'org'), { recursive: true, force: true });
    });
  } finally {
    process.stderr.write = write;
    server.closeAllConnections();
    server.close();
    rmSync(root, { recursive: true, force: true });
  }
}
