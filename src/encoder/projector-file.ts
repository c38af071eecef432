/** The encoders of a projector file, as its metadata tells them. */
import { QuantletError, tell } from '../errors.ts';
import { getBool, getString } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';

/**
 * The kinds of encoders that a file has.
 * @throws ERR_UNSUPPORTED_ARCH for a file that is no projector, or has no encoder
 */
export function encodersOf(gguf: GGUF): { readonly images: boolean; readonly sounds: boolean } {
  if (getString(gguf, 'general.architecture') !== 'clip')
    throw new QuantletError(
      'ERR_UNSUPPORTED_ARCH',
      `mmproj is a ${tell(getString(gguf, 'general.architecture'))} model; expected a projector (general.architecture "clip"), mostly named mmproj-*.gguf`,
    );
  const [images, sounds] = ['vision', 'audio'].map((kind) => getBool(gguf, `clip.has_${kind}_encoder`, false));
  if (!images && !sounds)
    throw new QuantletError(
      'ERR_UNSUPPORTED_ARCH',
      'mmproj has no encoder (clip.has_vision_encoder, clip.has_audio_encoder); expected one for images or sounds',
    );
  return { images, sounds };
}

/** The projectors of Qwen 2.5 Omni's files, which name one type for both. */
const OMNI = { vision: 'qwen2.5vl_merger', audio: 'qwen2a' } as const;

/** Type of a file's projector for images (vision) or sounds (audio). */
export function projectorType(gguf: GGUF, kind: 'vision' | 'audio'): string {
  const key = gguf.metadata.has('clip.projector_type') ? 'clip.projector_type' : `clip.${kind}.projector_type`;
  const type = getString(gguf, key);
  return type === 'qwen2.5o' ? OMNI[kind] : type;
}

/**
 * The projector type of a name.
 * @param what "a projector", for the error
 * @throws ERR_UNSUPPORTED_ARCH for a type that does not run
 */
export function typeNamed<T extends { readonly names: readonly string[] }>(types: readonly T[], name: string, what: string): T {
  const type = types.find(({ names }) => names.includes(name));
  if (type) return type;
  throw new QuantletError(
    'ERR_UNSUPPORTED_ARCH',
    `mmproj has ${what} of type ${tell(name)}; expected one of ${types.flatMap(({ names }) => names).join(', ')}`,
  );
}
