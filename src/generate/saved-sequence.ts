/**
 * A sequence as bytes: its tokens, keys and values, to continue in another process or later.
 *
 *   | "qltstate" | version u32 | header length u32 | header, JSON | tokens i32 |
 *   | prompt of an encoder, i32 | states of recurrent layers |
 *   | for each layer and head: K, V, in the order of the cache (cache-runs.ts) |
 *
 * The header names the model and the cache's types. Its `tokens` is their number, its `sum` the
 * fingerprint of everything after the header. Numbers are little-endian. The contents do not depend
 * on the slot, the context or the number of sequences they came from.
 */
import type { OwnBytes } from '../globals.ts';
import { cacheRuns } from '../run/cache-runs.ts';
import { QuantletError, typeName } from '../errors.ts';
import { createFingerprint } from '../fingerprint.ts';
import type { GGUFValue } from '../gguf/types.ts';
import type { ModelInternals } from '../run/model-internals.ts';
import { isImage } from '../run/image-tokens.ts';
import { isSame, sharedLength, type Slot, type Slots } from '../run/slots.ts';
import { inSlices } from '../slices.ts';

export interface SaveStateOptions {
  /**
   * Saves the part of this prompt that is in the cache, from the sequence that has most of it. With
   * an encoder, all of the prompt or nothing. Default: the whole sequence that was computed last.
   */
  prompt?: string | readonly number[] | undefined;
  signal?: AbortSignal | undefined;
}

/** A slot by its number, instead of any. */
interface OfSlot {
  slot?: number;
}

const encoder = new TextEncoder();
const MAGIC = encoder.encode('qltstate');
const VERSION = 6;
/** Bytes before the header. */
const PREFIX = MAGIC.length + 8;
/** Limit of a header's bytes, far more than one needs. */
const MOST_HEADER = 4096;

/** Properties that must be equal for a state to fit a model. */
interface Identity {
  readonly architecture: string;
  readonly layers: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly cacheTypeK: string;
  readonly cacheTypeV: string;
  /** Elements of keys and of values that are rotated together; 0: no rotation. */
  readonly cacheRotationK: number;
  readonly cacheRotationV: number;
  /** Numbers in one state of all recurrent layers together. */
  readonly stateSize: number;
  readonly weights: string;
  readonly tokenizer: string;
}

interface Header extends Identity {
  readonly tokens: number;
  /** Tokens of the prompt that an encoder has read; absent for models without an encoder. */
  readonly encoded?: number | undefined;
  readonly sum: string;
}

/**
 * @throws ERR_STATE if no sequence was computed (or none begins like the prompt)
 * @internal
 */
export async function saveState(
  model: ModelInternals,
  metadata: ReadonlyMap<string, GGUFValue>,
  { prompt, slot: number, signal }: SaveStateOptions & OfSlot,
): Promise<{ state: OwnBytes; tokens: number }> {
  const { engine, slots } = model;
  const identity = identityOf(model, metadata);
  const ids = typeof prompt === 'string' ? model.tokenizer.encode(prompt, { parseSpecial: true }) : prompt;
  const has = (slot: Slot): number => {
    if (ids && engine.hparams.decoder) return isSame(slot.encoded, ids) ? Math.min(1, slot.tokens.length) : 0;
    const n = ids ? sharedLength(slot.tokens, ids) : slot.tokens.length;
    return slot.states ? slot.states.reach(n) : n;
  };
  // Free slots are listed from the one free longest; the last one was computed last.
  const slot = await slots.acquire(
    signal,
    (free) => (ids ? free.reduce((best, s) => (has(s) > has(best) ? s : best)) : free.at(-1)!),
    slotOf(slots, number),
  );
  try {
    const tokens = Int32Array.from(slot.tokens.slice(0, has(slot)));
    if (tokens.some(isImage))
      throw new QuantletError('ERR_STATE', 'the sequence has images, which a state cannot hold; save a sequence of text');
    if (tokens.length === 0)
      throw new QuantletError(
        'ERR_STATE',
        `there is nothing to save: no sequence${ids ? ' that begins with this prompt' : ''} was computed; generate first`,
      );
    const encoded = Int32Array.from(slot.encoded);
    const counts = { tokens: tokens.length, ...(encoded.length > 0 && { encoded: encoded.length }) };
    // The sum is known last, but its length does not vary, so the header's length is known and the
    // body can be written in place.
    const headerOf = (sum: string): Uint8Array => encoder.encode(JSON.stringify({ ...identity, ...counts, sum } satisfies Header));
    const at0 = PREFIX + headerOf(createFingerprint().hex()).length;
    const bytes = new Uint8Array(at0 + bodyLength(model, counts));
    const body = bytes.subarray(at0);
    body.set(new Uint8Array(tokens.buffer));
    body.set(new Uint8Array(encoded.buffer), tokens.byteLength);
    let at = tokens.byteLength + encoded.byteLength;
    for (const run of cacheRuns(engine, slot, counts, slot.states?.cellOf(tokens.length) ?? 0)) {
      signal?.throwIfAborted();
      body.set(await engine.executor.read(run.at, run.length), at);
      run.saved?.(body.subarray(at, at + run.length));
      at += run.length;
    }
    const view = new DataView(bytes.buffer);
    bytes.set(MAGIC);
    view.setUint32(MAGIC.length, VERSION, true);
    view.setUint32(MAGIC.length + 4, at0 - PREFIX, true);
    bytes.set(headerOf(await sumOf(body, signal)), PREFIX);
    return { state: bytes, tokens: tokens.length };
  } finally {
    slots.release(slot);
  }
}

/**
 * Loads a saved sequence into the cache and returns its tokens.
 * @throws ERR_STATE if the bytes are not a state, damaged, or of another model; ERR_CONTEXT_FULL
 * @internal
 */
export async function loadState(
  model: ModelInternals,
  metadata: ReadonlyMap<string, GGUFValue>,
  bytes: Uint8Array,
  { slot: number, signal }: OfSlot & { signal?: AbortSignal } = {},
): Promise<number[]> {
  const { engine, slots } = model;
  const { header, body } = parse(bytes);
  checkIdentity(header, identityOf(model, metadata));
  const n = header.tokens;
  const { encoded = 0 } = header;
  if (Math.max(n, encoded) > engine.contextLength)
    throw new QuantletError(
      'ERR_CONTEXT_FULL',
      `the state has ${Math.max(n, encoded)} tokens, the context ${engine.contextLength}; load the model with a larger contextLength`,
    );
  const length = bodyLength(model, header);
  if (body.length !== length)
    throw new QuantletError(
      'ERR_STATE',
      `the state has ${body.length} bytes after its header; expected ${length} for ${n} tokens: it is ${body.length < length ? 'truncated' : 'too long'}`,
    );
  if ((await sumOf(body, signal)) !== header.sum)
    throw new QuantletError('ERR_STATE', 'the state is damaged: its bytes do not have the checksum in its header; save it again');
  const all = Array.from({ length: n + encoded }, (_, i) => new DataView(body.buffer, body.byteOffset).getInt32(4 * i, true));
  const bad = all.findIndex((id) => id < 0 || id >= engine.hparams.nVocab);
  if (bad >= 0)
    throw new QuantletError('ERR_STATE', `token ${bad} of the state is ${all[bad]}, outside the vocabulary of ${engine.hparams.nVocab}`);

  const ids = all.slice(0, n);
  const slot = await slots.acquire(signal, undefined, slotOf(slots, number));
  try {
    slot.encode(all.slice(n)); // until all data is loaded, the slot has no tokens
    let at = 4 * all.length;
    for (const run of cacheRuns(engine, slot, header, slot.states?.restore(n) ?? 0)) {
      const saved = body.subarray(at, at + run.length);
      const bytes = run.loaded ? saved.slice() : saved;
      run.loaded?.(bytes);
      await engine.executor.write(run.at, bytes);
      at += run.length;
    }
    slot.append(ids);
  } catch (error) {
    slot.encode([]);
    throw error;
  } finally {
    slots.release(slot);
  }
  return ids;
}

/**
 * Clears the sequence of a slot, when the slot is free.
 * @returns the number of tokens it had
 * @internal
 */
export async function eraseSlot({ slots }: ModelInternals, number: number, signal?: AbortSignal): Promise<number> {
  const slot = await slots.acquire(signal, undefined, slotOf(slots, number));
  const n = slot.tokens.length;
  slot.encode([]);
  slots.release(slot);
  return n;
}

/** @throws ERR_INVALID_ARGUMENT */
function slotOf({ all }: Slots, number: number | undefined): Slot | undefined {
  if (number === undefined || all[number]) return number === undefined ? undefined : all[number];
  throw new QuantletError('ERR_INVALID_ARGUMENT', `there is no slot ${number}; expected 0 to ${all.length - 1}`);
}

async function sumOf(body: Uint8Array, signal: AbortSignal | undefined): Promise<string> {
  const fingerprint = createFingerprint();
  await inSlices(fingerprint.addWork(body), signal);
  return fingerprint.hex();
}

function identityOf({ engine }: ModelInternals, metadata: ReadonlyMap<string, GGUFValue>): Identity {
  const { caches, hparams } = engine;
  if (engine.wants !== 'logits')
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `this ${hparams.arch} model was loaded to make ${engine.wants}, so it has no sequences`,
    );
  const words = ['tokenizer.ggml.model', 'tokenizer.ggml.pre', 'tokenizer.ggml.tokens'].map((key) => String(metadata.get(key)));
  return {
    architecture: hparams.arch,
    layers: caches.length,
    kvHeads: hparams.nHeadKv,
    headDim: hparams.headDim,
    cacheTypeK: caches[0]?.k.type.name ?? '',
    cacheTypeV: caches[0]?.v.type.name ?? '',
    cacheRotationK: caches[0]?.rotation.k ?? 0,
    cacheRotationV: caches[0]?.rotation.v ?? 0,
    stateSize: engine.states.reduce((n, { nb }) => n + nb[3] / 4, 0),
    weights: engine.fingerprint,
    tokenizer: createFingerprint()
      .add(encoder.encode(words.join('\n')))
      .hex(),
  };
}

function checkIdentity(got: Header, want: Identity): void {
  const key = (Object.keys(want) as (keyof Identity)[]).find((k) => got[k] !== want[k]);
  if (key === undefined) return;
  const rotation = key.startsWith('cacheRotation');
  const cache = rotation || key.startsWith('cacheType');
  const [option, value] = rotation ? ['cacheRotation', got[key] !== 0] : [key, got[key]];
  throw new QuantletError(
    'ERR_STATE',
    `the state ${cache ? `has another form of cache` : `is of another model`}: its ${key} is ${JSON.stringify(got[key])}; expected ${JSON.stringify(want[key])}; ${cache ? `load the model with ${option} ${JSON.stringify(value)}` : 'load it into the model that saved it'}`,
  );
}

function parse(bytes: Uint8Array): { header: Header; body: Uint8Array } {
  if (!(bytes instanceof Uint8Array))
    throw new QuantletError('ERR_INVALID_ARGUMENT', `the state is ${typeName(bytes)}; expected the Uint8Array that saveState() gave`);
  if (MAGIC.some((byte, i) => bytes[i] !== byte))
    throw new QuantletError(
      'ERR_STATE',
      `${bytes.length < MAGIC.length ? `${bytes.length} bytes are` : 'this is'} not a saved state; expected it to begin with "qltstate"`,
    );
  if (bytes.length < PREFIX) throw new QuantletError('ERR_STATE', `the state is truncated: ${bytes.length} bytes; expected a header`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const version = view.getUint32(MAGIC.length, true);
  const length = view.getUint32(MAGIC.length + 4, true);
  if (version !== VERSION)
    throw new QuantletError('ERR_STATE', `the state has version ${version}; expected version ${VERSION}: save it again`);
  if (length <= MOST_HEADER && bytes.length < PREFIX + length)
    throw new QuantletError('ERR_STATE', `the state is truncated: ${bytes.length} bytes; expected a header of ${length}`);
  const header = length <= MOST_HEADER ? readHeader(bytes.subarray(PREFIX, PREFIX + length)) : undefined;
  if (!header || !isCount(header.tokens, 1) || !isCount(header.encoded ?? 0, 0))
    throw new QuantletError('ERR_STATE', 'the header of the state is damaged; save it again');
  return { header, body: bytes.subarray(PREFIX + length) };
}

const isCount = (n: unknown, least: number): boolean => Number.isInteger(n) && (n as number) >= least;

function readHeader(text: Uint8Array): Header | undefined {
  try {
    const header = JSON.parse(new TextDecoder().decode(text)) as Header | null;
    return typeof header === 'object' && header !== null ? header : undefined;
  } catch {
    return undefined;
  }
}

function bodyLength({ engine, slots }: ModelInternals, counts: Pick<Header, 'tokens' | 'encoded'>): number {
  let length = 4 * (counts.tokens + (counts.encoded ?? 0));
  for (const run of cacheRuns(engine, slots.all[0], counts, 0)) length += run.length;
  return length;
}
