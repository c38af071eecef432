/** Files of --image and --audio, and their places in a prompt. */
import { readFile } from 'node:fs/promises';
import { isSoundFile } from '../audio/sound-files.ts';
import { unreadable } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { imageUrl, isImagePart } from '../chat/images.ts';
import type { ChatMessage, ChatPart } from '../chat/messages.ts';
import { isRemote } from '../hub/addresses.ts';
import type { Values } from './flags.ts';

/** Text in a prompt of the command line that stands for an image, as in llama.cpp's tools. */
const MARKER = '<__media__>';

/** Paths of the flag, which takes several with commas between them. */
export const imagePaths = ({ image = [] }: Values<'image'>): string[] =>
  image.flatMap((list) => list.split(',')).filter((path) => path !== '');

/**
 * Bytes of the images.
 * @throws ERR_USAGE without a projector, and for a URL; ERR_SOURCE
 */
export async function readImageFiles(
  values: Values<'image' | 'model' | 'mmproj' | 'mmprojAuto' | 'hf'>,
  signal: AbortSignal,
): Promise<Uint8Array[]> {
  const paths = imagePaths(values);
  const mayFind = values.mmprojAuto !== false && (values.hf !== undefined || isRemote(values.model));
  if (paths.length > 0 && values.mmproj === undefined && !mayFind)
    throw new QuantletError('ERR_USAGE', '--image and --audio need the projector of the model; give it with --mmproj FILE');
  const url = paths.find((path) => /^[a-z][a-z0-9+.-]+:\/\//i.test(path));
  if (url !== undefined) throw new QuantletError('ERR_USAGE', `--image is "${url}"; expected a file: images and sounds are not downloaded`);
  const images: Uint8Array[] = [];
  for (const path of paths) images.push(await readFile(path, { signal }).catch(unreadable('the image or sound', path)));
  return images;
}

/** A text, or a file: the reader knows from its bytes whether it is an image or a sound. */
type FilePart = string | { readonly type: 'image'; readonly image: Uint8Array };

/**
 * The prompt with the images in place of its markers, or in front of it if it has none.
 * @throws ERR_USAGE for another number of markers
 */
export function partsOf(prompt: string, images: readonly Uint8Array[]): FilePart[] {
  const parts = images.map((image): FilePart => ({ type: 'image', image }));
  const texts = prompt.split(MARKER);
  if (texts.length === 1) return [...parts, prompt];
  if (texts.length !== images.length + 1)
    throw new QuantletError(
      'ERR_USAGE',
      `the prompt has ${texts.length - 1} markers ${MARKER}, and there are ${images.length} images and sounds; expected a marker for each, or none`,
    );
  return texts.flatMap((text, i) => (i === 0 ? [text] : [parts[i - 1], text]));
}

/** An image or a sound as a part of a message. In base64, so that conversations can be written as JSON. */
function imagePart(image: Uint8Array): ChatPart {
  const base64 = Buffer.from(image).toString('base64');
  if (isSoundFile(image)) return { type: 'input_audio', input_audio: { data: base64, format: 'wav' } };
  const type = image[0] === 0xff ? 'image/jpeg' : 'image/png';
  return { type: 'image_url', image_url: { url: imageUrl(base64, type) } };
}

/** Content of a message: its images and sounds, then its text. */
export const withImages = (text: string, images: readonly Uint8Array[]): ChatMessage['content'] =>
  images.length === 0 ? text : [...images.map(imagePart), { type: 'text', text }];

/**
 * Content of a message of the flags, which may have markers for its images.
 * @throws ERR_USAGE for another number of markers
 */
export const withMarkedImages = (text: string, images: readonly Uint8Array[]): ChatMessage['content'] =>
  images.length === 0
    ? text
    : partsOf(text, images)
        .filter((part) => part !== '')
        .map((part) => (typeof part === 'string' ? { type: 'text', text: part } : imagePart(part.image)));

/** Text of a message for terminals: its images and sounds are `[image]` and `[sound]`. */
export const shownText = ({ content }: ChatMessage): string =>
  typeof content === 'string'
    ? content
    : (content ?? [])
        .map((part) => (isImagePart(part) ? (part.type === 'input_audio' ? '[sound] ' : '[image] ') : (part.text ?? '')))
        .join('');
