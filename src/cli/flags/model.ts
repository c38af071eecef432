/** Flags that name models and adapters. */
import { flag, type Flag } from './flag.ts';

export const MODEL_ROWS = {
  model: flag(
    'model',
    '-m -mu --model-url',
    'string',
    'FILE|URL',
    'GGUF model: a path, or an https URL that is downloaded once; default: the small model that ships with quantlet',
  ),
  models: flag(
    'model',
    '-m -mu --model-url',
    'strings',
    'FILE|URL',
    'GGUF model: a path or an https URL; may be given several times: each model is then loaded when a request names it',
  ),
  modelsDir: flag('models-dir', '', 'string', 'DIR', 'serve all GGUF models of a folder; each is loaded when a request names it'),
  modelsMax: flag(
    'models-max',
    '',
    'integer',
    'N',
    'at most this many models are loaded at the same time; the least recently used one makes room (4)',
  ),
  modelsMemory: flag('models-memory', '', 'integer', 'BYTES', 'at most this much memory for all loaded models; default: no limit'),
  modelsPull: flag(
    'models-pull',
    '',
    'boolean',
    '',
    'serve the downloaded models too; clients may download models of the hub, name them and delete them (POST /api/pull, /api/copy, DELETE /api/delete)',
  ),
  hf: flag(
    'hf-repo',
    '-hf -hfr',
    'string',
    'USER/REPO[:QUANT]',
    'model from the Hugging Face hub, downloaded once (QUANT: Q4_K_M, else Q8_0, else the first model)',
  ),
  hfFile: flag('hf-file', '-hff', 'string', 'FILE', 'file of the repository of -hf, in place of QUANT'),
  hfToken: flag('hf-token', '-hft', 'string', 'TOKEN', 'access token of the hub; default: HF_TOKEN of the environment'),
  offline: flag('offline', '', 'boolean', '', 'use only downloaded models'),
  lora: flag('lora', '', 'strings', 'FILE,...', 'LoRA adapters (GGUF) to apply; may be given several times'),
  loraScaled: flag('lora-scaled', '', 'strings', 'FILE:SCALE,...', 'LoRA adapters with scales: style.gguf:0.5'),
  alias: flag('alias', '-a', 'string', 'NAME', "name of the model in lists and answers; default: the file's"),
} as const satisfies { readonly [key: string]: Flag };
