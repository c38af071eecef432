/** Embeddings of texts, and ranks of documents. */
import { QuantletError, tell, typeName } from '../errors.ts';
import { checkIds } from './checked.ts';
import { getString } from '../gguf/metadata.ts';
import type { GGUFValue } from '../gguf/types.ts';
import type { ModelInternals } from '../run/model-internals.ts';
import { KIND, oneOf, whole, type Kind, type Kinds } from '../options.ts';
import { atOnce, inSlices, type Work } from '../slices.ts';
import { promptNamed } from './embed-prompts.ts';
import { rowsInOrder, type RowPooling } from './rows.ts';
import { normalized, PRECISIONS, quantized, shortened, type Precision, type VectorOf } from './vectors.ts';

export interface EmbedOptions {
  /**
   * Method that reduces token vectors to one; `none` gives a list with a vector for each token.
   * Default: as the file says, else mean for encoders and last for decoders.
   */
  pooling?: RowPooling | undefined;
  /**
   * Divides each vector by its length, so that a dot product is the cosine. Default true; false
   * with the pooling `none`.
   */
  normalize?: boolean | undefined;
  /**
   * Cuts a text that has more tokens than the model can take; the token that ends a text stays. A
   * number cuts at so many tokens. false refuses such a text. Default true.
   */
  truncate?: boolean | number | undefined;
  /**
   * Number of dimensions, for models that were trained to be cut (Matryoshka): the first ones,
   * normalized again. Default all.
   */
  dimensions?: number | undefined;
  /** Numbers of the vectors, see Precision. Default `float32`. */
  precision?: Precision | undefined;
  /** Text to put before every text, such as `query: `. Not before lists of token ids. */
  prompt?: string | undefined;
  /** Name of such a text among the prompts of the model's file. */
  promptName?: string | undefined;
  /** Called after each text. */
  onProgress?: ((progress: EmbedProgress) => void) | undefined;
  signal?: AbortSignal | undefined;
}

export interface EmbedProgress {
  /** Number of texts whose vectors are done. */
  readonly done: number;
  /** Number of texts, if they are in an array. */
  readonly total: number | undefined;
  /** Number of tokens of the texts that are done. */
  readonly tokens: number;
}

/** A text, or its token ids. */
export type EmbedInput = string | readonly number[];
/** Texts in an array, or as they come. */
export type EmbedInputs = Iterable<EmbedInput> | AsyncIterable<EmbedInput>;

/** Result for one text: a vector, or with the pooling `none` one for each token. */
export type Embedding<O = unknown> = O extends { readonly pooling: 'none' } ? EmbeddingVector<O>[] : EmbeddingVector<O>;
type Vector = VectorOf<Precision>;
/** The vector of a text, by the precision that was asked for. */
export type EmbeddingVector<O> = O extends { readonly precision: infer P } ? VectorOf<P> : Float32Array;

const POOLINGS: readonly RowPooling[] = ['none', 'mean', 'cls', 'last'];
const TRUNCATE: Kind = {
  is: (value) => typeof value === 'boolean' || (Number.isSafeInteger(value) && (value as number) >= 1),
  expected: 'true, false or a whole number of at least 1',
};
export const EMBED_OPTIONS: Kinds<EmbedOptions> = {
  pooling: oneOf(...POOLINGS),
  normalize: KIND.boolean,
  truncate: TRUNCATE,
  dimensions: whole(1),
  precision: oneOf(...PRECISIONS),
  prompt: KIND.string,
  promptName: KIND.string,
  onProgress: KIND.function,
  signal: KIND.signal,
};

function list<T>(name: string, given: readonly T[]): readonly T[] {
  if (!Array.isArray(given)) throw new QuantletError('ERR_INVALID_ARGUMENT', `${name} is ${typeName(given)}; expected an array`);
  return given;
}

/** @throws ERR_INVALID_ARGUMENT if the model makes no vectors */
function poolingOf({ engine: { hparams, wants } }: ModelInternals, asked: RowPooling | undefined): RowPooling {
  if (wants !== 'embeddings') {
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      wants === 'ranks'
        ? 'this model is a reranker; use rank(query, documents)'
        : 'the model was loaded to generate text; load it with { embeddings: true } (--embeddings) to make vectors',
    );
  }
  const trained = hparams.pooling === 'none' || hparams.pooling === 'rank' ? undefined : hparams.pooling;
  return asked ?? trained ?? (hparams.causal ? 'last' : 'mean');
}

/** True for what can be iterated over, except for a string. */
const isIterable = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && (Symbol.iterator in value || Symbol.asyncIterator in value);

/**
 * The embedding of each text, in order, as they are computed.
 * @throws ERR_INVALID_ARGUMENT; ERR_CONTEXT_FULL for a text that is too long if `truncate` is false.
 * Errors of a text name it and come after the embeddings of the texts before it
 * @internal
 */
export async function* embed(
  model: ModelInternals,
  metadata: ReadonlyMap<string, GGUFValue>,
  inputs: EmbedInputs,
  options: EmbedOptions,
): AsyncGenerator<Vector | Vector[], void> {
  const { signal, dimensions, precision = 'float32', onProgress } = options;
  const how = poolingOf(model, options.pooling);
  const norm = (options.normalize ?? how !== 'none') ? 2 : -1;
  if (!isIterable(inputs)) throw new QuantletError('ERR_INVALID_ARGUMENT', `texts is ${typeName(inputs)}; expected an array`);
  const finished = (row: Float32Array): Vector => quantized(normalized(shortened(row, dimensions), norm), precision);
  const prompt = promptOf(metadata, options);
  const total = Array.isArray(inputs) ? inputs.length : undefined;
  const lengths: number[] = [];
  let done = 0;
  let tokens = 0;
  for await (const rows of rowsInOrder(model, encoded(model, inputs, { ...options, prompt }, total, lengths), how, signal)) {
    tokens += lengths.shift()!;
    const vectors = rows.map(finished);
    onProgress?.({ done: ++done, total, tokens });
    yield how === 'none' ? vectors : vectors[0];
  }
}

/** @throws ERR_INVALID_ARGUMENT */
function promptOf(metadata: ReadonlyMap<string, GGUFValue>, { prompt, promptName }: EmbedOptions): string {
  if (promptName === undefined) return prompt ?? '';
  if (prompt === undefined) return promptNamed(metadata, promptName);
  throw new QuantletError(
    'ERR_INVALID_ARGUMENT',
    `there are both prompt ${tell(prompt)} and promptName ${tell(promptName)}; expected one of them`,
  );
}

/** Token ids of the texts. Adds the number of tokens of each to `lengths`. */
async function* encoded(
  model: ModelInternals,
  inputs: EmbedInputs,
  { truncate = true, prompt, signal }: EmbedOptions,
  total: number | undefined,
  lengths: number[],
): AsyncGenerator<readonly number[], void> {
  const { tokenizer, engine } = model;
  const most = Math.min(typeof truncate === 'number' ? truncate : Infinity, engine.contextLength);
  let n = 0;
  for await (const input of inputs as AsyncIterable<EmbedInput>) {
    const name = `text ${++n}${total === undefined ? '' : ` of ${total}`}`;
    const ids =
      typeof input === 'string' ? await inSlices(tokenizer.encodeWork(prompt + input), signal) : checkIds(name, input, tokenizer.nVocab);
    const kept = truncate === false ? ids : cut(model, ids, most);
    checkTokens(model, kept, name);
    lengths.push(kept.length);
    yield kept;
  }
}

/**
 * The first tokens of a text. A token that the tokenizer puts after every text stays at the end.
 * @internal
 */
export function cut({ tokenizer: { last } }: Pick<ModelInternals, 'tokenizer'>, ids: readonly number[], most: number): readonly number[] {
  if (ids.length <= most) return ids;
  return last !== undefined && ids.at(-1) === last ? [...ids.slice(0, most - 1), last] : ids.slice(0, most);
}

/**
 * Output of the graph for each text, after all of them were checked. The command line and rank()
 * use it.
 * @internal
 */
export async function outputRows(
  model: ModelInternals,
  ids: readonly (readonly number[])[],
  how: RowPooling,
  what: string,
  signal?: AbortSignal,
): Promise<Float32Array[][]> {
  ids.forEach((tokens, i) => checkTokens(model, tokens, `${what} ${i + 1} of ${ids.length}`));
  const rows: Float32Array[][] = [];
  for await (const row of rowsInOrder(model, ids[Symbol.iterator](), how, signal)) rows.push(row);
  return rows;
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
      `${what} has ${ids.length} tokens, and the context ${engine.contextLength}; shorten it, or load the model with a larger contextLength (it was trained for ${engine.hparams.nCtxTrain})`,
    );
}

/** @throws ERR_CONTEXT_FULL; ERR_INVALID_ARGUMENT for an empty text */
function checkTokens(model: ModelInternals, ids: readonly number[], what: string): void {
  checkLength(model, ids, what);
  if (ids.length === 0)
    throw new QuantletError('ERR_INVALID_ARGUMENT', `${what} has no tokens, and the model adds none; expected at least one`);
}
