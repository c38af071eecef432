/** A decoded picture, and the limits that pictures are held against before memory is allocated. */
import { QuantletError } from '../errors.ts';

/** Pixels as rows of red, green and blue bytes. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly rgb: Uint8Array;
}

/** Largest side, and largest number of pixels, of a picture that is decoded. */
export const MAX_SIDE = 16384;
export const MAX_PIXELS = 1 << 26;

/** @throws ERR_IMAGE_INVALID (a side of 0), ERR_IMAGE_TOO_LARGE */
export function checkSize(width: number, height: number): void {
  if (width < 1 || height < 1) throw invalid(`is ${width} x ${height} pixels; expected at least 1 x 1`);
  if (width > MAX_SIDE || height > MAX_SIDE || width * height > MAX_PIXELS)
    throw new QuantletError(
      'ERR_IMAGE_TOO_LARGE',
      `the image is ${width} x ${height} pixels; expected at most ${MAX_SIDE} a side and ${MAX_PIXELS} in all: make it smaller`,
    );
}

/** ERR_IMAGE_INVALID: "the image " and what is wrong with it. */
export const invalid = (what: string): QuantletError => new QuantletError('ERR_IMAGE_INVALID', `the image ${what}`);

/** ERR_IMAGE_TRUNCATED: the file has fewer bytes than it says. */
export const truncated = (found: string): QuantletError =>
  new QuantletError('ERR_IMAGE_TRUNCATED', `the image ends early (${found}); expected all of its data: get the file again`);
