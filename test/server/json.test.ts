/** Limits for JSON from clients, and large answers written in pieces. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { imageChars } from '../../src/server/http/body-images.ts';
import { createJsonGauge, MAX_COST } from '../../src/server/http/json-body.ts';
import { JsonList, jsonList, jsonPieces } from '../../src/server/http/json-pieces.ts';
import { atOnce } from '../../src/slices.ts';

const bytesOf = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
const text = fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.constantFrom('"\\\n', '\u0001\u001f', '\ud800', '\u{1f600}é'));
const json = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    text,
    fc.integer(),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 5 }),
    fc.dictionary(text, tie('value'), { maxKeys: 5 }),
  ),
})).value;

function characters(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  return Object.entries(value).reduce((sum, [key, part]) => sum + (Array.isArray(value) ? 0 : key.length) + characters(part), 0);
}

describe('a body', () => {
  it('is refused at its first character too many, wherever it is cut', () => {
    fc.assert(
      fc.property(json, fc.nat(), (value, at) => {
        const bytes = bytesOf(value);
        const most = characters(value);
        const weigh = (limit: number): void => {
          const gauge = createJsonGauge(limit);
          gauge(bytes.subarray(0, at % (bytes.length + 1)));
          gauge(bytes.subarray(at % (bytes.length + 1)));
        };
        weigh(most);
        if (most > 0) expect(() => weigh(most - 1)).toThrow(expect.objectContaining({ status: 413, code: 'text_too_large' }));
      }),
      { seed: 7, numRuns: 2000 },
    );
  });

  it('counts images only where they are read: elsewhere they are text', () => {
    const url = `data:image/png;base64,${'A'.repeat(100)}`;
    const weigh = (value: object, bytes = bytesOf(value)): { text: number; images: number } => {
      const gauge = createJsonGauge(30);
      for (const byte of bytes) gauge(Uint8Array.of(byte));
      return gauge.characters();
    };
    expect(weigh({ a: url })).toEqual({ text: 1, images: url.length });
    expect(weigh({ a: url }, new TextEncoder().encode(JSON.stringify({ a: url }).replaceAll('/', '\\/')))).toEqual({
      text: 1,
      images: url.length,
    });
    expect(() => weigh({ a: ` ${url}` })).toThrow(expect.objectContaining({ code: 'text_too_large' }));
    for (const base64 of ['iVBORw0KGgo', '/9j/', 'UklGR']) expect(weigh([base64.padEnd(200, 'A')])).toEqual({ text: 0, images: 200 });
    const read = [
      { messages: [{ content: [{ type: 'image_url', image_url: { url } }] }] },
      { input: [{ content: [{ type: 'input_image', image_url: url }] }, { output: [{ type: 'input_image', image_url: url }] }] },
      {
        messages: [
          { content: [{ source: { data: '/9j/'.padEnd(100, 'A') } }, { type: 'tool_result', content: [{ source: { data: '/9j/' } }] }] },
        ],
      },
      { prompt: { multimodal_data: ['/9j/'] } },
      { messages: [{ content: 'a', images: ['/9j/', url] }], images: ['/9j/'] },
      { messages: [{ content: [{ type: 'input_audio', input_audio: { data: 'UklGRkJC', format: 'wav' } }] }] },
    ];
    expect(read.map(imageChars)).toEqual([url.length, 2 * url.length, 104, 4, url.length + 8, 8]);
    expect([{ messages: [{ content: url }] }, { prompt: url }, { tools: [{ url }] }].map(imageChars)).toEqual([0, 0, 0]);
  });

  it('costs as its parts do: elements, strings, lists and objects, fields', () => {
    const cost = (value: unknown): number => createJsonGauge(Infinity)(bytesOf(value));
    expect([cost([1, 2, 3]), cost(['a', 'b']), cost({ a: 1 }), cost({ a: { b: [] } }), cost(':,[{"')]).toEqual([4, 13, 12, 26, 5]);
    const conversation = Array.from({ length: 4096 }, () => ({ role: 'user', content: 'hello' }));
    expect(cost({ messages: conversation })).toBeLessThan(MAX_COST);
  });
});

describe('an answer in pieces', () => {
  it('is what JSON.stringify writes', () => {
    const large = fc.tuple(json, fc.nat(5), fc.nat(40_000)).map(([value, n, length]) => ({
      list: Array.from({ length: n * 1000 }, () => value),
      text: 'x\u{1f600}'.repeat(length),
      left: undefined,
      nested: [[value, { text: '"'.repeat(length), of: [value] }]],
      one: value,
    }));
    fc.assert(
      fc.property(large, (value) => {
        expect(JSON.parse(atOnce(jsonPieces(value)).join(''))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
      { seed: 8, numRuns: 30 },
    );
  });

  it('of lists written before, and with pauses', () => {
    const list = new JsonList();
    for (let i = 0; i < 3000; i++) expect(list.push({ i, a: 'x' })).toBe(JSON.stringify({ i, a: 'x' }).length);
    const same = Array.from({ length: 3000 }, (_, i) => ({ i, a: 'x' }));
    expect(atOnce(jsonPieces({ list, empty: new JsonList() })).join('')).toBe(JSON.stringify({ list: same, empty: [] }));
    const small = new JsonList();
    small.push(1);
    expect(atOnce(jsonPieces({ small })).join('')).toBe('{"small":[1]}');
    expect(atOnce(jsonList([3, 4, 5], (n, i) => ({ n, i }), 2)).join('')).toBe('[{"n":3,"i":0},{"n":4,"i":1},{"n":5,"i":2}]');
    let pauses = 0;
    for (const work = jsonPieces({ text: 'x'.repeat(1e6), list: same }); !work.next().done;) pauses++;
    expect(pauses).toBeGreaterThan(60);
  });
});
