/** A model made runnable: graph planned, memory made once, weights streamed into it, threads started. */
import { findArchitecture, type Wants } from './arch/architecture.ts';
import { readHParams, type HParams } from './arch/hparams.ts';
import { ropeTable } from './arch/rope-table.ts';
import { QuantletError } from './errors.ts';
import { createFingerprint } from './fingerprint.ts';
import { getArchitecture } from './gguf/metadata.ts';
import type { OpenedGGUF } from './gguf/split.ts';
import type { KvType } from './graph/attention-ops.ts';
import { ATTENTION_PART, OP, OP_SIZE, PLAN } from './graph/layout.ts';
import { encodePlan, type Plan } from './graph/plan.ts';
import type { Loras } from './lora.ts';
import { planModel, type KvCache, type ModelPlan, type RopeTable } from './model-plan.ts';
import type { Platform } from './platform.ts';
import type { Batch } from './scheduler.ts';
import type { Bytes } from './source.ts';
import type { Executor } from './threads/executor.ts';
import { createShared } from './threads/shared.ts';
import { createSingle } from './threads/single.ts';
import { isThreaded, kernelFacts, pickBuild, type Build } from './wasm/load.ts';
import { MEMORY_LIMIT, createMemory } from './wasm/memory.ts';

export interface EngineOptions {
  /** Tokens of the model's vocabulary. */
  nVocab: number;
  /** Vectors instead of logits; undefined: where the file is made for them. */
  embeddings: boolean | undefined;
  threads: number | undefined;
  build: string | undefined;
  /** Tokens of one sequence at most; 0: what the model was trained for. Undefined: that, or DEFAULT_CONTEXT if it is more. */
  contextLength: number | undefined;
  /** Sequences at once; undefined: 1, or ENCODER_PARALLEL for models that make vectors. */
  parallel: number | undefined;
  /** Tokens of one step at most. */
  batchSize: number;
  /** Logits of one step at most. */
  maxOutputs: number;
  /** What keys and values are kept as. */
  cacheTypeK: KvType;
  cacheTypeV: KvType;
  /** FlashDecoding++'s maximum, if all parts of attention are to have one. */
  unifiedMax: number | undefined;
  /** Their tensors lie in the files behind those of the model. */
  loras: Loras;
  signal: AbortSignal | undefined;
  onProgress: ((progress: { loaded: number; total: number }) => void) | undefined;
}

/** Caches grow with the context: a model trained for 128k tokens would take gigabytes that few conversations use. */
const DEFAULT_CONTEXT = 4096;
/** Texts that make up one step of an encoder: its texts are short, and each step reads all weights. */
const ENCODER_PARALLEL = 8;
/** Bytes read at once: large enough for disks and HTTP, small enough to report progress and stop soon. */
const READ_BYTES = 8 << 20;

/** Bytes of each tensor that go into the fingerprint: reading all would take longer than packing. Other training changes all tensors. */
const FINGERPRINT_BYTES = 4096;

/** Steps of up to so many tokens read the weights without reusing them: memory, and for small models the barriers, decide their speed. */
const FEW_TOKENS = 4;

export interface Engine {
  readonly executor: Executor;
  readonly build: Build;
  readonly hparams: HParams;
  readonly contextLength: number;
  /** Cells of a slot: the context rounded up to whole attention parts. */
  readonly slotCells: number;
  readonly batchSize: number;
  readonly maxOutputs: number;
  readonly memoryBytes: number;
  readonly parallel: number;
  readonly caches: readonly KvCache[];
  /** Tells these weights from others of the same shapes. */
  readonly fingerprint: string;
  /** What the rows of a step are. */
  readonly wants: Wants;
  /** The plan and its address: for benches that time single records. */
  readonly plan: Plan;
  readonly planAt: number;
  /** Threads for a step of few tokens; warm-up sets it to what is fastest for this model on this machine. */
  generationThreads: number;
  step(batch: Batch, signal?: AbortSignal): Promise<(i: number) => Float32Array>;
}

export async function createEngine(platform: Platform, { gguf, parts }: OpenedGGUF, options: EngineOptions): Promise<Engine> {
  const architecture = findArchitecture(getArchitecture(gguf));
  const hparams = readHParams(gguf);
  if (hparams.nVocab !== options.nVocab) throw new QuantletError('ERR_GGUF_INVALID', `the metadata says that the vocabulary has ${hparams.nVocab} tokens, but it lists ${options.nVocab}: the file is damaged`);
  const wants: Wants = wantsOf(hparams, options.embeddings);
  const parallel = options.parallel ?? (wants === 'logits' ? 1 : ENCODER_PARALLEL);
  const build = pickBuild(platform.features(), options.build || platform.forcedBuild());
  const threads = isThreaded(build) ? (options.threads ?? platform.defaultThreads()) : 1;
  const module = await platform.module(build);
  options.signal?.throwIfAborted();
  const facts = kernelFacts(module, isThreaded(build));
  const wanted = options.contextLength || (options.contextLength === 0 ? hparams.nCtxTrain : Math.min(hparams.nCtxTrain, DEFAULT_CONTEXT));
  // An encoder sees its text at once: a step holds a whole sequence.
  const batchFor = (contextLength: number): number => (hparams.causal ? options.batchSize : Math.max(options.batchSize, contextLength));
  const planFor = (contextLength: number): ModelPlan => {
    const batchSize = batchFor(contextLength);
    return planModel(gguf, architecture, hparams, facts, { wants, parallel, contextLength, batchSize, maxOutputs: wants === 'logits' ? options.maxOutputs : batchSize, threads, cacheTypeK: options.cacheTypeK, cacheTypeV: options.cacheTypeV, unifiedMax: options.unifiedMax, loras: options.loras });
  };
  // A context nobody asked for shrinks to what fits; one that was asked for must fit.
  let model = planFor(wanted);
  for (let n = wanted; !options.contextLength && model.memoryBytes > MEMORY_LIMIT && n > 2 * ATTENTION_PART; ) model = planFor((n = n >> 1));

  let fingerprint: string;
  const executor = await start(module, model.memoryBytes, model.syncAt);
  try {
    await executor.write(model.planAt, encodePlan(model.plan, model.planAt, model.scratchAt));
    await executor.write(model.packingAt, encodePlan(model.packing, model.packingAt, model.scratchAt));
    for (const { data, values } of model.plan.constants) await executor.write(data, values!());
    for (const table of model.tables) await executor.write(table.tensor.data, new Uint8Array((await angles(table, parts)).buffer));
    fingerprint = await readWeights(executor, parts, model, options);
  } catch (error) {
    await executor.dispose();
    throw error;
  }
  const engine: Engine = { executor, build, hparams, contextLength: model.contextLength, slotCells: model.slotCells, batchSize: model.batchSize, maxOutputs: model.maxOutputs, memoryBytes: model.memoryBytes, parallel, caches: model.caches, fingerprint, wants, plan: model.plan, planAt: model.planAt, generationThreads: threads, step };
  return engine;

  async function start(module: WebAssembly.Module, memoryBytes: number, sync: number): Promise<Executor> {
    if (isThreaded(build)) {
      const memory = createMemory(memoryBytes, true);
      return createShared(module, memory, sync, await platform.createCrew(module, memory, threads), platform.defaultThreads());
    }
    return platform.createExecutor ? platform.createExecutor(module, memoryBytes, sync) : createSingle(module, createMemory(memoryBytes, false), sync);
  }

  async function step(batch: Batch, signal?: AbortSignal): Promise<(i: number) => Float32Array> {
    const { inputs, result, plan, planAt } = model;
    const { nTokens, nOutputs } = batch;
    for (const name of ['ids', 'pos', 'cells', 'first', 'visible', 'outputs'] as const) {
      const values = batch[name];
      await executor.write(inputs[name].data, new Uint8Array(values.buffer, values.byteOffset, 4 * (name === 'outputs' ? nOutputs : nTokens)));
    }
    const threads = nTokens <= FEW_TOKENS ? engine.generationThreads : executor.threads;
    const width = result.ne[0], reads = { at: result.data, length: 4 * width * nOutputs };
    await executor.run({ plan: planAt, nTokens, nOutputs, from: 0, to: plan.records.length, threads, reads }, signal);
    const rows = await executor.read(reads.at, reads.length);
    return (i) => new Float32Array(rows.buffer, rows.byteOffset + 4 * width * i, width);
  }
}

/** What a file is made for, unless the caller wants vectors of it. */
function wantsOf({ arch, causal, pooling }: HParams, embeddings: boolean | undefined): Wants {
  if (embeddings === false && !causal) throw new QuantletError('ERR_INVALID_ARGUMENT', `embeddings is false, but ${arch} models make vectors and no text; leave it out`);
  if (embeddings !== undefined) return embeddings ? 'embeddings' : 'logits';
  return pooling === 'rank' ? 'ranks' : !causal || pooling !== 'none' ? 'embeddings' : 'logits';
}

/** A table's values, with the factors of the file where it takes some. */
async function angles({ params, factors, tensor }: RopeTable, parts: readonly Bytes[]): Promise<Float32Array> {
  if (!factors) return ropeTable(params, tensor.ne[1]);
  const bytes = await parts[factors.part].read(factors.offset, factors.offset + factors.byteLength);
  return ropeTable({ ...params, factors: new Float32Array(bytes.slice().buffer) }, tensor.ne[1]);
}

/** Streams every weight to its place, in the file's order, without a buffer for the whole; a matrix is packed while the next is read. Returns their fingerprint. */
async function readWeights(executor: Executor, parts: readonly Bytes[], { weights, tables, packing, packingAt }: ModelPlan, { loras, signal, onProgress }: EngineOptions): Promise<string> {
  // Some rotations depend on the context a model is loaded with (Phi 3), and adapters on their scale: keys of one are of no use to the other.
  const utf8 = new TextEncoder(), settings = [tables.map(({ params, factors }) => [params, factors?.name]), [...loras.values()].flat().map(({ scale }) => scale)];
  const fingerprint = createFingerprint().add(utf8.encode(JSON.stringify(settings)));
  const inOrder = [...weights].sort(([a], [b]) => a.part - b.part || a.offset - b.offset);
  const total = inOrder.reduce((n, [info]) => n + info.byteLength, 0);
  const packingOf = new Map(packing.records.map((r, i) => [r.dst, i]));
  let loaded = 0;
  let packed: Promise<void> = Promise.resolve();
  for (const [info, tensor] of inOrder) {
    const bytes = parts[info.part];
    for (let at = 0; at < info.byteLength; at += READ_BYTES) {
      signal?.throwIfAborted();
      const n = Math.min(READ_BYTES, info.byteLength - at), from = info.offset + at;
      const target = bytes.readInto && executor.view(tensor.data + at, n);
      const chunk = target ?? (await bytes.read(from, from + n, signal));
      if (target) await bytes.readInto!(target, from, signal);
      else await executor.write(tensor.data + at, chunk);
      if (at === 0) fingerprint.add(utf8.encode(`${info.name} ${info.type.name} ${info.ne.join(' ')}`)).add(chunk.subarray(0, FINGERPRINT_BYTES));
      loaded += n;
      onProgress?.({ loaded, total });
    }
    const record = packingOf.get(tensor);
    if (record === undefined) continue;
    await packed;
    packed = executor.run({ plan: packingAt, nTokens: 0, nOutputs: 0, from: record, to: record + 1 }, signal);
    packed.catch(() => {}); // heard at the next await
  }
  await packed;
  await refuseBroken(executor, packing, packingAt);
  return fingerprint.hex();
}

/** repack leaves 1 in the first parameter of a matrix that holds Inf or NaN where a scale should be. */
async function refuseBroken(executor: Executor, packing: Plan, packingAt: number): Promise<void> {
  const bytes = await executor.read(packingAt, packing.byteLength), words = new Uint32Array(bytes.slice().buffer);
  const ops = (words[PLAN.ops] - packingAt) / 4;
  const broken = packing.records.find((_, i) => words[ops + (i * OP_SIZE) / 4 + OP.params] !== 0);
  if (broken) throw new QuantletError('ERR_GGUF_INVALID', `tensor "${broken.dst.name}" (${broken.dst.type.name}) holds Inf or NaN; expected finite numbers: the file is damaged`);
}
