/** Decodes the pictures of messages in a worker, so that the page stays responsive. */
import type { ChatMessage, ChatPart } from 'quantlet';
import { PageError, type WireMessage, type WirePart } from '../backend.ts';
import type { Decoded } from './decode-worker.ts';

/** @throws PageError with the code of the library's error; signal.reason */
async function pixelsOf(url: string, signal: AbortSignal) {
  const worker = new Worker(new URL('./decode-worker.ts', import.meta.url), { type: 'module' });
  const stop = new AbortController();
  try {
    const decoded = await new Promise<Decoded>((resolve, reject) => {
      worker.onmessage = ({ data }: MessageEvent<Decoded>) => resolve(data);
      worker.onerror = ({ message }) => reject(new PageError(`The picture could not be decoded: ${message || 'its worker ended'}.`));
      signal.addEventListener('abort', () => reject(signal.reason as Error), { signal: stop.signal });
      worker.postMessage(url);
    });
    if ('error' in decoded) throw new PageError(decoded.error.message, decoded.error.code);
    return decoded.picture;
  } finally {
    stop.abort();
    worker.terminate();
  }
}

async function part(given: WirePart, signal: AbortSignal): Promise<ChatPart> {
  if (given.type === 'text') return given;
  const { width, height, rgb } = await pixelsOf(given.image_url.url, signal);
  return { type: 'image', image: { data: rgb, width, height, channels: 3 } };
}

/** The messages with pixels in place of files. */
export async function decoded(messages: readonly WireMessage[], signal: AbortSignal): Promise<ChatMessage[]> {
  const made: ChatMessage[] = [];
  for (const message of messages) {
    if (typeof message.content === 'string') made.push({ ...message, content: message.content });
    else {
      const content: ChatPart[] = [];
      for (const given of message.content) content.push(await part(given, signal));
      made.push({ ...message, content });
    }
  }
  return made;
}
