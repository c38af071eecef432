/**
 * Learning of rotations: loads the model, reads the text, and writes checkpoints to continue from.
 */
import { existsSync } from 'node:fs';
import type { HParams } from '../arch/hparams.ts';
import { createEngineOn } from '../core/create.ts';
import type { Engine } from '../core/engine.ts';
import { createFingerprint } from '../fingerprint.ts';
import { unreadable } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { getCount, getNumber, getString } from '../gguf/metadata.ts';
import { readGGUF } from '../gguf/read.ts';
import type { TensorInfo } from '../gguf/types.ts';
import { writeGGUF, type WriteValue } from '../gguf/write.ts';
import { mul } from '../graph/elementwise-ops.ts';
import { cast, cpy } from '../graph/ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import { tensorBytes, tensorFloats, type ModelFiles } from '../io/model-files.ts';
import { toBytes } from '../io/source.ts';
import { JUDGE_EVERY, learnRotations, roomFor, type Learned, type LearnedMatrix } from '../rotate/learn.ts';
import { LAYER_MATRICES, type LayerMatrices } from '../rotate/loss.ts';
import { hadamards, matrices, type MatrixRotations, type Rotation } from '../rotate/plan.ts';
import { turned } from '../rotate/turn.ts';
import { createTokenizer } from '../tokenize/tokenizer.ts';
import { TYPE, type TypeName } from '../type-traits.ts';
import { MEMORY_LIMIT } from '../wasm/memory.ts';
import { toolPlatform } from './common.ts';
import { writeNewFile } from './new-file.ts';
import { readWhole } from './read-file.ts';

export interface LearnTask {
  readonly text: string;
  /** File of the progress. If it exists, learning continues from it. */
  readonly checkpoint: string | undefined;
  readonly steps: number;
  readonly rate: number;
  readonly seed: number;
  readonly threads: number;
  /** Elements that R4 transforms together; 0: no R4. */
  readonly r4: number;
  /** Called with the number of finished steps. */
  readonly onStep: (done: number) => void;
}

/**
 * Number of random Hadamard matrices to try; learning continues from the best. Their seeds are
 * SEED_STEP apart, beginning with the given seed.
 */
const STARTS = 8;
const SEED_STEP = 0x9e3779b1;

/**
 * Tensors that the loss function includes. A llama model with any other tensor computes something
 * else, so it is refused.
 */
const KNOWN =
  /^(token_embd|output|output_norm|rope_freqs|blk\.\d+\.(attn_norm|ffn_norm|attn_q|attn_k|attn_v|attn_output|ffn_gate|ffn_up|ffn_down))\.weight$/;

/** @throws ERR_UNSUPPORTED_ARCH, ERR_INVALID_ARGUMENT, ERR_OUT_OF_MEMORY, or signal.reason */
export async function learn(
  model: ModelFiles,
  hp: HParams,
  { text, checkpoint, threads, onStep, ...flags }: LearnTask,
  signal: AbortSignal,
): Promise<{ rotations: MatrixRotations; loss: number }> {
  const { gguf } = model;
  const stranger = hp.arch === 'llama' ? [...gguf.tensors.keys()].find((name) => !KNOWN.test(name)) : `architecture ${hp.arch}`;
  if (stranger !== undefined)
    throw new QuantletError(
      'ERR_UNSUPPORTED_ARCH',
      `learn is for llama models of plain matrices, but this one has ${stranger}; rotate it without learn`,
    );
  const tokenizer = createTokenizer(gguf.metadata);
  const ids = tokenizer.encode(text, { addSpecial: false });
  const sources = [...gguf.tensors.values()].filter(({ nDims }) => nDims === 2);
  const elements = sources.reduce((n, { ne }) => n + ne[0] * ne[1], hp.nEmbd * hp.nVocab);
  const { window, sequences, bytes } = roomFor(hp, elements, MEMORY_LIMIT - 2 ** 20);
  const engine = await createEngineOn(toolPlatform(), { threads, memoryBytes: bytes });
  try {
    const table = await tensorOf(engine, model, gguf.tensors.get('token_embd.weight')!, undefined, signal);
    const folded = async (name: string, norm?: string): Promise<Tensor> => {
      const info = gguf.tensors.get(`${name}.weight`) ?? gguf.tensors.get('token_embd.weight')!;
      return tensorOf(engine, model, info, norm === undefined ? undefined : gguf.tensors.get(`${norm}.weight`), signal);
    };
    const layers: LayerMatrices[] = [];
    for (let il = 0; il < hp.nLayer; il++) {
      const layer: Partial<Record<(typeof LAYER_MATRICES)[number], Tensor>> = {};
      for (const part of LAYER_MATRICES) {
        const norm = /output|down/.test(part) ? undefined : `blk.${il}.${part.slice(0, part.indexOf('_'))}_norm`;
        layer[part] = await folded(`blk.${il}.${part}`, norm);
      }
      layers.push(layer as LayerMatrices);
    }
    const factors = gguf.tensors.get('rope_freqs.weight');
    const weights = {
      embeddings: table,
      output: await folded('output', 'output_norm'),
      layers,
      ropeFactors: factors && (await tensorFloats(model.parts, factors, signal)),
    };
    const run = createFingerprint()
      .add(new TextEncoder().encode(text))
      .add(await tensorBytes(model.parts, sources[0], signal))
      .add(new TextEncoder().encode(JSON.stringify(flags)))
      .hex();
    const starts: Learned[] = [];
    if (checkpoint !== undefined && existsSync(checkpoint)) starts.push(await readCheckpoint(checkpoint, run, signal));
    else for (let i = 0; i < STARTS; i++) starts.push(await startOf(engine, hadamards(hp, flags.seed + i * SEED_STEP), hp));
    const bos = tokenizer.addBos ? tokenizer.special.bos : undefined;
    let [learned] = starts;
    for await (learned of learnRotations(engine, hp, weights, starts, { ...flags, ids, bos, window, sequences, signal })) {
      onStep(learned.step);
      if (checkpoint !== undefined && (learned.step % JUDGE_EVERY === 0 || learned.step === flags.steps))
        await writeCheckpoint(checkpoint, learned, run, signal);
    }
    return {
      rotations: matrices(
        learned.r1.best,
        learned.r2.map(({ best }) => best),
      ),
      loss: learned.loss,
    };
  } finally {
    await engine.dispose();
  }
}

/** A matrix as f32, with its columns multiplied by the weights of a norm. */
async function tensorOf(
  engine: Engine,
  model: ModelFiles,
  info: TensorInfo,
  norm: TensorInfo | undefined,
  signal: AbortSignal,
): Promise<Tensor> {
  const read = async (of: TensorInfo): Promise<Tensor> => {
    const t = engine.tensor(of.type.name as TypeName, of.ne.slice(0, of.nDims), { name: of.name });
    const view = engine.view(t) as ArrayBufferView;
    new Uint8Array(view.buffer, view.byteOffset, view.byteLength).set(await tensorBytes(model.parts, of, signal));
    return t;
  };
  const source = await read(info);
  const weights = norm && (await read(norm));
  if (!weights && info.type === TYPE.f32) return source;
  const result = engine.tensor('f32', source.ne.slice(0, 2));
  const wide = cast(source, 'f32');
  const plan = engine.plan(cpy(weights ? mul(wide, weights) : wide, result));
  await engine.compute(plan, { signal });
  plan.dispose();
  for (const t of [source, weights]) if (t) engine.free(t);
  return result;
}

/** Dense matrices of the random Hadamard rotations, as a start for learning. */
async function startOf(engine: Engine, rotations: MatrixRotations, { nEmbd, headDim, nLayer }: HParams): Promise<Learned> {
  const dense = async (n: number, rotation: Rotation): Promise<LearnedMatrix> => {
    const one = engine.tensor('f32', [n, n], { data: Float32Array.from({ length: n * n }, (_, i) => (i % (n + 1) === 0 ? 1 : 0)) });
    const plan = engine.plan(turned(one, rotation));
    await engine.compute(plan);
    const x = engine.read(one) as Float32Array;
    plan.dispose();
    engine.free(one);
    return { x, momentum: new Float32Array(n * n), best: x.slice() };
  };
  const r2: LearnedMatrix[] = [];
  for (let il = 0; il < nLayer; il++) r2.push(await dense(headDim, rotations.r2(il, 1)));
  return { step: 0, loss: Infinity, r1: await dense(nEmbd, rotations.r1), r2 };
}

/**
 * The checkpoint: a GGUF file of the matrices and their momentum. `run` identifies the model, the
 * text and the flags.
 */
const STEP_KEY = 'quantlet.learn.step';
const LOSS_KEY = 'quantlet.learn.loss';
const PARTS = ['x', 'momentum', 'best'] as const;
const RUN_KEY = 'quantlet.learn.run';

async function writeCheckpoint(path: string, { step, loss, r1, r2 }: Learned, run: string, signal: AbortSignal): Promise<void> {
  const metadata = new Map<string, WriteValue>([
    [STEP_KEY, { type: 'u32', value: step }],
    [LOSS_KEY, { type: 'f64', value: loss }],
    [RUN_KEY, { type: 'str', value: run }],
  ]);
  const tensors = [r1, ...r2].flatMap((m, i) =>
    PARTS.map((part) => {
      const n = Math.sqrt(m.x.length);
      return { name: `${i}.${part}`, type: TYPE.f32, ne: [n, n], data: new Uint8Array(m[part].slice().buffer) };
    }),
  );
  await writeNewFile(path, (write) => write(writeGGUF(metadata, tensors), 0), signal);
}

/**
 * @throws ERR_INVALID_ARGUMENT if the checkpoint belongs to another model, text or other flags; as
 * readGGUF
 */
async function readCheckpoint(path: string, run: string, signal: AbortSignal): Promise<Learned> {
  const file = await readWhole(path, signal).catch(unreadable('the checkpoint', path));
  const gguf = await readGGUF(toBytes(file));
  if (getString(gguf, RUN_KEY, '') !== run)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `the checkpoint ${path} belongs to another model, text, seed, rate or number of steps; give the same ones, or another checkpoint`,
    );
  const array = (name: string): Float32Array => {
    const { offset, byteLength } = gguf.tensors.get(name)!;
    return new Float32Array(Uint8Array.prototype.slice.call(file, offset, offset + byteLength).buffer);
  };
  const all = Array.from({ length: gguf.tensors.size / PARTS.length }, (_, i) => ({
    x: array(`${i}.x`),
    momentum: array(`${i}.momentum`),
    best: array(`${i}.best`),
  }));
  return { step: getCount(gguf, STEP_KEY), loss: getNumber(gguf, LOSS_KEY), r1: all[0], r2: all.slice(1) };
}
