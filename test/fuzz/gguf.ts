/**
 * GGUF files with damaged or malicious structure. Each is read and listed, and if it is still a
 * model, loaded and run. Only coded errors are allowed: no crash, hang, trap, other error, or more
 * memory than the file's size + 200 MB.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { inspect, inspectToJson } from '../../src/cli/inspect.ts';
import type * as Entry from '../../src/entry/node.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import type { GGUF, GGUFType, GGUFValue } from '../../src/gguf/types.ts';
import { writeGGUF, type WriteTensor, type WriteValue } from '../../src/gguf/write.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE } from '../../src/type-traits.ts';
import { isThreaded } from '../../src/wasm/load.ts';
import { entryUrl, root } from '../support.ts';
import { seeded } from '../web/server.ts';
import type { CampaignOptions, CampaignResult } from './campaign.ts';
import { below, mutate, pick, type Random } from './mutate.ts';
import { runWatched, serveWatched } from './watched.ts';

export function campaign(options: CampaignOptions): Promise<CampaignResult> {
  return runWatched(import.meta.url, options);
}

/**
 * Fraction of the still valid models that are loaded. Loads with threads are rarer, because
 * starting workers takes as long as many cases.
 */
const LOADED = 0.3;
const LOADED_WITH_THREADS = 0.02;

/** Throws unless the error is a QuantletError with a code and a printable message. */
function coded(error: unknown): void {
  const { name, code, message } = error as { name?: unknown; code?: unknown; message?: unknown };
  if (name !== 'QuantletError' || !/^ERR_[A-Z_]+$/.test(String(code))) throw error;
  if (/[^\P{Cc}]/u.test(String(message))) throw new Error(`control characters in the message ${JSON.stringify(message)}`);
}

const NUMBERS = [0, 1, 2, 3, 4, 7, 8, 16, 31, 32, 33, 64, 255, 256, 1000, 4096, 65535, 2 ** 20, 2 ** 31 - 1, 2 ** 32 - 1, 0.5];
const TEXTS = [
  '',
  'x',
  'llama',
  'bert',
  'gemma2',
  'qwen3',
  'gpt2',
  't5',
  'yarn',
  'constructor',
  '__proto__',
  '\u001b[2J',
  '\ufffd',
  'a'.repeat(300),
  '{{ messages }}',
  '{% for m in messages %}{{ m.content }}{% endfor %}',
];
const ARRAYS: readonly (readonly [GGUFType, GGUFValue])[] = [
  ['arr[str]', []],
  ['arr[str]', ['', '']],
  ['arr[i32]', Int32Array.of(-1, 2 ** 31 - 1)],
  ['arr[u32]', new Uint32Array(300).fill(2 ** 32 - 1)],
  ['arr[f32]', Float32Array.of(NaN, Infinity, -0)],
  ['arr[bool]', Uint8Array.of(1, 0)],
  ['arr[u64]', BigUint64Array.of(2n ** 63n)],
  ['arr[arr[str]]', [['a'], []]],
];

/** Writes the file with other values, types, shapes, names or tensors, in a valid layout. */
function restructured(next: Random, file: Uint8Array, gguf: GGUF): Uint8Array {
  const metadata = new Map<string, WriteValue>(
    Array.from(gguf.metadataRanges, ([key, [start, end]]) => [key, { raw: file.subarray(start, end) }]),
  );
  let tensors: (WriteTensor & { data: Uint8Array })[] = Array.from(gguf.tensors.values(), (t) => ({
    name: t.name,
    type: t.type,
    ne: t.ne.slice(0, t.nDims),
    data: file.subarray(t.offset, t.offset + t.byteLength),
  }));
  for (let n = 1 + below(next, 3); n > 0; n--) {
    const key = pick(next, [...gguf.metadata.keys()]);
    const kind = below(next, 10);
    if (kind < 2)
      metadata.set(key, { type: pick(next, ['u32', 'i32', 'f32', 'u16', 'i64'] as const), value: Math.floor(pick(next, NUMBERS)) % 65536 });
    else if (kind === 2) metadata.set(key, { type: 'str', value: pick(next, TEXTS) });
    else if (kind === 3) metadata.delete(key);
    else if (kind === 4) {
      const [type, value] = pick(next, ARRAYS);
      metadata.set(key, { type, value });
    } else if (kind === 5) metadata.set(key, { type: 'u32', value: Math.floor(pick(next, NUMBERS)) });
    else if (kind === 6) tensors = tensors.filter(() => next() < 0.9);
    else {
      const i = below(next, tensors.length);
      const t = tensors[i];
      if (!t) continue;
      const type = kind === 7 ? pick(next, Object.values(TYPE)) : t.type;
      const ne = kind === 8 ? t.ne.map((d) => (next() < 0.5 ? d : pick(next, [1, 2, 31, 32, 64, 256, d * 2]))) : t.ne;
      const rows = ne.slice(1).reduce((a, b) => a * b, 1);
      const ok = ne[0] % type.blckSize === 0 && ne[0] * rows < 1 << 20;
      if (!ok) continue;
      const data = new Uint8Array((ne[0] / type.blckSize) * type.typeSize * rows);
      for (let at = 0; at < data.length; at++) data[at] = t.data[at % t.data.length] ?? 0;
      tensors[i] = { name: kind === 9 ? pick(next, [...TEXTS.slice(1), tensors[0].name]) : t.name, type, ne, data };
    }
  }
  return writeGGUF(metadata, tensors);
}

await serveWatched(async ({ build, threads }) => {
  const { loadModel } = (await import(entryUrl)) as typeof Entry;
  const folder = new URL('test/golden/arch/', root);
  const files: { bytes: Uint8Array; gguf: GGUF }[] = [];
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.gguf'))) {
    const bytes = Uint8Array.from(readFileSync(new URL(name, folder)));
    files.push({ bytes, gguf: await readGGUF(toBytes(bytes)) });
  }
  return async (seed) => {
    const next = seeded(seed);
    const file = pick(next, files);
    const kind = below(next, 10);
    // Mostly damages the header: any bytes are valid weights.
    let bytes = kind < 3 ? restructured(next, file.bytes, file.gguf) : file.bytes;
    if (kind > 1) bytes = mutate(next, bytes, next() < 0.9 ? file.gguf.dataOffset : bytes.length);
    try {
      const gguf = await readGGUF(toBytes(bytes));
      inspect(gguf);
      JSON.stringify(inspectToJson(gguf));
    } catch (error) {
      coded(error);
      return bytes.length;
    }
    if (next() > (isThreaded(build) ? LOADED_WITH_THREADS : LOADED)) return bytes.length;
    const model = await loadModel(bytes, {
      build,
      threads: isThreaded(build) ? 1 + below(next, threads) : 1,
      warmUp: false,
      ...(next() < 0.5 ? { contextLength: 64 } : {}),
    }).catch(coded);
    if (!model) return bytes.length;
    try {
      if (model.internals.engine.wants === 'logits')
        await model.generate('the cat', { temperature: 0, maxTokens: 3 }).result().catch(coded);
      else await model.embed(['the cat']).catch(coded);
    } finally {
      await model.dispose();
    }
    return bytes.length;
  };
});
