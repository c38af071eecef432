/** Weights of a model as leaves of its graph: found in the file by name, their shapes checked. */
import type { GraphContext } from '../arch/architecture.ts';
import { HEAD_ROWS } from '../arch/blocks.ts';
import type { HParams } from '../arch/hparams.ts';
import { QuantletError } from '../errors.ts';
import { getCount } from '../gguf/metadata.ts';
import type { GGUF, TensorInfo } from '../gguf/types.ts';
import { leaf, type Ne, type Tensor } from '../graph/tensor.ts';
import type { Loras } from './lora.ts';

type Shape = readonly number[];

/** Functions of GraphContext that look for weights; the object remembers what was asked for. */
export class WeightLeaves implements Pick<GraphContext, 'has' | 'shapeOf' | 'weight' | 'optional' | 'rowsOf' | 'loras'> {
  readonly leaves = new Map<TensorInfo, Tensor>();

  private readonly gguf: GGUF;
  /** Name of the architecture, for messages. */
  private readonly architecture: string;
  private readonly adapters: Loras;
  /** Names that the architecture asked for. */
  private readonly known = new Set<string>();
  private readonly adapted = new Set<string>();
  /** Parts of tensors that rowsOf() gave, by name and first row. */
  private readonly slices = new Map<string, TensorInfo>();

  constructor(gguf: GGUF, architecture: string, adapters: Loras) {
    this.gguf = gguf;
    this.architecture = architecture;
    this.adapters = adapters;
  }

  // Architectures pass a context on with some functions replaced, so these are properties and not
  // methods.

  readonly has = (name: string): boolean => this.find(name) !== undefined;

  readonly shapeOf = (name: string): Shape | undefined => this.find(name)?.ne;

  readonly optional = (name: string, ne: Shape): Tensor | undefined => {
    const info = this.find(name);
    if (!info) return undefined;
    const want = [...ne, 1, 1, 1].slice(0, 4);
    if (want.some((n, i) => n !== info.ne[i]))
      throw new QuantletError(
        'ERR_TENSOR_SHAPE',
        `tensor "${name}" is [${info.ne.join(', ')}], but its metadata needs [${want.join(', ')}]: the file is damaged or of another variant of the architecture`,
      );
    return this.leafOf(info);
  };

  readonly weight = (name: string, ne: Shape): Tensor => {
    const tensor = this.optional(name, ne);
    if (!tensor)
      throw new QuantletError(
        'ERR_MISSING_TENSOR',
        `the file has no tensor "${name}", which ${this.architecture} models need; it is incomplete or of another architecture`,
      );
    return tensor;
  };

  readonly rowsOf = (name: string, from: number, ne: Shape): Tensor | undefined => {
    const info = this.find(name);
    if (!info) return undefined;
    const rows = ne.length - 1;
    if (info.nDims !== ne.length || ne.some((n, i) => (i === rows ? from + n > info.ne[i] : n !== info.ne[i])))
      throw new QuantletError(
        'ERR_TENSOR_SHAPE',
        `tensor "${name}" is [${info.ne.join(', ')}], but its metadata needs [${ne.join(', ')}] from ${from} on: the file is damaged`,
      );
    const key = `${name} from ${from}`;
    const bytes = info.byteLength / info.ne[rows];
    const slice = this.slices.get(key) ?? {
      ...info,
      name: key,
      ne: [...ne, 1, 1, 1].slice(0, 4) as unknown as Ne,
      offset: info.offset + from * bytes,
      byteLength: ne[rows] * bytes,
    };
    this.slices.set(key, slice);
    return this.leafOf(slice);
  };

  readonly loras = (name: string): ReturnType<GraphContext['loras']> => {
    this.adapted.add(name);
    return (this.adapters.get(name) ?? []).map(({ a, b, scale }) => ({ a: this.leafOf(a), b: this.leafOf(b), scale }));
  };

  /** Tensor of the file; notes that the architecture knows it. */
  find(name: string): TensorInfo | undefined {
    this.known.add(name);
    return this.gguf.tensors.get(name);
  }

  /** The tensor of the file that a leaf was made from. */
  infoOf(tensor: Tensor): TensorInfo {
    return [...this.leaves].find(([, known]) => known === tensor)![0];
  }

  /** @throws ERR_ADAPTER if an adapter changes a matrix that no product uses */
  mustUseAdapters(): void {
    const idle = [...this.adapters.keys()].find((name) => !this.adapted.has(name));
    if (idle !== undefined)
      throw new QuantletError(
        'ERR_ADAPTER',
        `an adapter adapts "${idle}", which no product of the model uses; expected matrices of the ${this.architecture} layers`,
      );
  }

  /**
   * Tensors that the architecture never asked for. Layers after its own predict further tokens
   * (MTP) and are left out knowingly.
   */
  unused({ arch, nLayer }: HParams): string[] {
    const sharing = nLayer - getCount(this.gguf, `${arch}.attention.shared_kv_layers`, 0);
    const isLeftOut = (name: string): boolean => {
      const il = Number(/^blk\.(\d+)\./.exec(name)?.[1] ?? Infinity);
      // Rows of heads are read with attnHeads alone.
      return name.endsWith(HEAD_ROWS) || (Number.isFinite(il) && il >= nLayer) || (il >= sharing && LEFT_OUT.test(name));
    };
    return [...this.gguf.tensors.keys()].filter((name) => !this.known.has(name) && !isLeftOut(name));
  }

  private leafOf(info: TensorInfo): Tensor {
    const tensor = this.leaves.get(info) ?? leaf(info.name, info.type, info.ne as Ne);
    this.leaves.set(info, tensor);
    return tensor;
  }
}

/**
 * Keys and values of layers that share an earlier layer's, and rope factors for another context.
 * Files have them although nothing reads them.
 */
const LEFT_OUT = /\.attn_(?:k|v|k_norm)\.weight$|^rope_factors_(?:long|short)\.weight$/;
