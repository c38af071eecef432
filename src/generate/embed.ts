/** Embeddings of texts, and ranks of documents. */
import type { Pooling } from '../arch/hparams.ts';
import { QuantletError, typeName } from '../errors.ts';
import { checkIds } from './checked.ts';
import { getString } from '../gguf/metadata.ts';
import type { GGUFValue } from '../gguf/types.ts';
import type { ModelInternals } from '../engine/model-internals.ts';
import { KIND, oneOf, type Kinds } from '../options.ts';
import { atOnce, inSlices, type Work } from '../slices.ts';

export interface EmbedOptions {
  /**
   * Method that reduces token vectors to one. Default: as the file says, else mean for encoders and
   * last for decoders.
   */
  pooling?: Exclude<Pooling, 'none' | 'rank'> | undefined;
  /** Divides each vector by its length, so that a dot product is the cosine. Default true. */
  normalize?: boolean | undefined;
  signal?: AbortSignal | undefined;
}

const POOLINGS: readonly Pooling[] = ['mean', 'cls', 'last'];
export const EMBED_OPTIONS: Kinds<EmbedOptions> = { pooling: oneOf(...POOLINGS), normalize: KIND.boolean, signal: KIND.signal };

function list<T>(name: string, given: readonly T[]): readonly T[] {
  if (!Array.isArray(given)) throw new QuantletError('ERR_INVALID_ARGUMENT', `${name} is ${typeName(given)}; expected an array`);
  return given;
}

/**
 * @throws ERR_INVALID_ARGUMENT, ERR_CONTEXT_FULL naming the text that is too long
 * @internal
 */
export async function embed(
  model: ModelInternals,
  inputs: readonly (string | readonly number[])[],
  { pooling, normalize = true, signal }: EmbedOptions,
): Promise<{ vectors: Float32Array[]; tokens: number }> {
  const { hparams, wants } = model.engine;
  if (wants !== 'embeddings') {
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      wants === 'ranks'
        ? 'this model is a reranker; use rank(query, documents)'
        : 'the model was loaded to generate text; load it with { embeddings: true } (--embeddings) to make vectors',
    );
  }
  const how =
    pooling ??
    (hparams.pooling === 'none' ? (hparams.causal ? 'last' : 'mean') : (hparams.pooling as NonNullable<EmbedOptions['pooling']>));
  if (!POOLINGS.includes(how))
    throw new QuantletError('ERR_INVALID_ARGUMENT', `pooling is ${JSON.stringify(how)}; expected one of ${POOLINGS.join(', ')}`);
  const { tokenizer } = model;
  const ids = list('texts', inputs).map((text, i) =>
    typeof text === 'string' ? tokenizer.encode(text) : checkIds(`text ${i + 1} of ${inputs.length}`, text, tokenizer.nVocab),
  );
  const vectors = (await outputRows(model, ids, how, 'text', signal)).map(([row]) => row);
  return { vectors: normalize ? vectors.map((vector) => normalized(vector, 2)) : vectors, tokens: ids.reduce((n, t) => n + t.length, 0) };
}

/**
 * Output of the graph for each text: one pooled row, or with 'none' a row for each token. Texts use
 * the slots that are free, and only one text at a time waits for a slot. If all waited, each would
 * listen to the signal, and other requests would queue after all of them.
 * @internal
 */
export async function outputRows(
  model: ModelInternals,
  ids: readonly (readonly number[])[],
  how: Exclude<Pooling, 'rank'>,
  what: string,
  signal?: AbortSignal,
): Promise<Float32Array[][]> {
  const { slots } = model;
  const nameOf = (i: number): string => `${what} ${i + 1} of ${ids.length}`;
  ids.forEach((tokens, i) => checkTokens(model, tokens, nameOf(i)));
  const rows: Float32Array[][] = [];
  let next = 0;
  let running = 0;
  try {
    await new Promise<void>((resolve, reject) => {
      const one = async (i: number): Promise<void> => {
        running++;
        rows[i] = await rowsOf(model, ids[i], how, signal);
        running--;
        start();
      };
      const start = (): void => {
        if (next === ids.length && running === 0) resolve();
        while (next < ids.length && (running === 0 || slots.active < slots.all.length)) one(next++).catch(reject);
      };
      start();
    });
    return rows;
  } finally {
    if (slots.active === 0) model.engine.executor.rest();
  }
}

/**
 * A score for each document, higher is better.
 * @throws ERR_INVALID_ARGUMENT if the model is not a reranker, ERR_CONTEXT_FULL
 * @internal
 */
export async function rank(
  model: ModelInternals,
  metadata: ReadonlyMap<string, GGUFValue>,
  query: string,
  documents: readonly string[],
  signal?: AbortSignal,
): Promise<{ scores: number[]; tokens: number }> {
  if (model.engine.wants !== 'ranks')
    throw new QuantletError('ERR_INVALID_ARGUMENT', 'the model is not a reranker: its file has no pooling_type rank');
  const ids: number[][] = [];
  // The query precedes each document, so all pairs together may be long even if neither part is:
  // work in slices.
  for (const [i, document] of list('documents', documents).entries()) {
    const tokens = await inSlices(rankPromptWork(model, metadata, query, document), signal);
    checkLength(model, tokens, `document ${i + 1} of ${documents.length}`);
    ids.push(tokens);
  }
  const rows = await outputRows(model, ids, rankPooling(model), 'document', signal);
  return { scores: rows.map(([row]) => row[0]), tokens: ids.reduce((n, t) => n + t.length, 0) };
}

/**
 * Causal rerankers know the whole pair only at its last token; encoders use the first.
 * @internal
 */
export const rankPooling = ({ engine }: ModelInternals): 'last' | 'cls' => (engine.hparams.causal ? 'last' : 'cls');

/**
 * Token ids of a pair: by the file's rerank template if it has one (Qwen 3), else bos query eos sep
 * document eos.
 * @internal
 */
export function rankPrompt(model: ModelInternals, metadata: ReadonlyMap<string, GGUFValue>, query: string, document: string): number[] {
  return atOnce(rankPromptWork(model, metadata, query, document));
}

/** Query and document stay text, also in the template: no control token is read in them. */
function* rankPromptWork(
  { tokenizer }: ModelInternals,
  metadata: ReadonlyMap<string, GGUFValue>,
  query: string,
  document: string,
): Work<number[]> {
  const template = getString({ metadata }, 'tokenizer.chat_template.rerank', '');
  if (template) {
    const breaks: number[] = [];
    let text = '';
    for (const part of template.split(/(\{query\}|\{document\})/)) {
      const written = part === '{query}' ? query : part === '{document}' ? document : undefined;
      if (written !== undefined) for (const at of yield* tokenizer.breaksIn(written)) breaks.push(text.length + at);
      text += written ?? part;
    }
    return yield* tokenizer.encodeWork(text, { parseSpecial: true, breaks });
  }
  const { bos, eos, sep } = tokenizer.special;
  const end = eos ?? sep;
  const some = (id: number | undefined): number[] => (id === undefined ? [] : [id]);
  const plain = (text: string): Work<number[]> => tokenizer.encodeWork(text, { addSpecial: false });
  return [
    ...(tokenizer.addBos ? some(bos) : []),
    ...(yield* plain(query)),
    ...some(end),
    ...some(sep),
    ...(yield* plain(document)),
    ...some(end),
  ];
}

/** @throws ERR_CONTEXT_FULL */
function checkLength({ engine }: ModelInternals, ids: readonly number[], what: string): void {
  if (ids.length > engine.contextLength)
    throw new QuantletError(
      'ERR_CONTEXT_FULL',
      `${what} has ${ids.length} tokens, the context ${engine.contextLength}; shorten it or load the model with a larger contextLength (it was trained for ${engine.hparams.nCtxTrain})`,
    );
}

/** @throws ERR_CONTEXT_FULL; ERR_INVALID_ARGUMENT for an empty text */
function checkTokens(model: ModelInternals, ids: readonly number[], what: string): void {
  checkLength(model, ids, what);
  if (ids.length === 0) throw new QuantletError('ERR_INVALID_ARGUMENT', `${what} has no tokens and the model adds none; give at least one`);
}

async function rowsOf(
  model: ModelInternals,
  ids: readonly number[],
  how: Exclude<Pooling, 'rank'>,
  signal: AbortSignal | undefined,
): Promise<Float32Array[]> {
  const { scheduler, slots } = model;
  const slot = await slots.acquire(signal);
  const rows: Float32Array[] = [];
  let sum: Float64Array | undefined;
  try {
    slot.truncate(0);
    await scheduler.submit(
      slot,
      ids,
      how === 'last' ? ids.length - 1 : 0,
      (row, i) => {
        if (how === 'none' || how === 'last' || (how === 'cls' && i === 0)) rows.push(row.slice());
        if (how !== 'mean') return;
        sum ??= new Float64Array(row.length);
        for (let k = 0; k < row.length; k++) sum[k] += row[k];
      },
      signal,
    );
  } finally {
    slots.release(slot);
  }
  return sum ? [Float32Array.from(sum, (x) => x / ids.length)] : rows;
}

/**
 * Scales a vector like llama.cpp's --embd-normalize. -1: unchanged; 0: the largest magnitude
 * becomes 32760; p: divided by the p-norm (2: its length). A vector of zeros stays as it is.
 */
export function normalized(row: Float32Array, p: number): Float32Array {
  if (p === -1) return row;
  const size =
    p === 0
      ? row.reduce((most, x) => Math.max(most, Math.abs(x)), 0) / 32760
      : p === 2
        ? Math.hypot(...row)
        : row.reduce((sum, x) => sum + Math.abs(x) ** p, 0) ** (1 / p);
  return size > 0 ? row.map((x) => x / size) : row;
}
