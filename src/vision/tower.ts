/** Graph of a vision transformer: patches of a picture, their positions, and the layers. */
import { Transformer, type TransformerKind, type WeightSource } from '../encoder/transformer.ts';
import { add } from '../graph/elementwise-ops.ts';
import { mul_mat } from '../graph/ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import { interpolated, type Grid, type Interpolation } from './grid.ts';
import type { VisionParams } from './params.ts';

export class Tower extends Transformer<VisionParams> {
  readonly grid: Grid;
  /** f32 [3 * patch * patch, patches]: the picture. */
  private readonly pixels: Tensor;

  constructor(p: VisionParams, kind: TransformerKind, grid: Grid, pixels: Tensor, source: WeightSource) {
    super(p, kind, source, 'v.');
    this.grid = grid;
    this.pixels = pixels;
  }

  get nPatches(): number {
    return this.grid.places.length;
  }

  /** Embeddings of the patches: f32 [n_embd, patches]. */
  patches(): Tensor {
    const names = ['v.patch_embd.weight', 'v.patch_embd.weight.1'].filter((name, i) => i === 0 || this.has(name));
    // Two kernels are for two frames of a film; a picture is both of them.
    const x = names.map((name) => mul_mat(this.weight(name), this.pixels)).reduce((sum, y) => add(sum, y));
    return this.biased(x, 'v.patch_embd');
  }

  /** Adds the table's row of each patch, by its place on a grid of the table's size, or stretched. */
  withPositions(x: Tensor, how: Interpolation): Tensor {
    return add(x, this.input('positions', [this.p.nEmbd, this.nPatches], interpolated(this.positions(), this.p.nEmbd, this.grid, how)));
  }
}
