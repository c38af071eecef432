/** Images for a model: the encoder of a projector file, and pictures as tokens of a prompt. */
import { projectorType } from '../encoder/projector-file.ts';
import { QuantletError } from '../errors.ts';
import type { GGUF } from '../gguf/types.ts';
import { idsOfRun, MAX_IMAGE_TOKENS, PromptImage, type ImageRun, type ImageSource, type ImageTokens } from '../run/image-tokens.ts';
import type { Tokenizer } from '../tokenize/tokenizer.ts';
import type { ImageEncoder } from './encoder.ts';
import { checkedWidth, MAX_PATCHES } from './encoder.ts';
import { checkLayout, type ImageLayout, type Size, type TokenLimits } from './layout.ts';
import { readVisionParams, type VisionParams } from './params.ts';
import type { Picture } from './picture.ts';
import type { ProjectorType, PromptPiece } from './projector.ts';
import { projectorNamed } from './registry.ts';
import { readImage } from './read-image.ts';

/** A projector for images, its header read and checked. */
export interface Projector {
  readonly p: VisionParams;
  readonly type: ProjectorType;
  readonly limits: TokenLimits;
  /** @see ImageRun.causal */
  readonly causal: boolean;
  /** Tokens of an image that a step has to hold together; 0: it may be cut. */
  readonly wholeTokens: number;
  /** Most patches of an image. */
  readonly patches: number;
}

/** Sizes of pictures that make the largest images of any type. */
const LARGE: readonly Size[] = [
  [4096, 4096],
  [8192, 1024],
  [1024, 8192],
  [300, 300],
];

/** @throws ERR_UNSUPPORTED_ARCH, ERR_MISSING_TENSOR, ERR_TENSOR_SHAPE; errors of metadata */
export function visionProjector(gguf: GGUF, limits: TokenLimits): Projector & { readonly width: number } {
  const type = projectorNamed(projectorType(gguf, 'vision'));
  const p = readVisionParams(gguf);
  const width = checkedWidth(p, type, { gguf });
  const sizes = LARGE.flatMap(([w, h]) => type.layout(p, w, h, limits).sizes);
  const patches = Math.min(MAX_PATCHES, Math.max(...sizes.map(([w, h]) => Math.ceil(w / p.patch) * Math.ceil(h / p.patch))));
  const causal = type.causal?.(width) ?? true;
  const wholeTokens = causal ? 0 : (type.most?.(limits) ?? Math.max(...sizes.map((size) => tokensOf(p, type, size))));
  return { p, type, limits, causal, wholeTokens, patches, width };
}

/** Columns and rows of tokens of an image. */
function gridOfTokens(p: VisionParams, type: ProjectorType, [width, height]: Size): Size {
  const side = p.patch * type.merge(p);
  return [Math.floor(width / side), Math.floor(height / side)];
}

function tokensOf(p: VisionParams, type: ProjectorType, size: Size): number {
  const [columns, rows] = gridOfTokens(p, type, size);
  return type.tokens?.(columns, rows, p) ?? columns * rows;
}

/** Reads images for the prompts of one model. */
export class Vision {
  private readonly projector: Projector;
  private readonly encoder: ImageEncoder;
  private readonly tokenizer: Tokenizer;
  private readonly images: ImageTokens;
  private readonly sections: boolean;
  private readonly single = new Map<string, number>();

  /** @param sections true if positions of the model have rows and columns (M-RoPE) */
  constructor(projector: Projector, encoder: ImageEncoder, tokenizer: Tokenizer, images: ImageTokens, sections: boolean) {
    this.projector = projector;
    this.encoder = encoder;
    this.tokenizer = tokenizer;
    this.images = images;
    this.sections = sections;
    // Tokens that the vocabulary lacks are found now, not with the first picture.
    const { p, type, limits } = projector;
    for (const [w, h] of LARGE) for (const piece of type.pieces(type.layout(p, w, h, limits), p)) this.idsOf(piece, []);
  }

  /**
   * Decodes an image and cuts it as the model wants it. It is encoded when a prompt needs it.
   * @throws ERR_IMAGE_INVALID, ERR_IMAGE_TRUNCATED, ERR_IMAGE_TOO_LARGE, ERR_INVALID_ARGUMENT, or
   * signal.reason
   */
  async read(image: ImageSource, signal?: AbortSignal): Promise<PromptImage> {
    const { key, picture } = await readImage(image);
    signal?.throwIfAborted();
    const { p, type, limits } = this.projector;
    const layout = checkLayout(type.layout(p, picture.width, picture.height, limits), picture.width, picture.height);
    const runs = this.images.of(key, () => this.newRuns(layout, picture));
    const ids = type.pieces(layout, p).flatMap((piece) => this.idsOf(piece, runs));
    return new PromptImage(ids, runs);
  }

  private newRuns(layout: ImageLayout, picture: Picture): ImageRun[] {
    return layout.make(picture).map((image, i) => this.newRun(layout.sizes[i], image));
  }

  private newRun(size: Size, image: Picture): ImageRun {
    const { p, type, causal, wholeTokens } = this.projector;
    const nTokens = tokensOf(p, type, size);
    const [columns, rows] = gridOfTokens(p, type, size);
    const inRows = this.sections && (type.inRows ?? false);
    // Sizes of long and thin pictures may have more tokens than the type's limit.
    const most = causal ? MAX_IMAGE_TOKENS : Math.min(wholeTokens, MAX_IMAGE_TOKENS);
    if (nTokens > most) throw new QuantletError('ERR_IMAGE_TOO_LARGE', `the image would have ${nTokens} tokens; expected at most ${most}`);
    const place = { nTokens, columns: inRows ? columns : 0, nPositions: inRows ? Math.max(columns, rows) : nTokens, causal };
    return this.images.newRun(place, (signal, onProgress) => this.encoder.encode(image, signal, onProgress));
  }

  private idsOf(piece: PromptPiece, runs: readonly ImageRun[]): number[] {
    if ('text' in piece) return this.tokenizer.encode(piece.text, { addSpecial: false, parseSpecial: true });
    if ('token' in piece) return [this.tokenOf(piece.token)];
    const run = runs.at(piece.image);
    return run ? idsOfRun(run) : [];
  }

  /** The first token with this text. */
  private tokenOf(text: string): number {
    const known = this.single.get(text);
    if (known !== undefined) return known;
    const wanted = new TextEncoder().encode(text);
    for (let id = 0; id < this.tokenizer.nVocab; id++) {
      const piece = this.tokenizer.pieceBytes(id, true);
      if (piece.length !== wanted.length || piece.some((byte, i) => byte !== wanted[i])) continue;
      this.single.set(text, id);
      return id;
    }
    throw new QuantletError(
      'ERR_UNSUPPORTED_TOKENIZER',
      `the vocabulary has no token ${JSON.stringify(text)}, which this projector writes around images; expected the model that the projector was made for`,
    );
  }

  dispose(): Promise<void> {
    return this.encoder.dispose();
  }
}
