// Code of the test page, bundled like any page: window.quantletCheck(options), and the entry's
// loadModel for single cases.
import { loadModel } from 'quantlet';
import { download, list, remove } from 'quantlet/hub';
import { decodeImage } from './decode.mjs';
import { greedyFault, runAll, runModel, runPictures, withThreads } from './portable.mjs';

/**
 * `runs`: options of loadModel; `worker`: URL for createWorker; `wasm`: a build to load from its
 * URL; `builds`: builds whose kernels run; `vision`: arguments of runPictures().
 */
async function quantletCheck({ golden, source, runs, builds, vision, without = [] }) {
  for (const name of without) delete globalThis.Atomics[name];
  const modules = {};
  const able = new Set();
  for (const build of builds) {
    // The package makes builds with threads from those without.
    const file = build.replace('-threads', '');
    const own = new Uint8Array(await (await fetch(`/wasm/${file}.wasm`)).arrayBuffer());
    const bytes = file === build ? own : withThreads(own);
    if (!WebAssembly.validate(bytes) || (build.endsWith('-threads') && typeof SharedArrayBuffer !== 'function')) continue;
    able.add(build);
    modules[build] = await WebAssembly.compile(bytes);
  }
  const options = runs
    .filter(({ build }) => !build || able.has(build))
    .map(({ worker, ...rest }) => ({ ...rest, ...(worker && { createWorker: () => new Worker(worker) }) }));
  const out = await runAll({ loadModel, source, golden, modules, runs: options });
  if (vision) out.pictures = await runPictures({ loadModel, decodeImage, ...vision });
  out.isolated = globalThis.crossOriginIsolated === true;
  return out;
}

/**
 * One load: '' and native's ids, or the error's code. `abortAt`: aborts when this many bytes of
 * weights are loaded; `worker`: URL for createWorker.
 */
async function tryLoad({ source, golden, options = {}, worker, abortAt = Infinity }) {
  const controller = new AbortController();
  globalThis.loaded = 0;
  const onProgress = ({ loaded }) => {
    globalThis.loaded = loaded;
    if (loaded >= abortAt) controller.abort(new Error('the test wants no more'));
  };
  try {
    const { fault, build } = await runModel(loadModel, source, golden, {
      ...options,
      ...(worker && { createWorker: () => new Worker(worker) }),
      onProgress,
      signal: controller.signal,
    });
    return { fault, build };
  } catch (error) {
    return { code: error.code ?? error.name, message: error.message };
  }
}

/** Greedy ids of a model without golden text, and how it was loaded. */
async function greedyIds({ source, prompt, maxTokens, options }) {
  const model = await loadModel(source, { contextLength: 256, warmUp: false, ...options });
  const { ids } = await model.generate(prompt, { temperature: 0, maxTokens, ignoreEos: true }).result();
  await model.dispose();
  return { ids: [...ids], build: model.build, weights: model.stats.memory.weights };
}

/** Two simultaneous loads in one page. */
const tryTwice = (request) => Promise.all([tryLoad(request), tryLoad(request)]);

/** Names and sizes of the stored files. */
async function kept() {
  const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle('quantlet', { create: true });
  const files = {};
  for await (const [name, handle] of folder.entries())
    files[name.slice(-4)] = [...(files[name.slice(-4)] ?? []), (await handle.getFile()).size];
  return files;
}

/**
 * quantlet/hub with a model: downloaded twice, loaded, listed, removed. Returns what it reported.
 * `endpoint`: the hub's address.
 */
async function hubTrip({ source, endpoint, golden }) {
  const hub = endpoint ? { endpoint } : {};
  const told = [];
  const address = await download(source, { ...hub, onProgress: (progress) => told.push(progress) });
  const [model] = await list(hub);
  const { length } = told;
  await download(source, { ...hub, onProgress: (progress) => told.push(progress) });
  const again = told.length - length;
  const loaded = await tryLoad({ source: address, golden });
  return { address, model, last: told[length - 1], again, loaded, freed: await remove(source, hub), left: (await list()).length };
}

const loadedSoFar = () => globalThis.loaded ?? 0;

/** Lifecycle events of the page, in order. */
const events = [];
for (const type of ['freeze', 'resume']) document.addEventListener(type, () => events.push(type));
document.addEventListener('visibilitychange', () => events.push(document.visibilityState));
const lifecycle = () => events;

Object.assign(globalThis, { greedyIds, hubRemove: remove, hubTrip, tryLoad, tryTwice, kept, loadedSoFar, lifecycle });
Object.assign(globalThis, { quantletCheck, loadModel, greedyFault });
document.title = 'ready';
