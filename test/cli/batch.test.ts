/**
 * quantlet batch: answers depend only on their lines, and output files have each line once,
 * whatever ends the process.
 */
import { spawn } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { batch } from '../../src/cli/batch.ts';
import { until } from '../server/server.ts';
import { cliPath, failure, llamaModel, shippedModel, temporaryFolder } from '../support.ts';
import { invoke, type Args } from './commands.ts';

const folder = temporaryFolder();
const at = (name: string): string => join(folder, name);
const line = (id: string, prompt: string, more: object = {}): string =>
  JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/completions', body: { prompt, max_tokens: 12, temperature: 0, ...more } });
const put = (name: string, lines: readonly string[], last = '\n'): string => {
  writeFileSync(at(name), lines.join('\n') + last);
  return at(name);
};

interface Answer {
  readonly id: string;
  readonly custom_id: string | null;
  readonly response: {
    status_code: number;
    body: { choices?: { text: string }[]; usage: { prompt_tokens: number; prompt_tokens_details: { cached_tokens: number } } };
  } | null;
  readonly error: { code: string; line: number } | null;
}
const records = (path: string): Answer[] => {
  const text = readFileSync(path, 'utf8');
  expect(text === '' || text.endsWith('\n')).toBe(true);
  return text
    .split('\n')
    .filter(Boolean)
    .map((record) => JSON.parse(record) as Answer);
};
/** The answer of each line; checks that every custom_id occurs once. */
const answers = (path: string): Map<string, string> => {
  const all = records(path).filter(({ error }) => !error);
  expect(new Set(all.map((record) => record.custom_id)).size).toBe(all.length);
  return new Map(all.map((record) => [record.custom_id!, record.response!.body.choices![0].text]));
};
/** Line number, code and custom_id of each error. */
const wrong = (path: string): [number, string, string | null][] =>
  records(path)
    .flatMap(({ error, custom_id: id }) => (error ? [[error.line, error.code, id] as [number, string, string | null]] : []))
    .sort(([a], [b]) => a - b);

const BASE: Args = ['-m', llamaModel, '--build', 'simd', '--no-warmup'];
let outs = 0;
const run = async (input: string, ...more: Args) => {
  const out = at(`out-${outs++}.jsonl`);
  const { code, stdout, stderr } = await invoke(batch, [...BASE, '-i', input, '-o', out, ...more]);
  expect(stderr).toBe('');
  return { out, code, summary: JSON.parse(stdout) as Record<string, number> };
};
afterEach(() => void vi.unstubAllEnvs());

const story = 'once upon a time there was a cat ';
const good = Array.from({ length: 12 }, (_, i) =>
  line(
    ['__proto__', '17', 'ü "ß"/\n'][i] ?? `id${i}`,
    `${i % 3 === 0 ? story : ''}${'the cat and the dog '.slice(i)}`,
    i % 2 ? { temperature: 0.9, seed: i } : {},
  ),
);
const bad = [
  '{"custom_id": "half',
  '[1]',
  line('', 'x').replace('"custom_id":"",', ''),
  good[2],
  line('url', 'x').replace('/v1/completions', '/v1/x'),
  line('refused', 'x', { max_tokens: -5 }),
  line('long', 'x '.repeat(3000)),
];
const CODES = [
  'invalid_json',
  'invalid_json',
  'missing_custom_id',
  'duplicate_custom_id',
  'invalid_url',
  'invalid_value',
  'context_length_exceeded',
];

describe('lines and answers', () => {
  it('the same line gives the same answer at any parallelism, in any shard and beside any others', async () => {
    const input = put('good.jsonl', good);
    const alone = await run(input, '--parallel', 1, '-t', 1);
    expect(alone.code).toBe(0);
    expect(alone.summary).toMatchObject({ answered: 12, errors: 0, resumed: 0 });
    const want = answers(alone.out);
    expect(want.size).toBe(12);
    expect(new Set(records(alone.out).map(({ id }) => id)).size).toBe(12);
    const many = await run(put('reversed.jsonl', [...good].reverse(), ''), '--parallel', 5, '-t', 2, '--build', 'simd-threads');
    expect(answers(many.out)).toEqual(want);
    expect(answers((await run(put('reversed.jsonl', [...good].reverse(), ''), '--parallel', 5)).out)).toEqual(want);
    const shards: Map<string, string>[] = [];
    for (const i of [0, 1, 2]) shards.push(answers((await run(input, '--shard', `${i}/3`)).out));
    expect(shards.map(({ size }) => size)).toEqual([4, 4, 4]);
    expect(new Map(shards.flatMap((part) => [...part]))).toEqual(want);
  });

  it('bad lines are told with their numbers, by the shard that has them, and the rest goes on', async () => {
    const lines = bad.flatMap((text, i) => [good[i], '', text]);
    const numbers = bad.map((_, i) => 3 * i + 3);
    const input = put('mixed.jsonl', lines, '');
    const errors = at('mixed-errors.jsonl');
    const apart = await run(input, '--errors', errors);
    expect([apart.code, apart.summary.answered, apart.summary.errors]).toEqual([0, 7, 7]);
    expect(wrong(errors).map(([n, code]) => [n, code])).toEqual(numbers.map((n, i) => [n, CODES[i]]));
    expect(wrong(errors).map(([, , id]) => id)).toEqual([null, null, null, JSON.parse(good[2]).custom_id, 'url', 'refused', 'long']);
    const together = await run(input);
    expect([answers(together.out), wrong(together.out)]).toEqual([answers(apart.out), wrong(errors)]);
    const parts = [await run(input, '--shard', '0/2'), await run(input, '--shard', '1/2')];
    expect(new Map(parts.flatMap(({ out }) => [...answers(out)]))).toEqual(answers(apart.out));
    expect(parts.flatMap(({ out }) => wrong(out)).sort(([a], [b]) => a - b)).toEqual(wrong(errors));
    const none = await run(put('bad.jsonl', bad.slice(0, 2)));
    expect([none.code, none.summary.answered, wrong(none.out).length]).toEqual([1, 0, 2]);
    expect((await run(put('empty.jsonl', [''], ''))).code).toBe(0);
  });

  it('a line larger than any request is told, and the next is answered', async () => {
    const { out } = await run(put('huge.jsonl', [line('huge', 'x'.repeat(17 * 2 ** 20)), line('body', 'x'.repeat(11 * 2 ** 20)), good[0]]));
    expect(wrong(out)).toEqual([
      [1, 'line_too_large', null],
      [2, 'body_too_large', 'body'],
    ]);
    expect([...answers(out).keys()]).toEqual(['__proto__']);
  });

  it('a beginning that lines share is computed once, not once for each of the places', async () => {
    const documents = ['a cat ', 'a dog ', 'a fox '].map((word) => word.repeat(12));
    const input = put(
      'documents.jsonl',
      documents.flatMap((text, d) => Array.from({ length: 4 }, (_, q) => line(`${d}-${q}`, `${text}${'abcd'[q]} ?`))),
    );
    const { out } = await run(input, '--parallel', 3);
    const fresh = records(out).filter(({ response }) => {
      const {
        prompt_tokens: all,
        prompt_tokens_details: { cached_tokens: cached },
      } = response!.body.usage;
      return cached < all / 2;
    });
    expect(fresh.map(({ custom_id: id }) => id![0]).sort()).toEqual(['0', '1', '2']);
  });

  it('vectors, and lines for another kind of model', async () => {
    const vectors = (id: string, input: string): string =>
      line(id, 'x').replace('/v1/completions', '/v1/embeddings').replace('"prompt":"x"', `"input":"${input}"`);
    const out = at('vectors.jsonl');
    const bert = llamaModel.replace('llama.gguf', 'bert.gguf');
    await invoke(batch, [
      '-m',
      bert,
      '--build',
      'simd',
      '-i',
      put('vectors-in.jsonl', [vectors('a', 'the cat'), vectors('b', 'a dog'), good[0]]),
      '-o',
      out,
    ]);
    expect(
      records(out)
        .map(({ custom_id: id, response }) => [id, response!.status_code])
        .sort(),
    ).toEqual([
      ['__proto__', 400],
      ['a', 200],
      ['b', 200],
    ]);
  });
});

describe('what is left when it ends', () => {
  const lines = Array.from({ length: 40 }, (_, i) =>
    line(`id${i}`, 'Once upon a time', { max_tokens: 40, seed: i, temperature: 0.8, ignore_eos: true }),
  );
  lines.splice(20, 0, '{', '[2]');
  const input = (): string => put('long.jsonl', lines);
  const args = (name: string, ...more: Args): string[] =>
    [
      '-m',
      shippedModel,
      '--build',
      'simd-threads',
      '-t',
      '1',
      '-i',
      input(),
      '-o',
      at(`${name}.jsonl`),
      '--errors',
      at(`${name}-errors.jsonl`),
      ...more,
    ].map(String);
  const here = (name: string, ...more: Args) => invoke(batch, args(name, ...more));
  const lineCount = (name: string): number =>
    existsSync(at(`${name}.jsonl`)) ? readFileSync(at(`${name}.jsonl`), 'utf8').split('\n').length - 1 : 0;
  /** Runs a batch and sends the process a signal after `n` lines. */
  const ended = async (name: string, n: number, signal: NodeJS.Signals, ...more: Args): Promise<number | NodeJS.Signals | null> => {
    const child = spawn(process.execPath, [cliPath, 'batch', ...args(name, ...more)], { stdio: 'ignore' });
    const exit = new Promise<number | NodeJS.Signals | null>((resolve) => child.on('exit', (code, by) => resolve(code ?? by)));
    await until(() => lineCount(name) >= n || child.exitCode !== null, 60_000);
    child.kill(signal);
    return exit;
  };
  let want: Map<string, string> | undefined;
  const all = async (): Promise<Map<string, string>> => {
    if (want) return want;
    expect((await here('whole')).code).toBe(0);
    return (want = answers(at('whole.jsonl')));
  };

  it('SIGKILL, twice, and half a last line: --resume loses nothing and doubles nothing', async () => {
    expect(await ended('killed', 8, 'SIGKILL')).toBe('SIGKILL');
    const kept = readFileSync(at('killed.jsonl'), 'utf8');
    truncateSync(at('killed.jsonl'), kept.lastIndexOf('\n', kept.length - 2) + 40);
    appendFileSync(at('killed-errors.jsonl'), '{"id": "batch_req_x", "custom');
    expect(await ended('killed', lineCount('killed') + 8, 'SIGKILL', '--resume', '--parallel', 3)).toBe('SIGKILL');
    expect(lineCount('killed')).toBeLessThan(40);
    expect((await here('killed', '--resume')).code).toBe(0);
    expect(answers(at('killed.jsonl'))).toEqual(await all());
    expect(wrong(at('killed-errors.jsonl')).map(([n]) => n)).toEqual([21, 22]);
    const bytes = readFileSync(at('killed.jsonl'));
    const again = await here('killed', '--resume');
    expect([again.code, JSON.parse(again.stdout)]).toEqual([0, expect.objectContaining({ answered: 40, errors: 2, resumed: 42 })]);
    expect(readFileSync(at('killed.jsonl')).equals(bytes)).toBe(true);
  });

  it('SIGTERM and Ctrl-C: lines under way end, the exit code says that some are left', async () => {
    for (const [signal, code] of [
      ['SIGTERM', 143],
      ['SIGINT', 130],
    ] as const) {
      expect(await ended(signal, 6, signal)).toBe(code);
      expect(records(at(`${signal}.jsonl`)).length).toBeLessThan(40);
    }
    expect((await here('SIGTERM', '--resume')).code).toBe(0);
    expect(answers(at('SIGTERM.jsonl'))).toEqual(await all());
  });

  it('a source that is silent does not hold up the end; standard input and output are files too', async () => {
    const child = spawn(process.execPath, [cliPath, 'batch', '-m', shippedModel, '-t', '1', '-i', '-', '-o', '-'], {
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    const exit = new Promise<number | null>((resolve) => child.on('exit', resolve));
    let [out, said] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
    child.stdin.write(`${lines[0]}\n${lines[1]}\n`);
    await until(() => out.split('\n').length === 3, 30_000);
    child.kill('SIGTERM');
    expect(await exit).toBe(143);
    expect(
      out
        .split('\n')
        .filter(Boolean)
        .map((text) => (JSON.parse(text) as Answer).custom_id)
        .sort(),
    ).toEqual(['id0', 'id1']);
    expect(JSON.parse(said)).toMatchObject({ answered: 2 });
  });
});

describe('what is refused', () => {
  const refused = async (...more: Args): Promise<string> => {
    const { code, message } = await failure(() => batch.run([...BASE, ...more].map(String), new AbortController().signal));
    return `${code}: ${message}`;
  };
  const input = (): string => put('one.jsonl', [good[0]]);

  it('files that are not there, not records, or the input', async () => {
    expect(await refused('-i', at('none.jsonl'), '-o', at('x.jsonl'))).toMatch(/^ERR_SOURCE: cannot read the lines .*none/);
    expect(await refused('-i', folder, '-o', at('x.jsonl'))).toMatch(/^ERR_SOURCE: .*it is a folder/);
    expect(await refused('-i', input(), '-o', at('none/x.jsonl'))).toMatch(/^ERR_IO: cannot open/);
    expect(await refused('-i', input(), '-o', input())).toMatch(/^ERR_USAGE: .*is also the input/);
    expect(await refused('-i', input(), '-o', at('x.jsonl'), '--errors', input())).toMatch(/^ERR_USAGE: .*is also the input/);
    const mine = put('notes.txt', ['my notes']);
    expect(await refused('-i', input(), '-o', mine, '--resume')).toMatch(/^ERR_IO: .*line 1 is not a record/);
    expect(await refused('-i', input(), '-o', mine, '-m', at('none.gguf'))).toMatch(/^ERR_SOURCE/);
    expect(readFileSync(mine, 'utf8')).toBe('my notes\n');
    expect(await refused('-i', input(), '-o', '-', '--resume')).toMatch(/^ERR_USAGE: --resume/);
    expect(await refused('-o', at('x.jsonl'))).toMatch(/^ERR_USAGE: .*-i/);
    expect(await refused('-i', input())).toMatch(/^ERR_USAGE: .*-o/);
  });

  it('invalid shards; the tasks of a Job and an array are shards', async () => {
    for (const shard of ['3/3', '-1/3', '1', 'x/y', '0/0', '1.5/3', '/3', '1/', '1e1/20'])
      expect(await refused('-i', input(), '-o', at('x.jsonl'), `--shard=${shard}`), shard).toMatch(/^ERR_USAGE: --shard is/);
    const lots = put('lots.jsonl', good);
    const ids = async (...more: Args): Promise<string[]> => [...answers((await run(lots, ...more)).out).keys()];
    const third = [2, 5, 8, 11].map((i) => (JSON.parse(good[i]) as { custom_id: string }).custom_id).sort();
    vi.stubEnv('JOB_COMPLETION_INDEX', '2');
    expect((await ids('--shard', '/3')).sort()).toEqual(third);
    expect(await refused('-i', input(), '-o', at('x.jsonl'))).toMatch(/^ERR_USAGE: JOB_COMPLETION_INDEX/);
    vi.unstubAllEnvs();
    for (const [name, value] of Object.entries({ ID: '14', MIN: '10', STEP: '2', COUNT: '3' }))
      vi.stubEnv(`SLURM_ARRAY_TASK_${name}`, value);
    expect((await ids()).sort()).toEqual(third);
    expect(await ids('--shard', '0/1')).toHaveLength(12);
  });

  it('a device is an output as well', async () => {
    const { code } = await invoke(batch, [...BASE, '-i', input(), '-o', '/dev/null', '--resume']);
    expect(code).toBe(0);
  });
});
