import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, vi } from 'vitest';
import { QuantletError } from '../../src/errors.ts';
import { openCached, type Entry, type Meta, type FileCache } from '../../src/web/cached.ts';
import { openHttp } from '../../src/io/http.ts';
import { createReadThrough, type Store } from '../../src/io/read-through.ts';
import { answerCalls, openChannel } from '../../src/web/rpc.ts';
import { openSource, serveSource, type OpenInit, type OpenRequest } from '../../src/web/source.ts';
import { pair } from './pair.ts';
import { randomBytes, seeded, serveBytes } from './server.ts';

const FAST = { retryMs: 1 };
const truth = randomBytes(300_000, 7);
const codeOf = (error: unknown): string => (error instanceof QuantletError ? error.code : String(error));

async function whole(url: string, from = 0): Promise<Uint8Array> {
  const file = await openHttp(url, from, FAST);
  const out: Uint8Array[] = [];
  for await (const chunk of file.chunks(from)) out.push(chunk);
  file.close();
  return Buffer.concat(out);
}

/**
 * First index at which bytes differ, or -1. (vitest compares and prints long arrays element by
 * element.)
 */
function firstDifference(got: Uint8Array, want: Uint8Array): number {
  if (Buffer.compare(got, want) === 0) return -1;
  const i = want.findIndex((v, k) => got[k] !== v);
  return i < 0 ? want.length : i;
}

/** A cache in memory with `room` bytes. */
function memoryCache(room = Infinity) {
  const files = new Map<string, Uint8Array[]>();
  const metas = new Map<string, Meta>();
  const used = new Map<string, number>();
  const open = new Set<string>();
  let clock = 0;
  const size = (key: string): number => (files.get(key) ?? []).reduce((n, c) => n + c.length, 0);
  const bytesOf = (key: string): Uint8Array => Buffer.concat(files.get(key) ?? []);
  const taken = (): number => [...files.keys()].reduce((n, k) => n + size(k), 0);
  const cache: FileCache = {
    list: async () => [...metas.keys()].map((k) => [k, used.get(k) ?? 0] as const),
    meta: async (key) => metas.get(key),
    sizeOf: async (key) => size(key),
    setMeta: async (key, meta) => void metas.set(key, meta),
    touch: async (key) => void used.set(key, ++clock),
    open: async (key, n) => (size(key) === n ? { byteLength: n, read: async (a, b) => bytesOf(key).subarray(a, b) } : undefined),
    async write(key) {
      if (open.has(key)) return undefined;
      open.add(key);
      if (!files.has(key)) files.set(key, []);
      const entry: Entry = {
        get size() {
          return size(key);
        },
        append(chunk) {
          if (taken() + chunk.length > room) return false;
          files.get(key)!.push(chunk.slice());
          return true;
        },
        read: (a, b) => bytesOf(key).slice(a, b),
        clear: () => void files.set(key, []),
        close: () => void open.delete(key),
      };
      return entry;
    },
    remove: async (key) => void (files.delete(key), metas.delete(key)),
  };
  return { cache, sizes: () => [...files.values()].map((f) => f.reduce((n, c) => n + c.length, 0)) };
}

describe('openHttp', () => {
  it('reads from any byte, with ranges and without', async () => {
    for (const noRange of [false, true]) {
      const { url } = await serveBytes(truth, { noRange });
      expect(firstDifference(await whole(url), truth)).toBe(-1);
      expect(firstDifference(await whole(url, 123_456), truth.slice(123_456))).toBe(-1);
    }
  });
  it('resumes after the connection breaks', async () => {
    const { url, ranges } = await serveBytes(truth, { cut: 120_000 });
    expect(firstDifference(await whole(url), truth)).toBe(-1);
    expect(ranges.length).toBeGreaterThan(2);
    expect(ranges.slice(1).every((r) => /^bytes=[1-9]/.test(r ?? ''))).toBe(true);
  });
  it.each<[string, (n: number) => Record<string, string>]>([
    ['another ETag', (n) => ({ etag: n === 0 ? '"1"' : '"2"' })],
    ['no ETag any more', (n): Record<string, string> => (n === 0 ? { etag: '"1"' } : {})],
    ['another time', (n) => ({ 'last-modified': new Date(1e12 + 1000 * n).toUTCString() })],
    ['the same time, another ETag', (n) => ({ etag: `"${n}"`, 'last-modified': new Date(1e12).toUTCString() })],
  ])('a resumed answer of another version is refused: %s', async (_, headers) => {
    for (const noRange of [false, true]) {
      const { url } = await serveBytes(truth, { cut: 200_000, headers, noRange });
      const error = await whole(url).catch((e) => e);
      expect([codeOf(error), String(error)]).toEqual([
        'ERR_DOWNLOAD',
        expect.stringMatching(/its version was .* and now is .*changed while it was being read/),
      ]);
    }
  });
  it('a silent connection counts as broken', async () => {
    const { url, ranges, faults } = await serveBytes(truth, { stall: 100_000 });
    const file = await openHttp(url, 0, { ...FAST, stallMs: 100 });
    const out: Uint8Array[] = [];
    for await (const chunk of file.chunks(0)) {
      out.push(chunk);
      if (ranges.length > 1) delete faults.stall;
    }
    expect(firstDifference(Buffer.concat(out), truth)).toBe(-1);
    expect(ranges.length).toBeGreaterThan(2);
    const silent = createServer(() => {}); // takes a request and never answers
    await new Promise<void>((resolve) => void silent.listen(0, '127.0.0.1', resolve));
    const error = await openHttp(`http://127.0.0.1:${(silent.address() as AddressInfo).port}/`, 0, { ...FAST, stallMs: 30 }).catch(
      (e) => e,
    );
    silent.closeAllConnections();
    silent.close();
    expect([codeOf(error), String(error)]).toEqual(['ERR_DOWNLOAD', expect.stringMatching(/no bytes arrived for 0\.03 s.*5 times/)]);
  });
  it('retries temporary failures only', async () => {
    const passing = await serveBytes(truth, { status: 503, times: 2 });
    expect(firstDifference(await whole(passing.url), truth)).toBe(-1);
    const staying = await serveBytes(truth, { status: 503 });
    expect(codeOf(await whole(staying.url).catch((e) => e))).toBe('ERR_DOWNLOAD');
    const missing = await serveBytes(truth, { status: 404 });
    expect(codeOf(await whole(missing.url).catch((e) => e))).toBe('ERR_DOWNLOAD');
    expect(missing.ranges.length).toBe(1);
  });
  it('does not retry what no fetch() accepts: a port of another protocol, credentials in the address, an invalid header', async () => {
    const asked = vi.spyOn(globalThis, 'fetch');
    const why = async (url: string, headers = {}): Promise<string> =>
      openHttp(url, 0, { retryMs: 60_000, headers }).then(String, (error: QuantletError) => `${error.code} ${error.message}`);
    expect(await why('http://127.0.0.1:6000/a.gguf')).toMatch(/^ERR_DOWNLOAD cannot get http:\S+: fetch\(\) refuses port 6000/);
    expect(await why('http://me:secret@127.0.0.1/a.gguf')).toMatch(/^ERR_DOWNLOAD .*credentials/);
    expect(await why('http://127.0.0.1/a.gguf', { authorization: 'a\nb' })).toMatch(/^ERR_DOWNLOAD .*header/i);
    expect(asked).not.toHaveBeenCalled();
    const elsewhere = createServer((_, response) => void response.writeHead(302, { location: 'http://127.0.0.1:6000/' }).end()).listen(0);
    expect(await why(`http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/a.gguf`)).toMatch(/^ERR_DOWNLOAD .*: bad port$/);
    expect(asked).toHaveBeenCalledTimes(1);
    elsewhere.close();
    asked.mockRestore();
  });
  it('gives up if there is no progress', async () => {
    const { url } = await serveBytes(truth, { cut: 100_000, noRange: true });
    expect(codeOf(await whole(url).catch((e) => e))).toBe('ERR_DOWNLOAD');
  });
  it('rejects with the reason of an abort, also between tries', async () => {
    const { url } = await serveBytes(truth, { status: 503 });
    const controller = new AbortController();
    setTimeout(() => controller.abort(new Error('enough')), 20);
    await expect(openHttp(url, 0, { retryMs: 60_000, signal: controller.signal })).rejects.toThrow('enough');
  });
});

describe('createReadThrough', () => {
  const store = (room: number): Store => {
    let kept = new Uint8Array(0);
    return {
      get size() {
        return kept.length;
      },
      append(chunk) {
        if (kept.length + chunk.length > room) return false;
        kept = new Uint8Array(Buffer.concat([kept, chunk]));
        return true;
      },
      read: (a, b) => kept.slice(a, b),
    };
  };
  it('a read after one that failed gets the bytes', async () => {
    for (const kept of [undefined, store(Infinity)]) {
      const { url, faults } = await serveBytes(truth, { cut: 100_000 });
      const through = await createReadThrough(await openHttp(url, 0, FAST), kept);
      Object.assign(faults, { status: 404 });
      expect(codeOf(await through.bytes.read(0, 150_000).catch((e) => e))).toBe('ERR_DOWNLOAD');
      Object.assign(faults, { status: undefined, cut: undefined });
      expect(firstDifference(await through.bytes.read(0, 150_000), truth.slice(0, 150_000))).toBe(-1);
      await through.close();
    }
  });
  it('a failing store leaves no misplaced bytes', async () => {
    const kept = store(Infinity);
    let failing = true;
    const { url } = await serveBytes(truth);
    const through = await createReadThrough(await openHttp(url, 0, FAST), {
      ...kept,
      get size() {
        return kept.size;
      },
      append(chunk) {
        if (failing && kept.size > 0) throw new TypeError('the handle was closed');
        return kept.append(chunk);
      },
    });
    await expect(through.bytes.read(0, truth.length)).rejects.toThrow('the handle was closed');
    failing = false;
    expect(firstDifference(await through.bytes.read(0, truth.length), truth)).toBe(-1);
    expect([kept.size, firstDifference(await kept.read(0, kept.size), truth)]).toEqual([truth.length, -1]);
    await through.close();
  });
  it.each([
    ['no store', undefined],
    ['a store', Infinity],
    ['a store that fills up', 100_000],
  ] as const)('reads anywhere: %s', async (_, room) => {
    for (const faults of [{}, { noRange: true }, { noRange: true, noLength: true }, { cut: 90_000 }]) {
      const { url } = await serveBytes(truth, faults);
      const through = await createReadThrough(await openHttp(url, 0, FAST), room === undefined ? undefined : store(room));
      const next = seeded(11);
      for (let i = 0; i < 25; i++) {
        const start = Math.floor(next() * truth.length);
        const end = Math.min(truth.length, start + Math.floor(next() * 50_000));
        const got = await through.bytes.read(start, end);
        expect(firstDifference(got, truth.subarray(start, end)), `seed 11, read ${i}: ${start} to ${end}, ${JSON.stringify(faults)}`).toBe(
          -1,
        );
      }
      await through.close();
    }
  });
});

describe('openCached', () => {
  const readAll = async (url: string, cache: FileCache, reload = false): Promise<string> => {
    const { bytes, how, close } = await openCached(url, cache, { ...FAST, reload });
    expect(firstDifference(await bytes.read(0, bytes.byteLength), truth)).toBe(-1);
    await close();
    return how;
  };
  it('keeps a file and sends no request the second time', async () => {
    const { url, ranges } = await serveBytes(truth);
    const { cache } = memoryCache();
    expect(await readAll(url, cache)).toBe('stored');
    expect(await readAll(url, cache)).toBe('kept');
    expect(ranges.length).toBe(1);
    expect(await readAll(url, cache, true)).toBe('stored');
    expect(ranges.length).toBe(2);
  });
  it('continues an interrupted load, unless the file has changed', async () => {
    for (const changed of [false, true]) {
      const { url, ranges, faults } = await serveBytes(truth, { etag: '"1"', cut: 100_000 });
      const { cache, sizes } = memoryCache();
      const first = await openCached(url, cache, FAST);
      await first.bytes.read(0, 1000);
      // Closing completes a file that is nearly whole, so this must be far from it.
      faults.status = 404;
      await first.close();
      expect(sizes()[0]).toBeGreaterThan(0);
      Object.assign(faults, { status: undefined, cut: undefined, ...(changed && { etag: '"2"' }) });
      expect(await readAll(url, cache)).toBe('stored');
      expect(ranges.at(-1)).toMatch(changed ? /^bytes=0-$/ : /^bytes=[1-9]\d*-$/);
      expect(sizes()).toEqual([truth.length]);
    }
  });
  it('starts again if the version of a partial file is unknown', async () => {
    const { url, ranges, faults } = await serveBytes(truth, { cut: 100_000 });
    const { cache, sizes } = memoryCache();
    const first = await openCached(url, cache, FAST);
    await first.bytes.read(0, 1000);
    faults.status = 404;
    await first.close();
    expect(sizes()[0]).toBeGreaterThan(0);
    Object.assign(faults, { status: undefined, cut: undefined });
    expect(await readAll(url, cache)).toBe('stored');
    expect([ranges.at(-1), sizes()]).toEqual(['bytes=0-', [truth.length]]);
  });
  it('evicts the least recently used files, and works without storing if there is no room', async () => {
    const urls = await Promise.all([1, 2, 3].map(() => serveBytes(truth)));
    const { cache, sizes } = memoryCache(2.5 * truth.length);
    for (const { url } of urls) expect(await readAll(url, cache)).toBe('stored');
    expect(sizes()).toEqual([truth.length, truth.length]);
    expect(await readAll(urls[1].url, cache)).toBe('kept');
    const small = memoryCache(1000);
    expect(await readAll(urls[0].url, small.cache)).toBe('stored');
    expect(small.sizes()).toEqual([]);
  });
  it('streams past the cache while another load writes it', async () => {
    const { url } = await serveBytes(truth);
    const { cache } = memoryCache();
    const first = await openCached(url, cache, FAST);
    expect(await readAll(url, cache)).toBe('passed');
    await first.close();
  });
  it('waits a moment for a load that is about to end', async () => {
    const { url, ranges } = await serveBytes(truth);
    const { cache } = memoryCache();
    const first = await openCached(url, cache, FAST);
    const second = readAll(url, cache);
    await first.bytes.read(0, truth.length);
    await first.close();
    expect(await second).toBe('kept');
    expect(ranges.length).toBe(1);
  });
  it('an abandoned load ends at once, in the middle of a read', async () => {
    const { url, faults } = await serveBytes(truth, { stall: 100_000 });
    const { cache, sizes } = memoryCache();
    const { bytes, close } = await openCached(url, cache, FAST);
    const read = bytes.read(0, truth.length);
    read.catch(() => {}); // its rejection is handled below; the worker ignores it too
    await close({ now: true });
    await expect(read).rejects.toThrow();
    delete faults.stall;
    expect(await readAll(url, cache)).toBe('stored');
    expect(sizes()).toEqual([truth.length]);
  });
  it('a load aborted between two reads ends at once, and the next one continues it', async () => {
    const { url, ranges, faults } = await serveBytes(truth, { stall: 100_000, etag: '"a"' });
    const { cache, sizes } = memoryCache();
    const start = async () => {
      const { worker, scope } = pair();
      let serve: Awaited<ReturnType<typeof serveSource>>['handler'] | undefined;
      answerCalls(scope, async (request: OpenInit & OpenRequest, signal) => {
        if (serve) return serve(request, signal);
        const { handler, answer } = await serveSource(request, cache, signal);
        serve = handler;
        return answer;
      });
      return openChannel(worker);
    };
    const controller = new AbortController();
    const { bytes, close } = await openSource(url, { headers: undefined, cache: true, signal: controller.signal, start });
    await bytes.read(0, 50_000);
    controller.abort();
    await close();
    delete faults.stall;
    const [kept] = sizes();
    expect(kept).toBeGreaterThanOrEqual(50_000);
    expect(await readAll(url, cache)).toBe('stored');
    expect(ranges).toEqual(['bytes=0-', `bytes=${kept}-`]);
  });
  it('works without a cache', async () => {
    const { url } = await serveBytes(truth, { noLength: true, noRange: true });
    const { bytes, how, close } = await openCached(url, undefined, FAST);
    expect(how).toBe('passed');
    expect(await bytes.read(5, 9)).toEqual(truth.slice(5, 9));
    await close();
  });
});
