/// <reference lib="esnext.disposable" preserve="true" />
/** The public Model: tokenize, generate, chat, embed, dispose. (load/load-model.ts loads it.) */
import type { OwnBytes } from './globals.ts';
import type * as Conversations from './chat/conversations.ts';
import type { Chat, ModelChatOptions } from './chat/generation.ts';
import type { ChatMessage } from './chat/messages.ts';
import type { ChatTemplate, TemplateSources } from './chat/template.ts';
import { createAwaitable, type Awaitable } from './generate/awaitable.ts';
import type { Embedding, EmbedInputs, EmbedOptions } from './generate/embed.ts';
import type { MemoryParts } from './plan/memory-use.ts';
import type { ModelEngine } from './run/model-engine.ts';
import { QuantletError } from './errors.ts';
import { checkGeneration } from './generate/checked.ts';
import { createGeneration, type GenerateOptions, type Generation } from './generate/generate.ts';
import type { Prompt } from './generate/parts.ts';
import type { GGUFValue } from './gguf/types.ts';
import { createConstraints } from './grammar/constraint.ts';
import type { AppliedAdapter } from './plan/lora.ts';
import type { LoadOptions } from './load-options.ts';
import { ImageTokens, type Modalities, type ImageReader } from './run/image-tokens.ts';
import type { ModelInternals } from './run/model-internals.ts';
import { Scheduler } from './run/scheduler.ts';
import type { SpeculationLimits } from './generate/draft/options.ts';
import { createSpeculation } from './generate/draft/speculation.ts';
import { createSlots } from './run/slots.ts';
import { checkOptions, KIND } from './options.ts';
import type { Work } from './slices.ts';
import type { FileSampling } from './sample/file-defaults.ts';
import type { SamplerOptions } from './sample/options.ts';
import type { SaveStateOptions } from './generate/saved-sequence.ts';
import { slotActions, type ModelSlots } from './generate/slot-actions.ts';
import { disposedError } from './threads/executor.ts';
import { fimTokens, type FimTokens } from './tokenize/special-tokens.ts';
import { DECODE_OPTIONS, ENCODE_OPTIONS, type DecodeOptions, type EncodeOptions, type Tokenizer } from './tokenize/tokenizer.ts';
import type { Build } from './wasm/load.ts';

export type { ModelChatOptions } from './chat/generation.ts';
export type { LoadOptions } from './load-options.ts';

/** Findings about a model's files, made before its weights are read. */
interface FileFindings {
  readonly adapters: readonly AppliedAdapter[];
  readonly sampling: FileSampling;
  readonly notes: readonly string[];
}

/** Method that Node's console.log calls for the text to print. */
const INSPECT = Symbol.for('nodejs.util.inspect.custom');

/**
 * A loaded model. Serves as backend of quantlet/openai's createHandler and of quantlet/ai-sdk's
 * models.
 */
export class Model {
  readonly name: string;
  readonly architecture: string;
  readonly build: Build;
  readonly threads: number;
  /** The kernels have 256-bit code, see LoadOptions.turbo. */
  readonly turbo: boolean;
  readonly contextLength: number;
  /** Number of sequences that can be generated at the same time. */
  readonly parallel: number;
  /** Tokens are drafted, and several are verified at a time. */
  readonly speculative: boolean;
  /** An encoder reads prompts: they take no room in the context, which is all for the text. */
  readonly encoder: boolean;
  /** Texts of the tokens that begin and end a sequence; '' if the model has none. */
  readonly bos: string;
  readonly eos: string;
  /** Metadata of the file, by key. */
  readonly metadata: ReadonlyMap<string, GGUFValue>;
  /**
   * Defaults of sampler options that the file sets (`general.sampling.*`), instead of llama.cpp's.
   * Options of a call override them.
   */
  readonly samplerDefaults: Readonly<SamplerOptions>;
  /** Unclear or missing parts of the file, and the assumptions made; for people. */
  readonly warnings: readonly string[];
  /**
   * Milliseconds of loading and of warming up; bytes of memory reserved, including a draft model's;
   * the model's own memory by purpose.
   */
  readonly stats: { readonly loadMs: number; readonly warmupMs: number; readonly memoryBytes: number; readonly memory: MemoryParts };
  /**
   * The sequences in the KV cache, one by one; for servers. Undefined for embeddings and rerankers.
   */
  readonly slots: ModelSlots | undefined;
  /** Kinds of input besides text: images and sounds, as the projector of the model has encoders for them. */
  readonly modalities: Modalities;
  /** LoRA adapters that the model was loaded with. */
  readonly adapters: readonly AppliedAdapter[];
  /** Tokens that mark the middle of a text for the model to fill in; undefined if it has none. */
  readonly fim: FimTokens | undefined;
  /**
   * For quantlet's own command line, tests and benches.
   * @internal
   */
  readonly internals: ModelInternals;
  readonly #conversations: typeof Conversations;
  readonly #templates: TemplateSources;
  readonly #closeFiles: () => Promise<unknown>;
  #template: ChatTemplate | undefined;
  #disposed: Promise<void> | undefined;

  /**
   * Use loadModel.
   * @internal
   */
  constructor(
    metadata: ReadonlyMap<string, GGUFValue>,
    engine: ModelEngine,
    tokenizer: Tokenizer,
    stats: Model['stats'],
    options: Pick<LoadOptions, 'name' | 'chatTemplate'> & FileFindings,
    conversations: typeof Conversations,
    limits: SpeculationLimits,
    draftModel: Model | undefined,
    closeFiles: () => Promise<unknown>,
    images: { readonly width: number; readonly modalities: Modalities; reader(images: ImageTokens): ImageReader } | undefined,
  ) {
    this.#closeFiles = closeFiles;
    const text = (id: number | undefined): string => (id === undefined ? '' : tokenizer.tokenText(id));
    this.architecture = String(metadata.get('general.architecture'));
    const named = metadata.get('general.name');
    this.name = options.name ?? (typeof named === 'string' ? named : this.architecture);
    this.parallel = engine.parallel;
    this.encoder = engine.hparams.decoder !== undefined;
    this.bos = text(tokenizer.special.bos);
    this.eos = text(tokenizer.special.eos);
    this.#conversations = conversations;
    this.#templates = options.chatTemplate === undefined ? conversations.fileTemplates(metadata) : { source: options.chatTemplate };
    this.metadata = metadata;
    this.samplerDefaults = options.sampling.defaults;
    this.warnings = [...options.notes, ...tokenizer.warnings, ...options.sampling.warnings];
    this.build = engine.build;
    this.threads = engine.executor.threads;
    this.turbo = engine.turbo;
    this.contextLength = engine.contextLength;
    this.stats = stats;
    const assertUsable = (): void => {
      if (this.#disposed) throw disposedError();
    };
    const slots = createSlots(engine.parallel, engine.slotCells, (index) => engine.statesOf(index));
    const known = images && new ImageTokens(slots.all);
    const scheduler = new Scheduler({
      images: known && { tokens: known, width: images.width },
      nBatch: engine.batchSize,
      slots,
      causal: engine.hparams.causal,
      maxOutputs: Math.min(engine.batchSize, engine.maxOutputs),
      step: engine.step,
    });
    const speculation = createSpeculation(limits, scheduler, slots, tokenizer.nVocab, draftModel);
    this.speculative = limits.types.length > 0;
    this.adapters = options.adapters;
    this.modalities = images?.modalities ?? { vision: false, audio: false };
    this.fim = fimTokens(tokenizer.special);
    this.internals = {
      engine,
      tokenizer,
      slots,
      scheduler,
      speculation,
      images: known,
      vision: known && images?.reader(known),
      samplerDefaults: this.samplerDefaults,
      constraint: createConstraints(tokenizer),
      assertUsable,
    };
    this.slots = engine.wants === 'logits' ? slotActions(this.internals, metadata) : undefined;
  }

  /**
   * Chat template of this model.
   * @throws QuantletError ERR_CHAT_TEMPLATE if the template does not parse
   */
  get chatTemplate(): ChatTemplate {
    return (this.#template ??= this.#templateOf(this.#templates));
  }

  #templateOf({ source, toolUse }: TemplateSources): ChatTemplate {
    return this.#conversations.createChatTemplate(source, { bos: this.bos, eos: this.eos }, { toolUse });
  }

  /** Token ids of a text; see EncodeOptions for bos, eos and control tokens. */
  tokenize(text: string, options?: EncodeOptions): number[] {
    return this.internals.tokenizer.encode(text, checkOptions('tokenize', options, ENCODE_OPTIONS));
  }

  /** tokenize() as work that pauses, for servers, because a long text takes a second. */
  encodeWork(text: string, options?: EncodeOptions): Work<number[]> {
    return this.internals.tokenizer.encodeWork(text, options);
  }

  /**
   * Offsets at which a text could be read as control tokens or parts of them. With these as
   * `breaks`, tokenize() reads no control token.
   */
  breaksIn(text: string, keep?: ReadonlySet<string>): Work<readonly number[]> {
    return this.internals.tokenizer.breaksIn(text, keep);
  }

  /** detokenize() as work that pauses. */
  decodeWork(ids: Iterable<number>, options?: DecodeOptions): Work<string> {
    return this.internals.tokenizer.decodeWork(ids, options);
  }

  /**
   * Text of token ids. Bytes that are not valid UTF-8 become U+FFFD.
   * @throws ERR_INVALID_ARGUMENT for an id outside the vocabulary
   */
  detokenize(ids: Iterable<number>, options?: DecodeOptions): string {
    return this.internals.tokenizer.decode(ids, checkOptions('detokenize', options, DECODE_OPTIONS));
  }

  /**
   * Bytes of one token, possibly part of a character. Control tokens give the bytes of their names.
   * @throws ERR_INVALID_ARGUMENT for an id outside the vocabulary
   */
  tokenBytes(id: number): Uint8Array {
    return this.internals.tokenizer.pieceBytes(id, true);
  }

  /**
   * Continues a prompt: a text, token ids used unchanged, or a list of texts and images. Iterate over the parts as they come,
   * or await result().
   * @throws ERR_CONTEXT_FULL, ERR_INVALID_ARGUMENT, ERR_GRAMMAR, ERR_LOGITS (unusable numbers),
   * ERR_WORKER_LOST, ERR_DISPOSED, or signal.reason. The model stays usable, except after
   * ERR_DISPOSED.
   */
  generate(prompt: Prompt, options?: GenerateOptions): Generation {
    this.#assertGenerates();
    return createGeneration(this.internals, prompt, options);
  }

  /**
   * Reads images of prompts, for servers; undefined if the model was loaded without a projector.
   * @internal
   */
  get readImage(): ImageReader['read'] | undefined {
    const { vision } = this.internals;
    return vision && ((image, signal) => vision.read(image, signal));
  }

  /**
   * Checks a generation before it waits for its turn, for servers.
   * @throws as generate() does
   */
  async checkGenerate(prompt: readonly number[], options: GenerateOptions): Promise<void> {
    this.#assertGenerates();
    await checkGeneration(this.internals, prompt, options);
  }

  #assertGenerates(): void {
    this.internals.assertUsable();
    const { wants } = this.internals.engine;
    if (wants !== 'logits')
      throw new QuantletError('ERR_INVALID_ARGUMENT', `this ${this.architecture} model was loaded to make ${wants}, not text`);
  }

  /**
   * An embedding of each text (or list of token ids), in order: a vector of n_embd numbers, of
   * length one. `await` gives all of them, `for await` each as it is computed; then memory does not
   * grow with the number of texts. Texts share steps, and get the bits that they get alone.
   * @throws ERR_INVALID_ARGUMENT if the model generates text, ERR_CONTEXT_FULL for a text that is
   * too long if `truncate` is false (it names the text), ERR_DISPOSED, or signal.reason
   */
  embed<const O extends EmbedOptions = EmbedOptions>(texts: EmbedInputs, options?: O): Awaitable<Embedding<O>> {
    return createAwaitable('embeddings', () => this.#embed(texts, options) as AsyncGenerator<Embedding<O>, void>);
  }

  async *#embed(texts: EmbedInputs, options: EmbedOptions | undefined) {
    this.internals.assertUsable();
    const { embed, EMBED_OPTIONS } = await import('./generate/embed.ts'); // loaded on first use: pages that generate text do not need it
    yield* embed(this.internals, this.metadata, texts, checkOptions('embed', options, EMBED_OPTIONS));
  }

  /**
   * Scores of the documents as answers to the query, in their order, by a reranker. A higher score
   * is better.
   * @throws ERR_INVALID_ARGUMENT if the model is not a reranker, ERR_CONTEXT_FULL for a pair that
   * is too long, ERR_DISPOSED, or signal.reason
   */
  async rank(query: string, documents: readonly string[], options?: { signal?: AbortSignal | undefined }): Promise<number[]> {
    this.internals.assertUsable();
    const { signal } = checkOptions('rank', options, { signal: KIND.signal });
    const { rank } = await import('./generate/embed.ts');
    return (await rank(this.internals, this.metadata, query, documents, signal)).scores;
  }

  /**
   * Answers a conversation. Iterate over its events (content, reasoning, tool calls) as they come,
   * or await result(). The part that it shares with an earlier conversation still in the cache is
   * not computed again, so a further turn costs only its new tokens. Tools with a function
   * (`tools: { name: { description, parameters, execute } }`) are called, and the model continues
   * with their results.
   *
   * @param messages from the first to the one to answer
   * @throws ERR_CHAT_TEMPLATE for a conversation that the template refuses, and as generate() does;
   * the model stays usable
   */
  chat(messages: readonly ChatMessage[], options?: ModelChatOptions): Chat {
    this.internals.assertUsable();
    return this.#conversations.createChat(
      ({ chatTemplate }) => ({
        contextLength: this.contextLength,
        encoder: this.encoder,
        bos: this.bos,
        chatTemplate: chatTemplate === undefined ? this.chatTemplate : this.#templateOf({ source: chatTemplate }),
        tokenize: (text, encoding) => this.tokenize(text, encoding),
        encodeWork: (text, encoding) => this.encodeWork(text, encoding),
        breaksIn: (text, keep) => this.breaksIn(text, keep),
        readImage: this.readImage,
        generate: (prompt, generation) => this.generate(prompt, generation),
      }),
      messages,
      options,
    );
  }

  /**
   * Saves a computed sequence as bytes: tokens, keys and values, for loadState() of the same model
   * in another process. If all sequences are being generated, waits for one to end. The state of a
   * sampler (random numbers, penalties) is not included.
   * @throws ERR_STATE if nothing was computed yet
   */
  async saveState(options?: SaveStateOptions): Promise<OwnBytes> {
    this.internals.assertUsable();
    const { saveState } = await import('./generate/saved-sequence.ts');
    return (await saveState(this.internals, this.metadata, checkOptions('saveState', options, { prompt: KIND.any, signal: KIND.signal })))
      .state;
  }

  /**
   * Restores a saved sequence and returns its tokens; prompts and conversations that start with
   * them compute only the rest.
   * @throws ERR_STATE for bytes that are damaged or of another model or cache type,
   * ERR_CONTEXT_FULL; the model stays usable
   */
  async loadState(state: Uint8Array, options?: { signal?: AbortSignal | undefined }): Promise<number[]> {
    this.internals.assertUsable();
    const { loadState } = await import('./generate/saved-sequence.ts');
    return loadState(this.internals, this.metadata, state, checkOptions('loadState', options, { signal: KIND.signal }));
  }

  /** Frees memory and threads. Running generations end with ERR_DISPOSED. */
  dispose(): Promise<void> {
    this.#disposed ??= (async () => {
      const disposed = disposedError();
      this.internals.scheduler.close(disposed);
      this.internals.slots.close(disposed);
      const { engine, speculation, vision } = this.internals;
      await Promise.all([engine.dispose(), speculation.dispose(), vision?.dispose()]);
      await this.#closeFiles();
    })();
    return this.#disposed;
  }

  /**
   * Summary of a few lines, because metadata has the whole vocabulary.
   * @internal
   */
  [INSPECT](): object {
    const { name, architecture, build, threads, turbo, contextLength, parallel, warnings, stats } = this;
    return { name, architecture, build, threads, turbo, contextLength, parallel, warnings, stats };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}
