/** Interface of a projector type: how a picture is cut, encoded, and written into a prompt. */
import type { TransformerKind } from '../encoder/transformer.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { ImageLayout, TokenLimits } from './layout.ts';
import type { VisionParams } from './params.ts';
import type { Tower } from './tower.ts';

/**
 * A piece of the prompt that stands for a picture: text that is tokenized on its own, one token by
 * its text, or an image by its index in the layout.
 */
export type PromptPiece = { readonly text: string } | { readonly token: string } | { readonly image: number };

export interface ProjectorType extends TransformerKind {
  /** Values of `clip.projector_type`. */
  readonly names: readonly string[];
  /**
   * false: the tokens of an image see each other in both directions, in a model whose embeddings
   * have `width` numbers. Default true.
   */
  causal?(width: number): boolean;
  /**
   * Most tokens of an image, for types whose sizes follow the picture and that are not in causal
   * order. Default: those of large pictures.
   */
  most?(limits: TokenLimits): number;
  /** Maps a normalised value of a pixel. Default: as it is. */
  pixel?(value: number): number;
  /** Patches that a token covers, per side, except in types that pool none. */
  merge(p: VisionParams): number;
  layout(p: VisionParams, width: number, height: number, limits: TokenLimits): ImageLayout;
  pieces(layout: ImageLayout, p: VisionParams): PromptPiece[];
  /** Tensors whose rows are inputs, not outputs. */
  readonly transposed?: readonly string[];
  /** Tokens of an image of so many columns and rows of merged patches. Default: all of them. */
  tokens?(columns: number, rows: number, p: VisionParams): number;
  /**
   * Tokens have rows and columns in models whose positions have them (M-RoPE). Default false: one
   * position after the other.
   */
  readonly inRows?: boolean;
  /** Graph of the encoder: f32 [n_embd of the language model, tokens of the image]. */
  build(t: Tower): Tensor;
}

/** All images of a layout, one after the other. */
export const inOrder = ({ sizes }: ImageLayout): PromptPiece[] => sizes.map((_, image) => ({ image }));

/** Text before the images of a picture, and after them. */
export const between =
  (before: string, after: string): ProjectorType['pieces'] =>
  (layout) => [...(before ? [{ text: before }] : []), ...inOrder(layout), ...(after ? [{ text: after }] : [])];

/** Patches per side that a file's key says: `projector.scale_factor` or `spatial_merge_size`. */
export const scaleFactor = (p: VisionParams, fallback?: number): number => p.count('projector.scale_factor', fallback);
