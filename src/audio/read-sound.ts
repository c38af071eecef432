/** Sources of sounds as samples at the encoder's rate, with a key that is the same for the same source. */
import { bytesOf, keyOf, type SourceKind } from '../encoder/source.ts';
import { QuantletError, tell } from '../errors.ts';
import type { AudioBufferLike, AudioSamples, AudioSource } from '../run/image-tokens.ts';
import { inSlices } from '../slices.ts';
import { RATE } from './mel.ts';
import { resampled } from './resample.ts';
import { checkedRate, checkLength, invalid, mixed, type Sound } from './sound.ts';
import { beginning, foreign, isWav } from './sound-files.ts';
import { decodeWav } from './wav.ts';

/** Sounds, for the errors of their sources. */
const SOUND_SOURCE: SourceKind = {
  name: 'a sound',
  code: 'ERR_AUDIO_INVALID',
  files: 'a WAV file',
  others: '{ samples, sampleRate }, or an AudioBuffer',
};

/** @throws ERR_AUDIO_INVALID, ERR_AUDIO_TOO_LARGE */
function decodeSound(bytes: Uint8Array): Sound {
  if (isWav(bytes)) return decodeWav(bytes);
  const found = foreign(bytes);
  throw invalid(
    found
      ? `is a file of type ${found}; expected WAV: convert it, or decode it with decodeAudioData() and give the AudioBuffer`
      : `is no WAV file (${bytes.length === 0 ? 'no bytes' : `it begins with ${tell(beginning(bytes).slice(0, 4))}`}); expected one, or samples`,
  );
}

const isSamples = (source: AudioSource): source is AudioSamples =>
  typeof source === 'object' && source !== null && 'samples' in source && 'sampleRate' in source;

const isAudioBuffer = (source: AudioSource): source is AudioBufferLike =>
  typeof source === 'object' && source !== null && 'getChannelData' in source;

/** @throws ERR_INVALID_ARGUMENT, ERR_AUDIO_INVALID, ERR_AUDIO_TOO_LARGE */
function givenSamples(source: AudioSamples | AudioBufferLike): Sound {
  const rate = checkedRate(source.sampleRate);
  if (isAudioBuffer(source)) {
    const channels = Array.from({ length: source.numberOfChannels }, (_, i) => source.getChannelData(i));
    return { samples: mixed(source.length, channels.length, (i, c) => channels[c][i]), rate };
  }
  const { samples } = source;
  if (!(samples instanceof Float32Array))
    throw new QuantletError('ERR_INVALID_ARGUMENT', `the samples of a sound are ${tell(samples)}; expected a Float32Array`);
  return { samples: mixed(samples.length, 1, (i) => samples[i]), rate };
}

export interface ReadSound {
  readonly key: string;
  /**
   * The sound's samples at the encoder's rate.
   * @throws ERR_AUDIO_INVALID, ERR_AUDIO_TOO_LARGE, or signal.reason
   */
  samples(signal?: AbortSignal): Promise<Float32Array>;
}

/**
 * Reads a source. A file is decoded by samples(), so that one that is known costs its hash alone.
 * @throws ERR_AUDIO_INVALID, ERR_AUDIO_TOO_LARGE, ERR_INVALID_ARGUMENT
 */
export async function readSound(source: AudioSource): Promise<ReadSound> {
  if (isSamples(source) || isAudioBuffer(source)) {
    const sound = givenSamples(source);
    const { buffer, byteOffset, byteLength } = sound.samples;
    const key = await keyOf(new Uint8Array(buffer, byteOffset, byteLength), `sound at ${sound.rate}`);
    return { key, samples: (signal) => atRate(sound, signal) };
  }
  const bytes = await bytesOf(source, SOUND_SOURCE);
  return { key: await keyOf(bytes, 'sound'), samples: async (signal) => atRate(decodeSound(bytes), signal) };
}

async function atRate(sound: Sound, signal: AbortSignal | undefined): Promise<Float32Array> {
  if (sound.samples.length === 0) throw invalid('has no samples; expected at least one');
  checkLength(sound.samples.length);
  return inSlices(resampled(sound, RATE), signal);
}
