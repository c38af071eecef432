// What the test page runs, bundled like any page: window.quantletCheck(options) and the entry's loadModel for single cases.
import { loadModel } from 'quantlet';
import { greedyFault, runAll } from './portable.mjs';

/** `runs`: options of loadModel; `worker`: URL for createWorker; `wasm`: a build to bring from its URL; `builds`: whose kernels to run. */
async function quantletCheck({ golden, source, runs, builds, without = [] }) {
  for (const name of without) delete globalThis.Atomics[name];
  const modules = {};
  for (const build of builds) {
    const bytes = await (await fetch(`/wasm/${build}.wasm`)).arrayBuffer();
    if (WebAssembly.validate(bytes) && !(build.endsWith('-threads') && typeof SharedArrayBuffer !== 'function')) modules[build] = await WebAssembly.compile(bytes);
  }
  const options = runs
    .filter(({ build }) => !build || modules[build])
    .map(({ worker, ...rest }) => ({ ...rest, ...(worker && { createWorker: () => new Worker(worker) }) }));
  const out = await runAll({ loadModel, source, golden, modules, runs: options });
  out.isolated = globalThis.crossOriginIsolated === true;
  return out;
}

Object.assign(globalThis, { quantletCheck, loadModel, greedyFault });
document.title = 'ready';
