/**
 * Batches without a model: lines, their order, the queue, and /v1/files and /v1/batches with a
 * store in memory.
 */
import fc from 'fast-check';
import OpenAI, { toFile } from 'openai';
import { describe, expect, it, vi } from 'vitest';
import { answerRecord, BadLine, readBatch, readRecords, recordBytes, type BatchLine } from '../../src/server/batch/batch-line.ts';
import { createWindow, runBatch, type BatchRun } from '../../src/server/batch/batch-run.ts';
import { openBatches, type BatchObject, type BatchStore } from '../../src/server/batch/batch-state.ts';
import { createHandler } from '../../src/server/handler.ts';
import { readLines } from '../../src/server/batch/lines.ts';
import { readForm } from '../../src/server/http/multipart.ts';
import type { HandlerOptions } from '../../src/server/options.ts';
import { createQueue } from '../../src/server/queue.ts';
import { yieldToEventLoop } from '../../src/event-loop.ts';
import { apart, scriptedBackend, type ScriptedOptions } from './backend.ts';
import { memoryStore } from './batch-store.ts';
import { until } from './server.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
async function* pieces(whole: Uint8Array, ...cuts: number[]): AsyncGenerator<Uint8Array, void> {
  let from = 0;
  for (const cut of [...cuts.map((n) => n % (whole.length + 1)).sort((a, b) => a - b), whole.length]) {
    await Promise.resolve();
    yield whole.subarray(from, cut);
    from = cut;
  }
}
const collect = async <T>(source: AsyncIterable<T>): Promise<T[]> => {
  const all: T[] = [];
  for await (const item of source) all.push(item);
  return all;
};
const never = new AbortController().signal;
const requestLine = (id: string, prompt = id, more: object = {}): string =>
  JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/completions', body: { prompt, max_tokens: 8, ...more } });
/** Reads lines. */
const batchOf = async (text: string | Uint8Array, options?: Parameters<typeof readBatch>[1]): Promise<(BatchLine | BadLine)[]> =>
  collect(readBatch(pieces(typeof text === 'string' ? bytes(text) : text), options));
const lineOf = (id: string, line: number, prompt = id, more: object = {}): BatchLine => ({
  line,
  customId: id,
  url: '/v1/completions',
  body: { prompt, ...more },
  size: 1,
});

describe('lines', () => {
  it('end at a line feed and nowhere else, however they arrive', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom('a', '\n', '\r', '\u2028', 'ü', '🙂'), { maxLength: 40 }),
        fc.array(fc.nat()),
        async (characters, cuts) => {
          const text = characters.join('');
          const lines = await collect(readLines(pieces(bytes(text), ...cuts), 1000));
          const want = text.split('\n');
          if (want.at(-1) === '') want.pop();
          expect(lines.map((line) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(line.bytes))).toEqual(want);
          expect(lines.reduce((sum, { size }) => sum + size, 0)).toBe(bytes(text).length);
          expect(lines.every(({ number, whole }, i) => number === i + 1 && (whole || i === lines.length - 1))).toBe(true);
        },
      ),
    );
  });

  it('longer than the limit are counted and not kept; the next is read', async () => {
    const lines = await collect(readLines(pieces(bytes(`${'x'.repeat(50)}\nshort\n`), 7, 20, 33), 10));
    expect(lines.map(({ bytes: b, size }) => [b && new TextDecoder().decode(b), size])).toEqual([
      [undefined, 51],
      ['short', 6],
    ]);
  });

  it('that are wrong are named with the reason; empty ones are skipped', async () => {
    const told = async (text: string | Uint8Array, options?: Parameters<typeof readBatch>[1]): Promise<unknown[]> =>
      (await batchOf(text, options)).map((line) => (line instanceof BadLine ? [line.code, line.line, line.customId] : line.customId));
    const whole = { custom_id: 'a', method: 'POST', url: '/v1/completions', body: {} };
    expect(await batchOf(`\n\uFEFF${requestLine('a')}\r\n \t\r\n\n`)).toMatchObject([
      { line: 2, customId: 'a', url: '/v1/completions', body: { prompt: 'a' } },
    ]);
    for (const text of ['{', '[1]', '5', 'null', '"x"', '{"custom_id": "a"} x'])
      expect(await told(text), text).toEqual([['invalid_json', 1, null]]);
    expect(await told(Uint8Array.of(0x22, 0xff, 0x22))).toEqual([['invalid_json', 1, null]]);
    const without = async (more: object): Promise<unknown> => (await told(JSON.stringify({ ...whole, ...more })))[0];
    for (const id of [undefined, 5, null, ['a']]) expect(await without({ custom_id: id })).toEqual(['missing_custom_id', 1, null]);
    expect(await without({ method: 'GET' })).toEqual(['invalid_method', 1, 'a']);
    for (const url of ['/v1/nothing', 'http://x/v1/completions', '/v1/completions/', 5])
      expect(await without({ url })).toEqual(['invalid_url', 1, 'a']);
    for (const body of [undefined, null, 'x', [1]]) expect(await without({ body })).toEqual(['invalid_body', 1, 'a']);
    expect(await told('['.repeat(300))).toEqual([['body_too_complex', 1, null]]);
    expect(await told(`"${'x'.repeat(17 * 2 ** 20)}"\n${requestLine('b')}`)).toEqual([['line_too_large', 1, null], 'b']);
    expect(await told(requestLine('a'), { endpoint: '/v1/embeddings' })).toEqual([['mismatched_endpoint', 1, 'a']]);
    const ids = ['__proto__', 'a', '__proto__', 'a'];
    expect(await told(ids.map((id) => requestLine(id)).join('\n'))).toEqual([
      '__proto__',
      'a',
      ['duplicate_custom_id', 3, '__proto__'],
      ['duplicate_custom_id', 4, 'a'],
    ]);
    expect(await told(`${requestLine('a')}\n\n\n${requestLine('b')}`, { most: 2 })).toEqual(['a', ['too_many_lines', 3, null]]);
  });

  it('large and many leave others their turn', async () => {
    let turns = 0;
    const timer = setInterval(() => void turns++);
    await batchOf('\n'.repeat(300_000));
    await batchOf(`"${'x'.repeat(15 * 2 ** 20)}"`);
    clearInterval(timer);
    expect(turns).toBeGreaterThan(10);
  });

  it('that were answered are known again, but for half a last one', async () => {
    const line = lineOf('ü "x"\n', 1);
    const records = [
      answerRecord(line, 200, '{"choices":[]}'),
      answerRecord({ ...line, line: 9 }, 400, '{"error":{"code":"c","message":"m"}}'),
    ];
    const whole = Buffer.concat(records.map(recordBytes));
    const done = () => ({ answered: new Set<string>(), told: new Set<number>() });
    const all = done();
    expect(await readRecords(pieces(whole, 5), all)).toBe(whole.length);
    expect(all).toEqual({ answered: new Set(['ü "x"\n']), told: new Set([9]) });
    const half = done();
    expect(await readRecords(pieces(whole.subarray(0, -3)), half)).toBe(recordBytes(records[0]).length);
    expect(half.told.size).toBe(0);
    await expect(readRecords(pieces(bytes('{"custom_id": "a"\n')), done())).rejects.toMatchObject({ code: 'invalid_record' });
    await expect(readRecords(pieces(bytes('{"text": 1}\n')), done())).rejects.toMatchObject({ code: 'invalid_record' });
  });
});

describe('which line comes next', () => {
  const line = (n: number, prompt: string): BatchLine => ({
    line: n,
    customId: String(n),
    url: '/v1/completions',
    body: { prompt },
    size: 1,
  });

  it('a document is one place’s, and what begins alike follows each other', () => {
    const window = createWindow(2);
    const documents = ['first '.repeat(20), 'second '.repeat(20), 'third '.repeat(20)];
    for (let n = 0; n < 12; n++) window.add(line(n, `Answer about ${documents[n >> 2]}${n}`));
    const order: number[][] = [[], []];
    for (let n = 0; n < 12; n++) order[n % 2].push(window.take(n % 2)!.line >> 2);
    // Each of the two takers has a document of its own, and the third document is shared at the
    // end.
    expect(order).toEqual([
      [0, 0, 0, 0, 2, 2],
      [1, 1, 1, 1, 2, 2],
    ]);
    expect([window.size, window.bytes, window.take(0)]).toEqual([0, 0, undefined]);
  });

  it('lines that share nothing, or all the same, keep their order', () => {
    for (const prompt of [(n: number) => `${'hgfjabdecI'[n]} x`, (n: number) => `${'Classify: '.repeat(9)}${'abcdefghij'[n]}`]) {
      const window = createWindow(1);
      for (let n = 0; n < 10; n++) window.add(line(n, prompt(n)));
      expect(Array.from({ length: 10 }, () => window.take(0)!.line)).toEqual([...Array(10).keys()]);
    }
  });

  it('what is shared is what a comparison of whole texts says, whatever was taken before', () => {
    fc.assert(
      fc.property(fc.array(fc.stringMatching(/^[ab]{0,6}$/), { minLength: 1, maxLength: 20 }), fc.array(fc.nat(2)), (prompts, places) => {
        const window = createWindow(3);
        const left = prompts.map((prompt, n) => line(n, prompt));
        for (const one of left) window.add(one);
        const last = ['', '', ''];
        const shares = (one: BatchLine, place: number): number => {
          const key = JSON.stringify(['/v1/completions', null, null, one.body.prompt]);
          let n = 0;
          while (n < key.length && key[n] === last[place][n]) n++;
          return n;
        };
        for (const place of places) {
          const gain = (one: BatchLine): number =>
            shares(one, place) - Math.max(...[0, 1, 2].filter((p) => p !== place).map((p) => shares(one, p)));
          const best = left.length === 0 ? undefined : left.reduce((a, b) => (gain(b) > gain(a) ? b : a));
          expect(window.take(place)).toBe(best);
          if (!best) return;
          left.splice(left.indexOf(best), 1);
          last[place] = JSON.stringify(['/v1/completions', null, null, best.body.prompt]);
        }
      }),
    );
  });
});

describe('what runs them', () => {
  const lines = async function* (n: number): AsyncGenerator<BatchLine, void> {
    for (let i = 1; i <= n; i++) {
      await Promise.resolve();
      yield lineOf(`id${i}`, i);
    }
  };
  const run = async (more: Partial<BatchRun>) => {
    const got: (readonly [string | null, string | undefined])[] = [];
    const all = await runBatch({
      lines: lines(6),
      ask: () => Promise.resolve(Response.json({})),
      parallel: 2,
      write: (record) => Promise.resolve(void got.push([record.customId, /"status_code":(\d+)/.exec(record.text)?.[1]])),
      stop: never,
      abort: never,
      ...more,
    });
    return { all, got };
  };

  it('a line that waits holds up no other; no more are asked at once than may be', async () => {
    let [now, most] = [0, 0];
    let free = (): void => {};
    const held = new Promise<void>((resolve) => (free = resolve));
    const { all, got } = await run({
      async ask(_, body) {
        most = Math.max(most, ++now);
        if ((body as { prompt: string }).prompt === 'id1') await held;
        else if ((body as { prompt: string }).prompt === 'id6') free();
        await new Promise((resolve) => setTimeout(resolve, 1));
        now--;
        return Response.json({});
      },
    });
    expect([all, most, got.map(([id]) => id)]).toEqual([true, 2, expect.arrayContaining(['id1', 'id2', 'id3', 'id4', 'id5', 'id6'])]);
    expect(got.findIndex(([id]) => id === 'id1')).toBeGreaterThan(3);
  });

  it('what the server fails at is tried again, what it refuses is not; a stream is refused', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const answers: Record<string, number[]> = {
        id1: [400],
        id2: [500, 429, 499, 500, 200],
        id3: [500, 500, 500, 200],
        id4: [501],
        id5: [503, 200],
      };
      const tried: Record<string, number> = {};
      const running = run({
        lines: (async function* () {
          yield* lines(5);
          yield lineOf('s', 6, 'x', { stream: true });
        })(),
        ask(_, body) {
          const { prompt } = body as { prompt: string };
          tried[prompt] = (tried[prompt] ?? 0) + 1;
          return Promise.resolve(Response.json({}, { status: answers[prompt].shift()! }));
        },
      });
      for (let i = 0; i < 20; i++) await vi.advanceTimersByTimeAsync(1000);
      const { got } = await running;
      expect(Object.fromEntries(got)).toEqual({ id1: '400', id2: '200', id3: '500', id4: '501', id5: '200', s: '400' });
      expect(tried).toEqual({ id1: 1, id2: 5, id3: 3, id4: 1, id5: 2 });
    } finally {
      vi.useRealTimers();
    }
  });

  it('lines that come in pauses of the event loop are shared out like those that are there; a source that falls silent holds none of them up', async () => {
    const stop = new AbortController();
    const asked: number[] = [];
    const { got } = await run({
      lines: (async function* () {
        for (let i = 1; i <= 12; i++) {
          await yieldToEventLoop();
          yield lineOf(`id${i}`, i, `${['first ', 'second ', 'third '][(i - 1) >> 2].repeat(9)}${i}`);
        }
        await new Promise(() => undefined);
      })(),
      parallel: 3,
      stop: stop.signal,
      async ask(_, body) {
        asked.push('fst'.indexOf((body as { prompt: string }).prompt[0]));
        await yieldToEventLoop();
        if (asked.length === 12) stop.abort();
        return Response.json({});
      },
    });
    expect([asked, got.length]).toEqual([[0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2], 12]);
  });

  it('stops: lines under way are finished, or given up; a source that gives nothing is not waited for', async () => {
    const stop = new AbortController();
    const stopped = await run({ stop: stop.signal, ask: () => (stop.abort(), Promise.resolve(Response.json({}))) });
    expect([stopped.all, stopped.got.length]).toEqual([false, 1]);
    const abort = new AbortController();
    const given = await run({ abort: abort.signal, ask: () => (abort.abort(), Promise.resolve(Response.json({}, { status: 499 }))) });
    expect([given.all, given.got]).toEqual([false, []]);
    const silent = new AbortController();
    setTimeout(() => silent.abort(), 5);
    const source = { [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => undefined) }) };
    expect((await run({ stop: silent.signal, lines: source })).all).toBe(false);
  });

  it('ends with what reading or writing throws', async () => {
    await expect(run({ write: () => Promise.reject(new Error('full')) })).rejects.toThrow('full');

    const failing = async function* (): AsyncGenerator<BatchLine, void> {
      throw new Error('gone');
    };
    await expect(run({ lines: failing() })).rejects.toThrow('gone');
  });
});

describe('places', () => {
  it('what nobody waits for comes last and gives way, the youngest first', async () => {
    const queue = createQueue(2, 1);
    const gone: string[] = [];
    const leaves: Record<string, () => void> = {};
    const batch = async (name: string): Promise<void> => {
      leaves[name] = await queue.enter(never, () => gone.push(name));
    };
    await batch('a');
    await batch('b');
    void batch('c');
    void batch('d'); // only requests have a limit; two of these wait
    const request = queue.enter(never);
    expect([gone, queue.running, queue.waiting]).toEqual([['b'], 2, 3]);
    await expect(queue.enter(never)).rejects.toMatchObject({ status: 429 });
    leaves.b();
    const leave = await request;
    expect(Object.keys(leaves)).toEqual(['a', 'b']);
    leave();
    await until(() => 'c' in leaves);
    expect(Object.keys(leaves)).toEqual(['a', 'b', 'c']);
    const second = queue.enter(never); // c, which came after a, has just begun
    expect(gone).toEqual(['b', 'c']);
    leaves.c();
    (await second)();
    leaves.a();
    await until(() => 'd' in leaves);
    leaves.d();
    leaves.d();
    expect([queue.running, queue.waiting]).toEqual([0, 0]);
  });
});

describe('forms', () => {
  const form = (boundary: string, ...parts: string[]): Uint8Array =>
    bytes(`${parts.map((part) => `--${boundary}\r\n${part}\r\n`).join('')}--${boundary}--\r\n`);
  const field = (name: string, value: string): string => `Content-Disposition: form-data; name="${name}"\r\n\r\n${value}`;
  const file = (content: string, name = 'in.jsonl'): string =>
    `Content-Disposition: form-data; name="file"; filename="${name}"\r\nContent-Type: text/plain\r\n\r\n${content}`;
  const all = async (body: Uint8Array, type = 'multipart/form-data; boundary=xx', ...cuts: number[]) => {
    const got: Uint8Array[] = [];
    const { fields, filename } = await readForm(pieces(body, ...cuts), type, (piece) => Promise.resolve(void got.push(piece.slice())));
    return { fields: Object.fromEntries(fields), filename, content: Buffer.concat(got).toString() };
  };

  it('come apart whatever their bytes, and however they arrive', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom('\r', '\n', '-', 'x', 'xx', 'ü', '--xx', '\r\n--x')),
        fc.array(fc.nat()),
        async (parts, cuts) => {
          const content = parts.join('');
          fc.pre(!`\r\n${content}`.includes('\r\n--xx'));
          expect(await all(form('xx', file(content, 'a/../ü.jsonl'), field('purpose', 'batch')), undefined, ...cuts)).toEqual({
            fields: { purpose: 'batch' },
            filename: 'ü.jsonl',
            content,
          });
        },
      ),
    );
    expect(await all(form('a b', file('x')), 'multipart/form-data; charset=utf-8; boundary="a b"')).toMatchObject({ content: 'x' });
  });

  it('invalid ones are refused', async () => {
    const whole = form('xx', file('x'), field('purpose', 'batch'));
    const wrong: [Uint8Array, string?, number?][] = [
      [whole, 'application/json', 415],
      [whole, 'multipart/form-data', 415],
      [whole.subarray(0, -6)],
      [bytes('')],
      [form('xx')],
      [form('xx', field('purpose', 'batch'))],
      [form('xx', file('x'), file('y'))],
      [form('xx', 'Content-Disposition: attachment\r\n\r\nx')],
      [form('xx', ...Array.from({ length: 20 }, (_, i) => field(`f${i}`, 'x')))],
      [form('xx', field('purpose', 'x'.repeat(5000))), undefined, 413],
      [form('xx', `${'h'.repeat(9000)}\r\n\r\nx`), undefined, 413],
      [bytes(`--xx!\r\n${file('x')}\r\n--xx--`)],
    ];
    for (const [i, [body, type, status = 400]] of wrong.entries())
      expect([
        i,
        await all(body, type).then(
          () => 0,
          (error: { status: number }) => error.status,
        ),
      ]).toEqual([i, status]);
  });
});

describe('/v1/files and /v1/batches', () => {
  const answers = (prompt: string): string => prompt.toUpperCase();
  const serving = async (
    options: HandlerOptions & ScriptedOptions & { store?: BatchStore; maxFileBytes?: number; maxStoredBytes?: number } = {},
  ) => {
    const { store = memoryStore(), maxFileBytes, maxStoredBytes, ...rest } = options;
    const batches = await openBatches(store, { ...(maxFileBytes ? { maxFileBytes } : {}), ...(maxStoredBytes ? { maxStoredBytes } : {}) });
    const { scripted, others } = apart(rest);
    const backend = scriptedBackend(answers, scripted);
    const handler = createHandler(backend, { ...others, batches });
    const clientOf = (apiKey: string) =>
      new OpenAI({ apiKey, baseURL: 'http://server/v1', maxRetries: 0, fetch: (url, init) => handler(new Request(url, init)) });
    return { store, batches, backend, handler, clientOf, client: clientOf('key') };
  };
  type Client = Awaited<ReturnType<typeof serving>>['client'];
  const upload = async (client: Client, lines: readonly string[]) =>
    client.files.create({ file: await toFile(bytes(`${lines.join('\n')}\n`), 'in.jsonl'), purpose: 'batch' });
  const create = async (client: Client, lines: readonly string[], more: object = {}) =>
    client.batches.create({
      input_file_id: (await upload(client, lines)).id,
      endpoint: '/v1/completions',
      completion_window: '24h',
      ...more,
    });
  const ended = async (client: Client, id: string): Promise<OpenAI.Batch> => {
    let last = await client.batches.retrieve(id);
    await until(async () => ['completed', 'failed', 'cancelled', 'expired'].includes((last = await client.batches.retrieve(id)).status));
    return last;
  };
  const content = async (client: Client, id: string | null | undefined): Promise<Record<string, string>> => {
    const text = id ? await (await client.files.content(id)).text() : '';
    const records = text
      .split('\n')
      .filter(Boolean)
      .map(
        (line) =>
          JSON.parse(line) as {
            custom_id: string;
            response: { body: { choices?: { text: string }[]; error?: { code: string } } } | null;
            error: { code: string } | null;
          },
      );
    expect(new Set(records.map((record) => record.custom_id)).size).toBe(records.length);
    return Object.fromEntries(records.map((record) => [record.custom_id, record.error?.code ?? record.response!.body.choices![0].text]));
  };
  const ids = (n: number): string[] => Array.from({ length: n }, (_, i) => requestLine(`id${i}`));
  const expected = (n: number): Record<string, string> => Object.fromEntries(Array.from({ length: n }, (_, i) => [`id${i}`, `ID${i}`]));

  it('from the upload to the output; what is refused is in the error file', async () => {
    const { client } = await serving();
    const batch = await create(client, [...ids(20), requestLine('bad', 'x', { max_tokens: -5 })], { metadata: { a: 'b' } });
    expect(batch).toMatchObject({ object: 'batch', status: 'validating', metadata: { a: 'b' }, request_counts: { total: 0 } });
    const done = await ended(client, batch.id);
    expect(done).toMatchObject({ status: 'completed', errors: null, request_counts: { total: 21, completed: 20, failed: 1 } });
    expect(await content(client, done.output_file_id)).toEqual(expected(20));
    expect(await content(client, done.error_file_id)).toEqual({ bad: 'invalid_value' });
    const listed = await client.files.list();
    expect(listed.data.map(({ purpose }) => purpose).sort()).toEqual(['batch', 'batch_output', 'batch_output']);
    const page = await client.files.list({ limit: 2, order: 'asc', purpose: 'batch_output' });
    expect([page.data.length, page.has_more]).toEqual([2, false]);
    expect((await client.batches.list({ limit: 1 })).data[0].id).toBe(batch.id);
    await client.files.delete(done.output_file_id!);
    await expect(client.files.retrieve(done.output_file_id!)).rejects.toMatchObject({ status: 404 });
  });

  it('a file whose form is wrong fails the batch before it begins', async () => {
    const { client, backend } = await serving();
    const cases: [string[], string, number | null][] = [
      [['', '{'], 'invalid_json', 2],
      [[requestLine('a'), requestLine('a')], 'duplicate_custom_id', 2],
      [[requestLine('a').replace('completions', 'embeddings')], 'mismatched_endpoint', 1],
      [['', ''], 'empty_file', null],
    ];
    for (const [lines, code, line] of cases) {
      const failed = await ended(client, (await create(client, lines)).id);
      expect(failed).toMatchObject({ status: 'failed', errors: { data: [{ code, line }] }, output_file_id: null });
      expect(failed.failed_at).toBeGreaterThanOrEqual(failed.created_at);
    }
    expect(backend.seen.options).toEqual([]);
  });

  it('requests come first: with one place, the line that has it gives it up and is asked again', async () => {
    const { client, backend } = await serving({ parallel: 1, msPerToken: 2, maxQueue: 1 });
    const batch = await create(client, ids(12));
    await until(() => backend.seen.now > 0);
    const said = await client.completions.create({ model: 'any', prompt: 'me' });
    expect(said.choices[0].text).toBe('ME');
    expect(backend.seen.aborted).toBeGreaterThan(0);
    expect((await client.batches.retrieve(batch.id)).status).toBe('in_progress');
    const done = await ended(client, batch.id);
    expect(await content(client, done.output_file_id)).toEqual(expected(12));
  });

  it('cancelled: what was done is kept, and nothing goes on', async () => {
    const { client } = await serving({ parallel: 2, msPerToken: 2 });
    const batch = await create(client, ids(200));
    await until(async () => (await client.batches.retrieve(batch.id)).request_counts!.completed >= 3);
    await expect(client.files.delete(batch.input_file_id)).rejects.toMatchObject({ status: 409 });
    expect((await client.batches.cancel(batch.id)).status).toMatch(/^cancell/);
    const done = await ended(client, batch.id);
    expect(done.status).toBe('cancelled');
    expect(Object.keys(await content(client, done.output_file_id))).toHaveLength(done.request_counts!.completed);
    expect(done.request_counts!.completed).toBeLessThan(200);
    await expect(client.batches.cancel(batch.id)).rejects.toMatchObject({ status: 409 });
  });

  it('a new start goes on where the last one was stopped or killed, over half a line', async () => {
    const store = memoryStore();
    const first = await serving({ store, parallel: 2, msPerToken: 1 });
    const batch = await create(first.client, [...ids(30), requestLine('bad', 'x', { max_tokens: -5 })]);
    const output = batch.id.replace('batch_', 'file-out-');
    await until(() => store.text(output).split('\n').length > 10);
    await first.batches.close(1000);
    const kept = store.text(output);
    store.kept.set(output, bytes(kept.slice(0, -20)));
    store.kept.set('file-unfinished', bytes('an upload that was cut off'));
    const second = await serving({ store, parallel: 2 });
    const now = await second.client.batches.retrieve(batch.id);
    expect(now.request_counts!.completed).toBe(kept.split('\n').length - 2);
    const done = await ended(second.client, batch.id);
    expect(done).toMatchObject({ status: 'completed', request_counts: { total: 31, completed: 30, failed: 1 } });
    expect(await content(second.client, done.output_file_id)).toEqual(expected(30));
    expect(store.kept.has('file-unfinished')).toBe(false);
    const third = await serving({ store });
    expect(await third.client.batches.retrieve(batch.id)).toEqual(done);
    expect(await content(third.client, done.output_file_id)).toEqual(expected(30));
  });

  it('what the store holds that is damaged is refused with a code', async () => {
    const store = memoryStore();
    store.kept.set('batch_x.json', bytes('{"batch"'));
    await expect(openBatches(store)).rejects.toMatchObject({ code: 'ERR_STATE' });
  });

  it('a disk that is full for a while loses nothing', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const errors: unknown[] = [];
      const store = memoryStore();
      const { client, batches } = await serving({ store, onError: (error) => errors.push(error) });
      const file = await upload(client, ids(9));
      store.fail = true;
      const batch = batches.batch(
        (await client.batches.create({ input_file_id: file.id, endpoint: '/v1/completions', completion_window: '24h' })).id,
        '',
      );
      for (let i = 0; i < 40 && batch.status !== 'completed'; i++) {
        await vi.advanceTimersByTimeAsync(10_000);
        await new Promise((resolve) => setImmediate(resolve));
      }
      expect(errors).toEqual([expect.objectContaining({ message: 'there is no space left' })]);
      expect(await content(client, batch.output_file_id)).toEqual(expected(9));
    } finally {
      vi.useRealTimers();
    }
  });

  it('a batch whose time is up: what was done is kept, the rest is told', async () => {
    const store = memoryStore();
    const first = await serving({ store, parallel: 1, msPerToken: 2 });
    const batch = await create(first.client, ids(20));
    await until(async () => (await first.client.batches.retrieve(batch.id)).request_counts!.completed >= 2);
    await first.batches.close();
    const entry = JSON.parse(store.text(`${batch.id}.json`)) as { batch: { -readonly [K in keyof BatchObject]: BatchObject[K] } };
    entry.batch.expires_at = 1;
    store.kept.set(`${batch.id}.json`, bytes(JSON.stringify(entry)));
    const { client } = await serving({ store, parallel: 1, msPerToken: 2 });
    const done = await ended(client, batch.id);
    expect(done.status).toBe('expired');
    const [out, left] = [await content(client, done.output_file_id), await content(client, done.error_file_id)];
    expect(Object.keys({ ...out, ...left })).toHaveLength(20);
    expect(new Set(Object.values(left))).toEqual(new Set(['batch_expired']));
  });

  it('files expire, and belong to the key that sent them', async () => {
    const { clientOf, store } = await serving({ apiKey: ['a', 'b'] });
    const [a, b] = [clientOf('a'), clientOf('b')];
    const file = await a.files.create({
      file: await toFile(bytes('x\n'), 'x'),
      purpose: 'batch',
      expires_after: { anchor: 'created_at', seconds: 3600 },
    });
    expect(file.expires_at! - file.created_at).toBe(3600);
    const batch = await create(a, ids(2));
    for (const f of [
      () => b.files.retrieve(file.id),
      () => b.files.content(file.id),
      () => b.files.delete(file.id),
      () => b.batches.retrieve(batch.id),
      () => b.batches.cancel(batch.id),
      () => b.batches.create({ input_file_id: file.id, endpoint: '/v1/completions', completion_window: '24h' }),
    ])
      await expect(f()).rejects.toMatchObject({ status: 404 });
    expect([(await b.files.list()).data, (await b.batches.list()).data]).toEqual([[], []]);
    expect((await ended(a, batch.id)).status).toBe('completed');
    await expect(clientOf('c').files.list()).rejects.toMatchObject({ status: 401 });
    const entry = JSON.parse((store as ReturnType<typeof memoryStore>).text(`${file.id}.json`)) as { file: { expires_at: number } };
    entry.file.expires_at = 1;
    (store as ReturnType<typeof memoryStore>).kept.set(`${file.id}.json`, bytes(JSON.stringify(entry)));
    const later = await serving({ apiKey: ['a', 'b'], store });
    await expect(later.clientOf('a').files.retrieve(file.id)).rejects.toMatchObject({ status: 404 });
    expect((store as ReturnType<typeof memoryStore>).kept.has(file.id)).toBe(false);
  });

  it('what is too large, from a stranger’s page, or makes no sense is refused, and leaves nothing behind', async () => {
    const { client, handler, store } = await serving({ maxFileBytes: 1000, maxStoredBytes: 1500 });
    const status = (promise: Promise<unknown>): Promise<number> =>
      promise.then(
        () => 200,
        (error: { status: number }) => error.status,
      );
    const file = await upload(client, ids(5));
    const sized = (n: number): Promise<number> => status(upload(client, ['x'.repeat(n - 1)]));
    expect(await sized(1001)).toBe(413);
    expect(await sized(1000)).toBe(200);
    expect(await sized(100)).toBe(507);
    const before = await (store as ReturnType<typeof memoryStore>).list();
    const bodies: object[] = [
      { endpoint: '/v1/chat' },
      { input_file_id: 'file-none' },
      { input_file_id: 5 },
      { completion_window: '24' },
      { completion_window: '900h' },
      { metadata: { a: 5 } },
      { output_expires_after: { anchor: 'now', seconds: 3600 } },
      { output_expires_after: { anchor: 'created_at', seconds: 1 } },
    ];
    for (const body of bodies) {
      const given = { input_file_id: file.id, endpoint: '/v1/completions', completion_window: '24h', ...body };
      expect([body, await status(client.batches.create(given as OpenAI.BatchCreateParams))]).toEqual([
        body,
        body && 'input_file_id' in body && body.input_file_id === 'file-none' ? 404 : 400,
      ]);
    }
    const send = async (path: string, init: RequestInit = {}): Promise<number> =>
      (await handler(new Request(`http://server${path}`, init))).status;
    const form = (): FormData => {
      const data = new FormData();
      data.set('purpose', 'batch');
      data.set('file', new Blob(['x']), 'x');
      return data;
    };
    expect(await send('/v1/files', { method: 'POST', body: form(), headers: { origin: 'http://evil.example' } })).toBe(403);
    expect(await send('/v1/files', { method: 'POST', body: form(), headers: { origin: 'null' } })).toBe(403);
    expect(await send('/v1/files', { method: 'POST' })).toBe(415);
    for (const query of ['limit=0', 'limit=x', 'limit=101', 'order=up', 'after=none'])
      expect([query, await send(`/v1/batches?${query}`)]).toEqual([query, 400]);
    expect(await send('/v1/batches/x', { method: 'POST' })).toBe(404);
    expect(await send('/v1/files/x', { method: 'POST', body: '{}' })).toBe(405);
    expect(await (store as ReturnType<typeof memoryStore>).list()).toEqual(before);
    const without = createHandler(scriptedBackend(answers));
    expect((await without(new Request('http://server/v1/files'))).status).toBe(501);
  });
});
