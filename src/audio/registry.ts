/** Projector types for sound that run. */
import { QuantletError, tell } from '../errors.ts';
import type { AudioProjectorType } from './projector.ts';
import { qwen3a } from './types/qwen3a.ts';
import { qwen2a, ultravox, voxtral } from './types/whisper.ts';

const TYPES: readonly AudioProjectorType[] = [qwen2a, qwen3a, ultravox, voxtral];

/** @throws ERR_UNSUPPORTED_ARCH for a type that does not run */
export function audioProjectorNamed(name: string): AudioProjectorType {
  const type = TYPES.find(({ names }) => names.includes(name));
  if (type) return type;
  throw new QuantletError(
    'ERR_UNSUPPORTED_ARCH',
    `mmproj has a projector for sound of type ${tell(name)}; expected one of ${TYPES.flatMap(({ names }) => names).join(', ')}`,
  );
}
