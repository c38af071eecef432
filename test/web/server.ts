/** A real HTTP server for some bytes, with the faults that downloads meet. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll } from 'vitest';

export interface Faults {
  status?: number;
  /** Number of requests that get `status`; default: all. */
  times?: number;
  /** Range requests are not supported. */
  noRange?: boolean;
  noLength?: boolean;
  /** Bytes after which every answer ends. */
  cut?: number;
  /** Bytes after which every answer stops, with the connection open. */
  stall?: number;
  etag?: string;
  /** More headers of answer number n, counted from 0. */
  headers?: (n: number) => Record<string, string>;
}

export const seeded = (seed: number) => () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32;
export const randomBytes = (n: number, seed: number): Uint8Array<ArrayBuffer> => {
  const next = seeded(seed);
  return Uint8Array.from({ length: n }, () => next() * 256);
};

export async function serveBytes(
  bytes: Uint8Array,
  faults: Faults = {},
): Promise<{ url: string; ranges: (string | undefined)[]; faults: Faults }> {
  const ranges: (string | undefined)[] = [];
  let refused = 0;
  const server = createServer((req: IncomingMessage, res: ServerResponse) => {
    ranges.push(req.headers.range);
    if (faults.status && refused < (faults.times ?? Infinity)) {
      refused++;
      return res.writeHead(faults.status).end();
    }
    const asked = faults.noRange ? undefined : /^bytes=(\d+)-$/.exec(req.headers.range ?? '');
    const start = asked ? Number(asked[1]) : 0;
    if (start >= bytes.length) return res.writeHead(416).end();
    res.writeHead(asked ? 206 : 200, {
      ...(asked && { 'content-range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` }),
      ...(!faults.noLength && { 'content-length': bytes.length - start }),
      ...(faults.etag && { etag: faults.etag }),
      ...faults.headers?.(ranges.length - 1),
    });
    if (faults.stall !== undefined) return void res.write(bytes.subarray(start, start + faults.stall));
    const end = Math.min(bytes.length, start + (faults.cut ?? Infinity));
    res.write(bytes.subarray(start, end), () => (end < bytes.length ? setTimeout(() => res.destroy(), 20) : res.end()));
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/model.gguf`, ranges, faults };
}
