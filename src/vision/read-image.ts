/** Sources of images as pixels, with a key that is the same for the same source. */
import { bytesOf, keyOf, type SourceKind } from '../encoder/source.ts';
import { QuantletError, tell } from '../errors.ts';
import type { ImageSource } from '../run/image-tokens.ts';
import { decodeImage } from './decode.ts';
import { checkSize, type Picture } from './picture.ts';

export interface ReadImage {
  readonly key: string;
  readonly picture: Picture;
}

/** Images, for the errors of their sources. */
export const IMAGE_SOURCE: SourceKind = {
  name: 'an image',
  code: 'ERR_IMAGE_INVALID',
  files: 'a PNG or JPEG file',
  others: '{ data, width, height, channels }',
};

/** @throws ERR_IMAGE_INVALID, ERR_IMAGE_TRUNCATED, ERR_IMAGE_TOO_LARGE, ERR_INVALID_ARGUMENT */
export async function readImage(image: ImageSource): Promise<ReadImage> {
  if (typeof image === 'object' && image !== null && 'data' in image && 'width' in image) {
    const picture = pixelsOf(image);
    return { key: await keyOf(picture.rgb, `${picture.width} x ${picture.height}`), picture };
  }
  const bytes = await bytesOf(image, IMAGE_SOURCE);
  return { key: await keyOf(bytes, 'file'), picture: await decodeImage(bytes) };
}

/** Pixels of 1, 3 or 4 channels, without their alpha. */
function pixelsOf(given: Extract<ImageSource, { data: unknown }>): Picture {
  const { data, width, height } = given;
  const bytes = data instanceof Uint8Array || data instanceof Uint8ClampedArray ? data : undefined;
  if (!bytes || !Number.isInteger(width) || !Number.isInteger(height))
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `an image has ${tell(data)} of ${tell(width)} x ${tell(height)}; expected { data: Uint8Array, width, height, channels }`,
    );
  checkSize(width, height);
  const channels = given.channels ?? bytes.length / (width * height);
  if (![1, 3, 4].includes(channels) || bytes.length !== channels * width * height)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `an image of ${width} x ${height} with ${channels} channels has ${bytes.length} bytes; expected width * height * channels, for 1, 3 or 4 channels`,
    );
  const rgb = new Uint8Array(3 * width * height);
  const [green, blue] = channels === 1 ? [0, 0] : [1, 2];
  for (let from = 0, to = 0; to < rgb.length; from += channels, to += 3) {
    rgb[to] = bytes[from];
    rgb[to + 1] = bytes[from + green];
    rgb[to + 2] = bytes[from + blue];
  }
  return { width, height, rgb };
}
