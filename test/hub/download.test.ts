/**
 * Downloads that go wrong: cut off, damaged, compressed, of the wrong length, on a full disk, or by
 * several processes at once.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { download, type DownloadProgress, type Remote } from '../../src/hub/download.ts';

import { lock } from '../../src/hub/lock.ts';
import { cliPath, failure, hasFullDisk, llamaModel, runCli, temporaryFolder } from '../support.ts';
import { randomBytes, serveBytes, type Faults } from '../web/server.ts';
import { listen, sendBytes } from './server.ts';

const root = temporaryFolder();
const truth = randomBytes(300_000, 11);
truth.set(Buffer.from('GGUF'));
const sha256 = createHash('sha256').update(truth).digest('hex');
let files = 0;

/** A new path in a new folder. */
const target = (): string => join(root, String(files++), 'm.gguf');
const quiet: DownloadProgress = { set() {}, waiting() {}, end() {} };
const bring = (
  remote: Pick<Remote, 'url' | 'to'> & Partial<Remote>,
  { signal = new AbortController().signal, progress = quiet } = {},
): Promise<void> => download({ headers: {}, ...remote }, { signal, progress, retryMs: 1 });
/** A download aborted after its first bytes. */
function bringHalf(remote: Parameters<typeof bring>[0]): Promise<void> {
  const stopping = new AbortController();
  const set = (loaded: number): void => {
    if (loaded > 0) stopping.abort(new Error('stopped'));
  };
  return bring(remote, { signal: stopping.signal, progress: { ...quiet, set } });
}
const differs = (path: string): boolean => Buffer.compare(readFileSync(path), truth) !== 0;
const left = (path: string): string[] => readdirSync(join(path, '..')).sort();
const done = ['m.gguf', 'm.gguf.json'];

describe('connections that break', () => {
  it.each<[string, Faults]>([
    ['cut again and again', { cut: 70_000, etag: '"v1"' }],
    ['without an ETag', { cut: 70_000 }],
    ['no ranges', { noRange: true }],
    ['no length', { noLength: true }],
    ['busy at first', { status: 503, times: 2 }],
  ])('%s: goes on to the end', async (_, faults) => {
    const { url } = await serveBytes(truth, faults);
    const to = target();
    await bring({ url, to });
    expect(differs(to)).toBe(false);
    expect(left(to)).toEqual(done);
  });

  it('a server that goes on with another version of the same size: nothing mixed is kept, and the next run gets the new one', async () => {
    const { url, ranges, faults } = await serveBytes(truth, { cut: 200_000, headers: (n) => ({ etag: n === 0 ? '"v1"' : '"v2"' }) });
    const to = target();
    const { code, message } = await failure(bring({ url, to }));
    expect([code, message]).toEqual(['ERR_DOWNLOAD', expect.stringMatching(/version was "v1" and now is "v2"/)]);
    expect(left(to).filter((name) => !name.endsWith('.part'))).toEqual([]);
    delete faults.cut;
    await bring({ url, to });
    expect(ranges.at(-1)).toBe('bytes=0-');
    expect([differs(to), left(to)]).toEqual([false, done]);
  });

  it('the next run goes on where one ended, with the file of the same version only', async () => {
    const faults: Faults = { etag: '"v1"' };
    const { url, ranges } = await serveBytes(truth, faults);
    const to = target();
    expect((await failure(bringHalf({ url, to }))).message).toBe('stopped');
    expect(left(to)).toEqual([expect.stringMatching(/^m\.gguf\.[0-9a-f]{8}\.part$/)]);
    await bring({ url, to });
    expect(ranges.at(-1)).toMatch(/^bytes=[1-9]\d*-$/);
    expect(differs(to)).toBe(false);

    faults.etag = '"v2"';
    await failure(bringHalf({ url, to }));
    faults.etag = '"v3"';
    await bring({ url, to });
    expect(ranges.at(-1), 'what came of v2 is no part of v3').toBe('bytes=0-');
    expect([differs(to), left(to)]).toEqual([false, done]);
  });

  it.each<[string, (n: number) => string]>([
    ['another ETag from every server', (n) => `"edge-${n}"`],
    ['a weak ETag from some', (n) => (n % 2 === 0 ? '"v1"' : 'W/"v1"')],
    ['an ETag from the first alone', (n) => (n === 0 ? '"v1"' : '')],
  ])('%s: goes on, within a run and in the next, where the hash is known', async (_, etag) => {
    const faults: Faults = { cut: 70_000, headers: (n): Record<string, string> => (etag(n) === '' ? {} : { etag: etag(n) }) };
    const { url, ranges } = await serveBytes(truth, faults);
    const to = target();
    const remote = { url, to, sha256, size: truth.length };
    await failure(bringHalf(remote));
    await bring(remote);
    expect(
      ranges.slice(1).every((range) => range !== 'bytes=0-'),
      ranges.join(),
    ).toBe(true);
    expect([differs(to), left(to)]).toEqual([false, done]);
  });

  it('a weak ETag is of the same version as a strong one where nothing else is known', async () => {
    const { url, ranges } = await serveBytes(truth, { cut: 70_000, headers: (n) => ({ etag: n % 2 === 0 ? 'W/"v1"' : '"v1"' }) });
    const to = target();
    await failure(bringHalf({ url, to }));
    await bring({ url, to });
    expect(
      ranges.slice(1).every((range) => range !== 'bytes=0-'),
      ranges.join(),
    ).toBe(true);
    expect(differs(to)).toBe(false);
    const n = ranges.length;
    await bring({ url, to });
    await bring({ url, to });
    expect(ranges.length - n, 'current whether its ETag is weak or not').toBe(2);
  });

  it('bytes of another file under a known hash: mixed bytes are found out and come anew', async () => {
    const other = randomBytes(truth.length, 12);
    other.set(Buffer.from('GGUF'));
    let n = 0;
    const url = await listen((request, response) => {
      const from = /^bytes=(\d+)-$/.exec(request.headers.range ?? '');
      if (n++ > 0 || !from) return sendBytes(truth, request, response, { etag: '"right"' });
      response.writeHead(206, {
        'content-length': truth.length,
        'content-range': `bytes 0-${truth.length - 1}/${truth.length}`,
        etag: '"wrong"',
      });
      response.write(other.subarray(0, 100_000), () => setTimeout(() => response.destroy(), 20));
    });
    const to = target();
    const remote = { url: `${url}/m.gguf`, to, sha256, size: truth.length };
    await failure(bring(remote));
    await bring(remote);
    expect([differs(to), left(to)]).toEqual([false, done]);
  });

  it('what is current is asked for with one byte, or none where a hash is known', async () => {
    const { url, ranges } = await serveBytes(truth, { etag: '"v1"' });
    const to = target();
    await bring({ url, to });
    await bring({ url, to });
    expect(ranges).toEqual(['bytes=0-', `bytes=${truth.length - 1}-`]);
    const hashed = target();
    await bring({ url, to: hashed, sha256, size: truth.length });
    await bring({ url, to: hashed, sha256, size: truth.length });
    expect(ranges.length).toBe(3);
  });
});

describe('servers that are busy', () => {
  it.each([429, 502, 503, 504])('%i: asked again, not before Retry-After', async (status) => {
    const { url, ranges, faults } = await serveBytes(truth, { status, times: 1, headers: () => ({}) });
    const to = target();
    await bring({ url, to });
    expect([ranges.length, differs(to)]).toEqual([2, false]);
    expect(faults.status).toBe(status);

    const times: number[] = [];
    const waiting = await listen((request, response) => {
      if (times.push(performance.now()) === 1) return void response.writeHead(status, { 'retry-after': '1' }).end();
      sendBytes(truth, request, response);
    });
    await bring({ url: `${waiting}/m.gguf`, to: target() });
    expect(times[1] - times[0]).toBeGreaterThanOrEqual(990);
  });

  it('a date as Retry-After; a wait that is too long is said instead', async () => {
    let n = 0;
    const url = await listen((request, response) => {
      if (n++ > 0) return sendBytes(truth, request, response);
      response.writeHead(503, { 'retry-after': new Date(Date.now() - 5000).toUTCString() }).end();
    });
    await bring({ url: `${url}/m.gguf`, to: target() });
    expect(n).toBe(2);
    const long = await listen((_, response) => void response.writeHead(429, { 'retry-after': '7200' }).end());
    const { code, message } = await failure(bring({ url: `${long}/m.gguf`, to: target() }));
    expect([code, message]).toEqual(['ERR_DOWNLOAD', expect.stringMatching(/429.*asks to wait for 7200 s/)]);
  });

  it('a wait ends with the signal', async () => {
    const url = await listen((_, response) => void response.writeHead(503, { 'retry-after': '60' }).end());
    const stopping = new AbortController();
    const begun = performance.now();
    setTimeout(() => stopping.abort(new Error('stopped')), 200);
    expect((await failure(bring({ url: `${url}/m.gguf`, to: target() }, { signal: stopping.signal }))).message).toBe('stopped');
    expect(performance.now() - begun).toBeLessThan(30_000);
  });
});

describe('bytes that are wrong', () => {
  it('a damaged beginning is found by the hash and comes anew; a damaged file is refused and leaves nothing', async () => {
    const { url, ranges } = await serveBytes(truth);
    const to = target();
    await bring({ url, to: `${to}.other` }); // creates the folder
    const part = `${to}.${createHash('sha256').update(sha256).digest('hex').slice(0, 8)}.part`;
    writeFileSync(part, new Uint8Array(100_000));
    await bring({ url, to, sha256, size: truth.length });
    expect(ranges.slice(1)).toEqual(['bytes=99999-', 'bytes=0-']);
    expect(differs(to)).toBe(false);

    const bad = target();
    const wrong = await failure(bring({ url, to: bad, sha256: '0'.repeat(64), size: truth.length }));
    expect([wrong.code, wrong.message]).toEqual(['ERR_DOWNLOAD', expect.stringContaining('SHA-256')]);
    expect(left(bad)).toEqual([]);
  });

  it('other sizes than the list says, a page in place of a file, a few bytes', async () => {
    const { url } = await serveBytes(truth);
    const page = await serveBytes(Buffer.from('<!doctype html>sign in'));
    const tiny = await serveBytes(Buffer.from('GG'));
    expect((await failure(bring({ url, to: target(), size: truth.length + 1 }))).message).toMatch(
      /300000 bytes; expected 300001, as in the list of files/,
    );
    const to = target();
    expect((await failure(bring({ url: page.url, to }))).message).toMatch(/begins with "<!do"/);
    expect(left(to)).toEqual([]);
    expect((await failure(bring({ url: tiny.url, to: target() }))).message).toMatch(/2 bytes, too few for a model/);
  });

  const compressed =
    (ranged: boolean) =>
    (request: IncomingMessage, response: ServerResponse): void => {
      const body = gzipSync(truth);
      response
        .writeHead(ranged && request.headers.range ? 206 : 200, { 'content-encoding': 'gzip', 'content-length': body.length })
        .end(body);
    };
  it('a server that compresses all the same: whole answers are read, ranges of compressed bytes refused', async () => {
    const to = target();
    await bring({ url: await listen(compressed(false)), to, sha256, size: truth.length });
    expect(differs(to)).toBe(false);
    expect((await failure(bring({ url: await listen(compressed(true)), to: target() }))).message).toMatch(/compresses ranges/);
  });

  it('more or fewer bytes than announced', async () => {
    const length = (announced: number) =>
      listen((_, response) => {
        response.writeHead(200, { 'content-length': announced });
        response.write(truth, () => response.destroy());
      });
    expect((await failure(bring({ url: await length(truth.length + 10), to: target() }))).code).toBe('ERR_DOWNLOAD');
    expect((await failure(bring({ url: await length(truth.length - 10), to: target(), size: truth.length, sha256 }))).code).toBe(
      'ERR_DOWNLOAD',
    );
  });
});

describe('disks', () => {
  it('no space: told before the first byte where the size is known', async () => {
    const to = target();
    const url = await listen((_, response) => void response.writeHead(200, { 'content-length': String(2 ** 52) }).flushHeaders());
    const { code, message } = await failure(bring({ url, to }));
    expect([code, message]).toEqual(['ERR_IO', expect.stringMatching(/no space for the model.*QUANTLET_CACHE/)]);
  });

  it.runIf(hasFullDisk)('no space halfway', async () => {
    const { url } = await serveBytes(truth);
    const to = target();
    await bring({ url, to: `${to}.other` });
    symlinkSync('/dev/full', `${to}.${createHash('sha256').update(sha256).digest('hex').slice(0, 8)}.part`);
    const { code, message } = await failure(bring({ url, to, sha256, size: truth.length }));
    expect([code, message]).toEqual(['ERR_IO', expect.stringContaining('no space left')]);
    expect(existsSync(`${to}.lock`)).toBe(false);
  });

  it('a file in place of a folder', async () => {
    const { url } = await serveBytes(truth);
    const file = target();
    await bring({ url, to: file });
    expect((await failure(bring({ url, to: join(file, 'x', 'm.gguf') }))).code).toBe('ERR_IO');
  });
});

describe('several at once', () => {
  it('processes that want the same file: one brings it, all have it', async () => {
    const model = readFileSync(llamaModel);
    const asked: string[] = [];
    const url = await listen((request, response) => {
      asked.push(request.headers.range ?? '');
      setTimeout(() => sendBytes(model, request, response, { etag: '"v1"' }), 500);
    });
    const env = { QUANTLET_CACHE: join(root, 'shared') };
    const runs = await Promise.all([1, 2, 3].map(() => runCli(['inspect', `${url}/llama.gguf`, '--json'], { env })));
    for (const { code, stderr, stdout } of runs) expect([code, stdout], stderr).toEqual([0, runs[0].stdout]);
    expect(
      asked.filter((range) => range === 'bytes=0-'),
      asked.join(' '),
    ).toHaveLength(1);
    expect(runs.filter(({ stderr }) => stderr.includes('another process is downloading')).length).toBeGreaterThan(0);
  });

  it('a process that was killed leaves a lock and a part: the next takes both over', async () => {
    const model = readFileSync(llamaModel);
    const asked: string[] = [];
    let hold = true;
    const url = await listen((request, response) => {
      asked.push(request.headers.range ?? '');
      if (!hold) return sendBytes(model, request, response, { etag: '"v1"' });
      response.writeHead(200, { etag: '"v1"', 'content-length': model.length });
      response.write(model.subarray(0, 20_000));
    });
    const cache = join(root, 'killed');
    const env = { ...process.env, QUANTLET_CACHE: cache };
    const child = spawn(process.execPath, [cliPath, 'inspect', `${url}/llama.gguf`], {
      env,
      stdio: 'ignore',
    });
    const ended = new Promise((resolve) => child.on('close', resolve));
    const has = (ending: RegExp): boolean =>
      existsSync(cache) && readdirSync(cache, { recursive: true }).some((name) => ending.test(String(name)));
    for (let i = 0; i < 200 && !(has(/\.part$/) && asked.length > 0); i++) await new Promise((resolve) => setTimeout(resolve, 25));
    await new Promise((resolve) => setTimeout(resolve, 200));
    child.kill('SIGKILL');
    await ended;
    expect(has(/\.lock$/)).toBe(true);
    hold = false;
    const next = await runCli(['inspect', `${url}/llama.gguf`, '--json'], { env: { QUANTLET_CACHE: cache } });
    expect(next.code, next.stderr).toBe(0);
    expect(asked.at(-1)).toBe('bytes=19999-');
    expect([has(/\.lock$/), has(/\.part$/)]).toEqual([false, false]);
  });

  it('a lock is waited for while its holder lives, and taken when it is old or its process is gone', async () => {
    const path = `${target()}.lock`;
    const folder = join(path, '..');
    mkdirSync(folder, { recursive: true });
    const { signal } = new AbortController();
    let waited = 0;
    const release = await lock(path, signal, () => void waited++);
    const second = lock(path, signal, () => void waited++);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(waited).toBeGreaterThan(0);
    await release();
    await (
      await second
    )();
    expect(existsSync(path)).toBe(false);
    const gone = spawn(process.execPath, ['-e', '']);
    await new Promise((resolve) => gone.on('close', resolve));
    writeFileSync(path, `${gone.pid} ${hostname()} x`);
    await (
      await lock(path, signal, () => expect.unreachable('its process is gone'))
    )();
    writeFileSync(path, '1 another-machine x');
    utimesSync(path, new Date(Date.now() - 60_000), new Date(Date.now() - 60_000));
    await (
      await lock(path, signal, () => expect.unreachable('it is old'))
    )();
    writeFileSync(path, '1 another-machine x');
    const stopping = new AbortController();
    expect((await failure(lock(path, stopping.signal, () => stopping.abort(new Error('enough'))))).message).toBe('enough');
  });

  it("a lock with a time in the future is taken once its holder no longer moves it, whichever machine's it is", async () => {
    const path = `${target()}.lock`;
    const { signal } = new AbortController();
    const BEAT_MS = 100;
    mkdirSync(join(path, '..'), { recursive: true });
    for (const host of ['another-machine', hostname()]) {
      writeFileSync(path, `${process.pid} ${host} x`);
      let time = Date.now() + 3_600_000;
      let beats = 0;
      let waited = 0;
      const beat = setInterval(() => {
        if (++beats > 6) return clearInterval(beat); // works for some time, then dies
        utimesSync(path, new Date(time), new Date((time += 1000)));
      }, BEAT_MS);
      await (
        await lock(path, signal, () => void waited++, BEAT_MS)
      )();
      expect(beats, 'it was not taken while its holder worked').toBeGreaterThan(6);
      expect(waited).toBeGreaterThan(0);
    }
  });
});
