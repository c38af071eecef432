/** A model as LangChain's LLM, which continues a text, and as its embeddings. */
import type { CallbackManagerForLLMRun } from '@langchain/core/callbacks/manager';
import { Embeddings, type EmbeddingsParams } from '@langchain/core/embeddings';
import { LLM, type BaseLLMCallOptions, type BaseLLMParams } from '@langchain/core/language_models/llms';
import { GenerationChunk } from '@langchain/core/outputs';
import { encode } from '../chat/run.ts';
import { QuantletError } from '../errors.ts';
import type { GenerateOptions, Generation } from '../generate/generate.ts';
import type { Backend } from '../server/backend.ts';
import { inSlices } from '../slices.ts';
import { generatorIn, SETTINGS, settingsIn, type Settings } from './settings.ts';

const OF_CHATS = ['parallelToolCalls', 'reasoning', 'reasoningBudget', 'reasoningBudgetMessage', 'templateVariables'] as const;

/** Settings that concern texts. */
export type TextSettings = Omit<Settings, (typeof OF_CHATS)[number]>;

const textSettings = (fields: object): GenerateOptions =>
  Object.fromEntries(Object.entries(settingsIn(fields)).filter(([name]) => !OF_CHATS.some((one) => one === name)));

export interface QuantletLLMInput extends BaseLLMParams, TextSettings {
  /** The loaded model: quantlet's Model, or another backend. */
  model: Backend;
}
export interface QuantletLLMCallOptions extends BaseLLMCallOptions, Omit<TextSettings, 'stop'> {}

/** A model that continues a text: `new QuantletLLM({ model: await loadModel(...) })`. */
export class QuantletLLM extends LLM<QuantletLLMCallOptions> {
  readonly model: Backend;
  readonly settings: TextSettings;

  /** @throws QuantletError ERR_INVALID_ARGUMENT without a model */
  constructor(fields: QuantletLLMInput) {
    super(fields);
    this.model = generatorIn(fields, 'QuantletLLM');
    this.settings = textSettings(fields);
  }

  static override lc_name(): string {
    return 'QuantletLLM';
  }

  override get callKeys(): string[] {
    return [...super.callKeys, ...SETTINGS];
  }

  _llmType(): string {
    return 'quantlet';
  }

  override invocationParams(options?: this['ParsedCallOptions']): object {
    return { model: this.model.name, ...this.settings, ...textSettings(options ?? {}) };
  }

  async #start(prompt: string, options: this['ParsedCallOptions']): Promise<Generation> {
    const { signal } = options;
    signal?.throwIfAborted();
    const settings: GenerateOptions = { ...this.settings, ...textSettings(options) };
    const { parseSpecial = true } = settings;
    const ids = await inSlices(encode(this.model, prompt, { addSpecial: true, parseSpecial }), signal);
    return this.model.generate(ids, { ...settings, signal });
  }

  async _call(prompt: string, options: this['ParsedCallOptions'], runManager?: CallbackManagerForLLMRun): Promise<string> {
    const generation = await this.#start(prompt, options);
    for await (const { text } of generation) if (text !== '') await runManager?.handleLLMNewToken(text);
    return (await generation.result()).text;
  }

  override async *_streamResponseChunks(
    prompt: string,
    options: this['ParsedCallOptions'],
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<GenerationChunk> {
    const generation = await this.#start(prompt, options);
    for await (const { text } of generation) {
      if (text === '') continue;
      yield new GenerationChunk({ text });
      await runManager?.handleLLMNewToken(text);
    }
    const { finishReason } = await generation.result();
    yield new GenerationChunk({ text: '', generationInfo: { finish_reason: finishReason } });
  }
}

export interface QuantletEmbeddingsInput extends EmbeddingsParams {
  /** An embedder: quantlet's Model, or another backend. */
  model: Backend;
}

/** An embedder as LangChain's embeddings: `new QuantletEmbeddings({ model: await loadModel(...) })`. */
export class QuantletEmbeddings extends Embeddings {
  readonly model: Backend;

  /** @throws QuantletError ERR_INVALID_ARGUMENT if the model makes no embeddings */
  constructor(fields: QuantletEmbeddingsInput) {
    super(fields);
    if (typeof fields.model?.embed !== 'function')
      throw new QuantletError('ERR_INVALID_ARGUMENT', 'QuantletEmbeddings: model gives no embeddings; expected an embedding model');
    this.model = fields.model;
  }

  async embedDocuments(documents: string[]): Promise<number[][]> {
    if (documents.length === 0) return [];
    return (await this.model.embed!(documents, {})).map((vector) => [...vector]);
  }

  async embedQuery(document: string): Promise<number[]> {
    return (await this.embedDocuments([document]))[0];
  }
}
