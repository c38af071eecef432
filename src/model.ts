/// <reference lib="esnext.disposable" preserve="true" />
/** The public Model: load, tokenize, generate, chat, embed, dispose. */
import { createChat, type Chat } from './chat/generation.ts';
import type { ChatMessage } from './chat/messages.ts';
import type { ChatBackend, ChatOptions } from './chat/run.ts';
import { createChatTemplate, type ChatTemplate } from './chat/template.ts';
import { embed, rank, type EmbedOptions } from './embed.ts';
import { createEngine, type Engine } from './engine.ts';
import { QuantletError } from './errors.ts';
import { createGeneration, type GenerateOptions, type Generation } from './generate.ts';
import type { GGUF, GGUFValue } from './gguf/types.ts';
import { KV_TYPES, type KvType } from './graph/attention-ops.ts';
import { createConstraints, type ConstraintOptions } from './grammar/constraint.ts';
import type { Grammar } from './grammar/grammar.ts';
import { openLoras, type LoraAdapter, type OpenedLoras } from './lora.ts';
import { openModelFiles, type ModelSource } from './model-files.ts';
import type { Platform } from './platform.ts';
import { createScheduler, type Scheduler } from './scheduler.ts';
import type { Work } from './slices.ts';
import { loadState, saveState, type SaveStateOptions } from './state.ts';
import { checkThreads, disposedError } from './threads/executor.ts';
import { createTokenizer, type DecodeOptions, type EncodeOptions, type Tokenizer } from './tokenize/tokenizer.ts';
import { warmUp } from './warm-up.ts';
import type { WebOptions } from './web/options.ts';
import type { Build } from './wasm/load.ts';
import { outOfMemory } from './wasm/memory.ts';

export interface LoadOptions extends WebOptions {
  /** Threads that compute; default: the cores this process may use. 1 where the build has no threads. */
  threads?: number;
  /** Tokens of a sequence at most. 0: what the model was trained for. Default: that, at most 4096. */
  contextLength?: number;
  /** `simd`, `relaxed` or `dotadd` (relaxed SIMD with i32 dots, for CPUs with sdot or AVX-VNNI), each also with `-threads`; default: the best that runs here. */
  build?: Build;
  /** Make vectors (model.embed) with a model that could also generate. Default: what the file is made for. */
  embeddings?: boolean;
  /** Sequences that may be computed at the same time; each has a cache of contextLength. Default 1, for models that make vectors 8. */
  parallel?: number;
  /**
   * What the cache keeps keys and values as: `f16`, `f32`, `q8_0` (half the memory of f16) or `q4_0` (a quarter; visibly less exact). Heads
   * are padded to whole blocks. Default `f16`.
   */
  cacheTypeK?: KvType;
  cacheTypeV?: KvType;
  /**
   * FlashDecoding++: the largest score every part of attention is taken to have, for this model (bench/unified-max.ts finds it); parts with
   * scores far from it are computed again the safe way. Default: each part its own, which is as fast here.
   */
  unifiedMax?: number;
  /** LoRA adapters (GGUF) that are applied as the model runs, with their scales; several add up. */
  lora?: readonly LoraAdapter[];
  /** Prompt tokens of one step at most. Default 512. */
  batchSize?: number;
  /** Positions of one step whose logits can be read; more than `parallel` only for measuring texts. Default: `parallel`. @internal */
  maxOutputs?: number;
  /** How the model is called in lists and answers; default: general.name of the file, else its architecture. */
  name?: string;
  /** Jinja source of the chat template, in place of the file's tokenizer.chat_template. */
  chatTemplate?: string;
  /** Run a few steps after loading until V8 has optimised the kernels. Default true. */
  warmUp?: boolean;
  /**
   * Experimental: 256-bit code by V8's revectoriser, on Node 24 and newer on x64; ignored elsewhere. It concerns the whole process and has to
   * be asked for in its first loadModel; later a warning with the code QUANTLET_TURBO_TOO_LATE says that it has no effect. Default false.
   */
  turbo?: boolean;
  /** Ends loading with signal.reason; what was read so far is given back. */
  signal?: AbortSignal;
  /** Bytes of weights read so far and in all. */
  onProgress?: (progress: { loaded: number; total: number }) => void;
}

/** A sequence's place in the cache and the tokens computed in it. */
export interface Slot {
  readonly index: number;
  readonly tokens: number[];
}

/** What the parts of a model share; not exported from the package. */
export interface ModelState {
  readonly engine: Engine;
  readonly tokenizer: Tokenizer;
  readonly scheduler: Scheduler;
  readonly slots: readonly Slot[];
  /** The grammar that a generation's options ask for. */
  constraint(options: ConstraintOptions, signal?: AbortSignal): Promise<Grammar> | undefined;
  assertUsable(): void;
}

export interface ModelChatOptions extends ChatOptions {
  /** Jinja source of another template than the model's, for this conversation. */
  chatTemplate?: string;
}

/** Serves as the backend of quantlet/openai's createHandler and of quantlet/ai-sdk's models. */
export class Model {
  readonly name: string;
  readonly architecture: string;
  readonly build: Build;
  readonly threads: number;
  readonly contextLength: number;
  /** Sequences that may be generated at the same time. */
  readonly parallel: number;
  /** Texts of the tokens that begin and end a sequence, '' where the model has none. */
  readonly bos: string;
  readonly eos: string;
  /** The file's key-values. */
  readonly metadata: ReadonlyMap<string, GGUFValue>;
  /** Milliseconds of loading and of warming up, bytes of memory reserved. */
  readonly stats: { readonly loadMs: number; readonly warmupMs: number; readonly memoryBytes: number };
  /** For quantlet's own command line and benches. @internal */
  readonly state: ModelState;
  readonly #templateSource: string | undefined;
  #template: ChatTemplate | undefined;
  #disposed: Promise<void> | undefined;

  /** @internal Use loadModel. */
  constructor(metadata: ReadonlyMap<string, GGUFValue>, engine: Engine, tokenizer: Tokenizer, stats: Model['stats'], options: Pick<LoadOptions, 'name' | 'chatTemplate'>) {
    const text = (id: number | undefined): string => (id === undefined ? '' : tokenizer.tokenText(id));
    this.architecture = String(metadata.get('general.architecture'));
    const named = metadata.get('general.name');
    this.name = options.name ?? (typeof named === 'string' ? named : this.architecture);
    this.parallel = engine.parallel;
    this.bos = text(tokenizer.special.bos);
    this.eos = text(tokenizer.special.eos);
    const template = options.chatTemplate ?? metadata.get('tokenizer.chat_template');
    this.#templateSource = typeof template === 'string' ? template : undefined;
    this.metadata = metadata;
    this.build = engine.build;
    this.threads = engine.executor.threads;
    this.contextLength = engine.contextLength;
    this.stats = stats;
    const assertUsable = (): void => {
      if (this.#disposed) throw disposedError();
    };
    const scheduler = createScheduler({ nBatch: engine.batchSize, nSlots: engine.parallel, causal: engine.hparams.causal, slotCells: engine.slotCells, maxOutputs: Math.min(engine.batchSize, engine.maxOutputs), step: engine.step });
    const slots = Array.from({ length: engine.parallel }, (_, index) => ({ index, tokens: [] as number[] }));
    this.state = { engine, tokenizer, scheduler, slots, constraint: createConstraints(tokenizer), assertUsable };
  }

  /** How conversations are written for this model. @throws QuantletError ERR_CHAT_TEMPLATE where its template does not parse */
  get chatTemplate(): ChatTemplate {
    return (this.#template ??= this.#templateOf(this.#templateSource));
  }

  #templateOf(source: string | undefined): ChatTemplate {
    return createChatTemplate(source, { bos: this.bos, eos: this.eos });
  }

  /** Token ids of a text; see EncodeOptions for bos, eos and control tokens. */
  tokenize(text: string, options?: EncodeOptions): number[] {
    return this.state.tokenizer.encode(text, options);
  }

  /** tokenize() as work that pauses, for servers: a long text takes a second. */
  encodeWork(text: string, options?: EncodeOptions): Work<number[]> {
    return this.state.tokenizer.encodeWork(text, options);
  }

  /** Where a text could be read as control tokens, or as parts of them: the `breaks` with which tokenize() reads none. */
  breaksIn(text: string, keep?: ReadonlySet<string>): readonly number[] {
    return this.state.tokenizer.breaksIn(text, keep);
  }

  /** detokenize() as work that pauses. */
  decodeWork(ids: Iterable<number>, options?: DecodeOptions): Work<string> {
    return this.state.tokenizer.decodeWork(ids, options);
  }

  /** The text of token ids; bytes that are not UTF-8 become U+FFFD. @throws ERR_INVALID_ARGUMENT for an id outside the vocabulary */
  detokenize(ids: Iterable<number>, options?: DecodeOptions): string {
    return this.state.tokenizer.decode(ids, options);
  }

  /** The bytes of one token, maybe part of a character; control tokens by their names. @throws ERR_INVALID_ARGUMENT for an id outside the vocabulary */
  tokenBytes(id: number): Uint8Array {
    return this.state.tokenizer.pieceBytes(id, true);
  }

  /**
   * Continues a prompt (a text, or token ids taken as they are). Iterate over the parts as they come, or await result().
   * @throws ERR_CONTEXT_FULL, ERR_INVALID_ARGUMENT, ERR_GRAMMAR, ERR_LOGITS (numbers that are none), ERR_WORKER_LOST, ERR_DISPOSED, or signal.reason;
   *   the model stays usable, but after ERR_DISPOSED
   */
  generate(prompt: string | readonly number[], options: GenerateOptions = {}): Generation {
    this.state.assertUsable();
    if (this.state.engine.wants !== 'logits') throw new QuantletError('ERR_INVALID_ARGUMENT', `this ${this.architecture} model was loaded to make ${this.state.engine.wants}, not text`);
    return createGeneration(this.state, prompt, options);
  }

  /**
   * A vector for each text (or list of token ids), [n_embd], of length one. Texts share steps.
   * @throws ERR_INVALID_ARGUMENT where the model generates text, ERR_CONTEXT_FULL for a text that is too long
   */
  async embed(texts: readonly (string | readonly number[])[], options: EmbedOptions = {}): Promise<Float32Array[]> {
    this.state.assertUsable();
    return (await embed(this.state, texts, options)).vectors;
  }

  /**
   * How well each document answers the query, by a reranker: higher is better, in the documents' order.
   * @throws ERR_INVALID_ARGUMENT where the model is no reranker, ERR_CONTEXT_FULL for a pair that is too long, ERR_DISPOSED, or signal.reason
   */
  async rank(query: string, documents: readonly string[], options: { signal?: AbortSignal } = {}): Promise<number[]> {
    this.state.assertUsable();
    return (await rank(this.state, this.metadata, query, documents, options.signal)).scores;
  }

  /**
   * Answers a conversation. Iterate over its events (content, reasoning, tool calls) as they come, or await result(). What this
   * conversation shares with an earlier one that is still in the cache is not computed again: a next turn costs its new tokens.
   *
   * @param messages from the first to the one to be answered
   * @throws ERR_CHAT_TEMPLATE for a conversation that the template refuses, and what generate() throws; the model stays usable
   */
  chat(messages: readonly ChatMessage[], { chatTemplate, ...options }: ModelChatOptions = {}): Chat {
    this.state.assertUsable();
    const backend: ChatBackend = {
      contextLength: this.contextLength,
      bos: this.bos,
      chatTemplate: chatTemplate === undefined ? this.chatTemplate : this.#templateOf(chatTemplate),
      tokenize: (text, encoding) => this.tokenize(text, encoding),
      encodeWork: (text, encoding) => this.encodeWork(text, encoding),
      breaksIn: (text, keep) => this.breaksIn(text, keep),
      generate: (prompt, generation) => this.generate(prompt, generation),
    };
    return createChat(backend, messages, options);
  }

  /**
   * A computed sequence as bytes: tokens, keys and values, for loadState() of the same model in another process. Where every sequence is
   * being generated, it waits for one to end. What a sampler remembers (its random numbers, penalties) is not part of it.
   * @throws ERR_STATE where nothing was computed yet
   */
  async saveState(options: SaveStateOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    this.state.assertUsable();
    return saveState(this.state, this.metadata, options);
  }

  /**
   * Takes a sequence back into the cache: a prompt or conversation that begins with its tokens, which are returned, computes only what is new.
   * @throws ERR_STATE for bytes that are damaged or of another model or cache type, ERR_CONTEXT_FULL; the model stays usable
   */
  async loadState(state: Uint8Array, options: { signal?: AbortSignal } = {}): Promise<number[]> {
    this.state.assertUsable();
    return loadState(this.state, this.metadata, state, options.signal);
  }

  /** Frees memory and threads; whatever is still generating ends with ERR_DISPOSED. */
  dispose(): Promise<void> {
    this.#disposed ??= (async () => {
      this.state.scheduler.close(disposedError());
      await this.state.engine.executor.dispose();
    })();
    return this.#disposed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}

const positive = (name: string, value: number | undefined, fallback: number, least = 1, most = 2 ** 31 - 1): number => {
  if (value === undefined) return fallback;
  if (!Number.isInteger(value) || value < least || value > most) throw new QuantletError('ERR_INVALID_ARGUMENT', `${name} is ${value}; expected a whole number from ${least} to ${most}`);
  return value;
};

function cacheType(name: string, type: KvType = 'f16'): KvType {
  if (!KV_TYPES.includes(type)) throw new QuantletError('ERR_INVALID_ARGUMENT', `${name} is ${JSON.stringify(type)}; a KV cache can be ${KV_TYPES.join(', ')}`);
  return type;
}

function refuseAdapter(gguf: GGUF): void {
  if (gguf.metadata.get('general.type') === 'adapter') throw new QuantletError('ERR_ADAPTER', 'this file is an adapter, no model; load the model it was made for and give this file as `lora` (--lora)');
}

/** What entries make their loadModel of. */
export async function loadModelOn(platform: Platform, source: ModelSource | readonly ModelSource[], options: LoadOptions = {}): Promise<Model> {
  const { signal } = options;
  const threads = checkThreads(options.threads);
  if (options.contextLength !== undefined) positive('contextLength', options.contextLength, 0, 0);
  const parallel = options.parallel === undefined ? undefined : positive('parallel', options.parallel, 1);
  const batchSize = positive('batchSize', options.batchSize, 512);
  const maxOutputs = positive('maxOutputs', options.maxOutputs, 1);
  if (options.unifiedMax !== undefined && !Number.isFinite(options.unifiedMax)) throw new QuantletError('ERR_INVALID_ARGUMENT', `unifiedMax is ${options.unifiedMax}; expected a score`);
  const cacheTypeK = cacheType('cacheTypeK', options.cacheTypeK), cacheTypeV = cacheType('cacheTypeV', options.cacheTypeV);
  signal?.throwIfAborted();
  const start = performance.now();
  const { gguf, parts: modelParts, close } = await openModelFiles(platform, source, signal);
  let adapters: OpenedLoras | undefined;
  try {
    refuseAdapter(gguf);
    adapters = await openLoras(platform, options.lora ?? [], gguf, modelParts, signal);
    const { loras, parts } = adapters;
    const tokenizer = createTokenizer(gguf.metadata);
    const engine = await createEngine(platform, { gguf, parts }, {
      nVocab: tokenizer.nVocab, embeddings: options.embeddings, threads, parallel, batchSize, signal, build: options.build, contextLength: options.contextLength, maxOutputs, cacheTypeK, cacheTypeV, unifiedMax: options.unifiedMax, loras, onProgress: options.onProgress,
    });
    const loadMs = performance.now() - start;
    try {
      const warmupMs = options.warmUp === false ? 0 : await warmUp(engine, signal);
      return new Model(gguf.metadata, engine, tokenizer, { loadMs, warmupMs, memoryBytes: engine.memoryBytes }, options);
    } catch (error) {
      await engine.executor.dispose();
      throw error;
    }
  } catch (error) {
    throw outOfMemory('loading the model', error);
  } finally {
    await Promise.all([close(), adapters?.close()]);
  }
}
