/** Flags that override metadata of the file. */
import { flag, type Flag } from './flag.ts';

export const METADATA_ROWS = {
  ropeScaling: flag('rope-scaling', '', 'string', 'TYPE', "none, linear or yarn; default: the file's", ['none', 'linear', 'yarn']),
  ropeScale: flag('rope-scale', '', 'number', 'N', 'stretch positions so that N times the context fits'),
  ropeFreqBase: flag('rope-freq-base', '', 'number', 'N', "base of the rotary frequencies; default: the file's"),
  ropeFreqScale: flag('rope-freq-scale', '', 'number', 'X', 'the same as --rope-scale 1/X'),
  yarnOrigCtx: flag('yarn-orig-ctx', '', 'integer', 'N', 'YaRN: context length of the original training'),
  yarnExtFactor: flag(
    'yarn-ext-factor',
    '',
    'number',
    'X',
    'YaRN: degree to which short wavelengths stay unscaled; 0: not at all (1 with --rope-scaling yarn)',
  ),
  yarnAttnFactor: flag('yarn-attn-factor', '', 'number', 'X', 'YaRN: factor of the attention magnitude (1)'),
  yarnBetaFast: flag('yarn-beta-fast', '', 'number', 'X', 'YaRN: dimensions with more turns in the original context stay unscaled (32)'),
  yarnBetaSlow: flag('yarn-beta-slow', '', 'number', 'X', 'YaRN: dimensions with fewer turns are scaled fully (1)'),
  overrideKv: flag(
    'override-kv',
    '',
    'strings',
    'KEY=TYPE:VALUE,...',
    "replace metadata of the model's file; TYPE is int, float, bool or str; may be given several times",
  ),
} as const satisfies { readonly [key: string]: Flag };
