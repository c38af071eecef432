/** A decoded sound, and the limits that sounds are held against before memory is allocated. */
import { QuantletError } from '../errors.ts';

/** One channel of samples, full scale -1 to 1. */
export interface Sound {
  readonly samples: Float32Array;
  /** Samples per second. */
  readonly rate: number;
}

/** Most samples of a sound: four and a half hours at 16 kHz. */
export const MAX_SAMPLES = 1 << 28;
export const MAX_RATE = 768_000;

/** ERR_AUDIO_INVALID: "the sound " and what is wrong with it. */
export const invalid = (what: string): QuantletError => new QuantletError('ERR_AUDIO_INVALID', `the sound ${what}`);

/** @throws ERR_AUDIO_INVALID, ERR_AUDIO_TOO_LARGE */
export function checkedRate(rate: number): number {
  if (!(rate >= 1 && rate <= MAX_RATE)) throw invalid(`has ${rate} samples per second; expected 1 to ${MAX_RATE}`);
  return rate;
}

/** @throws ERR_AUDIO_TOO_LARGE */
export function checkLength(samples: number): void {
  if (samples > MAX_SAMPLES)
    throw new QuantletError('ERR_AUDIO_TOO_LARGE', `the sound has ${samples} samples; expected at most ${MAX_SAMPLES}: cut it into pieces`);
}

/**
 * The mean of all channels.
 * @param at sample i of channel c
 * @throws ERR_AUDIO_INVALID for Inf and NaN
 */
export function mixed(length: number, channels: number, at: (i: number, c: number) => number): Float32Array {
  const out = new Float32Array(length);
  for (let i = 0; i < length; i++) {
    let sum = 0;
    for (let c = 0; c < channels; c++) sum += at(i, c);
    out[i] = channels === 1 ? sum : sum / channels;
    if (!Number.isFinite(out[i])) throw invalid(`has ${out[i]} as sample ${i}; expected finite numbers`);
  }
  return out;
}
