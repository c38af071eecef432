/**
 * Whole files for files.json: small llamas with weights of many kinds, and llama-quantize's
 * arguments for each.
 */
import { createHash } from 'node:crypto';
import type { TensorInfo } from '../../src/gguf/types.ts';
import type { Imatrix } from '../../src/quantize/imatrix.ts';
import { gaussian, random } from '../kernel/harness.ts';
import { EVERY, mixModelFile, MIX_MODELS, type MixModelSpec } from './mix-models.ts';

export interface FileCase {
  readonly model: string;
  readonly ftype: string;
  /** File type to quantise the model to first. */
  readonly from?: string;
  readonly pure?: true;
  readonly imatrix?: true;
}

const spec = (like: string, more: Partial<MixModelSpec>): MixModelSpec => ({
  ...MIX_MODELS.find((m) => m.name === like)!,
  nLayer: 2,
  ...more,
});

/**
 * A model with whole blocks of 256 everywhere, and one with experts whose rows of 96 make types
 * fall back.
 */
const MODELS: Readonly<Record<string, MixModelSpec>> = {
  llama: spec('llama-5', { nHeadKv: 1, nFf: 512 }),
  experts: spec('mixtral', { nHead: 4, nHeadKv: 2, nExpert: 3, nEmbd: 96 }),
};

const seedOf = (name: string): number => [...name].reduce((h, c) => Math.imul(h, 31) + c.charCodeAt(0), 7) >>> 0;

/**
 * Weights of a tensor: ordinary, or with outliers, rows of zeros, rows of one value, or tiny ones.
 */
const weights = (name: string, n: number): Float32Array => {
  const x = gaussian(n, seedOf(name), 0.02);
  const kind = seedOf(name) % 5;
  const half = n >> 1;
  if (kind === 1) for (let i = 5; i < n; i += 71) x[i] *= 40;
  if (kind === 2) x.fill(0, half);
  if (kind === 3) x.fill(-0.25, 0, 64);
  if (kind === 4) for (let i = half; i < n; i++) x[i] *= 1e-6;
  return x;
};

/** Importance of columns, very uneven, as llama-imatrix writes it. */
const importance = (name: string, n: number): Float32Array => {
  const r = random(seedOf(name) + 1);
  return Float32Array.from({ length: n }, () => r() ** 4 * (r() < 0.03 ? 60 : 1));
};

export const modelFile = (name: string): Uint8Array => mixModelFile(MODELS[name], weights);

/** Importance of every matrix except norms and lookup tables. */
export const imatrixOf = (tensors: Iterable<{ readonly name: string; readonly ne: readonly number[] }>): Imatrix['values'] =>
  new Map(
    Array.from(tensors)
      .filter(({ name }) => !name.includes('norm') && !name.startsWith('token_embd'))
      .map(({ name, ne }) => [name, importance(name, ne[0] * ne[2])]),
  );

/** File types that need an imatrix. */
const IMATRIX = ['Q2_K_S', 'IQ1_S', 'IQ1_M', 'IQ2_XXS', 'IQ2_XS', 'IQ2_S', 'IQ2_M', 'IQ3_XXS', 'IQ3_XS'];
const AGAIN: readonly (readonly [from: string, to: string])[] = [
  ['Q8_0', 'Q4_K_M'],
  ['Q8_0', 'Q8_0'],
  ['Q4_0', 'Q8_0'],
  ['Q4_K_M', 'Q5_0'],
  ['Q6_K', 'F32'],
  ['IQ4_XS', 'F16'],
  ['Q5_1', 'Q2_K'],
  ['Q3_K_M', 'IQ4_NL'],
  ['MXFP4_MOE', 'Q4_0'],
  ['TQ2_0', 'BF16'],
  ['IQ3_S', 'Q4_K_M'],
  ['Q8_0', 'IQ3_M'],
  ['F16', 'Q4_K_M'],
  ['BF16', 'Q5_K_M'],
  ['BF16', 'F16'],
];

/** Q1_0 has no fallback, so it refuses rows of 96 (pick-types.test.ts). */
const everyOf = (model: string): readonly string[] => EVERY.filter((ftype) => model !== 'experts' || ftype !== 'Q1_0');

export const FILE_CASES: readonly FileCase[] = Object.keys(MODELS).flatMap((model) => [
  ...everyOf(model).map((ftype) => ({ model, ftype })),
  ...['Q4_0', 'Q8_0', 'Q2_K', 'Q3_K_M', 'Q4_K_M', 'Q5_K_S', 'Q6_K', 'IQ4_NL', 'IQ4_XS', 'TQ2_0', 'F16'].map((ftype) => ({
    model,
    ftype,
    pure: true as const,
  })),
  ...everyOf(model)
    .filter((ftype) => !/F16|F32/.test(ftype))
    .concat(IMATRIX)
    .map((ftype) => ({ model, ftype, imatrix: true as const })),
  ...AGAIN.map(([from, ftype]) => ({ model, ftype, from })),
  // Token embeddings have no importance weights, and iq1_s, iq2_xxs and iq2_xs need them.
  ...['IQ1_M', 'IQ2_M', 'IQ3_XXS', 'IQ3_S'].map((ftype) => ({ model, ftype, imatrix: true as const, pure: true as const })),
  { model, ftype: 'Q4_K_M', from: 'Q8_0', imatrix: true as const, pure: true as const },
]);

export const caseName = ({ model, ftype, from, pure, imatrix }: FileCase): string =>
  [model, ...(from ? [`${from} to`] : []), ftype, ...(pure ? ['--pure'] : []), ...(imatrix ? ['--imatrix'] : [])].join(' ');

/** Projectors in test/golden/vision, and types to quantise them to. */
export const PROJECTOR_CASES = ['mmproj-idefics3.gguf', 'mmproj-gemma4.gguf'].flatMap((file) =>
  ['F16', 'BF16', 'Q8_0', 'Q4_0', 'Q4_K_M', 'Q6_K'].map((ftype) => ({ file, ftype })),
);

export const sha256 = (file: Uint8Array): string => createHash('sha256').update(file).digest('hex');

export const hashOf = (file: Uint8Array, { type, offset, byteLength }: TensorInfo): string =>
  createHash('sha256')
    .update(type.name)
    .update(file.subarray(offset, offset + byteLength))
    .digest('hex')
    .slice(0, 6);
