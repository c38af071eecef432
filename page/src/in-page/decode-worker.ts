/** Decodes a picture that arrives as data: URL, to the pixels that models see. */
import { decodeImage } from '../../../src/vision/decode.ts';
import type { Picture } from '../../../src/vision/picture.ts';

export type Decoded = { readonly picture: Picture } | { readonly error: { readonly message: string; readonly code?: string } };

async function decode(url: string): Promise<Decoded> {
  try {
    return { picture: await decodeImage(new Uint8Array(await (await fetch(url)).arrayBuffer())) };
  } catch (error) {
    const { message, code } = error as Error & { code?: string };
    return { error: { message, ...(code === undefined ? {} : { code }) } };
  }
}

addEventListener('message', ({ data }: MessageEvent<string>) => {
  void decode(data).then((decoded) => postMessage(decoded, { transfer: 'picture' in decoded ? [decoded.picture.rgb.buffer] : [] }));
});
