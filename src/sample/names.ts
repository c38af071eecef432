/** Names and letters of samplers that llama.cpp accepts. */
import { SAMPLER_NAMES, type SamplerName } from './options.ts';

/**
 * Other names that llama.cpp accepts for samplers, and their letters in --sampler-seq. Case does
 * not matter.
 */
const ALIASES: { readonly [name: string]: SamplerName } = {
  'top-k': 'top_k',
  topk: 'top_k',
  'top-p': 'top_p',
  topp: 'top_p',
  nucleus: 'top_p',
  'top-n-sigma': 'top_n_sigma',
  topnsigma: 'top_n_sigma',
  'min-p': 'min_p',
  minp: 'min_p',
  typ: 'typ_p',
  'typ-p': 'typ_p',
  typp: 'typ_p',
  typical: 'typ_p',
  'typical-p': 'typ_p',
  typical_p: 'typ_p',
  temp: 'temperature',
};
const LETTERS: { readonly [letter: string]: SamplerName } = {
  e: 'penalties',
  d: 'dry',
  s: 'top_n_sigma',
  k: 'top_k',
  y: 'typ_p',
  p: 'top_p',
  m: 'min_p',
  x: 'xtc',
  t: 'temperature',
};

/** @returns undefined for an unknown name */
export function samplerOfWord(word: string): SamplerName | undefined {
  const name = word.toLowerCase();
  return SAMPLER_NAMES.find((known) => known === name) ?? (Object.hasOwn(ALIASES, name) ? ALIASES[name] : undefined);
}
export const samplerOfLetter = (letter: string): SamplerName | undefined => (Object.hasOwn(LETTERS, letter) ? LETTERS[letter] : undefined);
export const SAMPLER_LETTERS = Object.keys(LETTERS).join('');
