/**
 * Reads weights into memory between steps, or while steps run: by reader threads, or on the host.
 */
import { QuantletError } from '../errors.ts';
import { ROW_BLOCK } from '../graph/layout.ts';
import { nbytes } from '../graph/tensor.ts';
import type { Bytes } from '../io/source.ts';
import type { Executor } from '../threads/executor.ts';
import { rowSize } from '../type-traits.ts';
import type { Packing, Weight } from '../plan/model-plan.ts';
import { filesOf, packingOf, piecesOf, sharedPieces } from '../plan/pieces.ts';

/**
 * Bytes that the host reads at once: large enough for disks and HTTP, small enough to report
 * progress and stop soon.
 */
export const READ_BYTES = 8 << 20;

/** Reads some weights into memory while steps run. */
export interface Filling {
  /** Reads the weights. No step may use their memory meanwhile. */
  read(): Promise<void>;
  /** Completes the weights before they are used. Call between steps. */
  finish(): Promise<void>;
}

/**
 * Uses the reader threads, which pack at once, if there are any. Otherwise the host reads, and the
 * computing threads pack between two steps.
 */
export function fillingOf(executor: Executor, parts: readonly Bytes[], weights: readonly Weight[], packings: readonly Packing[]): Filling {
  const files = filesOf(parts);
  const own = packings.filter(({ matrices }) => matrices.some(([, matrix]) => weights.some(([, tensor]) => tensor === matrix)));
  const check = async (): Promise<void> => {
    for (const packing of own) await refuseBroken(executor, packing);
  };
  if (executor.loadBeside && files) {
    const pieces = sharedPieces(piecesOf(weights, packings));
    return { read: () => executor.loadBeside!({ files, pieces }, () => {}), finish: check };
  }
  const packing = packingOf(packings);
  return {
    async read() {
      for (const weight of weights) {
        const [{ part, offset, byteLength }] = weight;
        for (let at = 0; at < byteLength; at += READ_BYTES) {
          const end = Math.min(byteLength, at + READ_BYTES);
          await toPlace(executor, weight, at, await parts[part].read(offset + at, offset + end));
        }
      }
    },
    async finish() {
      for (const [, tensor] of weights) {
        const found = packing.get(tensor);
        if (!found) continue;
        const { record, of } = found;
        await executor.run({ passes: [{ plan: of.placed.at, from: record, to: record + 1 }], nTokens: 0, nOutputs: 0 });
      }
      await check();
    },
  };
}

/**
 * Writes a chunk of a weight's file that begins at its byte `at`. If packing makes rows larger,
 * each row block goes to where its packed form will begin (repackRecord).
 */
export async function toPlace(executor: Executor, [info, tensor]: Weight, at: number, chunk: Uint8Array): Promise<void> {
  if (info.type === tensor.type) return executor.write(tensor.data + at, chunk);
  const block = ROW_BLOCK * rowSize(info.type, info.ne[0]);
  const placeOf = (at: number): number => Math.floor(at / block) * ROW_BLOCK * tensor.nb[1] + (at % block);
  const from = placeOf(at);
  const spread = new Uint8Array(placeOf(at + chunk.length - 1) + 1 - from);
  for (let i = 0; i < chunk.length;) {
    const n = Math.min(chunk.length - i, block - ((at + i) % block));
    spread.set(chunk.subarray(i, i + n), placeOf(at + i) - from);
    i += n;
  }
  await executor.write(tensor.data + from, spread);
}

/**
 * @throws ERR_GGUF_INVALID if a scale of a matrix is Inf or NaN: every product with it would be
 * wrong
 */
export async function refuseBroken(executor: Executor, { matrices, broken }: Packing): Promise<void> {
  const flags = await executor.read(broken.data, nbytes(broken));
  const at = flags.findIndex((byte) => byte !== 0) >> 2;
  if (at < 0) return;
  const [{ name, type }] = matrices[at];
  throw new QuantletError(
    'ERR_GGUF_INVALID',
    `tensor "${name}" (${type.name}) has Inf or NaN; expected finite numbers: the file is damaged`,
  );
}
