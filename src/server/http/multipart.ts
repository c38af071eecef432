/**
 * Streaming parser for multipart/form-data (RFC 7578). The file is passed on in pieces and never
 * kept.
 */
import { HttpError } from './http-error.ts';

/** Maximum bytes of a part's headers and of a field's value, and maximum number of parts. */
const MAX_HEADERS = 8 * 1024;
const MAX_VALUE = 4 * 1024;
const MAX_PARTS = 16;

export interface Form {
  readonly fields: ReadonlyMap<string, string>;
  /** The client's name of the file. */
  readonly filename: string;
}

const malformed = (why: string): HttpError =>
  new HttpError(400, `The body is not a form: ${why}. Send multipart/form-data with a file in the field "file".`, { code: 'invalid_form' });

/** Offset of `mark` in `bytes`, or -1. */
function indexOf(bytes: Uint8Array, mark: Uint8Array): number {
  for (let at = bytes.indexOf(mark[0]); at >= 0 && at + mark.length <= bytes.length; at = bytes.indexOf(mark[0], at + 1)) {
    let n = 1;
    while (n < mark.length && bytes[at + n] === mark[n]) n++;
    if (n === mark.length) return at;
  }
  return -1;
}

/**
 * Reads a form with one file, in a field called `file`.
 * @param contentType the header with the boundary
 * @param file called with the file's pieces in order
 * @throws HttpError 400, 413, 415; errors of `chunks` and `file`
 */
export async function readForm(
  chunks: AsyncIterable<Uint8Array>,
  contentType: string | null,
  file: (piece: Uint8Array) => Promise<void>,
): Promise<Form> {
  const [, quoted, plain] = /^multipart\/form-data\s*;.*?\bboundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/is.exec(contentType ?? '') ?? [];
  const boundary = quoted ?? plain;
  if (boundary === undefined)
    throw new HttpError(415, 'The body is not a form; expected "content-type: multipart/form-data" with a boundary.', {
      code: 'unsupported_media_type',
    });
  const encoder = new TextEncoder();
  const end = encoder.encode(`\r\n--${boundary}`);
  const source = chunks[Symbol.asyncIterator]();
  let rest = encoder.encode('\r\n'); // the first boundary has no line break before it

  const more = async (): Promise<void> => {
    const { done, value } = await source.next();
    if (done) throw malformed('it ends before its last boundary');
    const all = new Uint8Array(rest.length + value.length);
    all.set(rest);
    all.set(value, rest.length);
    rest = all;
  };
  /** Yields the bytes before a mark, and skips the mark. */
  async function* until(mark: Uint8Array): AsyncGenerator<Uint8Array, void> {
    for (;;) {
      const at = indexOf(rest, mark);
      const ready = at >= 0 ? at : Math.max(0, rest.length - mark.length + 1);
      const piece = rest.subarray(0, ready);
      rest = rest.subarray(at >= 0 ? at + mark.length : ready);
      if (piece.length > 0) yield piece;
      if (at >= 0) return;
      await more();
    }
  }
  const textUntil = async (mark: Uint8Array, limit: number): Promise<string> => {
    const decoder = new TextDecoder();
    let text = '';
    let size = 0;
    for await (const piece of until(mark)) {
      size += piece.length;
      if (size > limit) throw new HttpError(413, `A field of the form has more than ${limit} bytes.`, { code: 'body_too_large' });
      text += decoder.decode(piece, { stream: true });
    }
    return text + decoder.decode();
  };

  const fields = new Map<string, string>();
  let filename: string | undefined;
  await textUntil(end, MAX_VALUE);
  for (let part = 0; ; part++) {
    while (rest.length < 2) await more();
    const ending = new TextDecoder().decode(rest.subarray(0, 2));
    if (ending === '--') break;
    if (ending !== '\r\n') throw malformed('a boundary is followed by something else than a line break');
    if (part === MAX_PARTS) throw malformed(`it has more than ${MAX_PARTS} parts`);
    const headers = await textUntil(encoder.encode('\r\n\r\n'), MAX_HEADERS);
    const disposition = /^content-disposition:\s*form-data\b(.*)$/im.exec(headers)?.[1] ?? '';
    const parameter = (key: string): string | undefined => new RegExp(`;\\s*${key}="([^"]*)"`, 'i').exec(disposition)?.[1];
    const name = parameter('name');
    if (name === undefined) throw malformed('a part has no name');
    const given = parameter('filename');
    if (name !== 'file') fields.set(name, await textUntil(end, MAX_VALUE));
    else if (filename !== undefined) throw malformed('it has two files');
    else {
      filename = (given ?? '').split(/[\\/]/).at(-1)!.slice(0, 255) || 'file';
      for await (const piece of until(end)) await file(piece);
    }
  }
  if (filename === undefined) throw malformed('it has no file');
  return { fields, filename };
}
