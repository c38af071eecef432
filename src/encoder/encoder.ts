/**
 * An encoder of images or sounds on an engine of its own: its weights in memory, packed, and the
 * plan of the input that was encoded last.
 */
import { fromBf16, fromF16 } from '../core/float16.ts';
import { createEngineOn } from '../core/create.ts';
import type { Engine, Plan } from '../core/engine.ts';
import { QuantletError } from '../errors.ts';
import type { TensorInfo } from '../gguf/types.ts';
import { leaf, type Tensor } from '../graph/tensor.ts';
import { tensorBytes, type ModelFiles } from '../io/model-files.ts';
import type { Platform, Turbo } from '../platform.ts';
import { rowSize, TYPE, type TypeName } from '../type-traits.ts';
import { MEMORY_LIMIT } from '../wasm/memory.ts';
import type { WeightSource } from './transformer.ts';

/** The tensors of a projector file that an encoder takes, and what it makes of them. */
export interface WeightRules {
  readonly tensors: readonly TensorInfo[];
  /** True for tensors that only the host reads. */
  isTable(name: string): boolean;
  /** Dimensions in the graph: kernels of convolutions are matrices. */
  shapeOf(info: TensorInfo): readonly number[];
  /** Matrices whose rows are inputs, not outputs. */
  readonly transposed?: readonly string[] | undefined;
}

/** True for the bounds that a file may have for the inputs and outputs of a product. */
export const isBound = (name: string): boolean => /\.(input|output)_(min|max)$/.test(name);

/** Tensors without memory in place of a file's, to check shapes before a weight is read. */
export function shapesOf({ tensors, isTable, shapeOf }: WeightRules): WeightSource {
  const infos = new Map(tensors.map((info) => [info.name, info]));
  const leaves = new Map(
    tensors.map((info): [string, Tensor] => {
      const [n0, n1 = 1, n2 = 1, n3 = 1] = shapeOf(info);
      return [info.name, leaf(info.name, info.type, [n0, n1, n2, n3])];
    }),
  );
  return {
    find: (name) => leaves.get(name),
    table(name) {
      const info = isTable(name) ? infos.get(name) : undefined;
      return info && new Float32Array(info.ne.reduce((a, b) => a * b, 1));
    },
    input: (name, kind, [n0, n1 = 1]) => leaf(name, TYPE[kind], [n0, n1, 1, 1]),
  };
}

/** Bytes that a plan takes for so many tokens, from above: states, heads, feed-forward, input. */
export function planBytes(
  { tensors }: Pick<WeightRules, 'tensors'>,
  { nEmbd }: { readonly nEmbd: number },
  { tokens, inputs }: { readonly tokens: number; readonly inputs: number },
): number {
  const feedForward = tensors.filter(({ name }) => /\.ffn_(up|down)\.weight$/.test(name));
  const nFf = Math.max(...feedForward.map(({ ne }) => Math.max(ne[0], ne[1])), nEmbd);
  return 4 * tokens * (14 * nEmbd + 3 * nFf + 3 * inputs) + (64 << 20);
}

/** The graph that encodes an input. Inputs with the same key have the same graph. */
export interface EncoderGraph {
  readonly key: string;
  /** f32 dimensions of the input. */
  readonly ne: readonly number[];
  /** f32 [width, tokens] */
  build(input: Tensor, source: WeightSource): Tensor;
}

interface Ready {
  readonly key: string;
  readonly plan: Plan;
  /** The input itself is the first. */
  readonly inputs: readonly Tensor[];
  readonly result: Tensor;
}

export interface EncoderOptions {
  readonly threads: number | undefined;
  readonly build: string | undefined;
  readonly turbo: Turbo | undefined;
  readonly signal: AbortSignal | undefined;
}

export class Encoder {
  private readonly engine: Engine;
  private readonly weights: ReadonlyMap<string, Tensor>;
  private readonly tables: ReadonlyMap<string, Float32Array>;
  private ready: Ready | undefined;

  private constructor(engine: Engine, weights: ReadonlyMap<string, Tensor>, tables: ReadonlyMap<string, Float32Array>) {
    this.engine = engine;
    this.weights = weights;
    this.tables = tables;
  }

  /**
   * Starts an engine and reads the weights.
   * @param planSize bytes of the largest plan
   * @throws ERR_OUT_OF_MEMORY; what reading throws; signal.reason
   */
  static async load(
    platform: Platform,
    files: Pick<ModelFiles, 'parts'>,
    rules: WeightRules,
    planSize: number,
    { threads, build, turbo, signal }: EncoderOptions,
  ): Promise<Encoder> {
    const bytes = rules.tensors.reduce((sum, { byteLength, type, ne }) => sum + byteLength + 16 * rowSize(type, ne[0]) + 256, 0);
    const memoryBytes = Math.min(Math.ceil(1.05 * bytes) + planSize, MEMORY_LIMIT - (1 << 20));
    const engine = await createEngineOn(platform, { threads, build: build as never, turbo, memoryBytes });
    try {
      const weights = new Map<string, Tensor>();
      const tables = new Map<string, Float32Array>();
      for (const info of rules.tensors) {
        signal?.throwIfAborted();
        const data = await tensorBytes(files.parts, info, signal);
        if (rules.isTable(info.name)) tables.set(info.name, floatsOf(info, data));
        else weights.set(info.name, await makeWeight(engine, info, data, rules));
      }
      return new Encoder(engine, weights, tables);
    } catch (error) {
      await engine.dispose();
      throw error;
    }
  }

  /**
   * Encodes values of the graph's input. Callers encode one after the other.
   * @returns f32 [width, tokens]
   */
  async encode(
    graph: EncoderGraph,
    values: Float32Array,
    signal: AbortSignal | undefined,
    onProgress?: (fraction: number) => void,
  ): Promise<Float32Array> {
    const { engine } = this;
    const { plan, inputs, result } = this.planFor(graph);
    engine.write(inputs[0], values);
    await engine.compute(plan, { signal, onProgress });
    return Float32Array.from(engine.read(result as Tensor<'f32'>));
  }

  /** The plan of a graph. One plan is kept, because most inputs are cut to equal pieces. */
  private planFor({ key, ne, build }: EncoderGraph): Ready {
    if (this.ready?.key === key) return this.ready;
    this.drop();
    const { engine, weights, tables } = this;
    const inputs: Tensor[] = [engine.tensor('f32', ne)];
    const source: WeightSource = {
      find: (name) => weights.get(name),
      table: (name) => tables.get(name),
      input(name, kind, dimensions, data) {
        const t = engine.tensor(kind, dimensions, { data, name });
        inputs.push(t);
        return t;
      },
    };
    try {
      const result = build(inputs[0], source);
      this.ready = { key, plan: engine.plan(result), inputs, result };
      return this.ready;
    } catch (error) {
      for (const t of inputs) engine.free(t);
      throw error;
    }
  }

  private drop(): void {
    if (!this.ready) return;
    const { plan, inputs } = this.ready;
    this.ready = undefined;
    plan.dispose();
    for (const t of inputs) this.engine.free(t);
  }

  dispose(): Promise<void> {
    return this.engine.dispose();
  }
}

async function makeWeight(engine: Engine, info: TensorInfo, data: Uint8Array, rules: WeightRules): Promise<Tensor> {
  const turned = rules.transposed?.includes(info.name) ? transposed(info, data) : data;
  const weight = engine.tensor(info.type.name as TypeName, rules.shapeOf(info), { data: turned.slice(), name: info.name });
  // Matrices are operands of products, other tensors with rows are not (resampler.query).
  if (weight.ne[1] > 1 && info.name.endsWith('.weight')) await engine.pack(weight);
  return weight;
}

/** Elements of a matrix [n, m] as those of [m, n]. */
function transposed({ name, type, ne: [n, m] }: TensorInfo, data: Uint8Array): Uint8Array {
  if (type.blckSize > 1) throw new QuantletError('ERR_UNSUPPORTED_TYPE', `tensor "${name}" is ${type.name}; expected f16, bf16 or f32`);
  const size = type.typeSize;
  const out = new Uint8Array(data.length);
  for (let i = 0; i < n; i++)
    for (let j = 0; j < m; j++) for (let b = 0; b < size; b++) out[size * (i * m + j) + b] = data[size * (j * n + i) + b];
  return out;
}

/** Numbers of a table of f32, f16 or bf16. */
function floatsOf({ name, type }: TensorInfo, data: Uint8Array): Float32Array {
  const bytes = data.slice().buffer;
  if (type === TYPE.f32) return new Float32Array(bytes);
  if (type !== TYPE.f16 && type !== TYPE.bf16)
    throw new QuantletError('ERR_UNSUPPORTED_TYPE', `tensor "${name}" is ${type.name}; expected f32, f16 or bf16`);
  return Float32Array.from(new Uint16Array(bytes), type === TYPE.f16 ? fromF16 : fromBf16);
}
