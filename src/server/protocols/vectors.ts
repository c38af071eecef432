/** POST /v1/embeddings and /v1/rerank. */
import { isRecord } from '../../chat/json.ts';
import { findPrompt, promptsOf } from '../../generate/embed-prompts.ts';
import { normalized, quantized, shortened, type Precision } from '../../generate/vectors.ts';
import { encode } from '../../chat/run.ts';
import { countTokens, type Backend } from '../backend.ts';
import { jsonAnswer, type Context } from '../context.ts';
import { checkFields, unsupported } from './field-table.ts';
import { booleanField, inputsField, invalid, numberField, oneOfField, stringField, type Body } from './fields.ts';
import { HttpError } from '../http/http-error.ts';
import type { HandlerOptions } from '../options.ts';
import { jsonList, jsonPieces } from '../http/json-pieces.ts';
import { EMBEDDING_REFUSALS, RERANK_REFUSALS } from './protocol.ts';

/** Architecture whose rerankers end in a softmax. Scores of other architectures are logits. */
const GIVES_PROBABILITIES = 'qwen3';

/** Maximum number of texts of one request, as at OpenAI. */
export const maxInputs = 2048;

/** Vectors that are written between two pauses. */
export const VECTORS = 4;

/** Everything in a request for vectors but the texts. */
interface VectorRequest {
  readonly pooling: HandlerOptions['pooling'];
  readonly norm: number;
  readonly dimensions: number | undefined;
  readonly precision: Precision;
  readonly base64: boolean;
  /** Most tokens of a text; undefined if a longer one is refused. */
  readonly most: number | undefined;
  /** Text before every text. */
  readonly prompt: string;
}

/** @throws HttpError 400 */
function vectorRequest({ backend, options }: Context, body: Body): VectorRequest {
  const format = oneOfField(body, 'encoding_format', ['float', 'base64']) ?? 'float';
  const type = typeField(body, 'output_dtype') ?? typeField(body, 'embedding_type') ?? 'float';
  return {
    pooling: oneOfField(body, 'pooling', ['mean', 'cls', 'last']) ?? options.pooling,
    norm: numberField(body, 'embd_normalize', { least: -1, integer: true }) ?? options.embdNormalize ?? 2,
    dimensions: numberField(body, 'dimensions', { least: 1, integer: true }),
    precision: type === 'float' ? 'float32' : type,
    base64: format === 'base64',
    most: mostTokens(body, backend.contextLength),
    prompt: promptField(backend, body),
  };
}

/** Type of the numbers, as Voyage and Jina name it. */
const typeField = (body: Body, name: string): 'float' | Exclude<Precision, 'float32'> | undefined =>
  oneOfField(body, name, ['float', 'int8', 'binary', 'ubinary']);

/**
 * vLLM's `truncate_prompt_tokens` (-1: the model's length), or `truncate` as
 * text-embeddings-inference (true or false) and Cohere (END or NONE) have it. Texts are cut at their
 * ends. By default a text that is too long is refused, as at OpenAI and in llama-server.
 */
function mostTokens(body: Body, contextLength: number): number | undefined {
  const asked = numberField(body, 'truncate_prompt_tokens', { least: -1, most: contextLength, integer: true });
  if (asked === 0) throw invalid('truncate_prompt_tokens', `-1, or a whole number from 1 to ${contextLength}`, asked);
  if (asked !== undefined) return asked === -1 ? contextLength : asked;
  const truncate = body.truncate ?? false;
  if (truncate === true || truncate === 'END') return contextLength;
  if (truncate === false || truncate === 'NONE') return undefined;
  throw invalid('truncate', 'true or "END" to cut at the end, or false or "NONE"', truncate);
}

/** The prompt that the model's file has for the purpose of the texts; '' if the request names none. */
function promptField({ metadata }: Backend, body: Body): string {
  const name = stringField(body, 'input_type') === undefined ? 'prompt_name' : 'input_type';
  const purpose = stringField(body, name);
  if (purpose === undefined) return '';
  if (name === 'input_type' && stringField(body, 'prompt_name') !== undefined)
    throw invalid('prompt_name', "left out where 'input_type' is sent", body.prompt_name);
  const prompts = promptsOf(metadata ?? new Map());
  const prompt = findPrompt(prompts, purpose);
  if (prompt !== undefined) return prompt;
  if (prompts.size > 0) throw invalid(name, [...prompts.keys()].map((one) => JSON.stringify(one)).join(' or '), purpose);
  throw unsupported(name, purpose, {
    remedy: "The model's file has no prompts. Put the words that the model wants before a text into the text.",
  });
}

/** POST /v1/embeddings. */
export async function embeddings(context: Context, body: Body): Promise<Response> {
  checkFields(EMBEDDING_REFUSALS, body);
  const inputs = inputsField(body, 'input', maxInputs);
  const request = vectorRequest(context, body);
  if (inputs.includes('')) throw invalid('input', 'texts of at least one character', body.input);
  const { vectors, promptTokens } = await vectorsOf(context, inputs, request);
  const data = jsonList(
    vectors,
    (vector, index) => {
      const part = quantized(vector(), request.precision);
      return { object: 'embedding', index, embedding: request.base64 ? base64(part) : [...part] };
    },
    VECTORS,
  );
  const rest = { model: context.backend.name, usage: { prompt_tokens: promptTokens, total_tokens: promptTokens } };
  return jsonAnswer(context, ['{"object":"list","data":', ...(await context.work(data)), `,${JSON.stringify(rest).slice(1)}`]);
}

/** Vectors, each computed from the model's own when it is written, and the number of their tokens. */
interface Vectors {
  readonly vectors: readonly (() => Float32Array)[];
  readonly promptTokens: number;
}

/** The vectors of texts, normalized and shortened. */
export async function vectorsOf(
  context: Context,
  inputs: readonly (string | readonly number[])[],
  { pooling, norm, dimensions, most, prompt }: Pick<VectorRequest, 'pooling' | 'norm' | 'dimensions' | 'most' | 'prompt'>,
): Promise<Vectors> {
  const { backend, signal } = context;
  if (!backend.embed)
    throw new HttpError(501, 'This model gives no embeddings; expected an embedding model (bert, nomic-bert ...).', {
      code: 'not_supported',
    });
  const leave = await context.queue.enter(signal);
  try {
    const { encodeWork } = backend;
    const texts: (string | readonly number[])[] = [];
    for (const input of inputs) {
      const text = typeof input === 'string' ? prompt + input : input;
      texts.push(typeof text === 'string' && encodeWork ? await context.work(encode(backend, text, {})) : text);
    }
    // Fewer dimensions are normalized here, from the whole vector as it is.
    const isUnit = norm === 2 && dimensions === undefined;
    const vectors = await backend.embed(texts, { signal, pooling, normalize: isUnit, truncate: most ?? false });
    const promptTokens = await context.work(countTokens(backend, texts, most));
    context.metrics.generated(promptTokens, 0, 0, 0);
    const length = vectors[0]?.length ?? 0;
    if (dimensions !== undefined && dimensions > length)
      throw invalid('dimensions', `a whole number from 1 to ${length}, the length of this model's vectors`, dimensions);
    const made = (vector: Float32Array) => (): Float32Array => (isUnit ? vector : normalized(shortened(vector, dimensions), norm));
    return { vectors: vectors.map(made), promptTokens };
  } finally {
    leave();
  }
}

/** The numbers of a vector, 32-bit ones little-endian, as base64. */
function base64(vector: Float32Array | Int8Array | Uint8Array): string {
  const view = new DataView(new ArrayBuffer(vector.byteLength));
  if (vector instanceof Float32Array) vector.forEach((value, i) => view.setFloat32(4 * i, value, true));
  else vector.forEach((value: number, i: number) => view.setUint8(i, value));
  return btoa(Array.from(new Uint8Array(view.buffer), (byte) => String.fromCharCode(byte)).join(''));
}

/**
 * POST /v1/rerank in Jina's and Cohere's format. A request with `texts` instead of `documents` gets
 * text-embeddings-inference's format: a list of scores between 0 and 1, or raw scores if
 * `raw_scores` is set.
 */
export async function rerank(context: Context, body: Body): Promise<Response> {
  const { backend, signal } = context;
  checkFields(RERANK_REFUSALS, body);
  const query = stringField(body, 'query');
  if (!query) throw invalid('query', 'a string of at least one character', body.query);
  const documents = documentsOf(body);
  const topN = numberField(body, 'top_n', { least: 1, integer: true }) ?? documents.length;
  const tei = isTei(body);
  const raw = booleanField(body, 'raw_scores') ?? false;
  const withText = booleanField(body, tei ? 'return_text' : 'return_documents') ?? false;
  if (!backend.rank) throw new HttpError(501, 'This model does not rank; expected a reranker.', { code: 'not_supported' });
  const leave = await context.queue.enter(signal);
  try {
    const scores = await backend.rank(query, documents, { signal });
    const promptTokens =
      (await context.work(countTokens(backend, [query]))) * documents.length + (await context.work(countTokens(backend, documents)));
    context.metrics.generated(promptTokens, 0, 0, 0);
    const ranked = scores
      .map((score, index) => ({ index, score, text: documents[index] }))
      .sort((a, b) => b.score - a.score || a.index - b.index)
      .slice(0, topN);
    const probability = (score: number): number =>
      raw || backend.architecture === GIVES_PROBABILITIES ? score : 1 / (1 + Math.exp(-score));
    const list = ranked.map(({ index, score, text }) => ({ index, score: probability(score), ...(withText ? { text } : {}) }));
    const results = ranked.map(({ index, score, text }) => ({
      index,
      relevance_score: score,
      ...(withText ? { document: { text } } : {}),
    }));
    const usage = { prompt_tokens: promptTokens, total_tokens: promptTokens };
    return jsonAnswer(context, await context.work(jsonPieces(tei ? list : { object: 'list', model: backend.name, results, usage })));
  } finally {
    leave();
  }
}

const isTei = (body: Body): boolean => (body.documents ?? undefined) === undefined && (body.texts ?? undefined) !== undefined;

function documentsOf(body: Body): string[] {
  const list = body.documents ?? body.texts;
  if ((body.documents ?? undefined) !== undefined && (body.texts ?? undefined) !== undefined)
    throw invalid('texts', "left out where 'documents' are sent", body.texts);
  if (Array.isArray(list) && list.length > 0 && list.length <= maxInputs) {
    const texts = list.map((item: unknown) => (isRecord(item) ? item.text : item));
    if (texts.every((text) => typeof text === 'string')) return texts;
  }
  throw invalid(isTei(body) ? 'texts' : 'documents', `a list of 1 to ${maxInputs} strings`, list);
}
