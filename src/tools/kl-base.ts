/**
 * llama-perplexity's file of base logits (`--kl-divergence-base`).
 *
 * It begins with "_logits_", n_ctx, n_vocab, n_chunk (i32) and the tokens (i32). Then each counted
 * position has an f32 scale, the lowest log-probability as f32, and n_vocab u16 steps above it,
 * padded to an even number.
 */
import { open, type FileHandle } from 'node:fs/promises';
import { QuantletError } from '../errors.ts';
import { openOutput } from './new-file.ts';
import { rowWords } from './score.ts';

const MAGIC = '_logits_';
const HEADER = 20;

/**
 * Counted positions of a window: those in its second half whose next token is also in the window.
 */
export const countedOf = (nCtx: number): number => nCtx - 1 - (nCtx >> 1);

const chunkWords = (nCtx: number, nVocab: number): number => rowWords(nVocab) * countedOf(nCtx);

export interface KlBase {
  readonly nCtx: number;
  readonly nVocab: number;
  readonly nChunk: number;
  readonly tokens: Int32Array;
  /** All counted positions of a chunk. */
  rows(chunk: number): Promise<Uint16Array<ArrayBuffer>>;
  close(): Promise<void>;
}

export interface KlBaseWriter {
  write(rows: Uint16Array): Promise<void>;
  /** Renames the file to its final name. Without this call, the file is deleted on close. */
  finish(): Promise<void>;
  close(): Promise<void>;
}

const failed =
  (what: string) =>
  (cause: NodeJS.ErrnoException): never => {
    throw new QuantletError('ERR_IO', `${what}: ${cause.message}`, { cause });
  };

/** @throws ERR_IO, also for a full disk */
export async function createKlBase(
  path: string,
  nCtx: number,
  nVocab: number,
  nChunk: number,
  tokens: readonly number[],
  signal?: AbortSignal,
): Promise<KlBaseWriter> {
  const { write, finish, close } = await openOutput(path, signal);
  let at = 0;
  const append = async (bytes: Uint8Array): Promise<void> => {
    await write(bytes, at);
    at += bytes.length;
  };
  try {
    await append(new TextEncoder().encode(MAGIC));
    await append(new Uint8Array(Int32Array.of(nCtx, nVocab, nChunk).buffer));
    await append(new Uint8Array(Int32Array.from(tokens.slice(0, nCtx * nChunk)).buffer));
  } catch (error) {
    await close();
    throw error;
  }
  return {
    write: (rows) => append(new Uint8Array(rows.buffer, rows.byteOffset, rows.byteLength)),
    finish,
    close,
  };
}

/** @throws ERR_IO if the file is missing, of another kind, or truncated */
export async function openKlBase(path: string): Promise<KlBase> {
  const file = await open(path).catch((cause: NodeJS.ErrnoException): never =>
    failed(`cannot read ${path}`)(
      Object.assign(new Error(`${cause.message}; make it with --kl-divergence-base first (the option klDivergenceBase of perplexity)`), {
        cause,
      }),
    ),
  );
  try {
    return await readKlBase(file, path);
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function readKlBase(file: FileHandle, path: string): Promise<KlBase> {
  const { size } = await file.stat();
  const read = async (bytes: number, at: number): Promise<ArrayBuffer> => {
    if (at + bytes > size)
      throw new QuantletError('ERR_IO', `${path} ends at byte ${size}; expected ${at + bytes - size} more: it is incomplete`);
    const buffer = new ArrayBuffer(bytes);
    for (let done = 0; done < bytes;) {
      const { bytesRead } = await file.read(new Uint8Array(buffer), done, bytes - done, at + done).catch(failed(`reading ${path} failed`));
      if (bytesRead === 0) throw new QuantletError('ERR_IO', `${path} ended at byte ${at + done} while it was read`);
      done += bytesRead;
    }
    return buffer;
  };
  const magic = new TextDecoder('latin1').decode(await read(Math.min(MAGIC.length, size), 0));
  if (magic !== MAGIC)
    throw new QuantletError(
      'ERR_IO',
      `${path} begins with "${magic.replace(/[^ -~]/g, '.')}"; expected "${MAGIC}": it is not a file of base logits`,
    );
  const [nCtx, nVocab, nChunk] = new Int32Array(await read(12, MAGIC.length));
  if (nCtx < 4 || nVocab < 1 || nChunk < 1)
    throw new QuantletError(
      'ERR_IO',
      `${path} says ${nChunk} windows of ${nCtx} tokens over a vocabulary of ${nVocab}; expected at least 1 window of 4 tokens and a vocabulary of 1: it is damaged`,
    );
  const start = HEADER + 4 * nCtx * nChunk;
  const chunkBytes = 2 * chunkWords(nCtx, nVocab);
  const end = start + nChunk * chunkBytes;
  if (end > size)
    throw new QuantletError(
      'ERR_IO',
      `${path} has ${size} bytes; expected ${end} for ${nChunk} windows of ${nCtx} tokens over a vocabulary of ${nVocab}: it is incomplete`,
    );
  const tokens = new Int32Array(await read(4 * nCtx * nChunk, HEADER));
  const outside = tokens.find((id) => id < 0 || id >= nVocab);
  if (outside !== undefined)
    throw new QuantletError('ERR_IO', `${path} has the token ${outside}; expected 0 to ${nVocab - 1}: it is damaged`);
  return {
    nCtx,
    nVocab,
    nChunk,
    tokens,
    rows: async (chunk) => new Uint16Array(await read(chunkBytes, start + chunk * chunkBytes)),
    close: () => file.close(),
  };
}
