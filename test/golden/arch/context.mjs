// Asks native llama.cpp (native.c, built as README.md says) for logits with every type of KV cache
// and with YaRN's flags. Writes context.json and context.f32.
//   node context.mjs PATH_OF_NATIVE FOLDER_OF_LIBGGML_CPU_FILES
import { execFileSync } from 'node:child_process';
import { mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const [native, libraries] = process.argv.slice(2, 4).map((path) => resolve(path));
const BACKENDS = mkdtempSync(join(tmpdir(), 'backend-'));
symlinkSync(join(libraries, 'libggml-cpu-haswell.so'), join(BACKENDS, 'libggml-cpu-haswell.so'));

const N = 96;
const ids = [1, ...Array.from({ length: N - 1 }, (_, i) => 3 + ((i ** 3 * 7 + i * 31 + 5) % 269))];
/** Positions whose logits are kept: some early ones and the last. */
const rows = [1, 15, 40, 95];
const types = ['f32', 'f16', 'bf16', 'q8_0', 'q5_1', 'q5_0', 'q4_1', 'q4_0', 'iq4_nl'];
const caches = [...types.map((type) => [type, type]), ['q8_0', 'iq4_nl'], ['bf16', 'q5_1'], ['q4_1', 'f16']];
/** Cache types for a model with heads of 128, which native rotates if the cache is quantised. */
const rotated = ['f16/f16', 'q8_0/q8_0', 'q4_0/q4_0', 'q4_0/f16', 'q8_0/q4_0', 'iq4_nl/q5_1'].map((both) => both.split('/'));
/**
 * Values of --yarn-ext-factor, -attn-factor, -beta-fast and -beta-slow. Negative: flag not given.
 */
const yarn = [
  [-1, -1, -1, -1],
  [-1, -1, 8, 0.5],
  [0.5, -1, -1, -1],
  [0, 1.5, -1, -1],
  [0, -1, -1, -1],
  [-1, 1.5, -1, -1],
];

const cases = [];
const values = [];
function ask(model, cache, more, env = {}) {
  const args = [fileURLToPath(new URL(model, import.meta.url)), 256, 'logits', ids.join(), 'the cat', cache];
  const options = { env: { ...process.env, BACKENDS, ...env }, maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'inherit'] };
  const { batch } = JSON.parse(execFileSync(native, args, options));
  cases.push({ model, ...more });
  values.push(...rows.flatMap((row) => batch[row]));
}
for (const [k, v] of caches) ask('llama-head32.gguf', k === 'f32' ? 'f32' : `${k}/${v}`, { k, v });
for (const [k, v] of rotated) ask('llama-head128.gguf', `${k}/${v}`, { k, v });
ask('llama-head128.gguf', 'q4_0/q4_0', { k: 'q4_0', v: 'q4_0', rotation: false }, { LLAMA_ATTN_ROT_DISABLE: '1' });
for (const flags of yarn) ask('qwen2-yarn.gguf', 'f32', { yarn: flags }, { YARN: flags.join() });
writeFileSync(new URL('context.f32', import.meta.url), new Uint8Array(Float32Array.from(values).buffer));
const lines = cases.map((one) => `    ${JSON.stringify(one)}`).join(',\n');
writeFileSync(
  new URL('context.json', import.meta.url),
  `{\n  "ids": ${JSON.stringify(ids)},\n  "rows": ${JSON.stringify(rows)},\n  "cases": [\n${lines}\n  ]\n}\n`,
);
