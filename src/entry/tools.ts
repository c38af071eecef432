/**
 * quantlet/tools for Node, Deno and Bun: quantises, rotates and sparsifies files of models, and
 * measures models over texts.
 */
export { quantize, type QuantizeFallback, type QuantizeOptions, type QuantizeProgress, type QuantizeResult } from '../tools/quantize.ts';
export { rotate, type RotateOptions, type RotateResult } from '../tools/rotate.ts';
export { sparsify, type SparseLayer, type SparsifyOptions, type SparsifyResult } from '../tools/sparsify.ts';
export {
  imatrix,
  joinImatrix,
  type ImatrixOptions,
  type ImatrixProgress,
  type ImatrixResult,
  type JoinImatrixOptions,
} from '../tools/imatrix.ts';
export {
  klDivergence,
  perplexity,
  type KlDivergenceOptions,
  type KlDivergenceProgress,
  type KlDivergenceResult,
  type PerplexityOptions,
  type PerplexityProgress,
  type PerplexityResult,
} from '../tools/perplexity.ts';
export type { GGUFScalarType, GGUFType } from '../gguf/types.ts';
export type { WriteValue } from '../gguf/write.ts';
export type { PredictorQuality } from '../sparsify/scores.ts';
export type { KlStatistics, KlSummary, Uncertain } from '../tools/kl-stats.ts';
export type { PerplexityEstimate } from '../tools/windows.ts';
export type { FilePath, MeasuredModel, MeasureOptions, Overrides, ToolOptions, ToolPhase, ToolProgress } from '../tools/common.ts';
