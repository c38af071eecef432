/** Files of sounds, known by their first bytes. */

export const textAt = (bytes: Uint8Array, at: number): string => String.fromCharCode(...bytes.subarray(at, at + 4));

/** True for files that begin as a WAV file does. */
export const isWav = (bytes: Uint8Array): boolean => textAt(bytes, 0) === 'RIFF' && textAt(bytes, 8) === 'WAVE';

/** Files of other formats, by their first bytes. */
const FOREIGN: readonly (readonly [RegExp, string])[] = [
  [/^ID3|^\xff[\xe2-\xff]/, 'MP3'],
  [/^fLaC/, 'FLAC'],
  [/^OggS/, 'Ogg'],
  [/^....ftyp/s, 'MP4'],
  [/^\x1aE\xdf\xa3/, 'WebM or Matroska'],
  [/^FORM....AIF/s, 'AIFF'],
];

export const beginning = (bytes: Uint8Array): string => String.fromCharCode(...bytes.subarray(0, 12));
/** Name of a format that is not read. */
export const foreign = (bytes: Uint8Array): string | undefined => FOREIGN.find(([begin]) => begin.test(beginning(bytes)))?.[1];

/** True for files that are sounds by their first bytes. */
export const isSoundFile = (bytes: Uint8Array): boolean => isWav(bytes) || foreign(bytes) !== undefined;
