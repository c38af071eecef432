/**
 * Rotation of a model: a copy that computes the same with fewer outliers, so that it loses less when
 * it is quantised.
 */
import { resolve } from 'node:path';
import { readHParams } from '../arch/hparams.ts';
import { rotationKey, ROTATIONS, type RotationName } from '../arch/rotation.ts';
import { createEngineOn } from '../core/create.ts';
import type { Engine } from '../core/engine.ts';
import { QuantletError } from '../errors.ts';
import type { TensorInfo } from '../gguf/types.ts';
import { layoutGGUF } from '../gguf/write.ts';
import { cast, cont } from '../graph/ops.ts';
import { transpose } from '../graph/views.ts';
import { openModelFiles, tensorFloats, type ModelFiles } from '../io/model-files.ts';
import { checkOptions, checkValue, KIND, whole, type Kinds } from '../options.ts';
import { firstInvalidBlock } from '../quantize/validate.ts';
import {
  hadamards,
  planRotation,
  rowLength,
  type MatrixRotations,
  type Piece,
  type RotatedTensor,
  type RotationPlan,
} from '../rotate/plan.ts';
import { turned } from '../rotate/turn.ts';
import { THREADS } from '../threads/executor.ts';
import { defaultThreads } from '../threads/node.ts';
import { rowSize, TYPE } from '../type-traits.ts';
import { partsOf, PATH, pathOf, signalOf, toolPlatform, type FilePath, type ToolOptions } from './common.ts';
import { checkOutput, type WriteAt } from './new-file.ts';
import { copyTensor, metadataOf, writeNewGGUF } from './new-gguf.ts';
import { learn } from './rotate-learn.ts';
import { refuseOtherKinds } from '../plan/file-kind.ts';

export interface RotateOptions extends ToolOptions {
  /**
   * Rotations to do. R1 and R2 are in the new file's weights alone, so that llama.cpp runs it, too.
   * R3 and R4 are computed as the model runs, by quantlet alone; llama.cpp would give nonsense
   * without R4. Default: R1 and R2.
   */
  r1?: boolean | undefined;
  r2?: boolean | undefined;
  r3?: boolean | undefined;
  r4?: boolean | undefined;
  /** Seed of the random rotations, from 0 to 4294967295. Default 0. */
  seed?: number | undefined;
  /** Text from which R1 and R2 are learnt (SpinQuant); for llama models. Default: random ones. */
  learn?: string | undefined;
  /** Steps of learning. Default 100. */
  learnSteps?: number | undefined;
  /** Size of a step. Default 0.03. */
  learnRate?: number | undefined;
  /** File that keeps the progress of learning. If it exists, learning continues from it. */
  checkpoint?: FilePath | undefined;
  /** Threads that compute. Default: the cores this process may use. */
  threads?: number | undefined;
}

export interface RotateResult {
  /** Elements that each rotation transforms together, by its name (`r1` ...). */
  readonly sizes: Readonly<Record<string, number>>;
  readonly seed: number;
  /** Steps of learning, if any, and the loss then: nats a token with matrices of Q4_0. */
  readonly steps?: number;
  readonly loss?: number;
  /** Bytes of an output matrix that the model had shared with the embeddings; 0: none. */
  readonly untiedBytes: number;
  /** Bytes of the new file. */
  readonly bytes: number;
  readonly threads: number;
}

export const ROTATE_OPTIONS: Kinds<RotateOptions> = {
  r1: KIND.boolean,
  r2: KIND.boolean,
  r3: KIND.boolean,
  r4: KIND.boolean,
  seed: whole(0, 2 ** 32 - 1),
  learn: KIND.string,
  learnSteps: KIND.size,
  learnRate: KIND.positive,
  checkpoint: PATH,
  threads: THREADS,
  signal: KIND.signal,
  onProgress: KIND.function,
};

/** Matrix types that a rotation can process; it keeps the type. */
type FloatName = 'f32' | 'f16' | 'bf16';

/** Elements rotated at a time if only rows are rotated. */
const ELEMENTS_AT_ONCE = 2 ** 20;
/** Bytes that the engine needs besides tensors: plans and the threads' scratch. */
const ROOM = 2 ** 24;

/**
 * Pieces rotated at a time. Row rotations take ELEMENTS_AT_ONCE elements, column rotations need all
 * rows.
 */
function* stepsOf(tensor: RotatedTensor): Generator<Piece> {
  if (typeof tensor.change === 'string') return;
  const rows = Math.max(1, Math.floor(ELEMENTS_AT_ONCE / rowLength(tensor.source)));
  for (const piece of tensor.change) {
    const step = piece.columns ? piece.to - piece.from : rows;
    for (let from = piece.from; from < piece.to; from += step) yield { ...piece, from, to: Math.min(from + step, piece.to) };
  }
}

/** Rotates a piece of a matrix. Returns its bytes in the matrix's type. */
async function turn(engine: Engine, info: TensorInfo, piece: Piece, data: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
  const { type } = info;
  const floats = type === TYPE.f32;
  const source = engine.tensor(type.name as FloatName, [rowLength(info), piece.to - piece.from]);
  const bytes = engine.view(source) as ArrayBufferView;
  new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength).set(data);
  const x = turned(floats ? source : cast(source, 'f32'), piece.rows);
  const y = piece.columns ? transpose(turned(cont(transpose(x)), piece.columns)) : x;
  const result = piece.columns || !floats ? (floats ? cont(y) : cast(y, type.name as FloatName)) : y;
  const plan = engine.plan(result);
  try {
    await engine.compute(plan, { signal });
    const out = engine.read(result) as ArrayBufferView;
    return new Uint8Array(out.buffer, out.byteOffset, out.byteLength);
  } finally {
    plan.dispose();
    engine.free(source);
  }
}

function mustBeFinite({ name, type }: TensorInfo, data: Uint8Array, what: string): void {
  if (firstInvalidBlock(type, data) < 0) return;
  throw new QuantletError(
    'ERR_GGUF_INVALID',
    `tensor "${name}" has NaN or infinity ${what} (${type.name}); expected finite numbers: ${what.includes('turned') ? 'convert the model to bf16 or f32' : 'the model is damaged'}`,
  );
}

/** Ones, the weights of a norm that has been folded into the next matrices. */
const onesOf = ({ type, ne }: TensorInfo): Uint8Array => {
  const bits = type === TYPE.f32 ? Uint32Array.of(0x3f800000) : Uint16Array.of(type === TYPE.f16 ? 0x3c00 : 0x3f80);
  const one = new Uint8Array(bits.buffer);
  return Uint8Array.from({ length: ne[0] * one.length }, (_, i) => one[i % one.length]);
};

/** Number of elements in the largest step. */
const mostElements = ({ tensors }: RotationPlan): number =>
  tensors.reduce((most, t) => [...stepsOf(t)].reduce((n, { from, to }) => Math.max(n, (to - from) * rowLength(t.source)), most), 0);

interface Work {
  readonly model: ModelFiles;
  readonly plan: RotationPlan;
  readonly output: string;
  /** Numbers about the rotation for the new file's metadata. */
  readonly facts: Readonly<Record<string, number>>;
  readonly threads: number;
  readonly signal: AbortSignal;
  readonly onProgress: (done: number, total: number) => void;
}

async function writeRotated({ model, plan, output, facts, threads, signal, onProgress }: Work): Promise<number> {
  const metadata = await metadataOf(model, signal);
  for (const [name, value] of Object.entries(facts)) metadata.set(rotationKey(name), { type: 'u32', value });
  const layout = layoutGGUF(
    metadata,
    plan.tensors.map(({ name, source: { type, ne, nDims } }) => ({ name, type, ne: ne.slice(0, nDims) })),
  );
  // Per element: twice the matrix's own type, once f32, and once more f32 if columns are rotated.
  const engine = await createEngineOn(toolPlatform(), { threads, memoryBytes: ROOM + 16 * mostElements(plan) });
  const fill = async (write: WriteAt): Promise<void> => {
    const total = layout.tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
    let done = 0;
    for (const [i, tensor] of plan.tensors.entries()) {
      const { source, change } = tensor;
      const { offset, byteLength } = layout.tensors[i];
      const read = (from: number, to: number): Promise<Uint8Array> =>
        model.parts[source.part].read(source.offset + from, source.offset + to, signal);
      if (change === 'copy') await copyTensor(write, model, source, offset, signal, () => undefined);
      else if (change === 'ones') await write(onesOf(source), offset);
      const row = rowSize(source.type, rowLength(source));
      for (const piece of stepsOf(tensor)) {
        const data = await read(piece.from * row, piece.to * row);
        mustBeFinite(source, data, 'in its data');
        const out = await turn(engine, source, piece, data, signal);
        mustBeFinite(source, out, 'when it is turned');
        await write(out, offset + piece.from * row);
        onProgress(done + piece.to * row, total);
      }
      onProgress((done += byteLength), total);
    }
  };
  try {
    await writeNewGGUF(output, layout, fill, signal);
  } finally {
    await engine.dispose();
  }
  return layout.byteLength;
}

/** Reads a vector to be folded. It must be f32, as converters write it. */
function vectorOf(model: ModelFiles, info: TensorInfo): Promise<Float32Array> {
  const { name, type } = info;
  if (type !== TYPE.f32)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `tensor "${name}" is ${type.name}; expected f32, as converters write the weights of norms`,
    );
  return tensorFloats(model.parts, info);
}

const refuse = (message: string): QuantletError => new QuantletError('ERR_INVALID_ARGUMENT', message);

/**
 * The rotations to do.
 * @throws ERR_INVALID_ARGUMENT for options of learning that do not fit together
 */
function wantedRotations(options: RotateOptions): ReadonlySet<RotationName> {
  const given = ROTATIONS.filter((name) => options[name]);
  const wanted = new Set<RotationName>(given.length > 0 ? given : ['r1', 'r2']);
  if (options.learn !== undefined && !(wanted.has('r1') && wanted.has('r2')))
    throw refuse('learn finds R1 and R2; give both r1 and r2 with it, or no rotation');
  if (options.learn === undefined && (options.learnSteps ?? options.learnRate ?? options.checkpoint) !== undefined)
    throw refuse('learnSteps, learnRate and checkpoint need learn; give the text as learn');
  return wanted;
}

/**
 * Writes a copy of a model that computes the same with fewer outliers. Adapters (LoRA) of the model
 * do not fit the copy. Sources: QuaRot (arXiv 2404.00456), SpinQuant (arXiv 2405.16406).
 * @param input a GGUF file of f32, f16 or bf16; of a split model, its first file
 * @throws QuantletError ERR_INVALID_ARGUMENT for wrong options, an output that is an input, a
 * checkpoint of something else or a quantised model; ERR_UNSUPPORTED_ARCH; ERR_GGUF_INVALID for
 * weights that are not finite; ERR_OUT_OF_MEMORY; ERR_IO; as reading does; `signal.reason`
 */
export async function rotate(input: FilePath, output: FilePath, options?: RotateOptions): Promise<RotateResult> {
  const given = checkOptions('rotate', options, ROTATE_OPTIONS);
  checkValue('rotate', 'input', input, PATH);
  checkValue('rotate', 'output', output, PATH);
  const { seed = 0, learn: text, learnSteps: steps = 100, learnRate: rate = 0.03, threads = defaultThreads(), onProgress } = given;
  const wanted = wantedRotations(given);
  const [from, to] = [pathOf(input), pathOf(output)];
  const checkpoint = given.checkpoint === undefined ? undefined : pathOf(given.checkpoint);
  if (checkpoint !== undefined && resolve(checkpoint) === resolve(to))
    throw refuse(`the output and the checkpoint are both ${to}; expected two files`);
  for (const path of checkpoint === undefined ? [to] : [to, checkpoint]) await checkOutput(path, partsOf(from));
  const signal = signalOf(given.signal);
  const model = await openModelFiles(toolPlatform(), from, signal);
  try {
    refuseOtherKinds(model.gguf);
    const hp = readHParams(model.gguf);
    const planned = (rotations: MatrixRotations): Promise<RotationPlan> =>
      planRotation(model.gguf, wanted, rotations, async (info) => vectorOf(model, info));
    let plan = await planned(hadamards(hp, seed));
    const r4 = plan.sizes.get('r4') ?? 0;
    const onStep = (done: number): void => onProgress?.({ phase: 'learning', done, total: steps });
    const learned =
      text === undefined ? undefined : await learn(model, hp, { text, checkpoint, steps, rate, seed, threads, r4, onStep }, signal);
    if (learned) plan = await planned(learned.rotations);
    const sizes = Object.fromEntries(plan.sizes);
    const bytes = await writeRotated({
      ...{ model, plan, output: to, threads, signal },
      facts: { ...sizes, seed, ...(learned && { steps }) },
      onProgress: (done, total) => onProgress?.({ phase: 'rotating', done, total }),
    });
    return { sizes, seed, ...(learned && { steps, loss: learned.loss }), untiedBytes: plan.untiedBytes, bytes, threads };
  } finally {
    await model.close();
  }
}
