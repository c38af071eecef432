/** Opening of LoRA adapters. */
import { QuantletError } from '../errors.ts';
import { rotatedWeights } from '../arch/rotation.ts';
import { getNumber } from '../gguf/metadata.ts';
import type { GGUF, TensorInfo } from '../gguf/types.ts';
import { openModelFiles } from '../io/model-files.ts';
import { KIND, checkOptions, type Kinds } from '../options.ts';
import type { Platform } from '../platform.ts';
import type { Bytes } from '../io/source.ts';
import { readPairs, type AppliedAdapter, type LoraAdapter, type LoraPair, type Loras } from '../plan/lora.ts';

/** openLoras() checks the values. */
const LORA_ADAPTER: Kinds<LoraAdapter> = { source: KIND.any, scale: KIND.any };

const appliedAdapters = (adapters: readonly LoraAdapter[]): readonly AppliedAdapter[] =>
  adapters.map(({ source, scale = 1 }, i) => ({
    name: typeof source === 'string' ? source.replace(/^.*[\\/]/, '') : `adapter ${i + 1}`,
    scale,
  }));

export interface OpenedLoras {
  readonly adapters: readonly AppliedAdapter[];
  readonly loras: Loras;
  /**
   * Files of the model, then files of the adapters; `part` of a tensor is an index into this list.
   */
  readonly parts: readonly Bytes[];
  close(): Promise<void>;
}

/**
 * @throws ERR_ADAPTER if an adapter does not fit the model, naming tensor and shapes; what opening
 * a model throws
 */
export async function openLoras(
  platform: Platform,
  adapters: readonly LoraAdapter[],
  model: GGUF,
  modelParts: readonly Bytes[],
  signal?: AbortSignal,
): Promise<OpenedLoras> {
  const rotations = rotatedWeights(model);
  if (adapters.length > 0 && rotations.length > 0)
    throw new QuantletError(
      'ERR_ADAPTER',
      `the model's weights are rotated (${rotations.join(', ')}), and the adapter's are not; merge the adapter into the original model, then rotate that`,
    );
  const loras = new Map<string, LoraPair[]>();
  const parts = [...modelParts];
  const closing: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(closing.map((one) => one()));
  };
  try {
    if (!Array.isArray(adapters))
      throw new QuantletError('ERR_INVALID_ARGUMENT', `lora is ${typeof adapters}; expected a list of { source, scale }`);
    for (const [i, adapter] of (adapters as readonly LoraAdapter[]).entries()) {
      if (!adapter?.source) throw new QuantletError('ERR_INVALID_ARGUMENT', `lora has no source at ${i}; expected { source, scale }`);
      checkOptions(`lora: adapter ${i + 1}`, adapter, LORA_ADAPTER);
      const { source, scale = 1 } = adapter;
      const what = typeof source === 'string' ? `the adapter ${source}` : `adapter ${i + 1} of ${adapters.length}`;
      if (!Number.isFinite(scale))
        throw new QuantletError('ERR_INVALID_ARGUMENT', `the scale of ${what} is ${scale}; expected a finite number`);
      const files = await openModelFiles(platform, source, signal);
      closing.push(files.close);
      for (const [name, { a, b, rank }] of readPairs(files.gguf, model, what)) {
        const alpha = getNumber(files.gguf, 'adapter.lora.alpha', 0);
        const moved = (t: TensorInfo): TensorInfo => ({ ...t, part: t.part + parts.length });
        loras.set(name, [...(loras.get(name) ?? []), { a: moved(a), b: moved(b), scale: scale * (alpha ? alpha / rank : 1) }]);
      }
      parts.push(...files.parts);
    }
    return { adapters: appliedAdapters(adapters), loras, parts, close };
  } catch (error) {
    await close();
    throw error;
  }
}
