/**
 * quantlet rotate: writes a copy of a model that computes the same with fewer outliers, for
 * quantising.
 */
import { resolve } from 'node:path';
import { bytesText } from '../bytes-text.ts';
import { readHParams } from '../arch/hparams.ts';
import { rotationKey, ROTATIONS, type RotationName } from '../arch/rotation.ts';
import { platform } from '../entry/node-platform.ts';
import { createEngineOn } from '../core/create.ts';
import type { Engine } from '../core/engine.ts';
import { QuantletError } from '../errors.ts';
import type { TensorInfo } from '../gguf/types.ts';
import { layoutGGUF } from '../gguf/write.ts';
import { cast, cont } from '../graph/ops.ts';
import { transpose } from '../graph/views.ts';
import { openModelFiles, tensorFloats, type ModelFiles } from '../io/model-files.ts';
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
import { defaultThreads } from '../threads/node.ts';
import { rowSize, TYPE } from '../type-traits.ts';
import { forTerminal, type Command } from './command.ts';
import { filesRead } from './files-read.ts';
import type { FlagKey } from './flags.ts';
import { checkOutput, tell, type WriteAt } from './new-file.ts';
import { copyTensor, metadataOf, writeNewGGUF } from './new-gguf.ts';
import { parseFlags } from './parse-flags.ts';
import { progressBar } from './progress.ts';
import { learn } from './rotate-learn.ts';

const KEYS = [
  ...ROTATIONS,
  'rotationSeed',
  'learn',
  'learnSteps',
  'learnRate',
  'checkpoint',
  'threads',
  'json',
  'help',
] as const satisfies readonly FlagKey[];

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
  readonly onProgress: (part: number) => void;
}

async function writeRotated({ model, plan, output, facts, threads, signal, onProgress }: Work): Promise<number> {
  const metadata = await metadataOf(model, signal);
  for (const [name, value] of Object.entries(facts)) metadata.set(rotationKey(name), { type: 'u32', value });
  const layout = layoutGGUF(
    metadata,
    plan.tensors.map(({ name, source: { type, ne, nDims } }) => ({ name, type, ne: ne.slice(0, nDims) })),
  );
  // Per element: twice the matrix's own type, once f32, and once more f32 if columns are rotated.
  const engine = await createEngineOn(platform, { threads, memoryBytes: ROOM + 16 * mostElements(plan) });
  const fill = async (write: WriteAt): Promise<void> => {
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
        onProgress((done + piece.to * row) / layout.byteLength);
      }
      onProgress((done += byteLength) / layout.byteLength);
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

export const rotate: Command = {
  name: 'rotate',
  synopsis: '[flags] IN.gguf OUT.gguf',
  summary: 'make a copy of a model without outliers, that loses less when it is quantised',
  flags: KEYS,
  notes:
    'Without --r1 to --r4 the first two are done: the file then runs in llama.cpp too. --r3 and --r4 are computed as the model runs, by quantlet alone;\nllama.cpp would not notice that --r4 is missing, and give nonsense. Adapters (LoRA) of the model no longer fit: merge them first.',
  examples: [
    'quantlet rotate model-F16.gguf rotated-F16.gguf',
    'quantlet rotate --r1 --r2 --r3 --r4 model-F16.gguf rotated-F16.gguf',
    'quantlet quantize rotated-F16.gguf rotated-Q4_0.gguf Q4_0',
  ],
  async run(argv, signal) {
    const { values, positionals } = parseFlags(argv, KEYS, 'rotate');
    const [input, output, ...more] = positionals;
    if (output === undefined || more.length > 0)
      throw new QuantletError('ERR_USAGE', `rotate takes an input and an output, not ${positionals.length} files`);
    const {
      rotationSeed: seed = 0,
      threads = defaultThreads(),
      json,
      learn: text,
      learnSteps: steps = 100,
      learnRate: rate = 0.03,
      checkpoint,
    } = values;
    if (seed < 0 || seed >= 2 ** 32)
      throw new QuantletError('ERR_USAGE', `--seed is ${seed}; expected a whole number from 0 to 4294967295`);
    const given = ROTATIONS.filter((name) => values[name]);
    const wanted = new Set<RotationName>(given.length > 0 ? given : ['r1', 'r2']);
    if (text !== undefined && !(wanted.has('r1') && wanted.has('r2')))
      throw new QuantletError('ERR_USAGE', '--learn finds R1 and R2; give --r1 and --r2 with it, or none of the rotations');
    if (text === undefined && (values.learnSteps ?? values.learnRate ?? checkpoint) !== undefined)
      throw new QuantletError(
        'ERR_USAGE',
        '--learn-steps, --learn-rate and --checkpoint say how to learn; give the text with --learn FILE',
      );
    if (steps < 1) throw new QuantletError('ERR_USAGE', `--learn-steps is ${steps}; expected at least 1`);
    if (!(rate > 0)) throw new QuantletError('ERR_USAGE', `--learn-rate is ${rate}; expected a number above 0`);
    if (checkpoint !== undefined && resolve(checkpoint) === resolve(output))
      throw new QuantletError('ERR_USAGE', `the output and the --checkpoint are both ${output}; expected two files`);
    for (const path of checkpoint === undefined ? [output] : [output, checkpoint]) await checkOutput(path, filesRead(values, input));
    const model = await openModelFiles(platform, input, signal);
    const bar = progressBar('rotating');
    const start = performance.now();
    try {
      const hp = readHParams(model.gguf);
      const planned = (rotations: MatrixRotations): Promise<RotationPlan> =>
        planRotation(model.gguf, wanted, rotations, async (info) => vectorOf(model, info));
      let plan = await planned(hadamards(hp, seed));
      const r4 = plan.sizes.get('r4') ?? 0;
      const learned = text === undefined ? undefined : await learn(model, hp, { text, checkpoint, steps, rate, seed, threads, r4 }, signal);
      if (learned) plan = await planned(learned.rotations);
      const sizes = Object.fromEntries(plan.sizes);
      const facts = { ...sizes, seed, ...(learned && { steps }) };
      const bytes = await writeRotated({ model, plan, output, facts, threads, signal, onProgress: (part) => bar.set(part) });
      bar.end();
      const seconds = (performance.now() - start) / 1000;
      tell(
        json
          ? `${JSON.stringify({ input, output, ...facts, loss: learned?.loss, untied_bytes: plan.untiedBytes, bytes, threads, seconds })}\n`
          : forTerminal(
              `rotated ${input} to ${output}: ${Object.entries(sizes)
                .map(([name, n]) => `${name.toUpperCase()} of ${n}`)
                .join(', ')}\n` +
                (learned
                  ? `learned in ${steps} steps: with matrices of Q4_0 ${learned.loss.toFixed(4)} nats a token from the model as it is\n`
                  : '') +
                (plan.untiedBytes
                  ? `the output has a matrix of its own now, ${bytesText(plan.untiedBytes)}: embeddings without the last norm's weights cannot serve as one\n`
                  : '') +
                `${bytesText(bytes)} in ${seconds.toFixed(2)} s\n`,
            ),
      );
      return 0;
    } finally {
      bar.end();
      await model.close();
    }
  },
};
