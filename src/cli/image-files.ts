/** Files of --image, and their places in a prompt. */
import { readFile } from 'node:fs/promises';
import { unreadable } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { imageUrl, isImagePart } from '../chat/images.ts';
import type { ChatMessage, ChatPart } from '../chat/messages.ts';
import { isRemote } from '../hub/addresses.ts';
import type { PromptPart } from '../generate/parts.ts';
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
    throw new QuantletError('ERR_USAGE', '--image needs the projector of the model; give it with --mmproj FILE');
  const url = paths.find((path) => /^[a-z][a-z0-9+.-]+:\/\//i.test(path));
  if (url !== undefined) throw new QuantletError('ERR_USAGE', `--image is "${url}"; expected a file: images are not downloaded`);
  const images: Uint8Array[] = [];
  for (const path of paths) images.push(await readFile(path, { signal }).catch(unreadable('the image', path)));
  return images;
}

/**
 * The prompt with the images in place of its markers, or in front of it if it has none.
 * @throws ERR_USAGE for another number of markers
 */
export function partsOf(prompt: string, images: readonly Uint8Array[]): PromptPart[] {
  const parts = images.map((image): PromptPart => ({ type: 'image', image }));
  const texts = prompt.split(MARKER);
  if (texts.length === 1) return [...parts, prompt];
  if (texts.length !== images.length + 1)
    throw new QuantletError(
      'ERR_USAGE',
      `the prompt has ${texts.length - 1} markers ${MARKER}, and there are ${images.length} images; expected a marker for each, or none`,
    );
  return texts.flatMap((text, i) => (i === 0 ? [text] : [parts[i - 1], text]));
}

/** An image as a part of a message. A data: URL, so that conversations can be written as JSON. */
function imagePart(image: Uint8Array): ChatPart {
  const type = image[0] === 0xff ? 'image/jpeg' : 'image/png';
  return { type: 'image_url', image_url: { url: imageUrl(Buffer.from(image).toString('base64'), type) } };
}

/** Content of a message: its images, then its text. */
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
        .map((part) => (typeof part === 'string' ? { type: 'text', text: part } : imagePart(part.image as Uint8Array)));

/** Text of a message for terminals: its images are `[image]`. */
export const shownText = ({ content }: ChatMessage): string =>
  typeof content === 'string' ? content : (content ?? []).map((part) => (isImagePart(part) ? '[image] ' : (part.text ?? ''))).join('');
