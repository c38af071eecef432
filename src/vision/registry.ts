/** Projector types that run. */
import { typeNamed } from '../encoder/projector-file.ts';
import type { ProjectorType } from './projector.ts';
import { gemma3 } from './types/gemma3.ts';
import { gemma4v } from './types/gemma4v.ts';
import { glm4v } from './types/glm4v.ts';
import { idefics3 } from './types/idefics3.ts';
import { internvl } from './types/internvl.ts';
import { kimivl } from './types/kimivl.ts';
import { lfm2 } from './types/lfm2.ts';
import { minicpmv46, resampler } from './types/minicpmv.ts';
import { mlp } from './types/mlp.ts';
import { pixtral } from './types/pixtral.ts';
import { qwen25vl, qwen2vl, qwen3vl } from './types/qwen-vl.ts';

const TYPES: readonly ProjectorType[] = [
  gemma3,
  gemma4v,
  glm4v,
  idefics3,
  internvl,
  kimivl,
  lfm2,
  minicpmv46,
  mlp,
  pixtral,
  qwen2vl,
  qwen25vl,
  qwen3vl,
  resampler,
];

/** @throws ERR_UNSUPPORTED_ARCH for a type that does not run */
export const projectorNamed = (name: string): ProjectorType => typeNamed(TYPES, name, 'a projector');
