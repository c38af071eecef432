/** Projector types for sound that run. */
import { typeNamed } from '../encoder/projector-file.ts';
import type { AudioProjectorType } from './projector.ts';
import { qwen3a } from './types/qwen3a.ts';
import { qwen2a, ultravox, voxtral } from './types/whisper.ts';

const TYPES: readonly AudioProjectorType[] = [qwen2a, qwen3a, ultravox, voxtral];

/** @throws ERR_UNSUPPORTED_ARCH for a type that does not run */
export const audioProjectorNamed = (name: string): AudioProjectorType => typeNamed(TYPES, name, 'a projector for sound');
