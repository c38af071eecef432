/** Flags that override metadata of the file: --override-kv and the flags for rotary embeddings. */
import { QuantletError } from '../errors.ts';
import type { GGUFValue } from '../gguf/types.ts';
import type { WriteValue } from '../gguf/write.ts';
import type { LoadOptions } from '../model.ts';
import type { METADATA_FLAGS, Values } from './flags.ts';

type MetadataFlags = Values<(typeof METADATA_FLAGS)[number]>;

/** Types of llama.cpp's KEY=TYPE:VALUE, with their parsers. */
const TYPES: { readonly [type: string]: (text: string) => GGUFValue | undefined } = {
  int: (text) => (/^-?\d+$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : undefined),
  float: (text) => (text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : undefined),
  bool: (text) => (text === 'true' ? true : text === 'false' ? false : undefined),
  str: (text) => text,
};

/** GGUF types in which llama-quantize writes overrides. */
const WRITTEN = { number: 'f32', boolean: 'bool', string: 'str' } as const;

/** Metadata that --override-kv writes into a new file. */
export const writtenOverrides = (all: readonly string[] = []): Record<string, WriteValue> =>
  Object.fromEntries(
    Object.entries(overridesOf(all)).map(([key, value]) => {
      const type = all.some((text) => text.includes(`${key}=int:`)) ? 'u32' : WRITTEN[typeof value as keyof typeof WRITTEN];
      return [key, { type, value: type === 'u32' ? Math.abs(value as number) : value }];
    }),
  );

/** @throws ERR_USAGE unless every text is KEY=TYPE:VALUE */
export function overridesOf(all: readonly string[] = []): Record<string, GGUFValue> {
  // A comma separates two overrides only if a key and a type follow, because a text value may
  // contain commas.
  const each = all.flatMap((list) => list.split(/,(?=[^,=]+=(?:int|float|bool|str):)/));
  return Object.fromEntries(
    each.map((text) => {
      const [, key, type, value] = /^([^=]+)=(\w+):(.*)$/s.exec(text) ?? [];
      const read = key !== undefined && Object.hasOwn(TYPES, type) ? TYPES[type](value) : undefined;
      if (read === undefined)
        throw new QuantletError(
          'ERR_USAGE',
          `--override-kv is "${text}"; expected KEY=int:N, KEY=float:X, KEY=bool:true or false, or KEY=str:TEXT`,
        );
      return [key, read];
    }),
  );
}

/** In llama.cpp a negative value means the file's value. */
const ofFile = (value: number | undefined): number | undefined => (value === undefined || value < 0 ? undefined : value);
const ROPE_SCALINGS = ['none', 'linear', 'yarn'];

/**
 * The option of loadModel from the flags. `architecture` is called if a key begins with the
 * architecture's name.
 */
export async function metadataOf(values: MetadataFlags, architecture: () => Promise<string>): Promise<Pick<LoadOptions, 'overrideKv'>> {
  const { ropeScaling } = values;
  if (ropeScaling !== undefined && !ROPE_SCALINGS.includes(ropeScaling))
    throw new QuantletError('ERR_USAGE', `--rope-scaling is "${ropeScaling}"; expected ${ROPE_SCALINGS.join(', ')}`);
  const { ropeFreqScale: scale, ropeScale = scale === undefined ? undefined : 1 / scale } = values;
  if (ropeScale !== undefined && !(ropeScale > 0 && Number.isFinite(ropeScale)))
    throw new QuantletError('ERR_USAGE', '--rope-scale or --rope-freq-scale is too small; expected a number above 0');
  const rope = Object.entries({
    'rope.scaling.type': ropeScaling,
    'rope.scaling.factor': ropeScale,
    'rope.freq_base': values.ropeFreqBase,
    'rope.scaling.original_context_length': values.yarnOrigCtx === 0 ? undefined : values.yarnOrigCtx,
    'rope.scaling.yarn_ext_factor': ofFile(values.yarnExtFactor),
    'rope.scaling.yarn_attn_factor': ofFile(values.yarnAttnFactor),
    'rope.scaling.yarn_beta_fast': ofFile(values.yarnBetaFast),
    'rope.scaling.yarn_beta_slow': ofFile(values.yarnBetaSlow),
  }).filter((entry): entry is [string, string | number] => entry[1] !== undefined);
  if (rope.length === 0 && !values.overrideKv) return {};
  const name = rope.length > 0 ? await architecture() : '';
  return {
    overrideKv: { ...Object.fromEntries(rope.map(([key, value]) => [`${name}.${key}`, value])), ...overridesOf(values.overrideKv) },
  };
}
