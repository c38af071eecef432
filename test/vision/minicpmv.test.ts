/** MiniCPM-V: native llama.cpp's embeddings, tokens around slices, and files that are refused. */
import { describe, expect, it } from 'vitest';
import type { ImageLayout } from '../../src/vision/layout.ts';
import { projectorNamed } from '../../src/vision/registry.ts';
import { decodeImage } from '../../src/vision/decode.ts';
import { RUNS } from '../builds.ts';
import { bytesOf, golden, paramsOf } from './golden.ts';
import { MINICPMV, minicpmvFile } from './minicpmv-file.ts';
import { encoderIn, projectorIn } from './projector-file.ts';

interface Case {
  readonly picture: string;
  /** Slices, then the overview. */
  readonly images: readonly {
    readonly tokens: number;
    readonly largest: number;
    readonly at: readonly number[];
    readonly values: readonly number[];
  }[];
}

/** Relative to the largest: native's own spread is 2.5e-3. */
const TOLERANCE = 3e-3;

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  it.each(golden<readonly { readonly name: string; readonly cases: readonly Case[] }[]>('minicpmv.json'))(
    'embeddings of native llama.cpp: $name',
    async ({ name, cases }) => {
      const { p, type, encoder } = await encoderIn(minicpmvFile(name), { threads, build });
      try {
        for (const { picture, images } of cases) {
          const decoded = await decodeImage(bytesOf(picture));
          const made = type.layout(p, decoded.width, decoded.height, {}).make(decoded);
          expect(made).toHaveLength(images.length);
          for (const [i, { tokens, largest, at, values }] of images.entries()) {
            const found = await encoder.encode(made[i], undefined);
            expect(found).toHaveLength(128 * tokens);
            const worst = Math.max(...values.map((value, j) => Math.abs(value - found[at[j]])));
            expect(worst / largest, `${picture}, ${i}`).toBeLessThan(TOLERANCE);
          }
        }
      } finally {
        await encoder.dispose();
      }
    },
  );
});

describe('tokens around slices', () => {
  const textOf = (name: string, grid: readonly [number, number]): string => {
    const layout = { grid } as unknown as ImageLayout;
    const type = projectorNamed(MINICPMV[name]['clip.projector_type'] as string);
    const pieces = type.pieces(layout, paramsOf(MINICPMV[name]));
    return pieces.map((piece) => ('token' in piece ? piece.token : 'image' in piece ? String(piece.image) : `"${piece.text}"`)).join(' ');
  };
  it.each(['MiniCPM-V 2.6', 'MiniCPM-V 4.6'])('%s', (name) => {
    expect(textOf(name, [0, 0])).toBe('<image> 0 </image>');
    expect(textOf(name, [2, 2])).toBe('<image> 4 </image> <slice> 0 </slice> <slice> 1 </slice> \n <slice> 2 </slice> <slice> 3 </slice>');
  });
  it('MiniCPM-V 2.5', () => {
    expect(textOf('MiniCPM-V 2.5', [0, 0])).toBe('<image> 0 </image>');
    expect(textOf('MiniCPM-V 2.5', [1, 2])).toBe('<image> 2 </image> <slice> <image> 0 </image> \n <image> 1 </image> </slice>');
  });
});

describe('files that are refused', () => {
  it.each([
    ['an unknown version', 'MiniCPM-V 2.6', { 'clip.minicpmv_version': 7 }, 'ERR_UNSUPPORTED_ARCH', /minicpmv_version" of mmproj is 7/],
    ['another factor', 'MiniCPM-V 4.6', { 'clip.vision.projector.scale_factor': 3 }, 'ERR_GGUF_INVALID', /scale_factor" of mmproj is 3/],
    ['a layer that there is not', 'MiniCPM-V 4.6', { 'clip.vision.wa_layer_indexes': [3] }, 'ERR_GGUF_INVALID', /begins with 3; .* 3$/],
  ])('%s', async (_, name, more, code, message) => {
    await expect(projectorIn(minicpmvFile(name, more))).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
  });
  it('queries that are not as many as the key says', async () => {
    const bytes = minicpmvFile('MiniCPM-V 2.6');
    const key = 'clip.minicpmv_query_num';
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    view.setUint32(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).indexOf(key) + key.length + 4, 13, true);
    await expect(projectorIn(bytes)).rejects.toMatchObject({ code: 'ERR_TENSOR_SHAPE', message: expect.stringContaining('[128, 12]') });
  });
});
