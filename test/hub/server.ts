/**
 * A hub on this machine. It lists a repository's files in pages, and sends files from a second
 * server, like the real hub.
 */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll } from 'vitest';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

export async function listen(answer: Answer): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/**
 * Sends bytes from the start of the requested range. `onChunk` can delay or break the connection.
 */
export function sendBytes(
  bytes: Uint8Array,
  request: IncomingMessage,
  response: ServerResponse,
  headers: Record<string, string> = {},
): void {
  const asked = /^bytes=(\d+)-$/.exec(request.headers.range ?? '');
  const start = asked ? Number(asked[1]) : 0;
  if (asked && start >= bytes.length) return void response.writeHead(416).end();
  response.writeHead(asked ? 206 : 200, {
    'content-length': bytes.length - start,
    ...(asked ? { 'content-range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` } : {}),
    ...headers,
  });
  response.end(bytes.subarray(start));
}

export interface Hub {
  readonly url: string;
  /** Requests so far: `list`, `resolve PATH` and `bytes PATH RANGE`. */
  readonly log: string[];
  /** Files by path; tests may change them. */
  readonly files: Map<string, Uint8Array>;
  /** Returns a status for all requests, or by token. */
  refuse: (token: string | undefined) => number | undefined;
  /** Replaces a page of the list, with the address of the next page. */
  page?: (cursor: string | null) => { readonly body: string; readonly next?: string };
  /** Authorization headers that the second server received. */
  readonly leaked: (string | undefined)[];
}

export async function startHub(files: Record<string, Uint8Array>, repo = 'org/repo'): Promise<Hub> {
  const log: string[] = [];
  const leaked: (string | undefined)[] = [];
  const stored = new Map(Object.entries(files));
  const bytes = await listen((request, response) => {
    const path = decodeURIComponent(new URL(request.url!, 'http://x').pathname).slice(1);
    log.push(`bytes ${path} ${request.headers.range ?? ''}`.trim());
    leaked.push(request.headers.authorization);
    sendBytes(stored.get(path)!, request, response);
  });
  const hub: Hub = { url: '', log, files: stored, leaked, refuse: () => undefined };
  const url = await listen((request, response) => {
    const status = hub.refuse(request.headers.authorization?.replace('Bearer ', ''));
    if (status !== undefined) return void response.writeHead(status).end();
    const { pathname, searchParams } = new URL(request.url!, url);
    const files = `/${repo}/resolve/main/`;
    if (pathname.startsWith(files)) {
      const path = decodeURIComponent(pathname.slice(files.length));
      log.push(`resolve ${path}`);
      if (!stored.has(path)) return void response.writeHead(404).end();
      return void response.writeHead(302, { location: `${bytes}/${encodeURIComponent(path)}` }).end();
    }
    if (pathname !== `/api/models/${repo}/tree/main`) return void response.writeHead(404).end();
    log.push('list');
    const other = hub.page?.(searchParams.get('cursor'));
    if (other) return void response.writeHead(200, other.next === undefined ? {} : { link: `<${other.next}>; rel="next"` }).end(other.body);
    const all = [...stored].map(([path, data]) => ({
      type: 'file',
      oid: '0'.repeat(40),
      path,
      size: data.length,
      lfs: { oid: createHash('sha256').update(data).digest('hex'), size: data.length },
    }));
    const from = Number(searchParams.get('cursor') ?? 0);
    const page = [...(from === 0 ? [{ type: 'directory', path: 'folder', size: 0 }] : []), ...all.slice(from, from + 2)];
    response.writeHead(200, {
      'content-type': 'application/json',
      ...(from + 2 < all.length ? { link: `<${url}${pathname}?recursive=true&cursor=${from + 2}>; rel="next"` } : {}),
    });
    response.end(JSON.stringify(page));
  });
  return Object.assign(hub, { url });
}
