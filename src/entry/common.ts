/** What every entry exports besides its own loadModel: nothing here knows a platform. */
export { QuantletError, type QuantletErrorCode } from '../errors.ts';
export type { GenerateOptions, Generation, GenerationPart, GenerationResult, Timings } from '../generate.ts';
export type { LoadOptions, Model } from '../model.ts';
export type { SamplerOptions } from '../sample/options.ts';
export type { Source, SourceLike } from '../source.ts';
export type { Build } from '../wasm/load.ts';
