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
  /** At the encoder's rate. */
  readonly samples: Float32Array;
}

/** @throws ERR_AUDIO_INVALID, ERR_AUDIO_TOO_LARGE, ERR_INVALID_ARGUMENT, or signal.reason */
export async function readSound(source: AudioSource, signal?: AbortSignal): Promise<ReadSound> {
  const given = isSamples(source) || isAudioBuffer(source) ? givenSamples(source) : undefined;
  const bytes = given ? undefined : await bytesOf(source, SOUND_SOURCE);
  const sound = given ?? decodeSound(bytes!);
  if (sound.samples.length === 0) throw invalid('has no samples; expected at least one');
  checkLength(sound.samples.length);
  const { buffer, byteOffset, byteLength } = sound.samples;
  const key = await keyOf(bytes ?? new Uint8Array(buffer, byteOffset, byteLength), bytes ? 'sound' : `sound at ${sound.rate}`);
  return { key, samples: await inSlices(resampled(sound, RATE), signal) };
}
