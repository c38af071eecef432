/** Images that requests name by URLs other than data:. */
import { HttpError } from './http/http-error.ts';

/** Limits for reading an image at a URL that is not a data: URL. */
export interface MediaOptions {
  /** Most bytes of the image. */
  readonly maxBytes: number;
  /** Aborted if the client disconnects or the request times out. */
  readonly signal: AbortSignal;
}

/** A failure to read an image that a request names by its URL. */
export const unreadImage = (message: string, cause?: unknown): HttpError =>
  new HttpError(400, message, { code: 'invalid_image_url', cause });
