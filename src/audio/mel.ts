/** Mel spectrograms, as the feature extractors of Whisper's descendants compute them. */
import type { Work } from '../slices.ts';
import { PowerSpectrum } from './fft.ts';

/** Samples of a frame, and from one frame to the next. */
export const WINDOW = 400;
export const HOP = 160;
export const RATE = 16_000;

/** Least power: its logarithm stands for silence. */
const LEAST = 2 ** -24;
/** Frames between two pauses. */
const AT_ONCE = 16;

/** Slaney's scale: linear to 1 kHz, then 27 steps to 6.4 kHz. */
const STEP = Math.log(6.4) / 27;
const toMel = (hz: number): number => (hz < 1000 ? (hz * 3) / 200 : 15 + Math.log(hz / 1000) / STEP);
const toHz = (mel: number): number => (mel < 15 ? (mel * 200) / 3 : 1000 * Math.exp((mel - 15) * STEP));

/** A triangle over bins of the spectrum. */
interface Filter {
  readonly first: number;
  /** f32 weights of bins first, first + 1 ... */
  readonly weights: Float32Array;
}

/** Triangles with Slaney's areas, up to half of the rate. */
function filters(nMels: number): Filter[] {
  const edges = Array.from({ length: nMels + 2 }, (_, i) => toHz((toMel(RATE / 2) * i) / (nMels + 1)));
  return Array.from({ length: nMels }, (_, m) => {
    const [low, centre, high] = edges.slice(m, m + 3);
    const weightOf = (hz: number): number => {
      if (hz < low || hz > high) return 0;
      return ((hz <= centre ? (hz - low) / (centre - low) : (high - hz) / (high - centre)) * 2) / (high - low);
    };
    const all = Float32Array.from({ length: WINDOW / 2 + 1 }, (_, k) => weightOf((k * RATE) / WINDOW));
    const first = all.findIndex((w) => w > 0);
    const end = all.findLastIndex((w) => w > 0) + 1;
    return { first: Math.max(first, 0), weights: first < 0 ? new Float32Array() : all.slice(first, end) };
  });
}

/** Hann's window, periodic, in f32. */
const hann = Float32Array.from({ length: WINDOW }, (_, i) => 0.5 * (1 - Math.fround(Math.cos((2 * Math.PI * i) / WINDOW))));

/** Frames of a padded sound. */
export const framesOf = (length: number): number => Math.max(0, Math.floor((length - WINDOW) / HOP) + 1);

/** log10 of mels: f32 [n_mels, frames], a row for each frame. */
export interface Mels {
  readonly frames: number;
  readonly nMels: number;
  readonly values: Float32Array;
}

/** @param x the sound at RATE, padded */
export function* logMels(x: Float32Array, nMels: number): Work<Mels> {
  const frames = framesOf(x.length);
  const values = new Float32Array(frames * nMels).fill(Math.log10(LEAST));
  const all = filters(nMels);
  const spectrum = new PowerSpectrum(WINDOW);
  const frame = new Float64Array(WINDOW);
  const power = new Float64Array(WINDOW / 2 + 1);
  for (let t = 0; t < frames; t++) {
    if (t % AT_ONCE === 0) yield;
    let isSilent = true;
    for (let i = 0; i < WINDOW; i++) {
      const v = x[t * HOP + i];
      isSilent &&= v === 0;
      frame[i] = hann[i] * v;
    }
    if (isSilent) continue;
    spectrum.of(frame, power);
    all.forEach(({ first, weights }, m) => {
      let sum = 0;
      for (let k = 0; k < weights.length; k++) sum += weights[k] * power[first + k];
      values[t * nMels + m] = Math.log10(Math.max(sum, LEAST));
    });
  }
  return { frames, nMels, values };
}

/** Whisper's normalisation, in place: at most 8 below the loudest mel of the sound, (x + 4) / 4. */
export function normalize({ values }: Mels): void {
  let most = -Infinity;
  for (const v of values) if (v > most) most = v;
  for (let i = 0; i < values.length; i++) values[i] = (Math.max(values[i], most - 8) + 4) / 4;
}

/** Frames from `first` on, transposed to f32 [count, n_mels]. Zeros follow the last frame of the sound. */
export function chunkOf({ frames, nMels, values }: Mels, first: number, count: number): Float32Array {
  const out = new Float32Array(count * nMels);
  const n = Math.min(count, frames - first);
  for (let t = 0; t < n; t++) for (let m = 0; m < nMels; m++) out[m * count + t] = values[(first + t) * nMels + m];
  return out;
}
