/** POST /api/embed, and /api/embeddings of older clients. */
import { jsonAnswer, type Context } from '../../context.ts';
import { jsonList } from '../../http/json-pieces.ts';
import { booleanField, invalid, numberField, stringField, stringsField, type Body } from '../fields.ts';
import { maxInputs, VECTORS, vectorsOf } from '../vectors.ts';
import { durations } from './answer.ts';
import { keepAlive, modelOf } from './fields.ts';

/** Values that requests of Ollama do not name, and the length at which texts are cut. */
const request = ({ backend, options: { pooling } }: Context, cut: boolean) => ({
  pooling,
  prompt: '',
  most: cut ? backend.contextLength : undefined,
});

/** POST /api/embed: vectors of length one. Without texts, loads the model. */
export async function ollamaEmbed(context: Context, body: Body): Promise<Response> {
  const inputs = stringsField(body, 'input', maxInputs) ?? [];
  const dimensions = numberField(body, 'dimensions', { least: 0, integer: true });
  const cut = booleanField(body, 'truncate') ?? true;
  keepAlive(context, body);
  const wanted = inputs.length === 1 && inputs[0] === '' ? [] : inputs;
  if (wanted.includes('')) throw invalid('input', 'texts of at least one character', body.input);
  const options = { ...request(context, cut), norm: 2, dimensions: dimensions === 0 ? undefined : dimensions };
  const { vectors, promptTokens } = wanted.length === 0 ? { vectors: [], promptTokens: 0 } : await vectorsOf(context, wanted, options);
  const list = await context.work(jsonList(vectors, (vector) => [...vector()], VECTORS));
  const rest = { ...durations(context), prompt_eval_count: promptTokens };
  return jsonAnswer(context, [`{"model":${JSON.stringify(modelOf(body))},"embeddings":`, ...list, `,${JSON.stringify(rest).slice(1)}`]);
}

/** POST /api/embeddings: one vector as the model makes it, of any length. */
export async function ollamaEmbeddings(context: Context, body: Body): Promise<Response> {
  const prompt = stringField(body, 'prompt') ?? '';
  keepAlive(context, body);
  if (prompt === '') return Response.json({ embedding: [] });
  const { vectors } = await vectorsOf(context, [prompt], { ...request(context, true), norm: -1, dimensions: undefined });
  return Response.json({ embedding: [...vectors[0]()] });
}
