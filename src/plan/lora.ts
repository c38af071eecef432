/**
 * LoRA adapters (arXiv 2106.09685) as llama.cpp's convert_lora_to_gguf.py writes them. For a weight
 * W of the model they have two small matrices, NAME.lora_a and NAME.lora_b, so that W x becomes W x
 * + s B (A x). They are applied while the model runs: its weights stay packed, and a product gets
 * two thin ones.
 */
import { QuantletError } from '../errors.ts';
import { getString } from '../gguf/metadata.ts';
import type { GGUF, TensorInfo } from '../gguf/types.ts';
import type { ModelSource } from '../io/model-files.ts';

export interface LoraAdapter {
  source: ModelSource;
  /** Factor of the adapter; 1: as it was trained. Default 1. */
  scale?: number | undefined;
}

/** An adapter that a model was loaded with. */
export interface AppliedAdapter {
  /** Name of its file, or `adapter 1` and so on if it is not a path. */
  readonly name: string;
  readonly scale: number;
}

/** Matrices that an adapter adds to the product with one weight. */
export interface LoraPair {
  /** [n_in, rank]; for token_embd [rank, n_vocab], a row per token. */
  readonly a: TensorInfo;
  /** [rank, n_out]. */
  readonly b: TensorInfo;
  /** The caller's scale times alpha / rank. */
  readonly scale: number;
}

/**
 * Pairs by the name of their weight. Pairs of several adapters add up, in the order in which they
 * were given.
 */
export type Loras = ReadonlyMap<string, readonly LoraPair[]>;

const shape = (t: TensorInfo): string => `[${t.ne.slice(0, t.nDims).join(', ')}]`;

/**
 * Pairs of an adapter by the names of their weights, after all checks. Norms in the file are left
 * out, as in llama.cpp.
 */
export function readPairs(adapter: GGUF, model: GGUF, what: string): Map<string, { a: TensorInfo; b: TensorInfo; rank: number }> {
  const refuse = (why: string): never => {
    throw new QuantletError('ERR_ADAPTER', `${what} ${why}`);
  };
  const must = (key: string, want: string, hint: string): void => {
    const found = getString(adapter, key, '');
    if (found !== want) refuse(`has ${key} "${found}"; expected "${want}": ${hint}`);
  };
  must('general.type', 'adapter', "it is not an adapter in GGUF; convert one with llama.cpp's convert_lora_to_gguf.py");
  must('adapter.type', 'lora', 'only LoRA adapters can be applied');
  must('general.architecture', getString(model, 'general.architecture'), 'it was made for another model');
  if (adapter.metadata.has('adapter.alora.invocation_tokens'))
    refuse('is an activated LoRA, which begins in the middle of a text; expected a plain LoRA adapter');

  const pairs = new Map<string, { a: TensorInfo; b: TensorInfo; rank: number }>();
  for (const tensor of adapter.tensors.values()) {
    const [, name, half] = /^(.*)\.lora_([ab])$/s.exec(tensor.name) ?? [];
    if (name === undefined) {
      if (!tensor.name.endsWith('_norm.weight')) refuse(`has a tensor "${tensor.name}"; expected names that end in .lora_a or .lora_b`);
      continue;
    }
    const other = adapter.tensors.get(`${name}.lora_${half === 'a' ? 'b' : 'a'}`);
    if (!other)
      refuse(`has "${tensor.name}" ${shape(tensor)} without its other half "${name}.lora_${half === 'a' ? 'b' : 'a'}": it is incomplete`);
    if (half === 'b') continue;
    const a = tensor;
    const b = other!;
    const weight = model.tensors.get(name);
    if (!weight) refuse(`adapts "${name}", which the model does not have: it was made for another model`);
    if (weight!.ne[2] > 1)
      refuse(
        `adapts the experts "${name}", but only adapters of plain matrices can be applied while a model runs; merge it into the model before conversion`,
      );
    const rank = b.ne[0];
    const rows = name === 'token_embd.weight';
    const fits = rows
      ? a.ne[0] === rank && a.ne[1] === weight!.ne[1] && b.ne[1] === weight!.ne[0]
      : a.ne[0] === weight!.ne[0] && a.ne[1] === rank && b.ne[1] === weight!.ne[1];
    if (!fits || [a, b, weight!].some((t) => t.nDims !== 2)) {
      const want = rows ? `[rank, ${weight!.ne[1]}] and [rank, ${weight!.ne[0]}]` : `[${weight!.ne[0]}, rank] and [rank, ${weight!.ne[1]}]`;
      refuse(
        `has lora_a ${shape(a)} and lora_b ${shape(b)} for "${name}"; expected ${want} for a weight of ${shape(weight!)}: it was made for another model`,
      );
    }
    pairs.set(name, { a, b, rank });
  }
  if (pairs.size === 0) refuse('has no pair of lora_a and lora_b');
  return pairs;
}
