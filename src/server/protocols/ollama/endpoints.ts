/** Ollama's endpoints. */
import type { Context } from '../../context.ts';
import type { Endpoint } from '../../endpoint.ts';
import { ollamaChat, chatPart } from './chat.ts';
import { ollamaEmbed, ollamaEmbeddings } from './embed.ts';
import { modelOf, ollamaError } from './fields.ts';
import { generatePart, ollamaGenerate } from './generate.ts';
import { streamOf } from './answer.ts';
import { copyModel, deleteModel, listModels, pullModel, refuse, runningModels, showModel, version } from './models.ts';

/** Properties of all of Ollama's endpoints. */
export const OLLAMA = { errorBody: ollamaError, model: modelOf } satisfies Partial<Endpoint>;

const get = (run: (context: Context) => Response | Promise<Response>): Endpoint => ({ method: 'GET', run, raw: true, modelless: true });
const post = (run: Endpoint['run'], how: Partial<Endpoint> = {}): Endpoint => ({ method: 'POST', run, ...how });
const modelless = { modelless: true };

export const OLLAMA_ENDPOINTS: readonly (readonly [path: string, ...Endpoint[]])[] = [
  ['/api/chat', post(ollamaChat, { stream: streamOf(chatPart) })],
  ['/api/generate', post(ollamaGenerate, { stream: streamOf(generatePart) })],
  ['/api/embed', post(ollamaEmbed)],
  ['/api/embeddings', post(ollamaEmbeddings)],
  ['/api/version', get(version)],
  ['/api/tags', get(listModels)],
  ['/api/ps', get(runningModels)],
  ['/api/show', post(showModel, modelless)],
  ['/api/pull', post(pullModel, modelless)],
  ['/api/copy', post(copyModel, modelless)],
  ['/api/delete', { method: 'DELETE', run: deleteModel, modelless: true }],
  ['/api/create', post(refuse('Models are not made here. Make a GGUF file with quantlet quantize.'), { modelless: true, raw: true })],
  ['/api/push', post(refuse('Models are not uploaded here. Use the tools of the Hugging Face hub.'), { modelless: true, raw: true })],
  [
    '/api/blobs/*',
    get(refuse('Files of models are not uploaded here.')),
    post(refuse('Files of models are not uploaded here.'), { modelless: true, raw: true }),
  ],
];
