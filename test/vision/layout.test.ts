/** Sizes, tiles and resized pixels of each projector type: llama.cpp's, bit for bit. */
import { describe, expect, it } from 'vitest';
import { decodeImage } from '../../src/vision/decode.ts';
import { checkLayout, type ImageLayout } from '../../src/vision/layout.ts';
import { projectorNamed } from '../../src/vision/registry.ts';
import { fit, stretch } from '../../src/vision/resize.ts';
import { bytesOf, golden, paramsOf, sha256, type Metadata } from './golden.ts';

interface Sizes {
  readonly model: {
    readonly name: string;
    readonly type: string;
    readonly min?: number;
    readonly max?: number;
    readonly metadata: Metadata;
  };
  readonly sizes: readonly {
    readonly size: readonly [number, number];
    readonly grid: readonly number[];
    readonly images: readonly (readonly number[])[];
  }[];
}

/** Equal consecutive images: how many, width, height. */
function counted({ sizes }: ImageLayout): number[][] {
  const out: number[][] = [];
  for (const [w, h] of sizes) {
    const last = out.at(-1);
    if (last?.[1] === w && last[2] === h) last[0]++;
    else out.push([1, w, h]);
  }
  return out;
}

describe('sizes and grids', () => {
  const models = golden<readonly Sizes[]>('sizes.json').map(
    (one) => [`${one.model.name} ${one.model.min ?? ''} ${one.model.max ?? ''}`, one] as const,
  );
  it.each(models)('%s', (_, { model: { type, min, max, metadata }, sizes }) => {
    const p = paramsOf(metadata);
    for (const { size, grid, images } of sizes) {
      const layout = projectorNamed(type).layout(p, ...size, { min, max });
      expect([layout.grid, counted(layout)], size.join(' x ')).toEqual([grid, images]);
    }
  });
});

interface Images {
  readonly name: string;
  readonly type: string;
  readonly metadata: Metadata;
  readonly pictures: Readonly<Record<string, readonly string[]>>;
}

describe('pixels after resizing', () => {
  const models = golden<readonly Images[]>('images.json').map((one) => [one.name, one] as const);
  it.each(models)('%s', async (_, { type, metadata, pictures }) => {
    for (const [name, hashes] of Object.entries(pictures)) {
      const picture = await decodeImage(bytesOf(name));
      const images = projectorNamed(type).layout(paramsOf(metadata), picture.width, picture.height, {}).make(picture);
      expect(
        images.map(({ rgb }) => sha256(rgb)),
        name,
      ).toEqual(hashes);
    }
  });
});

describe('pictures that cannot be resized', () => {
  const idefics3 = golden<readonly Images[]>('images.json').find(({ name }) => name === 'idefics3')!;
  it('a picture so thin that a side becomes 0', () => {
    const layout = (): unknown => projectorNamed('idefics3').layout(paramsOf(idefics3.metadata), 600, 1, {});
    expect(layout).toThrow(expect.objectContaining({ code: 'ERR_IMAGE_INVALID' }));
  });
  it('a file that asks for too many tiles', () => {
    const many = paramsOf({ ...idefics3.metadata, 'clip.vision.preproc_image_size': 60_000 });
    expect(() => projectorNamed('idefics3').layout(many, 100, 100, {})).toThrow(expect.objectContaining({ code: 'ERR_IMAGE_INVALID' }));
  });
  it('a picture whose images would have too many pixels', () => {
    const lfm2 = golden<readonly Images[]>('images.json').find(({ type }) => type === 'lfm2')!;
    const layout = projectorNamed('lfm2').layout(paramsOf(lfm2.metadata), 16384, 1, {});
    expect(layout.sizes.reduce((sum, [w, h]) => sum + w * h, 0)).toBeGreaterThan(0);
    const many = { ...layout, sizes: [[60000, 60000]] as const };
    expect(() => checkLayout(many, 16384, 1)).toThrow(expect.objectContaining({ code: 'ERR_IMAGE_INVALID' }));
  });
});

describe('resizing', () => {
  const grey = (width: number, height: number, value: number) => ({ width, height, rgb: new Uint8Array(3 * width * height).fill(value) });
  it.each(['bilinear', 'bicubic', 'lanczos'] as const)('%s leaves one colour as it is', (filter) => {
    for (const [w, h] of [
      [1, 1],
      [7, 3],
      [100, 50],
    ])
      expect(new Set(stretch(grey(13, 5, 77), w, h, filter).rgb)).toEqual(new Set([77]));
  });
  it('fit() centres the picture on the colour', () => {
    const { rgb } = fit(grey(4, 2, 9), 4, 4, 'bilinear', [1, 2, 3]);
    expect([...rgb.subarray(0, 3)]).toEqual([1, 2, 3]);
    expect([...rgb.subarray(12, 36)]).toEqual(new Array(24).fill(9));
    expect([...rgb.subarray(36, 39)]).toEqual([1, 2, 3]);
  });
});
