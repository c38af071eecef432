/**
 * Effect of rotation on the perplexity of a text with 4-bit weights, activations and caches: for a
 * model as it is and with outliers, each with and without rotation.
 *
 * Usage:
 *
 *   node --import tsx bench/rotation.ts MODEL-F32.gguf TEXT [--learn CALIBRATION]
 *     [--seeds 0,1,2] [--only 'with outliers, QuaRot'] [--out FILE.md]
 *
 * MODEL is an f32 llama model with adjacent rope pairs. CALIBRATION is another text, from which
 * rotations are also learned (SpinQuant). Random signs differ by as much as the effect. So every
 * rotation is made from each seed, and the table has means and standard deviations. --only makes
 * the rows whose name begins so.
 *
 * Outliers do not change the result of the model: one or two of every `EVERY` channels are made
 * `FACTOR` times as large, and the weights that make or read these channels are scaled back. As in
 * trained models, they share a block with ordinary numbers, where they do harm:
 *
 * Columns of the matrices after attn_norm and ffn_norm are balanced by the norm's weights. Other
 * weights of the norms are large too, so that activations have outliers; the matrices' columns
 * balance them.
 *
 * Columns of attn_output and of ffn_down are balanced by rows of attn_v and of ffn_up. For keys,
 * rows of attn_k, in pairs that rope rotates together, are balanced by rows of attn_q.
 *
 * (Whole large rows do no harm, because each block of a row has its own scale.)
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { getCount, getString } from '../src/gguf/metadata.ts';
import { readGGUF } from '../src/gguf/read.ts';
import { writeGGUF, type WriteValue } from '../src/gguf/write.ts';
import { toBytes } from '../src/io/source.ts';

const {
  positionals: [source, text, ...more],
  values: { learn, seeds, only, out },
} = parseArgs({
  allowPositionals: true,
  options: { learn: { type: 'string' }, seeds: { type: 'string', default: '0' }, only: { type: 'string' }, out: { type: 'string' } },
});
if (text === undefined || more.length > 0)
  throw new Error('expected: bench/rotation.ts MODEL-F32.gguf TEXT [--learn CALIBRATION] [--out FILE.md]');
const EVERY = 37;
const FACTOR = 24;
const TWO = ['--r1', '--r2'];
const FOUR = [...TWO, '--r3', '--r4'];
const ROTATED: readonly (readonly [name: string, flags: readonly string[]])[] = [
  ['none', []],
  ['QuaRot, R1 and R2', TWO],
  ['QuaRot, R1 to R4', FOUR],
  ...(learn === undefined ? [] : ([['SpinQuant, R1 to R4', [...FOUR, '--learn', learn]]] as const)),
];

const folder = mkdtempSync(join(tmpdir(), 'rotation-'));
const cli = (...args: string[]): string =>
  execFileSync(process.execPath, [fileURLToPath(new URL('../dist/cli.js', import.meta.url)), ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });

/** Bytes of the model with outliers. */
async function withOutliers(path: string): Promise<Uint8Array> {
  const file = readFileSync(path);
  const gguf = await readGGUF(toBytes(file));
  const count = (key: string): number => getCount(gguf, `llama.${key}`);
  if (getString(gguf, 'general.architecture') !== 'llama') throw new Error('expected a llama model');
  const [nHead, nHeadKv] = [count('attention.head_count'), count('attention.head_count_kv')];
  const headDim = count('embedding_length') / nHead;
  const data = new Map(
    [...gguf.tensors.values()].map(({ name, offset, byteLength }) => [
      name,
      new Float32Array(Uint8Array.prototype.slice.call(file, offset, offset + byteLength).buffer),
    ]),
  );
  const ne0 = (name: string): number => gguf.tensors.get(name)!.ne[0];
  const rows = (name: string, factor: (row: number) => number): void => {
    const n = ne0(name);
    data.set(
      name,
      data.get(name)!.map((x, i) => x * factor(Math.floor(i / n))),
    );
  };
  const columns = (name: string, factor: (column: number) => number): void => {
    const n = ne0(name);
    data.set(
      name,
      data.get(name)!.map((x, i) => x * factor(i % n)),
    );
  };
  const large = (i: number): number => (i % EVERY === 5 ? FACTOR : 1);
  /**
   * Factors of a norm's weights. 1 / FACTOR balances the columns that `large` makes larger. FACTOR,
   * on other channels, makes outliers of activations.
   */
  const normed = (i: number): number => (i % EVERY === 23 ? FACTOR : 1 / large(i));
  /**
   * Factors of a KV head's dimensions, equal within a pair that rope rotates. All query heads that
   * use the KV head have the same pair, so that attn_q can be balanced.
   */
  const pair = (i: number): number => ((i % headDim) >> 1 === 3 ? FACTOR : 1);
  const value = (i: number): number => (i % headDim === 9 ? FACTOR : 1);
  if (nHead % nHeadKv !== 0) throw new Error('expected query heads that share KV heads');
  for (let il = 0; il < count('block_count'); il++) {
    const name = (part: string): string => `blk.${il}.${part}.weight`;
    for (const [norm, readers] of [
      ['attn_norm', ['attn_q', 'attn_k', 'attn_v']],
      ['ffn_norm', ['ffn_gate', 'ffn_up']],
    ] as const) {
      columns(name(norm), normed);
      for (const reader of readers) columns(name(reader), (i) => 1 / normed(i));
    }
    rows(name('attn_k'), pair);
    rows(name('attn_q'), (i) => 1 / pair(i));
    columns(name('attn_output'), value);
    rows(name('attn_v'), (i) => 1 / value(i));
    columns(name('ffn_down'), large);
    rows(name('ffn_up'), (i) => 1 / large(i));
  }
  const metadata = new Map<string, WriteValue>(
    [...gguf.metadata].map(([key, v]) => [key, { type: gguf.metadataTypes.get(key)!, value: v }]),
  );
  return writeGGUF(
    metadata,
    [...gguf.tensors.values()].map(({ name, type, ne, nDims }) => ({
      name,
      type,
      ne: ne.slice(0, nDims),
      data: new Uint8Array(data.get(name)!.buffer),
    })),
  );
}

const base = join(folder, 'base');
const measure = ['-f', text, '-c', '256', '-ctk', 'f32', '-ctv', 'f32', '--kl-divergence-base', base, '--json'];
/** Loss in nats per token: of the text's likelihood, and as the divergence of predictions. */
function lost(model: string, ...more: string[]): readonly [nll: number, kld: number] {
  const said = JSON.parse(
    cli('perplexity', '-m', model, ...measure, '--kl-divergence', ...more)
      .trim()
      .split('\n')
      .at(-1)!,
  ) as {
    kl: { ln_ppl_ratio: { mean: number }; kld: { mean: number } };
  };
  return [said.kl.ln_ppl_ratio.mean, said.kl.kld.mean];
}

const mean = (x: readonly number[]): number => x.reduce((a, b) => a + b, 0) / x.length;
const cell = (x: readonly number[]): string => {
  const spread = Math.sqrt(x.reduce((sum, v) => sum + (v - mean(x)) ** 2, 0) / Math.max(1, x.length - 1));
  return `${mean(x) < 0 ? '-' : ''}${Math.abs(mean(x)).toFixed(4)}${x.length > 1 ? ` ± ${spread.toFixed(4)}` : ''}`;
};

try {
  const outliers = join(folder, 'outliers-F32.gguf');
  writeFileSync(outliers, await withOutliers(source));
  cli('perplexity', '-m', source, ...measure);
  const lines: string[] = [];
  for (const [what, model] of [
    ['as it is', source],
    ['with outliers', outliers],
  ] as const) {
    for (const [rotation, flags] of ROTATED) {
      if (only !== undefined && !`${what}, ${rotation}`.startsWith(only)) continue;
      const rows: number[][] = [];
      for (const seed of flags.length === 0 ? ['0'] : seeds.split(',')) {
        const turned = flags.length === 0 ? model : join(folder, 'turned.gguf');
        if (flags.length > 0) cli('rotate', ...flags, '--seed', seed, model, turned);
        const q4_0 = join(folder, 'q4_0.gguf');
        cli('quantize', '--pure', turned, q4_0, 'Q4_0');
        const [f32, w4a8, w4a4, kv4] = [
          lost(turned),
          lost(q4_0),
          lost(q4_0, '--act-bits', '4'),
          lost(turned, '-ctk', 'q4_0', '-ctv', 'q4_0'),
        ];
        rows.push([f32[0], w4a8[0], w4a8[1], w4a4[0] - w4a8[0], w4a4[1], kv4[0], kv4[1]]);
        console.error(
          `${what}, ${rotation}, seed ${seed}: ${rows
            .at(-1)!
            .map((x) => x.toFixed(4))
            .join(' ')}`,
        );
      }
      lines.push(`| ${what} | ${rotation} | ${rows[0].map((_, i) => cell(rows.map((row) => row[i]))).join(' | ')} |`);
    }
  }
  const table = `# Rotation: what 4 bits lose, in nats a token

${basename(source)}, ${basename(text)} in windows of 256, f32 caches but where they are said to be quantised; Node ${process.versions.node}.
With outliers: of each ${EVERY} channels one or two times ${FACTOR}, and taken back ([bench/rotation.ts](../rotation.ts)).
Q4_0 is \`quantlet quantize --pure\`: W4A8 has its weights, with activations of 8 bits as always; W4A4 (\`--act-bits 4\`) has activations of 4 bits too;
KV4 has weights of f32 and a cache of q4_0. NLL: how much less likely the text is than to the model of f32, of W4A4 than to W4A8. KL: the mean divergence from
the predictions of the model of f32, which tells small losses apart. Seeds ${seeds}: mean ± standard deviation.

| model | rotation | f32 NLL | W4A8 NLL | KL | W4A4 NLL | KL | KV4 NLL | KL |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
${lines.join('\n')}

\`node --import tsx bench/rotation.ts ${basename(source)} ${basename(text)} --seeds ${seeds}${learn === undefined ? '' : ` --learn ${basename(learn)}`}\`
`;
  if (out === undefined) process.stdout.write(table);
  else writeFileSync(out, table);
} finally {
  rmSync(folder, { recursive: true });
}
