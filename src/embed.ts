/** Texts to vectors, and documents to ranks. */
import type { Pooling } from './arch/hparams.ts';
import { QuantletError } from './errors.ts';
import { getString } from './gguf/metadata.ts';
import type { GGUFValue } from './gguf/types.ts';
import type { ModelState } from './model.ts';

export interface EmbedOptions {
  /** How token vectors become one; default: what the file says, else mean for encoders and last for decoders. */
  pooling?: Exclude<Pooling, 'none' | 'rank'>;
  /** Divide each vector by its length, so that a dot product is the cosine. Default true. */
  normalize?: boolean;
  signal?: AbortSignal;
}

/** @throws ERR_INVALID_ARGUMENT, ERR_CONTEXT_FULL naming the text that is too long */
export async function embed(state: ModelState, inputs: readonly (string | readonly number[])[], { pooling, normalize = true, signal }: EmbedOptions): Promise<{ vectors: Float32Array[]; tokens: number }> {
  const { hparams, wants } = state.engine;
  if (wants !== 'embeddings') {
    throw new QuantletError('ERR_INVALID_ARGUMENT', wants === 'ranks' ? 'this model is a reranker; use rank(query, documents)' : 'the model was loaded to generate text; load it with { embeddings: true } to make vectors');
  }
  const how = pooling ?? (hparams.pooling === 'none' ? (hparams.causal ? 'last' : 'mean') : (hparams.pooling as NonNullable<EmbedOptions['pooling']>));
  const ids = inputs.map((text) => (typeof text === 'string' ? state.tokenizer.encode(text) : [...text]));
  const vectors = await Promise.all(ids.map((tokens, i) => pooled(state, tokens, how, `text ${i + 1} of ${ids.length}`, signal)));
  state.engine.executor.rest();
  return { vectors: normalize ? vectors.map(unit) : vectors, tokens: ids.reduce((n, t) => n + t.length, 0) };
}

/**
 * A score for each document, higher is better.
 * @throws ERR_INVALID_ARGUMENT where the model is no reranker, ERR_CONTEXT_FULL
 */
export async function rank(state: ModelState, metadata: ReadonlyMap<string, GGUFValue>, query: string, documents: readonly string[], signal?: AbortSignal): Promise<{ scores: number[]; tokens: number }> {
  if (state.engine.wants !== 'ranks') throw new QuantletError('ERR_INVALID_ARGUMENT', 'the model is no reranker: its file has no pooling_type rank');
  const ids = documents.map((d) => rankPrompt(state, metadata, query, d));
  // Rerankers that read left to right know the whole pair at its last token, encoders at their first.
  const how = state.engine.hparams.causal ? 'last' : 'cls';
  const rows = await Promise.all(ids.map((tokens, i) => pooled(state, tokens, how, `document ${i + 1} of ${ids.length}`, signal)));
  state.engine.executor.rest();
  return { scores: rows.map((r) => r[0]), tokens: ids.reduce((n, t) => n + t.length, 0) };
}

/** The file's template for a pair where it has one (Qwen 3), else bos query eos sep document eos. */
function rankPrompt({ tokenizer }: ModelState, metadata: ReadonlyMap<string, GGUFValue>, query: string, document: string): number[] {
  const template = getString({ metadata }, 'tokenizer.chat_template.rerank', '');
  if (template) return tokenizer.encode(template.replaceAll('{query}', () => query).replaceAll('{document}', () => document), { parseSpecial: true });
  const { bos, eos, sep } = tokenizer.special, end = eos ?? sep;
  const some = (id: number | undefined): number[] => (id === undefined ? [] : [id]);
  const plain = (text: string): number[] => tokenizer.encode(text, { addSpecial: false });
  return [...(tokenizer.addBos ? some(bos) : []), ...plain(query), ...some(end), ...some(sep), ...plain(document), ...some(end)];
}

async function pooled(state: ModelState, ids: readonly number[], how: 'mean' | 'cls' | 'last', what: string, signal: AbortSignal | undefined): Promise<Float32Array> {
  const { scheduler, engine, slots } = state;
  if (ids.length === 0) throw new QuantletError('ERR_INVALID_ARGUMENT', `${what} has no tokens and the model adds none; give at least one`);
  if (ids.length > engine.contextLength) throw new QuantletError('ERR_CONTEXT_FULL', `${what} has ${ids.length} tokens, the context ${engine.contextLength}; shorten it or load the model with a larger contextLength (it was trained for ${engine.hparams.nCtxTrain})`);
  const slot = await scheduler.acquire(signal);
  let sum: Float64Array | undefined;
  try {
    slots[slot].tokens.length = 0;
    await scheduler.submit(slot, 0, ids, how === 'last' ? ids.length - 1 : 0, (row, i) => {
      if (how === 'cls' && i > 0) return;
      sum ??= new Float64Array(row.length);
      for (let k = 0; k < row.length; k++) sum[k] += row[k];
    }, signal);
  } finally {
    scheduler.release(slot);
  }
  return Float32Array.from(sum!, (x) => (how === 'mean' ? x / ids.length : x));
}

function unit(v: Float32Array): Float32Array {
  const length = Math.hypot(...v);
  return length > 0 ? v.map((x) => x / length) : v;
}
