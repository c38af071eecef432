/** Sources of images as pixels, with a key that is the same for the same source. */
import { QuantletError, tell } from '../errors.ts';
import type { ImageSource } from '../run/image-tokens.ts';
import { decodeImage } from './decode.ts';
import { checkSize, invalid, type Picture } from './picture.ts';
import { sha256 } from '../sha256.ts';

export interface ReadImage {
  readonly key: string;
  readonly picture: Picture;
}

/** @throws ERR_IMAGE_INVALID, ERR_IMAGE_TRUNCATED, ERR_IMAGE_TOO_LARGE, ERR_INVALID_ARGUMENT */
export async function readImage(image: ImageSource): Promise<ReadImage> {
  if (typeof image === 'object' && image !== null && 'data' in image && 'width' in image) {
    const picture = pixelsOf(image);
    return { key: await keyOf(picture.rgb, `${picture.width} x ${picture.height}`), picture };
  }
  const bytes = await bytesOf(image);
  return { key: await keyOf(bytes, 'file'), picture: await decodeImage(bytes) };
}

async function bytesOf(image: unknown): Promise<Uint8Array> {
  if (image instanceof Uint8Array) return image;
  if (image instanceof ArrayBuffer) return new Uint8Array(image);
  if (typeof Blob !== 'undefined' && image instanceof Blob) return new Uint8Array(await image.arrayBuffer());
  if (typeof image === 'string' || image instanceof URL) return dataUrlBytes(String(image));
  throw new QuantletError(
    'ERR_INVALID_ARGUMENT',
    `an image is ${tell(image)}; expected the bytes of a PNG or JPEG file, a Blob, a data: URL, or { data, width, height, channels }`,
  );
}

/**
 * Bytes of a data: URL of an image.
 * @throws ERR_IMAGE_INVALID; ERR_INVALID_ARGUMENT for another URL: nothing is fetched
 */
export function dataUrlBytes(url: string): Uint8Array {
  const [, type, base64] = /^data:([^,;]*)(?:;[^,;]*)*?(;base64)?,/i.exec(url.slice(0, 256)) ?? [];
  if (type === undefined) {
    const scheme = /^[a-z][a-z0-9+.-]*:/i.exec(url)?.[0] ?? 'no scheme';
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `the URL of an image has ${scheme}; expected a data: URL, because nothing is downloaded`,
    );
  }
  if (!/^image\//i.test(type) || !base64)
    throw invalid(
      `has a data: URL of ${type || 'no type'}${base64 ? '' : ' without base64'}; expected data:image/png;base64 or image/jpeg`,
    );
  return base64Bytes(url.slice(url.indexOf(',') + 1));
}

/** @throws ERR_IMAGE_INVALID */
export function base64Bytes(text: string): Uint8Array {
  let binary: string;
  try {
    binary = atob(text);
  } catch {
    throw invalid('is not base64; expected the bytes of a PNG or JPEG file in base64');
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
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

let unshared = 0;

/**
 * Hash of a source, so that the same picture is encoded once. Pages without a secure context have
 * no hashes; there, pictures are not shared.
 */
async function keyOf(bytes: Uint8Array, kind: string): Promise<string> {
  const { subtle } = crypto as { subtle?: SubtleCrypto };
  return subtle ? `${kind} ${await sha256(bytes)}` : `picture ${unshared++}`;
}
