/** Images and sounds in the messages of a conversation, and in its prompt. */
import { QuantletError } from '../errors.ts';
import { PromptImage, type MediaSource } from '../run/image-tokens.ts';
import { isRecord } from './json.ts';
import type { ChatMessage, ChatPart } from './messages.ts';

/** Reads an image or a sound for a prompt of the model. */
export type ReadImage = (media: MediaSource, signal?: AbortSignal) => Promise<PromptImage>;

/** A data: URL of an image's bytes in base64. Readers find the type from the bytes. */
export const imageUrl = (base64: string, type = 'image/any'): string => `data:${type};base64,${base64}`;

/** The image or sound of a part, in our form or OpenAI's; undefined for other parts. */
function imageOf(part: ChatPart): { readonly image: unknown } | undefined {
  if (!isRecord(part)) return undefined;
  const { type, image, image_url: url, audio, input_audio: input } = part as unknown as Record<string, unknown>;
  if (type === 'image') return { image };
  if (type === 'audio') return { image: { audio } };
  if (type === 'input_audio') return { image: { audio: soundOf(isRecord(input) ? input.data : input) } };
  return type === 'image_url' ? { image: isRecord(url) ? url.url : url } : undefined;
}

/** A sound as OpenAI's parts have it: base64, or a data: URL. */
const soundOf = (data: unknown): unknown => (typeof data === 'string' && !data.startsWith('data:') ? imageUrl(data, 'audio/any') : data);

export const isImagePart = (part: ChatPart): boolean => imageOf(part) !== undefined;

const partsOf = ({ content }: { readonly content?: unknown }): readonly ChatPart[] =>
  Array.isArray(content) ? (content as readonly ChatPart[]) : [];

/** True if a conversation has images or sounds. */
export const hasImages = (messages: readonly ChatMessage[]): boolean =>
  Array.isArray(messages) && messages.some((message: ChatMessage) => isRecord(message) && partsOf(message).some((part) => imageOf(part)));

/**
 * Reads the images and sounds of a conversation, one after the other.
 * @param read undefined for models that take none
 * @throws ERR_INVALID_ARGUMENT, ERR_IMAGE_INVALID, ERR_IMAGE_TRUNCATED, ERR_IMAGE_TOO_LARGE,
 * ERR_AUDIO_INVALID, ERR_AUDIO_TOO_LARGE, or signal.reason
 */
export async function readImages(
  messages: readonly ChatMessage[],
  read: ReadImage | undefined,
  signal: AbortSignal | undefined,
): Promise<readonly ChatMessage[]> {
  if (!hasImages(messages)) return messages;
  if (!read)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      'a message has an image or a sound, and the model was loaded without a projector; load it with mmproj (--mmproj FILE), or leave it out',
    );
  const out: ChatMessage[] = [];
  for (const message of messages) {
    const parts: ChatPart[] = [];
    for (const part of partsOf(message)) {
      const found = imageOf(part);
      const image = found?.image instanceof PromptImage ? found.image : found && (await read(found.image as MediaSource, signal));
      parts.push(image ? { type: 'image', image } : part);
    }
    out.push(parts.some(({ image }) => image) ? { ...message, content: parts } : message);
  }
  return out;
}

/** Messages whose images and sounds are markers, and the images and sounds. */
export function withMarkers(messages: readonly ChatMessage[]): {
  readonly messages: readonly ChatMessage[];
  readonly images: readonly PromptImage[];
} {
  const images: PromptImage[] = [];
  const plain = (part: ChatPart): ChatPart => {
    if (!isRecord(part) || !(part.image instanceof PromptImage)) return part;
    images.push(part.image);
    return { type: 'image', marker: part.image.marker };
  };
  const all = messages.map((message) => (partsOf(message).length > 0 ? { ...message, content: partsOf(message).map(plain) } : message));
  return images.length > 0 ? { messages: all, images } : { messages, images };
}
