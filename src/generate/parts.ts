/** Prompts with images and sounds: lists of parts, and texts with markers in their places. */
import { QuantletError, tell } from '../errors.ts';
import { withImages, type AudioSource, type ImageReader, type ImageSource, type PromptImage } from '../run/image-tokens.ts';
import type { ModelInternals } from '../run/model-internals.ts';
import { inSlices, type Work } from '../slices.ts';

/** A part of a prompt: a text, or an image or a sound in its place. */
export type PromptPart =
  string | { readonly type: 'image'; readonly image: ImageSource } | { readonly type: 'audio'; readonly audio: AudioSource };

export type Prompt = string | readonly number[] | readonly PromptPart[];

/** A text, and the offsets that no control token may cross. */
export interface MarkedText {
  readonly text: string;
  readonly breaks: readonly number[];
}

/** @throws ERR_INVALID_ARGUMENT for a model without a projector */
export function readerOf({ vision }: Pick<ModelInternals, 'vision'>): ImageReader {
  if (vision) return vision;
  throw new QuantletError(
    'ERR_INVALID_ARGUMENT',
    'the model was loaded without a projector and takes neither images nor sounds; load it with mmproj (--mmproj FILE), or leave them out',
  );
}

/**
 * Reads the images and sounds of a list of parts.
 * @returns the text with markers in their places
 * @throws ERR_INVALID_ARGUMENT, ERR_IMAGE_INVALID, ERR_IMAGE_TRUNCATED, ERR_IMAGE_TOO_LARGE,
 * ERR_AUDIO_INVALID, ERR_AUDIO_TOO_LARGE, or signal.reason
 */
export async function readParts(
  parts: readonly PromptPart[],
  read: ImageReader['read'],
  signal: AbortSignal | undefined,
): Promise<{ readonly text: string; readonly images: readonly PromptImage[] }> {
  const images: PromptImage[] = [];
  let text = '';
  for (const [i, part] of parts.entries()) {
    if (typeof part === 'string') text += part;
    else if (typeof part === 'object' && (part?.type === 'image' || part?.type === 'audio')) {
      const image = await read(part.type === 'image' ? part.image : { audio: part.audio }, signal);
      images.push(image);
      text += image.marker;
    } else
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `part ${i + 1} of the prompt is ${tell(part)}; expected a text, { type: 'image', image } or { type: 'audio', audio }`,
      );
  }
  return { text, images };
}

/**
 * Ids of a text with images in place of their markers. Texts between them are tokenized on their
 * own, as in llama.cpp.
 * @param encode tokenizes a text; `begins` if it is the beginning of the prompt
 * @throws ERR_CHAT_TEMPLATE if a marker is missing: the template left out a message
 */
export function* idsWithImages(
  { text, breaks }: MarkedText,
  images: readonly PromptImage[],
  encode: (piece: MarkedText, begins: boolean) => Work<number[]>,
): Work<readonly number[]> {
  const places = images.map((image) => ({ image, at: text.indexOf(image.marker) })).sort((a, b) => a.at - b.at);
  if (places.some(({ at }) => at < 0))
    throw new QuantletError(
      'ERR_CHAT_TEMPLATE',
      'the chat template leaves out a message with an image; leave the image out, or give another template',
    );
  const ids: number[] = [];
  let from = 0;
  for (const [i, { image, at }] of [...places, { image: undefined, at: text.length }].entries()) {
    const piece = { text: text.slice(from, at), breaks: breaks.filter((b) => b > from && b < at).map((b) => b - from) };
    if (i === 0 || piece.text !== '') for (const id of yield* encode(piece, i === 0)) ids.push(id);
    if (!image) break;
    for (const id of image.ids) ids.push(id);
    from = at + image.marker.length;
  }
  return withImages(
    ids,
    images.flatMap(({ runs }) => runs),
  );
}

/** Ids of a prompt of parts. @throws as readParts() */
export async function partIds(
  model: ModelInternals,
  parts: readonly PromptPart[],
  { parseSpecial, signal }: { readonly parseSpecial: boolean; readonly signal: AbortSignal | undefined },
): Promise<readonly number[]> {
  const hasImage = parts.some((part) => typeof part !== 'string');
  const { text, images } = await readParts(parts, (image, s) => readerOf(model).read(image, s), signal);
  const { tokenizer } = model;
  const ids = idsWithImages({ text, breaks: [] }, images, (piece, begins) =>
    tokenizer.encodeWork(piece.text, { addSpecial: begins, parseSpecial }),
  );
  return hasImage ? inSlices(ids, signal) : tokenizer.encode(text, { parseSpecial });
}
