/** engine.load: reads tensors of a GGUF file directly into the engine's memory. */
import { QuantletError, tell } from '../errors.ts';
import { openModelFiles, type ModelSource } from '../io/model-files.ts';
import { nearest } from '../nearest.ts';
import { checkOptions, KIND } from '../options.ts';
import type { Platform } from '../platform.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { TypeTraits } from '../type-traits.ts';
import type { LoadTensorOptions } from './engine.ts';

/** Bytes read at once. */
const READ_BYTES = 8 << 20;
const NEAR = 6;
const NAMED = 5;

/** Allocates and frees tensors of the engine. */
interface Memory {
  make(type: TypeTraits, ne: readonly number[], name: string): { readonly t: Tensor; readonly bytes: Uint8Array };
  drop(t: Tensor): void;
}

/** Loads the tensors with these names, all or none. @see Engine.load */
export async function loadTensors(
  platform: Platform,
  source: ModelSource | readonly ModelSource[],
  wanted: string | readonly string[],
  options: LoadTensorOptions | undefined,
  memory: Memory,
): Promise<Tensor[]> {
  const { signal } = checkOptions<LoadTensorOptions>('load', options, { signal: KIND.signal });
  const names: readonly unknown[] = Array.isArray(wanted) ? wanted : [wanted];
  const odd = names.findIndex((n) => typeof n !== 'string');
  if (odd >= 0)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `load: the name is ${tell(names[odd])}; expected a tensor's name in the file, or a list of them`,
    );
  signal?.throwIfAborted();
  const { gguf, parts, close } = await openModelFiles(platform, source, signal);
  const loaded: Tensor[] = [];
  try {
    const infos = (names as readonly string[]).map((name) => gguf.tensors.get(name) ?? missing(name, [...gguf.tensors.keys()]));
    for (const info of infos) {
      const { t, bytes } = memory.make(info.type, info.ne, info.name);
      const from = parts[info.part];
      loaded.push(t);
      for (let at = 0; at < bytes.length; at += READ_BYTES) {
        signal?.throwIfAborted();
        const target = bytes.subarray(at, at + READ_BYTES);
        const start = info.offset + at;
        if (from.readInto) await from.readInto(target, start, signal);
        else target.set(await from.read(start, start + target.length, signal));
      }
    }
    return loaded;
  } catch (error) {
    loaded.forEach(memory.drop);
    throw error;
  } finally {
    await close();
  }
}

function missing(name: string, known: readonly string[]): never {
  const near = [...new Set([...known.filter((k) => k.includes(name)), ...nearest(name, known, NEAR, NAMED)])].slice(0, NAMED);
  const some =
    near.length > 0
      ? `those most like it are ${near.join(', ')}`
      : `it has ${known.length}, ${known.slice(0, NAMED).join(', ')}${known.length > NAMED ? ' ...' : ''}`;
  throw new QuantletError('ERR_MISSING_TENSOR', `load: the file has no tensor "${name}"; ${some}`);
}
