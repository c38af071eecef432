/** Results of MCP tools as parts of a message. Their content is data of a stranger. */
import { imageUrl, isImagePart, type ReadImage } from '../../chat/images.ts';
import { isRecord } from '../../chat/json.ts';
import type { ChatPart } from '../../chat/messages.ts';

/** Most images of a result; others are named. */
const MAX_IMAGES = 16;

const text = (words: string): ChatPart => ({ type: 'text', text: words });
const bytesOf = (base64: unknown): number => Buffer.byteLength(stringOf(base64), 'base64');
const stringOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/**
 * Texts and images of a result. What the model cannot read is named.
 * @param readImage undefined for models that see no images
 */
export async function partsOfResult(
  { content, structuredContent }: Readonly<Record<string, unknown>>,
  readImage: ReadImage | undefined,
  signal: AbortSignal | undefined,
): Promise<ChatPart[]> {
  const items: unknown[] = Array.isArray(content) ? content : [];
  const parts: ChatPart[] = [];
  for (const item of items) parts.push(await partOf(item, parts.filter(isImagePart).length < MAX_IMAGES ? readImage : undefined, signal));
  if (parts.length > 0) return parts;
  return [text(structuredContent === undefined ? '(no content)' : JSON.stringify(structuredContent))];
}

async function partOf(item: unknown, readImage: ReadImage | undefined, signal: AbortSignal | undefined): Promise<ChatPart> {
  if (!isRecord(item)) return text('[content of no known type, left out]');
  const { type, data, mimeType, resource } = item;
  if (type === 'text') return text(stringOf(item.text));
  const named = (what: string, encoded: unknown): ChatPart =>
    text(`[${what} of the type ${stringOf(mimeType) || 'unknown'}, ${bytesOf(encoded)} bytes, left out]`);
  if (type === 'image') return (readImage && (await imageOf(stringOf(data), readImage, signal))) ?? named('an image', data);
  if (type === 'audio') return named('a sound', data);
  if (type === 'resource_link') return text(`[a link to ${stringOf(item.uri)} (${stringOf(item.name)})]`);
  if (type !== 'resource' || !isRecord(resource)) return text(`[content of the type ${stringOf(type) || 'unknown'}, left out]`);
  if (typeof resource.text === 'string') return text(resource.text);
  return text(`[the resource ${stringOf(resource.uri)}, ${bytesOf(resource.blob)} bytes, left out]`);
}

/** The image as a data: URL; undefined if it cannot be read. */
async function imageOf(base64: string, readImage: ReadImage, signal: AbortSignal | undefined): Promise<ChatPart | undefined> {
  // The server's word for the type is not used, because it would be part of the URL.
  const url = imageUrl(base64);
  try {
    await readImage(url, signal);
    return { type: 'image_url', image_url: { url } };
  } catch {
    signal?.throwIfAborted();
    return undefined;
  }
}

/**
 * Cuts texts so that all of them have at most `most` tokens.
 * @param count the number of tokens of a text
 */
export function cutParts(parts: readonly ChatPart[], most: number, count: (text: string) => number): ChatPart[] {
  let left = most;
  return parts.map((part) => {
    if (typeof part.text !== 'string') return part;
    const kept = beginning(part.text, left, count);
    left = Math.max(0, left - count(kept));
    return kept.length === part.text.length ? part : text(`${kept}\n[cut: ${part.text.length - kept.length} further characters]`);
  });
}

/** The beginning of a text that has at most `most` tokens. */
function beginning(whole: string, most: number, count: (text: string) => number): string {
  // A token has at least one byte of a text, and seldom more than 8 characters.
  let kept = whole.slice(0, most * 8);
  for (let tokens = count(kept); tokens > most; tokens = count(kept))
    kept = kept.slice(0, Math.min(kept.length - 1, Math.floor((kept.length * most) / tokens)));
  return kept;
}
