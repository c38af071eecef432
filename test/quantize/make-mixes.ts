/**
 * Writes mixes.json: the types that native llama.cpp's own quantiser gives the tensors of the models in mix-models.ts.
 * For developers; tests only read the file.
 *
 *   npm i --ignore-scripts @node-llama-cpp/linux-x64@3.22.1 koffi      # in a folder of its own
 *   npx tsx test/quantize/make-mixes.ts FOLDER
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { readGGUF } from '../../src/gguf/read.ts';
import { inLayerOrder } from '../../src/quantize/pick-types.ts';
import { parseFtype } from '../../src/quantize/ftype.ts';
import { toBytes } from '../../src/source.ts';
import { TYPE } from '../../src/type-traits.ts';
import type { MixCase } from './mix-models.ts';
import { caseName, MIX_CASES, MIX_MODELS, mixModelFile, summarise } from './mix-models.ts';

interface Params extends Record<string, unknown> {
  ftype: number;
  nthread: number;
}

interface Native {
  defaults(): Params;
  quantize(input: string, output: string, params: Params): number;
  imatrix(entries: readonly { readonly name: string; readonly data: Float32Array }[]): unknown;
}

const loadNative = (folder: string): Native => {
  const require = createRequire(join(resolve(folder), 'package.json'));
  const koffi = require('koffi');
  const bins = join(resolve(folder), 'node_modules/@node-llama-cpp/linux-x64/bins/linux-x64');
  for (const name of ['libggml-base.so', 'libggml.v0.5.0.so']) koffi.load(join(bins, name), { global: true });
  const llama = koffi.load(join(bins, 'libllama.v0.5.0.so'));
  // Fields in the order of llama.h of v0.5.0.
  koffi.struct('quantize_params', {
    nthread: 'int', ftype: 'int', output_tensor_type: 'int', token_embedding_type: 'int',
    allow_requantize: 'bool', quantize_output_tensor: 'bool', only_copy: 'bool', pure: 'bool', keep_split: 'bool', dry_run: 'bool',
    imatrix: 'void *', kv_overrides: 'void *', tt_overrides: 'void *', prune_layers: 'void *',
  });
  koffi.struct('imatrix_data', { name: 'const char *', data: 'float *', size: 'size_t' });
  return {
    defaults: llama.func('quantize_params llama_model_quantize_default_params()'),
    quantize: llama.func('uint32_t llama_model_quantize(const char *, const char *, const quantize_params *)'),
    imatrix: (entries) => {
      const list = [...entries.map(({ name, data }) => ({ name, data, size: data.length })), { name: null, data: null, size: 0 }];
      return koffi.as(list, 'imatrix_data *');
    },
  };
};

const nativeTypes = async (native: Native, input: string, output: string, { ftype, options }: MixCase): Promise<Record<string, string> | 'error'> => {
  const params = native.defaults();
  params.ftype = parseFtype(ftype).id;
  params.nthread = 1;
  const source = await readGGUF(toBytes(readFileSync(input)));
  if (options === 'pure') params.pure = true;
  if (options === 'leave-output') params.quantize_output_tensor = false;
  if (options === 'output-q5_0') params.output_tensor_type = TYPE.q5_0.id;
  if (options === 'embedding-q5_1') params.token_embedding_type = TYPE.q5_1.id;
  if (options === 'imatrix') params.imatrix = native.imatrix(Array.from(source.tensors.values(), ({ name, ne }) => ({ name, data: new Float32Array(ne[0] * ne[2]).fill(1) })));
  if (native.quantize(input, output, params) !== 0) return 'error';
  const result = await readGGUF(toBytes(readFileSync(output)));
  return summarise(inLayerOrder(result.tensors.values()).map(({ name, type }) => [name, type]), parseFtype(ftype).type);
};

const native = loadNative(process.argv[2]);
const folder = mkdtempSync(join(tmpdir(), 'quantlet-mixes-'));
const mixes: Record<string, Record<string, unknown>> = {};
for (const model of MIX_MODELS) {
  const input = join(folder, 'in.gguf');
  writeFileSync(input, mixModelFile(model));
  mixes[model.name] = {};
  for (const mix of MIX_CASES) mixes[model.name][caseName(mix)] = await nativeTypes(native, input, join(folder, 'out.gguf'), mix);
}
rmSync(folder, { recursive: true });
writeFileSync(new URL('mixes.json', import.meta.url), `${JSON.stringify(mixes).replaceAll('},"', '},\n"')}\n`);
