/**
 * Native llama.cpp's quantiser called through koffi, for the scripts that make golden files.
 * make-mixes.ts says what must be installed.
 */
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

export interface Params extends Record<string, unknown> {
  ftype: number;
  nthread: number;
}

export interface Native {
  defaults(): Params;
  quantize(input: string, output: string, params: Params): number;
  imatrix(entries: readonly { readonly name: string; readonly data: Float32Array }[]): unknown;
}

export const loadNative = (folder: string): Native => {
  const require = createRequire(join(resolve(folder), 'package.json'));
  const koffi = require('koffi');
  const bins = join(resolve(folder), 'node_modules/@node-llama-cpp/linux-x64/bins/linux-x64');
  for (const name of ['libggml-base.so', 'libggml.v0.5.0.so']) koffi.load(join(bins, name), { global: true });
  const llama = koffi.load(join(bins, 'libllama.v0.5.0.so'));
  // Fields in the order of llama.h of v0.5.0.
  koffi.struct('quantize_params', {
    nthread: 'int',
    ftype: 'int',
    output_tensor_type: 'int',
    token_embedding_type: 'int',
    allow_requantize: 'bool',
    quantize_output_tensor: 'bool',
    only_copy: 'bool',
    pure: 'bool',
    keep_split: 'bool',
    dry_run: 'bool',
    imatrix: 'void *',
    kv_overrides: 'void *',
    tt_overrides: 'void *',
    prune_layers: 'void *',
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
