/**
 * Damaged and malicious state files. Some get a correct checksum again, so that the code after that
 * check is reached. Each is loaded or refused with a coded error, and the model still gives its
 * usual output afterwards.
 */
import { readFileSync } from 'node:fs';
import type * as Entry from '../../src/entry/node.ts';
import { createFingerprint } from '../../src/fingerprint.ts';
import type { Model } from '../../src/model.ts';
import { isThreaded } from '../../src/wasm/load.ts';
import { entryUrl, llamaModel, randomIds } from '../support.ts';
import { seeded } from '../web/server.ts';
import type { CampaignOptions, CampaignResult } from './campaign.ts';
import { below, mutate, pick, type Random } from './mutate.ts';
import { runWatched, serveWatched } from './watched.ts';

export function campaign(options: CampaignOptions): Promise<CampaignResult> {
  return runWatched(import.meta.url, options);
}

/** Bytes of magic, version and header length (src/generate/saved-sequence.ts). */
const PREFIX = 16;
const VALUES: readonly unknown[] = [
  null,
  0,
  -1,
  1.5,
  1e308,
  2 ** 31,
  2 ** 53,
  '',
  'x',
  'f16',
  'q4_0',
  [],
  {},
  true,
  '__proto__',
  '\u001b[2J',
  'a'.repeat(5000),
];

/** Replaces the header, and maybe corrects the body's checksum. */
function reheaded(next: Random, state: Uint8Array): Uint8Array {
  const length = new DataView(state.buffer, state.byteOffset).getUint32(12, true);
  const header = JSON.parse(new TextDecoder().decode(state.subarray(PREFIX, PREFIX + length))) as Record<string, unknown>;
  let body = state.subarray(PREFIX + length);
  if (next() < 0.5) body = mutate(next, body, next() < 0.5 ? 64 : body.length);
  for (let n = below(next, 3); n > 0; n--) {
    const key = pick(next, Object.keys(header));
    if (next() < 0.2) delete header[key];
    else header[key] = key === 'tokens' && next() < 0.5 ? below(next, 40) : pick(next, VALUES);
  }
  if (next() < 0.8) header.sum = createFingerprint().add(body).hex();
  const text = new TextEncoder().encode(
    next() < 0.05 ? pick(next, ['null', '[]', '7', '{', '"x"', '{"__proto__":{"tokens":3}}']) : JSON.stringify(header),
  );
  const bytes = new Uint8Array(PREFIX + text.length + body.length);
  bytes.set(state.subarray(0, PREFIX));
  new DataView(bytes.buffer).setUint32(12, text.length, true);
  bytes.set(text, PREFIX);
  bytes.set(body, PREFIX + text.length);
  return bytes;
}

await serveWatched(async ({ build, threads }) => {
  const { loadModel } = (await import(entryUrl)) as typeof Entry;
  const prompt = randomIds(12, 272, 5);
  const greedy = { temperature: 0, maxTokens: 4, ignoreEos: true } as const;
  const saved: Uint8Array[] = [];
  const models: { model: Model; want: string }[] = [];
  const ids = async (model: Model): Promise<string> => {
    model.internals.slots.all[0].truncate(0);
    return (await model.generate(prompt, greedy).result()).ids.join(' ');
  };
  for (const type of ['f16', 'q4_0', 'f32'] as const) {
    const model = await loadModel(new Uint8Array(readFileSync(llamaModel)), {
      build,
      threads: isThreaded(build) ? threads : 1,
      warmUp: false,
      contextLength: 64,
      cacheTypeK: type,
      cacheTypeV: type,
    });
    models.push({ model, want: await ids(model) });
    saved.push(await model.saveState(), await model.saveState({ prompt: prompt.slice(0, 5) }));
  }
  return async (seed) => {
    const next = seeded(seed);
    const { model, want } = pick(next, models);
    const state = pick(next, saved);
    const bytes = next() < 0.4 ? mutate(next, state, next() < 0.7 ? 600 : state.length) : reheaded(next, state);
    try {
      const loaded = await model.loadState(bytes);
      if (loaded.some((id) => !Number.isInteger(id) || id < 0 || id >= model.internals.tokenizer.nVocab))
        throw new Error(`tokens outside the vocabulary: ${loaded.join(' ')}`);
      // Keys and values may be any numbers now. Generating gives text or a coded error.
      await model
        .generate([...loaded.slice(0, 40), 7], greedy)
        .result()
        .catch((error: { name?: string }) => {
          if (error.name !== 'QuantletError') throw error;
        });
    } catch (error) {
      const { name, code, message } = error as { name?: string; code?: string; message?: string };
      if (name !== 'QuantletError' || (code !== 'ERR_STATE' && code !== 'ERR_CONTEXT_FULL')) throw error;
      if (/[^\P{Cc}]/u.test(String(message))) throw new Error(`control characters in the message ${JSON.stringify(message)}`);
    }
    if (seed % 8 === 0 || next() < 0.1) {
      const got = await ids(model);
      if (got !== want) throw new Error(`the model gave ${got} afterwards, expected ${want}`);
    }
    return bytes.length;
  };
});
