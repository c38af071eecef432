/**
 * llama-perplexity's file of base logits (`--kl-divergence-base`): "_logits_", n_ctx, n_vocab, n_chunk (i32), the tokens (i32), then for
 * every counted position f32 scale, f32 lowest log-probability and n_vocab (made even) u16 steps above it.
 */
import { open, type FileHandle } from 'node:fs/promises';
import { QuantletError } from '../errors.ts';

const MAGIC = '_logits_';
/** Log-probabilities more than this below the best are stored as the lowest. */
const RANGE = 16;

export const rowWords = (nVocab: number): number => 2 * Math.ceil(nVocab / 2) + 4;

/** Logits -> one row of the file. */
export function packLogProbs(logits: Float32Array, row: Uint16Array<ArrayBuffer>): void {
  let max = -Infinity, min = Infinity;
  for (const x of logits) {
    if (x > max) max = x;
    if (x < min) min = x;
  }
  min = Math.max(min, max - RANGE);
  let sum = 0;
  for (const x of logits) sum += Math.exp(x - max);
  const scale = Math.fround((max - min) / 65535);
  new Float32Array(row.buffer, row.byteOffset, 2).set([scale, min - max - Math.log(sum)]);
  row.fill(0, 4);
  if (scale > 0) for (let i = 0; i < logits.length; i++) if (logits[i] > min) row[4 + i] = Math.min(65535, Math.round((logits[i] - min) / scale));
}

/** A row of the file -> log-probabilities. */
export function unpackLogProbs(row: Uint16Array<ArrayBuffer>, out: Float32Array): void {
  const [scale, min] = new Float32Array(row.buffer, row.byteOffset, 2);
  for (let i = 0; i < out.length; i++) out[i] = scale * row[4 + i] + min;
}

export interface KlBase {
  readonly nCtx: number;
  readonly nVocab: number;
  readonly nChunk: number;
  readonly tokens: Int32Array;
  /** All counted positions of a chunk. */
  rows(chunk: number): Promise<Uint16Array<ArrayBuffer>>;
  close(): Promise<void>;
}

export async function createKlBase(path: string, nCtx: number, nVocab: number, nChunk: number, tokens: readonly number[]): Promise<FileHandle> {
  const file = await open(path, 'w').catch((cause: Error) => {
    throw new QuantletError('ERR_IO', `cannot write ${path}: ${cause.message}`, { cause });
  });
  await file.write(new TextEncoder().encode(MAGIC));
  await file.write(new Uint8Array(new Int32Array([nCtx, nVocab, nChunk, ...tokens.slice(0, nCtx * nChunk)]).buffer));
  return file;
}

/** @throws ERR_IO where the file is missing, is no such file, or is cut short */
export async function openKlBase(path: string): Promise<KlBase> {
  const file = await open(path).catch((cause: Error) => {
    throw new QuantletError('ERR_IO', `cannot read ${path}: ${cause.message}; make it with --kl-divergence-base first`, { cause });
  });
  const read = async <T>(make: (b: ArrayBuffer) => T, bytes: number, at: number): Promise<T> => {
    const buffer = new ArrayBuffer(bytes);
    const { bytesRead } = await file.read(new Uint8Array(buffer), 0, bytes, at);
    if (bytesRead !== bytes) throw new QuantletError('ERR_IO', `${path} ends at byte ${at + bytesRead}, ${bytes - bytesRead} more were expected; it was not written to its end`);
    return make(buffer);
  };
  try {
    const magic = await read((b) => new TextDecoder().decode(b), MAGIC.length, 0);
    if (magic !== MAGIC) throw new QuantletError('ERR_IO', `${path} begins with "${magic}", expected "${MAGIC}": it is no file of base logits`);
    const [nCtx, nVocab, nChunk] = await read((b) => new Int32Array(b), 12, 8);
    const tokens = await read((b) => new Int32Array(b), 4 * nCtx * nChunk, 20);
    const start = 20 + tokens.byteLength, chunkBytes = 2 * rowWords(nVocab) * (nCtx - 1 - (nCtx >> 1));
    return { nCtx, nVocab, nChunk, tokens, rows: (chunk) => read((b) => new Uint16Array(b), chunkBytes, start + chunk * chunkBytes), close: () => file.close() };
  } catch (error) {
    await file.close();
    throw error;
  }
}
