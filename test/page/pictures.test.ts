/** Pictures of messages: what the model gets, what files of conversations hold, EXIF data. */
import { describe, expect, it, vi } from 'vitest';
import { wireMessages } from '../../page/src/answer.ts';
import { orientationOf } from '../../page/src/pictures.ts';
import { readTree } from '../../page/src/transfer.ts';
import { message } from './message.ts';

vi.stubGlobal('localStorage', { getItem: () => null, setItem: () => {}, removeItem: () => {} });

const picture = { name: 'a.png', image: 'data:image/png;base64,AAAA' };
const part = { type: 'image_url', image_url: { url: picture.image } };
const text = (value: string) => ({ type: 'text', text: value });

describe('messages', () => {
  it('pictures come before the text and its files', () => {
    const attachments = [{ name: 'a.txt', text: 'one' }, picture];
    expect(wireMessages('', [message('user', 'Look', { attachments })])[0].content).toEqual([part, text('Look\n\na.txt:\n```\none\n```')]);
    expect(wireMessages('', [message('user', '', { attachments: [picture, picture] })])[0].content).toEqual([part, part]);
  });

  it('messages of a user in a row become one, with the pictures of all', () => {
    const given = [message('user', 'a'), message('user', 'b', { attachments: [picture] }), message('user', 'c')];
    expect(wireMessages('', given)).toEqual([{ role: 'user', content: [text('a'), part, text('b'), text('c')] }]);
  });
});

describe('files of conversations', () => {
  const read = (file: object) => readTree([{ role: 'user', content: 'Look', attachments: [file] }], 0).messages[0].attachments;
  it('keep pictures and their notes', () => {
    expect(read(picture)).toEqual([picture]);
    expect(read({ ...picture, note: 'made smaller' })).toEqual([{ ...picture, note: 'made smaller' }]);
  });

  it.each(['https://example.org/a.png', 'data:image/svg+xml;base64,AAAA', 'javascript:alert(1)', 5])('take no address: %s', (image) => {
    expect(read({ name: 'a', image })).toEqual([{ name: 'a', text: '' }]);
  });
});

describe('EXIF', () => {
  const jpeg = (...segments: number[][]) => Uint8Array.from([0xff, 0xd8, ...segments.flat(), 0xff, 0xda, 0, 2]);
  const comment = [0xff, 0xfe, 0, 20, ...Array<number>(18).fill(0x20)];
  const exif = (tiff: number[]) => [0xff, 0xe1, 0, 8 + tiff.length, ...Buffer.from('Exif\0\0'), ...tiff];
  const big = (orientation: number) => [
    0x4d,
    0x4d,
    0,
    42,
    0,
    0,
    0,
    8,
    0,
    2,
    1,
    0,
    0,
    3,
    0,
    0,
    0,
    1,
    0,
    9,
    0,
    0,
    1,
    0x12,
    0,
    3,
    0,
    0,
    0,
    1,
    0,
    orientation,
    0,
    0,
  ];
  const little = (orientation: number) => [0x49, 0x49, 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0];
  it.each([
    ['none', jpeg(comment), 1],
    ['big-endian', jpeg(comment, exif(big(6))), 6],
    ['little-endian', jpeg(exif(little(8))), 8],
    ['cut off', jpeg(exif(big(6))).subarray(0, 30), 1],
    ['an offset beyond its end', jpeg(exif([0x4d, 0x4d, 0, 42, 0xff, 0, 0, 8, 0, 1, 0, 0])), 1],
    ['no picture', new Uint8Array(3), 1],
    ['empty', new Uint8Array(0), 1],
  ])('%s', (_, bytes, orientation) => expect(orientationOf(bytes)).toBe(orientation));
});
