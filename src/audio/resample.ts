/**
 * Other rates, by a sinc of 32 zero crossings on either side under a Kaiser window. llama.cpp
 * resamples linearly behind a low-pass filter of fourth order; both differ above 7 kHz.
 */
import type { Work } from '../slices.ts';
import { checkLength, type Sound } from './sound.ts';

const CROSSINGS = 32;
/** Table entries from one zero crossing to the next; between them the filter is linear. */
const STEPS = 512;
/** Samples between two pauses. */
const AT_ONCE = 1024;
/** Kaiser's beta: stop band at -100 dB. */
const BETA = 10;
/** Part of the lower Nyquist frequency that passes. */
const PASS = 0.95;

/** Modified Bessel function of the first kind, order 0. */
function bessel0(x: number): number {
  let sum = 1;
  for (let k = 1, term = 1; term > 1e-17 * sum; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

let table: Float64Array | undefined;

/** The windowed sinc at i / STEPS zero crossings, and one zero behind it. */
function filterTable(): Float64Array {
  table ??= Float64Array.from({ length: CROSSINGS * STEPS + 2 }, (_, i) => {
    const x = i / STEPS;
    if (x >= CROSSINGS) return 0;
    const sinc = x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
    return (sinc * bessel0(BETA * Math.sqrt(1 - (x / CROSSINGS) ** 2))) / bessel0(BETA);
  });
  return table;
}

/**
 * The sound at another rate: round(length * rate / old rate) samples, at least one.
 * @throws ERR_AUDIO_TOO_LARGE
 */
export function* resampled({ samples, rate: from }: Sound, rate: number): Work<Float32Array> {
  if (from === rate) return samples;
  const length = Math.max(1, Math.round((samples.length * rate) / from));
  checkLength(length);
  const h = filterTable();
  /** Zero crossings of the filter per sample of the source. */
  const density = PASS * Math.min(1, rate / from);
  const reach = CROSSINGS / density;
  const out = new Float32Array(length);
  for (let i = 0; i < length; i++) {
    if (i % AT_ONCE === 0) yield;
    const at = (i * from) / rate;
    const last = Math.min(samples.length - 1, Math.floor(at + reach));
    let sum = 0;
    for (let k = Math.max(0, Math.ceil(at - reach)); k <= last; k++) {
      const x = Math.abs(k - at) * density * STEPS;
      const j = Math.floor(x);
      sum += samples[k] * (h[j] + (x - j) * (h[j + 1] - h[j]));
    }
    out[i] = sum * density;
  }
  return out;
}
