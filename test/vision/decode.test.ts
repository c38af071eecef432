/** Decoding of PNG and JPEG files: stb_image's pixels, bit for bit, and refusals. */
import { readFileSync } from 'node:fs';
import { deflateSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { QuantletError } from '../../src/errors.ts';
import { decodeImage } from '../../src/vision/decode.ts';
import { MAX_SIDE } from '../../src/vision/picture.ts';
import { bytesOf, hasShared, pictures, sha256, sharedGolden, type GoldenPicture } from './golden.ts';

const codeOf = (bytes: Uint8Array): Promise<string> =>
  decodeImage(bytes).then(
    () => 'pixels',
    (error: unknown) => (error instanceof QuantletError ? error.code : `${error}`),
  );

const good = pictures.filter(([, { sha256 }]) => sha256 !== undefined);
const bad = pictures.filter(([, { sha256 }]) => sha256 === undefined);

describe('pixels of stb_image', () => {
  it('there are PNG and JPEG files of many kinds', () => expect(good.length).toBeGreaterThan(35));
  it.each(good)('%s', async (name, { width, height, sha256: hash }) => {
    const picture = await decodeImage(bytesOf(name));
    expect([picture.width, picture.height, sha256(picture.rgb)]).toEqual([width, height, hash]);
  });
});

describe('files that are refused', () => {
  it.each(bad)('%s', async (name) => expect(await codeOf(bytesOf(name))).toMatch(/^ERR_IMAGE_/));

  it.each(['decode/palette4-transparent.png', 'decode/420-progressive.jpg', 'decode/420-restart.jpg', 'decode/grey4-interlaced.png'])(
    'every beginning of %s',
    async (name) => {
      const bytes = bytesOf(name);
      for (let n = 0; n < bytes.length; n++)
        expect(await codeOf(bytes.subarray(0, n)), `${n} of ${bytes.length} bytes`).toMatch(/^ERR_IMAGE_(TRUNCATED|INVALID)$/);
    },
  );

  it.each([
    ['GIF', 'GIF89a'],
    ['WebP', 'RIFF\0\0\0\0WEBPVP8 '],
    ['BMP', 'BM\0\0'],
  ])('%s, by its name', async (name, text) => {
    await expect(decodeImage(Buffer.from(text, 'latin1'))).rejects.toThrow(`is a ${name} file; expected PNG or JPEG`);
  });
});

/** A PNG file. Checksums are not read, so they are zeros. */
function png(width: number, height: number, rows: Uint8Array, { depth = 8, colour = 2 } = {}): Uint8Array {
  const chunk = (type: string, body: Uint8Array): Buffer => {
    const head = Buffer.alloc(8);
    head.writeUInt32BE(body.length);
    head.write(type, 4, 'latin1');
    return Buffer.concat([head, body, Buffer.alloc(4)]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width);
  header.writeUInt32BE(height, 4);
  header.set([depth, colour], 8);
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(rows)),
    chunk('IEND', new Uint8Array(0)),
  ]);
}

describe('PNG', () => {
  const rows = (filter: number, first: number): Uint8Array => Uint8Array.from([filter, first, 20, 30, 1, 2, 3, filter, 5, 5, 5, 7, 7, 7]);
  it.each([
    [0, [10, 20, 30, 1, 2, 3, 5, 5, 5, 7, 7, 7]],
    [1, [10, 20, 30, 11, 22, 33, 5, 5, 5, 12, 12, 12]],
    [2, [10, 20, 30, 1, 2, 3, 15, 25, 35, 8, 9, 10]],
    [3, [10, 20, 30, 6, 12, 18, 10, 15, 20, 15, 20, 26]],
    [4, [10, 20, 30, 11, 22, 33, 15, 25, 35, 22, 32, 42]],
  ])('filter %i', async (filter, rgb) => {
    expect([...(await decodeImage(png(2, 2, rows(filter, 10)))).rgb]).toEqual(rgb);
  });

  it('a filter that does not exist is refused', async () => {
    await expect(decodeImage(png(2, 2, rows(5, 10)))).rejects.toThrow('filter 5');
  });

  it.each([
    ['too few pixels', png(2, 3, rows(0, 0)), 'ERR_IMAGE_TRUNCATED'],
    ['too many pixels', png(2, 1, rows(0, 0)), 'ERR_IMAGE_INVALID'],
    ['a side that is too long', png(MAX_SIDE + 1, 1, rows(0, 0)), 'ERR_IMAGE_TOO_LARGE'],
    ['more pixels than the bytes can hold', png(8000, 8000, rows(0, 0)), 'ERR_IMAGE_TRUNCATED'],
    ['indices without a palette', png(2, 2, rows(0, 0), { colour: 3 }), 'ERR_IMAGE_INVALID'],
    ['a depth that does not exist', png(2, 2, rows(0, 0), { depth: 3 }), 'ERR_IMAGE_INVALID'],
  ])('%s', async (_, bytes, code) => expect(await codeOf(bytes)).toBe(code));
});

describe('JPEG', () => {
  /** Bytes of a golden picture with the two bytes after a marker's first occurrence replaced. */
  const changed = (name: string, marker: number, offset: number, bytes: readonly number[]): Uint8Array => {
    const file = bytesOf(name).slice();
    const found = file.findIndex((byte, i) => byte === 0xff && file[i + 1] === marker);
    file.set(bytes, found + offset);
    return file;
  };
  it.each([
    ['12 bits', changed('decode/420.jpg', 0xc0, 4, [12]), 'ERR_IMAGE_INVALID'],
    ['arithmetic codes', changed('decode/420.jpg', 0xc0, 1, [0xc9]), 'ERR_IMAGE_INVALID'],
    ['more pixels than the bytes can hold', changed('decode/420.jpg', 0xc0, 5, [0x1f, 0x40, 0x1f, 0x40]), 'ERR_IMAGE_TRUNCATED'],
    ['a side of 0', changed('decode/420.jpg', 0xc0, 5, [0, 0]), 'ERR_IMAGE_INVALID'],
    ['two components', changed('decode/420.jpg', 0xc0, 9, [2]), 'ERR_IMAGE_INVALID'],
  ])('%s', async (_, bytes, code) => expect(await codeOf(bytes)).toBe(code));

  it('a file of many scans over the same blocks is refused', async () => {
    const file = bytesOf('decode/grey.jpg');
    const scan = file.subarray(
      file.findIndex((byte, i) => byte === 0xff && file[i + 1] === 0xda),
      -2,
    );
    const many = Buffer.concat([file.subarray(0, -2), ...Array.from({ length: 40 }, () => scan), Buffer.from([0xff, 0xd9])]);
    await expect(decodeImage(many)).rejects.toThrow('too many scans');
  });
});

if (hasShared)
  describe('more pictures of stb_image', () => {
    const { pictures: more } = JSON.parse(readFileSync(sharedGolden('pictures.json'), 'utf8')) as {
      pictures: Record<string, GoldenPicture>;
    };
    it.each(Object.entries(more))('%s', async (name, { sha256: hash }) => {
      const bytes = readFileSync(sharedGolden(`pictures/${name}`));
      if (name.startsWith('bad/')) expect(await codeOf(bytes)).toMatch(/^ERR_IMAGE_/);
      else expect(sha256((await decodeImage(bytes)).rgb)).toBe(hash);
    });
  });
