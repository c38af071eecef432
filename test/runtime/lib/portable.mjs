// Runs inside every runtime of the matrix: no imports, and only features that all of them have.

/**
 * Describes the first id that differs from native's; '' if none does. A difference is ignored if
 * native's own margin is within its noise (see golden.json).
 */
export function greedyFault(ids, golden) {
  const { ids: want, margins, noise } = golden;
  if (ids.length !== want.length) return `${ids.length} ids, native ${want.length}`;
  const k = want.findIndex((id, i) => ids[i] !== id);
  return k < 0 || margins[k] < 2 * noise ? '' : `step ${k}: got ${ids[k]}, native ${want[k]} by a margin of ${margins[k]} (noise ${noise})`;
}

/** Loads, generates greedily, compares, disposes. */
export async function runModel(loadModel, source, golden, options = {}) {
  const model = await loadModel(source, options);
  const { ids } = await model.generate(golden.prompt_ids, { temperature: 0, maxTokens: golden.ids.length, ignoreEos: true }).result();
  const { build, threads } = model;
  await model.dispose();
  return { build, threads, ids, fault: greedyFault(ids, golden) };
}

/**
 * Makes the bytes of a build with threads from the one without: its imported memory is shared and
 * has a maximum.
 */
export function withThreads(bytes) {
  const memory = '\x03env\x06memory\x02';
  const shared = Uint8Array.from(bytes);
  shared[new TextDecoder('latin1').decode(shared).indexOf(memory) + memory.length] = 3;
  return shared;
}

const bytesOf = (base64) => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
const sha256 = async (bytes) =>
  Array.from(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)), (byte) => byte.toString(16).padStart(2, '0')).join('');

/**
 * Decodes pictures and answers prompts with pictures. Compares pixels with stb_image's and ids with
 * native's (lib/vision.mjs).
 */
export async function runPictures({ loadModel, decodeImage, source, mmproj, golden: { pictures, cases }, options = {} }) {
  const faults = [];
  for (const [name, { data, sha256: want }] of Object.entries(pictures)) {
    const got = await decodeImage(bytesOf(data)).then(
      ({ rgb }) => sha256(rgb),
      (error) => error.code ?? String(error),
    );
    if (want ? got !== want : !got.startsWith('ERR_IMAGE_')) faults.push(`${name}: ${got}, expected ${want ?? 'a refusal'}`);
  }
  const model = await loadModel(source, { mmproj, contextLength: 1024, warmUp: false, ...options });
  for (const { name, prompt, pictures: shown, prompt_ids: promptIds, greedy } of cases) {
    const image = (i) => ({ type: 'image', image: bytesOf(pictures[shown[i]].data) });
    const parts = prompt.split('<__media__>').flatMap((text, i) => (i === 0 ? [text] : [image(i - 1), text]));
    const answer = await model.generate(parts, { temperature: 0, maxTokens: greedy.ids.length, ignoreEos: true }).result();
    const fault = answer.promptIds.join() === promptIds.join() ? greedyFault(answer.ids, greedy) : `the prompt is ${answer.promptIds}`;
    if (fault) faults.push(`${name} on ${model.build}: ${fault}`);
  }
  await model.dispose();
  return { faults, decoded: Object.keys(pictures).length, answered: cases.length };
}

const fnv = (bytes) => bytes.reduce((h, b) => Math.imul(h ^ b, 16777619) >>> 0, 2166136261).toString(16);

/**
 * Runs every block format's quantiser and dequantiser on seeded rows. Returns hashes of their
 * bytes, which are the same in every build and runtime, and dot products as numbers, whose sums may
 * be ordered differently.
 */
export function runKernels(module, shared, seed = 1) {
  const pages = 16;
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared });
  const kernels = new WebAssembly.Instance(module, {
    env: {
      memory,
      abort() {
        throw new Error('abort');
      },
    },
  }).exports;
  const base = 8 * 65536;
  const n = 1024;
  const x = base;
  const y = base + 65536;
  const back = base + 2 * 65536;
  const work = base + 4 * 65536;
  const bytes = new Uint8Array(memory.buffer);
  const floats = (at) => new Float32Array(memory.buffer, at, n);
  const row = (at, state) =>
    floats(at).forEach((_, i, row) => (row[i] = ((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 31 - 1) * (1 + (i >> 8))));
  const hashes = {};
  const dots = {};
  const names = Object.keys(kernels).sort();
  for (const name of names) {
    const type = /^quantize_row_(.*)$/.exec(name)?.[1];
    if (!type) continue;
    bytes.fill(0, y, work);
    row(x, seed);
    kernels[name](x, y, n, work);
    hashes[name] = fnv(bytes.slice(y, y + 65536));
    if (!kernels[`dequantize_row_${type}`]) continue;
    kernels[`dequantize_row_${type}`](y, back, n);
    hashes[`dequantize_row_${type}`] = fnv(bytes.slice(back, back + 4 * n));
    for (const dot of names) {
      const other = dot.startsWith(`vec_dot_${type}_`) ? dot.slice(`vec_dot_${type}_`.length) : undefined;
      if (!other || !kernels[`quantize_row_${other}`]) continue;
      row(x, seed + 1);
      bytes.fill(0, back, back + 65536);
      kernels[`quantize_row_${other}`](x, back, n, work);
      dots[dot] = kernels[dot](n, y, back);
    }
  }
  return { hashes, dots };
}

/**
 * Runs the kernels of each build, and the model on each. `modules`: build -> compiled module. The
 * dotadd builds only run if the relaxed dot-add behaves as they need. quantlet detects this, and
 * builds that it refuses are left out.
 */
export async function runAll({ loadModel, source, golden, modules = {}, runs }) {
  const models = [];
  const refused = new Set();
  for (const options of runs) {
    try {
      models.push(await runModel(loadModel, source, golden, options));
    } catch (error) {
      if (!(options.build?.startsWith('dotadd') && error.code === 'ERR_BUILD_UNAVAILABLE')) throw error;
      refused.add(options.build);
    }
  }
  const kernels = {};
  for (const [build, module] of Object.entries(modules))
    if (!refused.has(build)) kernels[build] = runKernels(module, build.endsWith('-threads'));
  return { kernels, models };
}
