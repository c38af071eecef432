/** Bytes of images and sounds, wherever they come from, with a key that is the same for the same bytes. */
import { QuantletError, tell, type QuantletErrorCode } from '../errors.ts';
import { sha256 } from '../sha256.ts';

/** A kind of source, for its errors. */
export interface SourceKind {
  /** "an image", "a sound" */
  readonly name: string;
  readonly code: QuantletErrorCode;
  /** Files that are read. */
  readonly files: string;
  /** Other forms that may be given. */
  readonly others: string;
}

/**
 * Bytes of a file: themselves, a Blob's, or those of a data: URL.
 * @throws ERR_INVALID_ARGUMENT; the kind's code for text that is not base64
 */
export async function bytesOf(source: unknown, kind: SourceKind): Promise<Uint8Array> {
  if (source instanceof Uint8Array) return source;
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (typeof Blob !== 'undefined' && source instanceof Blob) return new Uint8Array(await source.arrayBuffer());
  if (typeof source === 'string' || source instanceof URL) return dataUrlBytes(String(source), kind);
  throw new QuantletError(
    'ERR_INVALID_ARGUMENT',
    `${kind.name} is ${tell(source)}; expected the bytes of ${kind.files}, a Blob, a data: URL, or ${kind.others}`,
  );
}

/**
 * Bytes of a data: URL.
 * @throws the kind's code; ERR_INVALID_ARGUMENT for another URL: nothing is fetched
 */
export function dataUrlBytes(url: string, kind: SourceKind): Uint8Array {
  const [, type, base64] = /^data:([^,;]*)(?:;[^,;]*)*?(;base64)?,/i.exec(url.slice(0, 256)) ?? [];
  if (type === undefined) {
    const scheme = /^[a-z][a-z0-9+.-]*:/i.exec(url)?.[0] ?? 'no scheme';
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `the URL of ${kind.name} has ${scheme}; expected a data: URL, because nothing is downloaded`,
    );
  }
  if (!/^(image|audio)\//i.test(type) || !base64)
    throw new QuantletError(
      kind.code,
      `${kind.name.replace(/^an? /, 'the ')} has a data: URL of ${type || 'no type'}${base64 ? '' : ' without base64'}; expected base64 of ${kind.files}`,
    );
  return base64Bytes(url.slice(url.indexOf(',') + 1), kind);
}

/** @throws the kind's code */
export function base64Bytes(text: string, kind: SourceKind): Uint8Array {
  let binary: string;
  try {
    binary = atob(text);
  } catch {
    throw new QuantletError(
      kind.code,
      `${kind.name.replace(/^an? /, 'the ')} is not base64; expected the bytes of ${kind.files} in base64`,
    );
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

let unshared = 0;

/**
 * Hash of a source, so that the same bytes are encoded once. Pages without a secure context have
 * no hashes; there, nothing is shared.
 */
export async function keyOf(bytes: Uint8Array, kind: string): Promise<string> {
  const { subtle } = crypto as { subtle?: SubtleCrypto };
  return subtle ? `${kind} ${await sha256(bytes)}` : `source ${unshared++}`;
}
