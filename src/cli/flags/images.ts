/** Flags of models that take images and sounds. */
import { flag, loading, toggle, type Flag } from './flag.ts';

export const IMAGE_ROWS = {
  mmproj: loading(
    'mmproj',
    flag(
      'mmproj',
      '-mm -mmu --mmproj-url',
      'string',
      'FILE|URL',
      "the model's projector (mmproj-*.gguf), with which it takes images or sounds; default: with -hf, that of the repository",
    ),
  ),
  mmprojAuto: toggle(
    'mmproj-auto',
    '',
    '--no-mmproj --no-mmproj-auto',
    'with -hf, take the projector of the repository if it has one (on; run: only with --image or --audio)',
  ),
  imageMinTokens: loading(
    'imageMinTokens',
    flag('image-min-tokens', '', 'integer', 'N', 'at least this many tokens for an image, if its size follows the picture'),
  ),
  imageMaxTokens: loading(
    'imageMaxTokens',
    flag('image-max-tokens', '', 'integer', 'N', 'at most this many tokens for an image, if its size follows the picture'),
  ),
  image: flag(
    'image',
    '--audio',
    'strings',
    'FILE,...',
    'PNG, JPEG or WAV files in place of the markers <__media__>, or in front of the text; may be given several times; needs a projector',
  ),
  mediaPath: flag('media-path', '', 'string', 'FOLDER', 'requests may name images in this folder: file:// and a path from there (none)'),
  mediaUrl: flag(
    'media-url',
    '',
    'strings',
    'HOST,...',
    'requests may name images at these hosts by http: and https: URLs; *.HOST: all names that end so; *: any; addresses that are not public are never asked (none)',
  ),
} as const satisfies { readonly [key: string]: Flag };
