// Asks native llama.cpp (native.c, built as README.md says) about every model and writes
// golden.json and golden.f32. With names it asks about these models only and keeps the other
// answers.
//   node golden.mjs PATH_OF_NATIVE FOLDER_OF_LIBGGML_CPU_FILES [NAME...]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { write } from './gguf.mjs';
import { adapters, made, models } from './models.mjs';

const native = resolve(process.argv[2]);
const text = 'the cat sat at a hat, the mats';
const poolings = { mean: 1, cls: 2, last: 3, rank: 4 };
/** Positions whose logits are kept: around the window of 8, and both ends. */
const rows = [0, 1, 6, 7, 8, 9, 15, 23];
/** The same for models that tests make (`families`). A shorter prompt uses its last position. */
const madeRows = [1, 8, 23];
/**
 * Ids spread unevenly over the vocabulary, starting at `first`, so that specials appear only where
 * a tokenizer would put them.
 */
const some = (n, first, size) => Array.from({ length: n }, (_, i) => first + ((i ** 3 * 7 + i * 31 + 5) % (size - first)));

/** Runs of each model: [pooling or 'logits', n_ctx]. */
const asked = {
  'phi3-longrope': [
    ['logits', 256],
    ['logits', 512],
  ],
  'qwen3-rank': [
    ['rank', 256],
    ['last', 256],
  ],
  bert: [
    ['cls', 256],
    ['mean', 256],
    ['last', 256],
  ],
  'xlm-roberta-rank': [
    ['rank', 256],
    ['cls', 256],
  ],
  'nomic-bert': [['mean', 256]],
  'nomic-bert-moe': [['mean', 256]],
  'nomic-bert-moe-q8_0': [['mean', 256]],
  'jina-bert-v2': [['mean', 256]],
  'jina-bert-v2-code': [['mean', 256]],
  'jina-bert-v3': [['mean', 256]],
  'gemma-embedding': [['mean', 256]],
  'modern-bert': [['mean', 256]],
  'neo-bert': [['mean', 256]],
  eurobert: [['last', 256]],
  t5encoder: [['mean', 256]],
  't5encoder-relu': [['mean', 256]],
};

/**
 * A folder for each CPU backend, holding only that one, because each adds in a different order. The
 * first gives the golden numbers.
 */
const backends = ['haswell', 'sandybridge', 'x64'].map((cpu) => {
  const folder = mkdtempSync(join(tmpdir(), 'backend-'));
  const file = `libggml-cpu-${cpu}.so`;
  symlinkSync(resolve(process.argv[3], file), join(folder, file));
  return folder;
});
const file = (name) => fileURLToPath(new URL(name, import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'made-'));
/** Path of a model's file. Models that tests make (names without an ending) are written first. */
const modelFile = (name) => {
  if (!made[name]) return file(name);
  const path = join(folder, name);
  writeFileSync(path, write(made[name]()));
  return path;
};
const ask = ({ model, lora }, n_ctx, want, ids, cache, backend = backends[0]) =>
  JSON.parse(
    execFileSync(
      native,
      [
        modelFile(model),
        n_ctx,
        want === 'logits' ? want : poolings[want],
        ids.join(),
        text,
        cache,
        ...(lora ? [file(lora.file), lora.scale] : []),
      ],
      {
        env: { ...process.env, BACKENDS: backend },
        maxBuffer: 1 << 28,
        stdio: ['ignore', 'pipe', process.env.SHOW_LOG ? 'inherit' : 'ignore'],
      },
    ),
  );
const apart = (a, b) => a.flat().reduce((worst, x, i) => Math.max(worst, Math.abs(x - b[i])), 0);

const cases = [];
const values = [];
let length = 0;
const keep = (list) => {
  const at = length;
  values.push(Float32Array.from(list));
  length += list.length;
  return at;
};
/** Every model alone, then every model with an adapter. */
const runs = [
  ...Object.keys(models).map((name) => ({ name, make: models[name], files: { model: `${name}.gguf` } })),
  ...Object.entries(adapters).map(([lora, { model, scale }]) => ({
    name: model,
    make: models[model],
    files: { model: `${model}.gguf`, lora: { file: `${lora}.gguf`, scale } },
  })),
  ...Object.keys(made).map((name) => ({ name, make: made[name], files: { model: name } })),
];
const named = process.argv.slice(4);
const known = named.length > 0 ? JSON.parse(readFileSync(new URL('golden.json', import.meta.url), 'utf8')).cases : [];
const knownValues = new Float32Array(new Uint8Array(readFileSync(new URL('golden.f32', import.meta.url))).buffer);
for (const { name, make, files } of runs) {
  const kept = named.includes(name) ? [] : known.filter((c) => c.model === files.model && c.lora?.file === files.lora?.file);
  for (const c of kept) cases.push({ ...c, offset: keep(knownValues.slice(c.offset, c.offset + (c.count ?? c.rows.length * c.n_vocab))) });
  if (kept.length > 0) continue;
  const { kv } = make();
  const size = kv['tokenizer.ggml.tokens'][1].length;
  const kind = kv['tokenizer.ggml.model'][1];
  const ids = kind === 'llama' ? [1, ...some(23, 3, size)] : kind === 'bert' ? [2, ...some(19, 5, size), 3] : [0, ...some(19, 4, size), 2];
  const wants = asked[name.replace('-q4_0', '')] ?? [['logits', 256]];
  for (const [want, n_ctx] of files.lora ? wants.slice(0, 1) : wants) {
    const answer = ask(files, n_ctx, want, ids, 'f32');
    const common = { ...files, n_ctx, text, text_ids: answer.text_ids, ids };
    if (want !== 'logits') {
      // normalised to length 1, as embeddings are returned; a rank is kept as it is
      const length = want === 'rank' ? 1 : Math.hypot(...answer.embedding);
      cases.push({ ...common, pooling: want, count: answer.embedding.length, offset: keep(answer.embedding.map((x) => x / length)) });
      continue;
    }
    const flat = answer.batch.flat();
    const largest = flat.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
    const noise = Math.max(
      apart(answer.single, flat),
      ...backends.slice(1).map((b) => apart(ask(files, n_ctx, want, ids, 'f32', b).batch, flat)),
    );
    const noiseF16 = apart(ask(files, n_ctx, want, ids, 'f16/f16').batch, flat);
    const kept = (make === made[name] ? madeRows : rows).map((r) => Math.min(r, answer.batch.length - 1));
    cases.push({
      ...common,
      rows: kept,
      n_vocab: size,
      offset: keep(kept.flatMap((r) => answer.batch[r])),
      largest,
      noise: +noise.toPrecision(3),
      noiseF16: +noiseF16.toPrecision(3),
      greedy: answer.greedy,
      margins: answer.margins.map((m) => +m.toPrecision(4)),
    });
    console.log(
      `${name} ${files.lora?.file ?? ''} n_ctx ${n_ctx}: largest ${largest.toFixed(2)}, noise ${noise.toExponential(1)}, with an F16 cache ${noiseF16.toExponential(1)}, smallest margin ${Math.min(...answer.margins).toFixed(4)}, ${new Set(answer.greedy).size} different ids, ends ${answer.greedy.some((id) => id < 3)}`,
    );
  }
}
const flat = new Float32Array(length);
values.reduce((at, list) => (flat.set(list, at), at + list.length), 0);
writeFileSync(new URL('golden.f32', import.meta.url), new Uint8Array(flat.buffer));
const note =
  'native llama.cpp v0.5.0, one thread, F32 KV cache, flash attention off, no repacking; AVX2; logits from one batch; noise: the largest difference to token by token and to the builds for AVX and SSE2; noiseF16: to an F16 cache with flash attention';
writeFileSync(
  new URL('golden.json', import.meta.url),
  `{\n "engine": ${JSON.stringify(note)},\n "cases": [\n${cases.map((c) => '  ' + JSON.stringify(c)).join(',\n')}\n ]\n}\n`,
);
