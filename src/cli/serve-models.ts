/** The models that quantlet serve answers with. */
import { stat } from 'node:fs/promises';
import { unreadable } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import type { Model } from '../model.ts';
import { printable } from '../printable.ts';
import { createSampler } from '../sample/sampler.ts';
import type { ModelLibrary } from '../server/library.ts';
import { createModels } from '../server/models-on-demand.ts';
import type { Models } from '../server/models.ts';
import type { RequestDefaults } from '../server/options.ts';
import { openModel, shippedModel, templateOf } from './command.ts';
import { resolveFiles } from './hub.ts';
import { modelName, modelsIn } from './serve-files.ts';
import type { ServeFlags } from './serve-flags.ts';
import { Library } from './serve-library.ts';

/**
 * The models to serve: one, loaded before the first answer, or several, loaded on demand. `said` is
 * the line to print when the server is ready.
 */
export async function modelsOf(
  values: ServeFlags,
  defaults: RequestDefaults,
  signal: AbortSignal,
): Promise<{ models: Model | Models; library: ModelLibrary; said: (address: string) => string }> {
  const { models: given = [], modelsDir, modelsMax, modelsMemory, modelsPull = false, alias, parallel = 4 } = values;
  const paths = [...given, ...(modelsDir === undefined ? [] : await modelsIn(modelsDir))];
  const several = paths.length > 1 || modelsDir !== undefined || modelsPull;
  if (several && values.hf !== undefined)
    throw new QuantletError('ERR_USAGE', '-hf names one model; expected -m, --models-dir or --models-pull for several');
  if (several && alias !== undefined) throw new QuantletError('ERR_USAGE', '--alias names one model; several are named after their files');
  if (several && values.mmproj !== undefined)
    throw new QuantletError('ERR_USAGE', '--mmproj is the projector of one model; downloaded models have that of their repository');
  const template = await templateOf(values);
  const { mmprojAuto = true } = values;
  const open = (path: string, name: string, mmproj?: string): Promise<Model> =>
    opened({ ...values, mmproj }, defaults, path, name, template, signal);
  const library = new Library({ token: values.hfToken, offline: values.offline, projectors: mmprojAuto, open, signal });
  if (!several) {
    const { model: path = shippedModel(), mmproj } = await resolveFiles({ ...values, model: paths[0], mmprojAuto }, signal);
    const model = await open(path, alias ?? modelName(path), mmproj);
    library.addFile(model.name, path);
    const { name, contextLength, build, turbo, threads } = model;
    const how = `${parallel} at once, context ${contextLength}, build ${build}${turbo ? ' with turbo' : ''}, ${threads} threads`;
    return { models: model, library: library.forHandler(false), said: (address) => `${printable(name)} at ${address} (${how})` };
  }
  const entries = paths.map(async (path) => {
    const bytes = /^https?:/i.test(path) ? 0 : (await stat(path).catch(unreadable('the model', path))).size;
    const id = modelName(path);
    library.addFile(id, path);
    return { id, bytes, load: () => open(path, id) };
  });
  const all = [...(await Promise.all(entries)), ...(modelsPull ? await library.cached() : [])];
  const models = createModels(all, {
    mayGrow: modelsPull,
    ...(modelsMax === undefined ? {} : { maxLoaded: modelsMax }),
    ...(modelsMemory === undefined ? {} : { maxBytes: modelsMemory }),
    ...(values.maxQueue === undefined ? {} : { maxWaiting: values.maxQueue }),
  });
  const said = (address: string): string =>
    `${all.length === 1 ? 'one model' : `${all.length} models`} at ${address} (loaded on demand, ${parallel} answers of each at once)`;
  return { models, library: library.forHandler(modelsPull), said };
}

/**
 * Loads a file as the model of this name, and checks what every request would fail on otherwise.
 * @throws ERR_USAGE
 */
async function opened(
  values: ServeFlags,
  defaults: RequestDefaults,
  path: string,
  name: string,
  template: Awaited<ReturnType<typeof templateOf>>,
  signal: AbortSignal,
): Promise<Model> {
  const { hf: _, hfFile: __, mmprojAuto: ___, ...others } = values;
  const { parallel = 4, pooling, reranking } = values;
  const model = await openModel({ ...others, model: path }, signal, {
    parallel,
    name,
    contextLength: values.ctx ?? undefined,
    ...template,
  });
  try {
    // Reports a template with a syntax error now, not to every client.
    if (template.chatTemplate !== undefined) void model.chatTemplate;
    // Checks the defaults now, because every request would fail otherwise: bounds, token ids and
    // grammars.
    const { tokenizer } = model.internals;
    createSampler(defaults, tokenizer.nVocab, { pieceBytes: (id) => tokenizer.pieceBytes(id) });
    await model.internals.constraint(defaults, signal);
    if ((reranking || pooling === 'rank') && model.internals.engine.wants !== 'ranks')
      throw new QuantletError(
        'ERR_USAGE',
        `${printable(name)} is not a reranker: its file has no pooling_type rank; leave out --reranking`,
      );
    return model;
  } catch (error) {
    await model.dispose();
    throw error;
  }
}
