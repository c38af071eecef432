/** The encoders that a projector file says it has. */
import { QuantletError, tell } from '../errors.ts';
import { getBool, getString } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';

/** @throws ERR_UNSUPPORTED_ARCH for a file that is no projector, or has no encoder */
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
