/** POST /v1/embeddings and /v1/rerank. */
import { isRecord } from '../chat/json.ts';
import { normalized } from '../generate/embed.ts';
import { encode } from '../chat/run.ts';
import { countTokens } from './backend.ts';
import { jsonAnswer, type Context } from './context.ts';
import { checkFields } from './field-table.ts';
import { booleanField, inputsField, invalid, numberField, stringField, type Body } from './fields.ts';
import { HttpError } from './http-error.ts';
import { jsonList, jsonPieces } from './json-pieces.ts';
import { EMBEDDING_REFUSALS, RERANK_REFUSALS } from './protocol.ts';

/** Architecture whose rerankers end in a softmax. Scores of other architectures are logits. */
const GIVES_PROBABILITIES = 'qwen3';

/** Maximum number of texts of one request, as at OpenAI. */
const maxInputs = 2048;

/** POST /v1/embeddings. */
export async function embeddings(context: Context, body: Body): Promise<Response> {
  const { backend, signal } = context;
  checkFields(EMBEDDING_REFUSALS, body);
  const inputs = inputsField(body, 'input', maxInputs);
  const format = stringField(body, 'encoding_format') ?? 'float';
  if (format !== 'float' && format !== 'base64') throw invalid('encoding_format', '"float" or "base64"', format);
  const dimensions = numberField(body, 'dimensions', { least: 1, integer: true });
  const norm = numberField(body, 'embd_normalize', { least: -1, integer: true }) ?? context.options.embdNormalize ?? 2;
  if (inputs.includes('')) throw invalid('input', 'texts of at least one character', body.input);
  if (!backend.embed)
    throw new HttpError(501, 'This model gives no embeddings; expected an embedding model (bert, nomic-bert ...).', {
      code: 'not_supported',
    });
  const leave = await context.queue.enter(signal);
  try {
    const { encodeWork } = backend;
    const texts: (string | readonly number[])[] = [];
    for (const input of inputs)
      texts.push(typeof input === 'string' && encodeWork ? await context.work(encode(backend, input, {})) : input);
    const rows = await backend.embed(texts, { signal, pooling: context.options.pooling, normalize: norm === 2 });
    const vectors = norm === 2 ? rows : rows.map((row) => normalized(row, norm));
    const promptTokens = await context.work(countTokens(backend, texts));
    context.metrics.generated(promptTokens, 0, 0, 0);
    const length = vectors[0]?.length ?? 0;
    if (dimensions !== undefined && dimensions > length)
      throw invalid('dimensions', `a whole number from 1 to ${length}, the length of this model's vectors`, dimensions);
    const data = jsonList(
      vectors,
      (vector, index) => {
        const part = dimensions === undefined || dimensions === length ? vector : normalized(vector.subarray(0, dimensions), norm);
        return { object: 'embedding', index, embedding: format === 'base64' ? base64(part) : [...part] };
      },
      4,
    );
    const rest = { model: backend.name, usage: { prompt_tokens: promptTokens, total_tokens: promptTokens } };
    return jsonAnswer(context, ['{"object":"list","data":', ...(await context.work(data)), `,${JSON.stringify(rest).slice(1)}`]);
  } finally {
    leave();
  }
}

/** Little-endian 32-bit floats as base64. */
function base64(vector: Float32Array): string {
  const view = new DataView(new ArrayBuffer(4 * vector.length));
  vector.forEach((value, i) => view.setFloat32(4 * i, value, true));
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
