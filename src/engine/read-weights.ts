/**
 * Reads a model's weights into memory and packs them: on the threads if they can open the files,
 * else on the host.
 */
import { QuantletError } from '../errors.ts';
import { ROW_BLOCK } from '../graph/layout.ts';
import { pieceRows } from '../graph/packing.ts';
import { nbytes, type Tensor } from '../graph/tensor.ts';
import type { TensorInfo } from '../gguf/types.ts';
import type { Bytes } from '../io/source.ts';
import type { ResolvedLoadOptions } from '../load-options.ts';
import type { Executor } from '../threads/executor.ts';
import { HEAD_BYTES, PIECE, PIECE_SIZE } from '../threads/loading.ts';
import { rowSize } from '../type-traits.ts';
import { createFingerprint, type Fingerprint } from './fingerprint.ts';
import type { Loras } from './lora.ts';
import type { ModelPlan, PackedByThreads, Packing, Weight } from './model-plan.ts';
import { inFileOrder } from './place-weights.ts';

export interface ReadOptions {
  readonly loras: Loras;
  readonly signal: AbortSignal | undefined;
  readonly onProgress: ResolvedLoadOptions['onProgress'];
}

/**
 * Bytes that the host reads at once: large enough for disks and HTTP, small enough to report
 * progress and stop soon.
 */
const READ_BYTES = 8 << 20;

/** Bytes that a thread reads at once of weights that are not packed. */
const PIECE_BYTES = 1 << 20;

const utf8 = new TextEncoder();

/** Weights that are being read, and the first bytes of each. */
export interface Reading {
  readonly heads: ReadonlyMap<TensorInfo, Uint8Array>;
  readonly done: Promise<void>;
}

/** Has the threads read and pack weights. Returns undefined if they cannot open the files. */
export function readByThreads(
  executor: Executor,
  parts: readonly Bytes[],
  resident: readonly Weight[],
  packings: readonly PackedByThreads[],
  { signal, onProgress }: Pick<ReadOptions, 'signal' | 'onProgress'>,
): Reading | undefined {
  const files = parts.flatMap(({ file }) => file ?? []);
  if (!executor.load || files.length !== parts.length) return undefined;
  const inOrder = inFileOrder(resident);
  const all = new Uint8Array(new SharedArrayBuffer(HEAD_BYTES * inOrder.length));
  const heads = new Map(inOrder.map(([info], i) => [info, all.subarray(i * HEAD_BYTES).subarray(0, info.byteLength)]));
  const rows = piecesOf(inOrder, packings, (info) => heads.get(info)!.byteOffset);
  // Threads take pieces in order, so the finished ones are about the first.
  let total = 0;
  const ends = rows.map((row) => (total += row[PIECE.bytes]));
  let told = 0;
  const onDone = (n: number): void => {
    if (n > told) onProgress?.({ phase: 'load', loaded: ends[n - 1], total });
    told = n;
  };
  const done = executor.load({ files, pieces: sharedPieces(rows), heads: all }, onDone, signal);
  done.catch(() => {}); // thrown by whoever awaits it
  return { heads, done };
}

/**
 * Reads all weights, in the order of the files. Returns the weights' fingerprint.
 * @param begun result of readByThreads() for the same weights, if it was called before
 * @throws ERR_GGUF_INVALID for Inf or NaN, what reading throws
 */
export async function readWeights(
  executor: Executor,
  parts: readonly Bytes[],
  { weights, resident, tables, packings }: ModelPlan,
  options: ReadOptions,
  begun?: Reading,
): Promise<string> {
  // A saved sequence fits only the same rope angles, which can depend on the context length (Phi
  // 3), and the same scales of adapters.
  const settings = [
    tables.map(({ params, factors }) => [params, factors?.name]),
    [...options.loras.values()].flat().map(({ scale }) => scale),
  ];
  const fingerprint = createFingerprint().add(utf8.encode(JSON.stringify(settings)));
  const reading = begun ?? readByThreads(executor, parts, resident, packings, options);
  if (reading) {
    await reading.done;
    await headsOf(parts, weights, fingerprint, reading.heads);
  } else {
    const inOrder = inFileOrder(resident);
    // If all weights are read, the fingerprint is made on the way: over a network each further read
    // is a request.
    const all = new Set(resident.map(([info]) => info)).size === weights.length;
    if (!all) await headsOf(parts, weights, fingerprint);
    await byHost(executor, parts, inOrder, packings, options, all ? fingerprint : undefined);
  }
  for (const packing of packings) await refuseBroken(executor, packing);
  return fingerprint.hex();
}

const addHead = (fingerprint: Fingerprint, { name, type, ne }: TensorInfo, bytes: Uint8Array): void =>
  void fingerprint.add(utf8.encode(`${name} ${type.name} ${ne.join(' ')}`)).add(bytes.subarray(0, HEAD_BYTES));

/**
 * Adds the first bytes of all weights to a fingerprint. All reads start at once, in the order of
 * the files, so that over a network they are one stream.
 * @param known first bytes that were read already
 */
async function headsOf(
  parts: readonly Bytes[],
  weights: readonly TensorInfo[],
  fingerprint: Fingerprint,
  known: ReadonlyMap<TensorInfo, Uint8Array> = new Map(),
): Promise<void> {
  const inOrder = inFileOrder(weights.map((info) => [info, undefined] as const)).map(([info]) => info);
  const heads = await Promise.all(
    inOrder.map((info) => {
      const { part, offset, byteLength } = info;
      return known.get(info) ?? parts[part].read(offset, offset + Math.min(byteLength, HEAD_BYTES));
    }),
  );
  for (const [i, info] of inOrder.entries()) addHead(fingerprint, info, heads[i]);
}

/** Record of each packed matrix, and the packing that has it. */
const packingOf = <P extends PackedByThreads>(packings: readonly P[]): ReadonlyMap<Tensor, { readonly record: number; readonly of: P }> =>
  new Map(packings.flatMap((of) => of.matrices.map(([, matrix], record) => [matrix, { record, of }] as const)));

/**
 * Numbers of all pieces (threads/loading.ts): whole row blocks of packed matrices, any bytes of
 * other weights.
 * @param headOf offset that a weight's first bytes are copied to; -1: nowhere
 */
function piecesOf(
  inOrder: readonly Weight[],
  packings: readonly PackedByThreads[],
  headOf: (info: TensorInfo) => number = () => -1,
): number[][] {
  const packing = packingOf(packings);
  return inOrder.flatMap(([info, tensor]) => {
    const packed = packing.get(tensor);
    const row = rowSize(info.type, tensor.ne[0]);
    const most = packed ? pieceRows(tensor) * row : PIECE_BYTES;
    return Array.from({ length: Math.ceil(info.byteLength / most) }, (_, i) => {
      const from = i * most;
      const n = Math.min(most, info.byteLength - from);
      const bytes = [info.part, info.offset + from, n, i === 0 ? headOf(info) : -1];
      if (!packed) return [...bytes, tensor.data + from, -1, 0, 0, 0, 0, 0, 0];
      const { record, of } = packed;
      const at = tensor.data + (from / row) * tensor.nb[1];
      return [...bytes, at, info.type.id, tensor.type.id, tensor.ne[0], n / row, of.broken.data + 4 * record, of.scratchAt, of.scratchSize];
    });
  });
}

function sharedPieces(rows: readonly (readonly number[])[]): Float64Array {
  const pieces = new Float64Array(new SharedArrayBuffer(8 * PIECE_SIZE * rows.length));
  pieces.set(rows.flat());
  return pieces;
}

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
  const files = parts.flatMap(({ file }) => file ?? []);
  const own = packings.filter(({ matrices }) => matrices.some(([, matrix]) => weights.some(([, tensor]) => tensor === matrix)));
  const check = async (): Promise<void> => {
    for (const packing of own) await refuseBroken(executor, packing);
  };
  if (executor.loadBeside && files.length === parts.length) {
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
async function toPlace(executor: Executor, [info, tensor]: Weight, at: number, chunk: Uint8Array): Promise<void> {
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

/** Reads weights on the host. A matrix is packed while the next one is read. */
async function byHost(
  executor: Executor,
  parts: readonly Bytes[],
  inOrder: readonly Weight[],
  packings: readonly Packing[],
  { signal, onProgress }: ReadOptions,
  fingerprint: Fingerprint | undefined,
): Promise<void> {
  const total = inOrder.reduce((n, [info]) => n + info.byteLength, 0);
  const packing = packingOf(packings);
  for (const { placed } of packings) await executor.write(placed.at, placed.encode());
  let loaded = 0;
  let known: TensorInfo | undefined;
  let packed: Promise<void> = Promise.resolve();
  for (const [info, tensor] of inOrder) {
    const bytes = parts[info.part];
    for (let at = 0; at < info.byteLength; at += READ_BYTES) {
      signal?.throwIfAborted();
      const n = Math.min(READ_BYTES, info.byteLength - at);
      const from = info.offset + at;
      const target = bytes.readInto && info.type === tensor.type ? executor.view(tensor.data + at, n) : undefined;
      const chunk = target ?? (await bytes.read(from, from + n, signal));
      if (target) await bytes.readInto!(target, from, signal);
      else await toPlace(executor, [info, tensor], at, chunk);
      if (fingerprint && info !== known) addHead(fingerprint, (known = info), chunk);
      loaded += n;
      onProgress?.({ phase: 'load', loaded, total });
    }
    const found = packing.get(tensor);
    if (!found) continue;
    await packed;
    const { record, of } = found;
    const pass = { plan: of.placed.at, from: record, to: record + 1 };
    packed = executor.run({ passes: [pass], nTokens: 0, nOutputs: 0 }, signal);
    packed.catch(() => {}); // thrown by the next await
  }
  await packed;
}

/**
 * @throws ERR_GGUF_INVALID if a scale of a matrix is Inf or NaN: every product with it would be
 * wrong
 */
async function refuseBroken(executor: Executor, { matrices, broken }: Packing): Promise<void> {
  const flags = await executor.read(broken.data, nbytes(broken));
  const at = flags.findIndex((byte) => byte !== 0) >> 2;
  if (at < 0) return;
  const [{ name, type }] = matrices[at];
  throw new QuantletError(
    'ERR_GGUF_INVALID',
    `tensor "${name}" (${type.name}) holds Inf or NaN; expected finite numbers: the file is damaged`,
  );
}
