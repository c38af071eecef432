/**
 * WAV files: PCM of 8, 16, 24 and 32 bits, floats of 32 and 64 bits, any rate, any number of
 * channels. Full scale is as in llama.cpp: v / 2^(bits - 1), and v * 2 / 255 - 1 for 8 bits, in f32.
 */
import { textAt } from './sound-files.ts';
import { checkedRate, checkLength, invalid, mixed, type Sound } from './sound.ts';

const HEADER = 12;
const PCM = 1;
const FLOAT = 3;
/** The format is the first two bytes of the GUID at the end of the chunk. */
const EXTENSIBLE = 0xfffe;

interface Format {
  readonly kind: number;
  readonly channels: number;
  readonly rate: number;
  readonly bits: number;
}

/**
 * @returns the mean of the channels. A data chunk that says more than the file has, as recorders
 * write it into a pipe, is read as far as it goes
 * @throws ERR_AUDIO_INVALID, ERR_AUDIO_TOO_LARGE
 */
export function decodeWav(bytes: Uint8Array): Sound {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let format: Format | undefined;
  for (let at = HEADER; at + 8 <= bytes.length;) {
    const size = view.getUint32(at + 4, true);
    const [from, to] = [at + 8, Math.min(bytes.length, at + 8 + size)];
    const name = textAt(bytes, at);
    if (name === 'fmt ') format = formatOf(view, from, to - from);
    else if (name === 'data') {
      if (!format) throw invalid('is a WAV file whose data comes before its format; expected "fmt " first');
      return samplesOf(view, from, to - from, format);
    }
    at += 8 + size + (size & 1);
  }
  throw invalid(`is a WAV file without ${format ? 'data' : 'a format'}; expected the chunks "fmt " and "data"`);
}

function formatOf(view: DataView, at: number, size: number): Format {
  if (size < 16) throw invalid(`is a WAV file with a format of ${size} bytes; expected 16 or more`);
  const tag = view.getUint16(at, true);
  const kind = tag === EXTENSIBLE && size >= 26 ? view.getUint16(at + 24, true) : tag;
  const [channels, rate, bits] = [view.getUint16(at + 2, true), view.getUint32(at + 4, true), view.getUint16(at + 14, true)];
  const known = (kind === PCM && [8, 16, 24, 32].includes(bits)) || (kind === FLOAT && [32, 64].includes(bits));
  if (!known)
    throw invalid(
      `is a WAV file of format ${kind} with ${bits} bits; expected PCM of 8, 16, 24 or 32 bits, or floats of 32 or 64 bits: convert it`,
    );
  if (channels < 1) throw invalid('is a WAV file with 0 channels; expected 1 or more');
  return { kind, channels, rate: checkedRate(rate), bits };
}

/** Reads a sample at a byte. */
function readerOf(view: DataView, { kind, bits }: Format): (at: number) => number {
  if (kind === FLOAT) return bits === 32 ? (at) => view.getFloat32(at, true) : (at) => view.getFloat64(at, true);
  if (bits === 8) {
    const step = Math.fround(2 / 255);
    return (at) => Math.fround(view.getUint8(at) * step) - 1;
  }
  if (bits === 16) return (at) => view.getInt16(at, true) / 2 ** 15;
  if (bits === 24) return (at) => ((view.getInt8(at + 2) << 16) | view.getUint16(at, true)) / 2 ** 23;
  return (at) => view.getInt32(at, true) / 2 ** 31;
}

function samplesOf(view: DataView, from: number, size: number, format: Format): Sound {
  const { channels, bits, rate } = format;
  const step = bits / 8;
  const length = Math.floor(size / (step * channels));
  if (length === 0) throw invalid('is a WAV file without samples; expected at least one');
  checkLength(length);
  const read = readerOf(view, format);
  return { samples: mixed(length, channels, (i, c) => read(from + (i * channels + c) * step)), rate };
}
