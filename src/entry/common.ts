/** What every entry exports besides its own loadModel: nothing here knows a platform. */
export type { Chat, ChatResult } from '../chat/generation.ts';
export type { ChatMessage, ChatTool, ChatToolCall } from '../chat/messages.ts';
export type { EmbedOptions } from '../embed.ts';
export type { ChatEvent } from '../chat/parser.ts';
export { QuantletError, type QuantletErrorCode } from '../errors.ts';
export type { GenerateOptions, Generation, GenerationPart, GenerationResult, Timings } from '../generate.ts';
export type { ResponseFormat } from '../grammar/constraint.ts';
export type { LoraAdapter } from '../lora.ts';
export type { LoadOptions, Model, ModelChatOptions } from '../model.ts';
export type { Logprobs, TokenLogprob } from '../sample/logprobs.ts';
export type { SamplerOptions } from '../sample/options.ts';
export type { Source, SourceLike } from '../source.ts';
export type { SaveStateOptions } from '../state.ts';
export type { Build } from '../wasm/load.ts';
export type { KvType } from '../graph/attention-ops.ts';
