/**
 * Writes vectors.json: native llama.cpp's ids for the texts of vectors.ts by every vocabulary
 * there; and pre-tokenizers.json: a hash of the ids of one long text for every pre-tokenizer. For
 * developers; tests only read the files. Packages to install: see test/quantize/make-mixes.ts.
 *
 *   npx tsx test/tokenize/make-vectors.ts FOLDER
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { writeGGUF, type WriteValue } from '../../src/gguf/write.ts';
import type { TokenizerMetadata } from '../../src/tokenize/vocab.ts';
import { hashOf, MIXED_TEXT, PRE_TOKENIZERS, preTokenizerVocabulary, TEXTS, VOCABULARIES } from './vectors.ts';

const folder = resolve(process.argv[2]);
const require = createRequire(join(folder, 'package.json'));
const koffi = require('koffi');
const bins = join(folder, 'node_modules/@node-llama-cpp/linux-x64/bins/linux-x64');
for (const name of ['libggml-base.so', 'libggml.v0.5.0.so']) koffi.load(join(bins, name), { global: true });
const llama = koffi.load(join(bins, 'libllama.v0.5.0.so'));
// Fields in the order of llama.h of v0.5.0.
koffi.struct('model_params', {
  devices: 'void *',
  tensor_buft_overrides: 'void *',
  n_gpu_layers: 'int',
  split_mode: 'int',
  load_mode: 'int',
  lazy_mode: 'int',
  main_gpu: 'int',
  tensor_split: 'void *',
  progress_callback: 'void *',
  progress_callback_user_data: 'void *',
  kv_overrides: 'void *',
  vocab_only: 'bool',
  check_tensors: 'bool',
  use_extra_bufts: 'bool',
  no_host: 'bool',
  no_alloc: 'bool',
  load_mtp: 'bool',
});
const defaults = llama.func('model_params llama_model_default_params()');
const load = llama.func('void *llama_model_load_from_file(const char *, model_params)');
const vocabOf = llama.func('void *llama_model_get_vocab(void *)');
const tokenize = llama.func('int llama_tokenize(void *, const void *, int, _Out_ int *, int, bool, bool)');

/** A value of tiny.ts's metadata, typed as in a file. */
function typed(key: string, value: unknown): WriteValue {
  if (typeof value === 'string') return { type: 'str', value };
  if (typeof value === 'boolean') return { type: 'bool', value };
  if (typeof value === 'number') return { type: 'u32', value };
  if (value instanceof Int32Array) return { type: 'arr[i32]', value };
  if (value instanceof Float32Array) return { type: 'arr[f32]', value };
  if (value instanceof Uint8Array) return { type: 'arr[u8]', value };
  if (Array.isArray(value)) return { type: 'arr[str]', value: value as string[] };
  throw new TypeError(`${key} is of no type that a vocabulary has`);
}
const fileOf = (metadata: TokenizerMetadata): Uint8Array => {
  const vocabulary = [...metadata].filter(([key]) => key.startsWith('tokenizer.')).map(([key, value]) => [key, typed(key, value)] as const);
  return writeGGUF(new Map<string, WriteValue>([['general.architecture', { type: 'str', value: 'llama' }], ...vocabulary]), []);
};

const temporary = mkdtempSync(join(tmpdir(), 'vocabularies-'));
const path = join(temporary, 'vocabulary.gguf');
/** Native's ids for texts with a vocabulary. */
function idsOf(metadata: TokenizerMetadata, name: string, texts: readonly string[]): Int32Array[] {
  writeFileSync(path, fileOf(metadata));
  const model = load(path, { ...defaults(), vocab_only: true });
  if (!model) throw new Error(`native cannot load ${name}`);
  return texts.map((text) => {
    const bytes = Buffer.from(text);
    const ids = new Int32Array(bytes.length + 16);
    const n = tokenize(vocabOf(model), bytes, bytes.length, ids, ids.length, false, false);
    if (n < 0) throw new Error(`native needs ${-n} ids for ${JSON.stringify(text)}`);
    return ids.subarray(0, n);
  });
}
const golden = VOCABULARIES.map(({ name, metadata }) => {
  const rows = idsOf(metadata, name, TEXTS).map((ids) => JSON.stringify([...ids]));
  return `${JSON.stringify(name)}: [\n${rows.join(',\n')}]`;
});
const hashes = PRE_TOKENIZERS.map((pre) => [pre, hashOf(idsOf(preTokenizerVocabulary(pre), pre, [MIXED_TEXT])[0])] as const);
rmSync(temporary, { recursive: true });
writeFileSync(new URL('vectors.json', import.meta.url), `{\n${golden.join(',\n')}\n}\n`);
writeFileSync(new URL('pre-tokenizers.json', import.meta.url), `${JSON.stringify(Object.fromEntries(hashes), null, 1)}\n`);
