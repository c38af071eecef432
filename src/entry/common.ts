/** Exports of every entry, in addition to its own loadModel. Nothing here depends on a platform. */
export type { Chat, ChatResult, EventLogprobs, ModelChatEvent as ChatEvent, ModelChatOptions, PartialValue } from '../chat/generation.ts';
export type { CallDelta, CallReader, CallSink, CallText, ParsedCall, Reading } from '../chat/call-text.ts';
export type { BegunPrompt, Continuation } from '../chat/begun.ts';
export type { ChatCapabilities, PrecedingRole } from '../chat/capabilities.ts';
export type { RenderedPrompt } from '../chat/contents.ts';
export type { CallSyntax, ChatFormat } from '../chat/formats.ts';
export type { ChatMessage, ChatPart, ChatTool, ChatToolCall } from '../chat/messages.ts';
export type { ToolChoice } from '../chat/options.ts';
export type { ChatTemplate, RenderOptions } from '../chat/template.ts';
export type { ToolCall, ToolDefinition, ToolResult, ToolSet } from '../chat/tools.ts';
export type { Awaitable } from '../generate/awaitable.ts';
export type { EmbedInput, EmbedInputs, Embedding, EmbedOptions, EmbedProgress, EmbeddingVector } from '../generate/embed.ts';
export type { RowPooling } from '../generate/rows.ts';
export {
  similarity,
  topK,
  type Match,
  type VectorLike,
  type Precision,
  type SimilarityOptions,
  type VectorOf,
} from '../generate/vectors.ts';
export type {
  DraftModelOptions,
  DraftSimpleOptions,
  GenerateSpeculation,
  NgramModOptions,
  NgramSimpleOptions,
  SpeculationOptions,
  SpeculationType,
} from '../generate/draft/options.ts';
export type { LoadProgress, Turbo } from '../platform.ts';
export { QuantletError, type QuantletErrorCode } from '../errors.ts';
export type {
  DraftCounts,
  FinishReason,
  GenerateOptions,
  Generation,
  GenerationPart,
  GenerationResult,
  Timings,
} from '../generate/generate.ts';
export type { Prompt, PromptPart } from '../generate/parts.ts';
export type { AudioBufferLike, AudioSamples, AudioSource, ImageProgress, ImageSource, Modalities } from '../run/image-tokens.ts';
export type { GenerateProgress, PromptProgress } from '../generate/progress.ts';
export type { Stream } from '../generate/stream.ts';
export type { GGUFNumbers, GGUFValue } from '../gguf/types.ts';
export type { ResponseFormat } from '../grammar/schema-source.ts';
export type { KvType } from '../graph/attention-ops.ts';
export type { HubOptions } from '../hub/options.ts';
export type { MemoryParts } from '../plan/memory-use.ts';
export type { AppliedAdapter, LoraAdapter } from '../plan/lora.ts';
export type { ModelSource } from '../io/model-files.ts';
export type { LoadOptions, Model } from '../model.ts';
export type { Logprobs, TokenLogprob } from '../sample/logprobs.ts';
export type { SamplerName, SamplerOptions } from '../sample/options.ts';
export type { Bytes, Source, SourceLike } from '../io/source.ts';
export type { SaveStateOptions } from '../generate/saved-sequence.ts';
export type { ModelSlots, SlotState } from '../generate/slot-actions.ts';
export type { Work } from '../slices.ts';
export type { BreaksIn } from '../tokenize/breaks.ts';
export type { FimTokens } from '../tokenize/special-tokens.ts';
export type { DecodeOptions, EncodeOptions } from '../tokenize/tokenizer.ts';
export type { Build } from '../wasm/load.ts';
export type { WorkerLike } from '../web/rpc.ts';
export type { WasmSource } from '../web/wasm.ts';
export type { CreateWorker } from '../web/workers.ts';
