/** Headers made to exhaust memory: reading or refusing one takes less than its size + 200 MB. */
import { expect, it } from 'vitest';
import { root, runNode } from '../support.ts';
import { assemble, str, u32, u64 } from './files.ts';

const MB = 1e6;
const ALLOWED = 200 * MB;
const NEARLY_ALL = 31 << 20;
const [BOOL, STR, ARR] = [7, 8, 9];
const array = (key: string, type: number, n: number): number[] => [...str(key), ...u32(ARR), ...u32(type), ...u64(n)];
const letters = (n: number): number[] => str('abcdefghijklmnopqrstuvwxyz'.slice(0, n));
const many = (item: number[]): number => Math.floor(NEARLY_ALL / item.length);

/** Headers: a start, and an item that is repeated `times` times after it. */
const HEADERS: readonly (readonly [name: string, start: Uint8Array, item: number[], times: number])[] = [
  ['bools', assemble({ metadata: [array('a', BOOL, NEARLY_ALL)] }), [1], NEARLY_ALL],
  [
    'empty arrays in an array',
    assemble({ metadata: [array('a', ARR, many([...u32(BOOL), ...u64(0)]))] }),
    [...u32(BOOL), ...u64(0)],
    many([...u32(BOOL), ...u64(0)]),
  ],
  ...[2, 12, 24].map(
    (n) => [`strings of ${n} letters`, assemble({ metadata: [array('a', STR, many(letters(n)))] }), letters(n), many(letters(n))] as const,
  ),
  ['one long string', assemble({ metadata: [[...str('a'), ...u32(STR), ...u64(NEARLY_ALL)]] }), [0xc3, 0xa4], NEARLY_ALL / 2],
  ['tensors by the million', assemble({ nTensors: 2_000_000 }), [...letters(8), ...u32(1), ...u64(1), ...u32(0), ...u64(0)], 2_000_000],
];

/** Five such keys, each with fewer bytes than a value may have. */
const fiveKeys = (() => {
  const key = array('a', STR, 1 << 20);
  return { start: assemble({ nMetadata: 5, metadata: [] }), item: letters(24), key, times: 1 << 20 };
})();

const script = `
import { readGGUF } from ${JSON.stringify(new URL('src/gguf/read.ts', root).href)};
import { toBytes } from ${JSON.stringify(new URL('src/io/source.ts', root).href)};
let input = '';
for await (const chunk of process.stdin) input += chunk;
const { pieces } = JSON.parse(input);
// A file that is nowhere in memory: only what reading it takes is measured.
const sizes = pieces.map(({ bytes, times }) => bytes.length * times), byteLength = sizes.reduce((a, b) => a + b, 0);
const slice = (start, end) => {
  const out = new Uint8Array(end - start);
  for (let at = start, piece = 0, base = 0; at < end; base += sizes[piece++]) {
    const { bytes } = pieces[piece], stop = Math.min(end, base + sizes[piece]);
    const from = at - start, to = stop - start;
    for (; at < stop && at - start - from < bytes.length; at++) out[at - start] = bytes[(at - base) % bytes.length];
    for (; at < stop; at = Math.min(stop, at + (at - start - from))) out.copyWithin(at - start, from, from + Math.min(at - start - from, to - (at - start)));
  }
  return out;
};
await readGGUF(toBytes({ byteLength: 1024, slice: () => new Uint8Array(1024) })).catch(() => {});
const before = process.resourceUsage().maxRSS;
const end = await readGGUF(toBytes({ byteLength, slice })).then((gguf) => 'read ' + gguf.metadata.size, (error) => error.code ?? String(error));
console.log(JSON.stringify({ end, byteLength, took: (process.resourceUsage().maxRSS - before) * 1024 }));
`;

it.each([
  ...HEADERS.map(
    ([name, start, item, times]) =>
      [
        name,
        [
          { bytes: [...start], times: 1 },
          { bytes: item, times },
        ],
      ] as const,
  ),
  [
    'five long arrays',
    [
      { bytes: [...fiveKeys.start], times: 1 },
      ...[1, 2, 3, 4, 5].flatMap((n) => [
        { bytes: array(`a${n}`, STR, fiveKeys.times), times: 1 },
        { bytes: fiveKeys.item, times: fiveKeys.times },
      ]),
    ],
  ] as const,
])('%s', async (_, pieces) => {
  const { code, stdout, stderr } = await runNode(['--import', 'tsx', '--input-type=module', '-e', script], {
    input: JSON.stringify({ pieces }),
  });
  expect(code, stderr).toBe(0);
  const { end, byteLength, took } = JSON.parse(stdout) as { end: string; byteLength: number; took: number };
  expect(end).toMatch(/^(read 1|ERR_GGUF_INVALID)$/);
  expect(took, `bytes of memory for a header of ${byteLength} (${end})`).toBeLessThan(byteLength + ALLOWED);
});
