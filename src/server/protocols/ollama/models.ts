/** Ollama's endpoints about models: lists, descriptions, downloads, names. */
import { createChatTemplate, fileTemplates, type ChatTemplate } from '../../../chat/template.ts';
import { inSlices } from '../../../slices.ts';
import type { GGUFValue } from '../../../gguf/types.ts';
import { jsonAnswer, type Context } from '../../context.ts';
import { eventStream } from '../../http/event-stream.ts';
import { HttpError } from '../../http/http-error.ts';
import { jsonPieces } from '../../http/json-pieces.ts';
import type { ModelDescription, ModelLibrary, PullProgress } from '../../library.ts';
import { modelNamed, unknownModel, type Models, type ModelStatus } from '../../models.ts';
import { booleanField, invalid, stringField, type Body } from '../fields.ts';
import { canThink, modelOf, ollamaError, streams } from './fields.ts';
import { sha256 } from '../../../sha256.ts';

/** Version of Ollama whose interface this is. Clients compare it with the least that they need. */
const VERSION = '0.13.0';

/** GET /api/version. */
export const version = (): Response => Response.json({ version: VERSION });

/** The date by which clients recognise a model that stays loaded. */
const NEVER = '9999-12-31T23:59:59Z';
const NO_METADATA: ReadonlyMap<string, GGUFValue> = new Map();

interface Described {
  readonly model: ModelStatus;
  readonly description: ModelDescription | undefined;
  readonly metadata: ReadonlyMap<string, GGUFValue>;
}

async function described({ options: { library } }: Context, model: ModelStatus): Promise<Described> {
  const description = await library?.describe(model.id);
  return { model, description, metadata: model.backend?.metadata ?? description?.metadata ?? NO_METADATA };
}

/** @throws HttpError 404 */
function named(models: Models, name: string): ModelStatus {
  const all = models.list();
  const found = modelNamed(all, name);
  if (found) return found;
  throw unknownModel(
    name,
    all.map(({ id }) => id),
  );
}

const textOf = (metadata: Described['metadata'], key: string): string => {
  const value = metadata.get(key);
  return typeof value === 'string' ? value : '';
};

const architectureOf = ({ model, metadata }: Described): string => model.backend?.architecture ?? textOf(metadata, 'general.architecture');

/** A number of weights as Ollama writes it: 7.6B, 22.57M. */
function sizeText(parameters: number | undefined): string {
  if (parameters === undefined) return '';
  if (parameters >= 1e9) return `${(parameters / 1e9).toFixed(1)}B`;
  return parameters >= 1e6 ? `${(parameters / 1e6).toFixed(2)}M` : `${(parameters / 1e3).toFixed(2)}K`;
}

function detailsOf(of: Described): object {
  const family = architectureOf(of);
  return {
    parent_model: '',
    format: 'gguf',
    family,
    families: family === '' ? [] : [family],
    parameter_size: sizeText(of.description?.parameters),
    quantization_level: of.description?.quantization ?? '',
  };
}

/** An identifier of this version of a model. Ollama's own is the hash of a manifest. */
const digestOf = ({ model: { id }, description }: Described): Promise<string> =>
  sha256(JSON.stringify([id, description?.bytes, description?.modified]));

const modifiedOf = ({ description }: Described): string => (description?.modified ?? new Date(0)).toISOString();

async function listed(of: Described): Promise<{ name: string; model: string; size: number; digest: string; details: object }> {
  const { id } = of.model;
  return { name: id, model: id, size: of.description?.bytes ?? 0, digest: await digestOf(of), details: detailsOf(of) };
}

/** GET /api/tags: all models. */
export async function listModels(context: Context): Promise<Response> {
  const models: object[] = [];
  for (const model of context.models.list()) {
    const of = await described(context, model);
    models.push({ ...(await listed(of)), modified_at: modifiedOf(of) });
  }
  return Response.json({ models });
}

/** GET /api/ps: the loaded models. */
export async function runningModels(context: Context): Promise<Response> {
  const models: object[] = [];
  for (const model of context.models.list()) {
    const { backend, bytes, expires } = model;
    if (!backend) continue;
    const one = await listed(await described(context, model));
    models.push({
      ...one,
      size: bytes ?? one.size,
      size_vram: 0,
      expires_at: expires === undefined ? NEVER : new Date(expires).toISOString(),
      context_length: backend.contextLength,
    });
  }
  return Response.json({ models });
}

/** The template of a model; undefined if it has none or a broken one. */
function templateOf({ model: { backend }, metadata }: Described): ChatTemplate | undefined {
  try {
    if (backend) return backend.chatTemplate;
    const { source, toolUse } = fileTemplates(metadata);
    return source === undefined ? undefined : createChatTemplate(source, {}, { toolUse });
  } catch {
    return undefined;
  }
}

function capabilitiesOf(of: Described, template: ChatTemplate | undefined): string[] {
  const { metadata, model } = of;
  const architecture = architectureOf(of);
  if (metadata.has(`${architecture}.pooling_type`) || metadata.get(`${architecture}.attention.causal`) === false) return ['embedding'];
  const inserts = model.backend?.fim !== undefined || ['fim_pre', 'prefix'].some((name) => metadata.has(`tokenizer.ggml.${name}_token_id`));
  return [
    'completion',
    ...(model.backend?.modalities?.vision ? ['vision'] : []),
    ...(template && (template.toolUse ?? template).capabilities.tools ? ['tools'] : []),
    ...(inserts ? ['insert'] : []),
    ...(template && canThink(template) ? ['thinking'] : []),
  ];
}

/** A value of the metadata as JSON. Lists are left out unless asked for. */
function infoOf(value: GGUFValue, verbose: boolean): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (typeof value !== 'object') return value;
  return verbose ? Array.from(value as ArrayLike<GGUFValue>, (item) => infoOf(item, true)) : null;
}

/** POST /api/show. */
export async function showModel(context: Context, body: Body): Promise<Response> {
  const verbose = booleanField(body, 'verbose') ?? false;
  const of = await described(context, named(context.models, modelOf(body)));
  const { metadata, description, model } = of;
  const template = templateOf(of);
  const license = textOf(metadata, 'general.license');
  const parameters = Object.entries(model.backend?.samplerDefaults ?? {}).map(([name, value]) => `${snakeCase(name)} ${String(value)}`);
  const info = Array.from(metadata, ([key, value]) => [key, infoOf(value, verbose)] as const).filter(
    ([key]) => !key.startsWith('tokenizer.chat_template'),
  );
  const answer = {
    ...(license === '' ? {} : { license }),
    modelfile: `FROM ${model.id}\n`,
    parameters: parameters.join('\n'),
    template: template?.source ?? '',
    details: detailsOf(of),
    model_info: {
      ...Object.fromEntries(info),
      ...(description?.parameters === undefined ? {} : { 'general.parameter_count': description.parameters }),
    },
    capabilities: capabilitiesOf(of, template),
    modified_at: modifiedOf(of),
  };
  return jsonAnswer(context, await inSlices(jsonPieces(answer), context.signal));
}

const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** An endpoint that is not served. */
export const refuse = (message: string) => (): never => {
  throw new HttpError(501, message, { code: 'not_supported' });
};

interface Changes {
  readonly library: Required<ModelLibrary>;
  readonly models: Required<Models>;
}

/** @throws HttpError 501 if clients may not change the list of models */
function changesOf({ options: { library }, models }: Context): Changes {
  if (library?.pull && library.copy && library.remove && models.add && models.drop) return { library, models } as Changes;
  throw new HttpError(501, 'Clients may not change the models of this server; start it with --models-pull.', { code: 'not_supported' });
}

/** Milliseconds between two lines about a download. */
const PROGRESS_MS = 100;

const progressLine = ({ file, sha256, loaded, total }: PullProgress): object => ({
  status: `pulling ${sha256?.slice(0, 12) ?? file}`,
  digest: sha256 === undefined ? file : `sha256:${sha256}`,
  ...(total === undefined ? {} : { total }),
  completed: loaded,
});

/** POST /api/pull: downloads a model of the hub, and adds it to the list. */
export async function pullModel(context: Context, body: Body): Promise<Response> {
  const { signal } = context;
  const name = modelOf(body);
  const { library, models } = changesOf(context);
  const first = { status: 'pulling manifest' };
  if (!streams(body)) {
    models.add(await library.pull(name, signal, () => undefined));
    return Response.json({ status: 'success' });
  }
  async function* lines(): AsyncGenerator<object, void> {
    yield first;
    const news = new Map<string, PullProgress>();
    let over = false;
    const done = library.pull(name, signal, (progress) => news.set(progress.file, progress)).finally(() => (over = true));
    done.catch(() => undefined); // reported by `await done`
    while (!over) {
      await Promise.race([done, new Promise((resolve) => setTimeout(resolve, PROGRESS_MS))]).catch(() => undefined);
      const now = [...news.values()];
      news.clear();
      yield* now.map(progressLine);
    }
    models.add(await done);
    yield* ['verifying sha256 digest', 'writing manifest', 'success'].map((status) => ({ status }));
  }
  const { ssePingMs: pingMs } = context.limits;
  return eventStream(context, lines(), { lines: true, ping: first, streamError: ollamaError, pingMs, leave: () => undefined });
}

/** POST /api/copy: a further name for a model. */
export async function copyModel(context: Context, body: Body): Promise<Response> {
  const { library, models } = changesOf(context);
  const [source, destination] = ['source', 'destination'].map((field) => stringField(body, field) ?? '');
  if (source === '' || !/^[\w.:/-]{1,200}$/.test(destination))
    throw invalid(
      source === '' ? 'source' : 'destination',
      'a name of letters, digits, ".", "-", "_", ":" and "/"',
      body[source === '' ? 'source' : 'destination'],
    );
  const { id } = named(models, source);
  const taken = modelNamed(models.list(), destination);
  if (taken) throw new HttpError(409, `The name ${JSON.stringify(destination)} is taken; delete it first.`, { code: 'name_taken' });
  models.add(await library.copy(id, destination.replace(/:latest$/, '')));
  return new Response(null, { status: 200 });
}

/** DELETE /api/delete: removes a model, or a further name of one. */
export async function deleteModel(context: Context, body: Body): Promise<Response> {
  const { library, models } = changesOf(context);
  const { id } = named(models, modelOf(body));
  await library.remove(id, () => models.drop(id));
  return new Response(null, { status: 200 });
}
