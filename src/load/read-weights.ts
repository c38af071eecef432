/**
 * Reads a model's weights into memory and packs them: on the threads if they can open the files,
 * else on the host.
 */
import type { TensorInfo } from '../gguf/types.ts';
import type { Bytes, FileIdentity } from '../io/source.ts';
import type { ResolvedLoadOptions } from '../load-options.ts';
import type { Executor } from '../threads/executor.ts';
import { HEAD_BYTES, PIECE } from '../threads/loading.ts';
import { READ_BYTES, refuseBroken, toPlace } from '../run/fill-weights.ts';
import { createFingerprint, type Fingerprint } from '../fingerprint.ts';
import type { Loras } from '../plan/lora.ts';
import type { ModelPlan, Packing, Weight } from '../plan/model-plan.ts';
import { filesOf, packingOf, piecesOf, sharedPieces } from '../plan/pieces.ts';
import { inFileOrder } from '../plan/place-weights.ts';

export interface ReadOptions {
  readonly loras: Loras;
  readonly signal: AbortSignal | undefined;
  readonly onProgress: ResolvedLoadOptions['onProgress'];
}

const utf8 = new TextEncoder();

/** True if the threads read the weights themselves, and this thread is free meanwhile. */
export const readsByThreads = ({ load }: Executor, parts: readonly Bytes[]): boolean => load !== undefined && filesOf(parts) !== undefined;

/** Has the threads read and pack weights. Returns the first bytes of each weight. */
async function byThreads(
  load: NonNullable<Executor['load']>,
  files: readonly FileIdentity[],
  inOrder: readonly Weight[],
  packings: readonly Packing[],
  { signal, onProgress }: ReadOptions,
): Promise<ReadonlyMap<TensorInfo, Uint8Array>> {
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
  await load({ files, pieces: sharedPieces(rows), heads: all }, onDone, signal);
  return heads;
}

/**
 * Reads all weights, in the order of the files. Returns the weights' fingerprint.
 * @throws ERR_GGUF_INVALID for Inf or NaN, what reading throws
 */
export async function readWeights(
  executor: Executor,
  parts: readonly Bytes[],
  { weights, resident, tables, packings }: ModelPlan,
  options: ReadOptions,
): Promise<string> {
  // A saved sequence fits only the same rope angles, which can depend on the context length (Phi
  // 3), and the same scales of adapters.
  const settings = [
    tables.map(({ params, factors }) => [params, factors?.name]),
    [...options.loras.values()].flat().map(({ scale }) => scale),
  ];
  const fingerprint = createFingerprint().add(utf8.encode(JSON.stringify(settings)));
  const inOrder = inFileOrder(resident);
  const files = filesOf(parts);
  if (executor.load && files) {
    const heads = await byThreads(executor.load, files, inOrder, packings, options);
    await headsOf(parts, weights, fingerprint, heads);
  } else {
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
