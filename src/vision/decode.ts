/** Decoding of picture files, recognised by their first bytes. */
import { decodeJpeg } from './jpeg/decode.ts';
import { invalid, truncated, type Picture } from './picture.ts';
import { decodePng, PNG_SIGNATURE } from './png.ts';

/** Formats that are recognised and not read, by their first bytes. */
const OTHERS: readonly (readonly [name: string, begins: string, at?: number])[] = [
  ['GIF', 'GIF8'],
  ['BMP', 'BM'],
  ['WebP', 'WEBP', 8],
  ['AVIF or HEIC', 'ftyp', 4],
  ['TIFF', 'II*\0'],
  ['TIFF', 'MM\0*'],
  ['SVG', '<svg'],
  ['PDF', '%PDF'],
];

const beginsWith = (bytes: Uint8Array, text: string, at = 0): boolean => {
  for (let i = 0; i < text.length; i++) if (bytes[at + i] !== text.charCodeAt(i)) return false;
  return true;
};

/**
 * Decodes a PNG or JPEG file to the pixels that llama.cpp sees (stb_image, 3 channels). Alpha is
 * dropped. Colour profiles and the orientation in EXIF are ignored.
 * @throws ERR_IMAGE_INVALID, ERR_IMAGE_TRUNCATED, ERR_IMAGE_TOO_LARGE
 */
export async function decodeImage(bytes: Uint8Array): Promise<Picture> {
  if (bytes.length === 0) throw truncated('it is empty');
  if (beginsWith(bytes, PNG_SIGNATURE)) return decodePng(bytes);
  if (bytes[0] === 0xff && bytes[1] === 0xd8) return decodeJpeg(bytes);
  const other = OTHERS.find(([, begins, at]) => beginsWith(bytes, begins, at));
  throw invalid(
    `is ${other ? `a ${other[0]} file` : 'not a picture file that is known'}; expected PNG or JPEG: convert it, or give its pixels`,
  );
}
