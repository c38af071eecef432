/** Images of a request, as its protocol names them: data: URLs, base64, or URLs that are read. */
import { imageUrl, type ReadImage } from '../chat/images.ts';
import type { MediaSource } from '../run/image-tokens.ts';
import type { Context } from './context.ts';
import { unreadImage } from './media.ts';

/** Images of one request that are read from URLs. A conversation names each of them again. */
const MOST_URLS = 64;

/** A URL's scheme with its colon; undefined for other texts. */
const schemeOf = (text: string): string | undefined => /^[a-z][a-z0-9+.-]*:/i.exec(text)?.[0].toLowerCase();

/**
 * Reader of a request's images; undefined if the model sees none. Texts without a scheme are
 * base64, as in llama-server and Ollama. Other URLs than data: are read as `media` allows.
 */
export function imageReader(context: Context): ReadImage | undefined {
  const { backend, limits, options } = context;
  const { readImage } = backend;
  if (!readImage) return undefined;
  const known = new Map<string, Promise<Uint8Array>>();
  const bytesAt = async (url: string, scheme: string, signal: AbortSignal): Promise<Uint8Array> => {
    const bytes = await options.media?.(url, { maxBytes: limits.maxBodyBytes, signal });
    if (!bytes)
      throw unreadImage(
        `The URL of an image has ${scheme.slice(0, 40)}, which this server does not read; expected a data: URL. The server's flags --media-url and --media-path allow others.`,
      );
    context.hold(bytes.byteLength);
    return bytes;
  };
  return async (image: MediaSource, signal = context.signal) => {
    if (typeof image !== 'string') return readImage(image, signal);
    const scheme = schemeOf(image);
    if (scheme === undefined) return readImage(imageUrl(image), signal);
    if (scheme === 'data:') return readImage(image, signal);
    if (known.size === MOST_URLS && !known.has(image))
      throw unreadImage(`The request names more than ${MOST_URLS} images by URLs; send data: URLs.`);
    const bytes = known.get(image) ?? bytesAt(image, scheme, signal);
    known.set(image, bytes);
    return readImage(await bytes, signal);
  };
}
