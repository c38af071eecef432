/**
 * Costs and savings of leaving out neurons of a ReLU model: unchanged, with a row per neuron
 * (exact), and with predictors of several ranks.
 *
 * Usage:
 *
 *   node --import tsx bench/predictors.ts RELU-F32.gguf CALIBRATION TEXT [--ranks 64,128]
 *     [--recall 0.99] [--steps 1500] [--type f32] [--out FILE.md]
 *
 * `quantlet sparsify` makes the models from CALIBRATION. NLL (nats per token) and the fraction of
 * skipped neurons are those of TEXT in windows of 256. Ids are those of a greedy continuation.
 * bench/train-relu.py made the model of bench/results.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { overWindows } from '../src/tools/windows.ts';
import { loadModel } from '../src/entry/node.ts';
import { getNumber } from '../src/gguf/metadata.ts';
import { readGGUF } from '../src/gguf/read.ts';
import { nbytes } from '../src/graph/tensor.ts';
import { toBytes } from '../src/io/source.ts';
import { against, describeMachine, JUDGED, judged, machine, said, table, type Judged } from './support.ts';

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    ranks: { type: 'string', default: '64,128' },
    recall: { type: 'string', default: '0.99' },
    steps: { type: 'string', default: '1500' },
    type: { type: 'string', default: 'f32' },
    out: { type: 'string' },
  },
});
const [source, calibration, text] = positionals;
if (positionals.length !== 3)
  throw new Error(
    'expected: bench/predictors.ts RELU-F32.gguf CALIBRATION TEXT [--ranks R,...] [--recall X] [--steps N] [--type TYPE] [--out FILE.md]',
  );
const CTX = 256;
const folder = mkdtempSync(join(tmpdir(), 'predictors-'));

/**
 * Fraction of neurons that are skipped over windows of the text, by a closed gate or by the
 * predictors.
 */
async function skipped(path: string): Promise<number> {
  const file = readFileSync(path);
  const gguf = await readGGUF(toBytes(file));
  const f32 = (name: string): Float32Array => {
    const { offset, byteLength } = gguf.tensors.get(name)!;
    return new Float32Array(Uint8Array.prototype.slice.call(file, offset, offset + byteLength).buffer);
  };
  const threshold = getNumber(gguf, 'powerinfer.sparse_threshold', 0);
  const part = gguf.tensors.has('blk.0.fc2.weight') ? 'fc2' : 'ffn_down';
  const names = new RegExp(`^blk\\.\\d+\\.${part}\\.weight$`);
  const model = await loadModel(path, {
    contextLength: CTX,
    batchSize: CTX,
    maxOutputs: 1,
    warmUp: false,
    keptInputs: (name: string) => names.test(name),
  });
  const ids = model.tokenize(readFileSync(text, 'utf8'));
  const { keptInputs, executor } = model.internals.engine;
  const weights = new Map([...keptInputs.keys()].map((name) => [name, f32(name)]));
  const nothing = { onLogits: () => undefined, result: undefined };
  const [signal, nChunk] = [new AbortController().signal, Math.floor(ids.length / CTX)];
  let [shut, all] = [0, 0];
  for await (const _ of overWindows(model, { ids, nCtx: CTX, nChunk, parallel: 1, computed: CTX, outputsFrom: CTX, signal }, () => nothing))
    for (const [name, t] of keptInputs) {
      const x = new Float32Array((await executor.read(t.data, nbytes(t))).slice().buffer);
      const [n] = t.ne;
      const w = weights.get(name)!;
      for (let at = 0; at < x.length; at += n)
        for (let r = 0, rows = part === 'fc2' ? w.length / n : n; r < rows; r++, all++) {
          let dot = 0;
          if (part === 'fc2') for (let i = 0; i < n; i++) dot += w[r * n + i] * x[at + i];
          shut += Number(part === 'fc2' ? !(dot >= threshold) : x[at + r] === 0);
        }
    }
  await model.dispose();
  return shut / all;
}

try {
  const models: { name: string; f32: string; computed: string }[] = [{ name: 'none, dense', f32: source, computed: source }];
  const sparsified = (name: string, file: string, ...flags: string[]): void => {
    const f32 = join(folder, file);
    console.error(said('sparsify', '-m', source, '-f', calibration, '-o', f32, '-c', String(CTX), ...flags));
    models.push({ name, f32, computed: f32 });
  };
  sparsified('exact', 'exact.gguf');
  for (const rank of values.ranks.split(',').filter(Boolean))
    sparsified(
      `predictor of rank ${rank}`,
      `predictor-${rank}.gguf`,
      '--predictor',
      rank,
      '--recall',
      values.recall,
      '--predictor-steps',
      values.steps,
    );
  const rows: string[][] = [];
  let dense: Judged | undefined;
  for (const { name, f32, computed } of models) {
    const share = name === 'none, dense' ? 0 : await skipped(name === 'exact' ? source : f32);
    const path = values.type === 'f32' ? computed : join(folder, 'quantised.gguf');
    if (path !== computed) said('quantize', '--pure', f32, path, values.type);
    const found = judged(path, text, CTX);
    dense ??= found;
    rows.push([name, `${(100 * share).toFixed(1)} %`, ...against(found, dense)]);
    console.error(rows.at(-1)!.join(' | '));
  }
  const command = `node --import tsx bench/predictors.ts ${[source, calibration, text].map((path) => basename(path)).join(' ')} --ranks ${values.ranks} --recall ${values.recall} --steps ${values.steps} --type ${values.type}`;
  const report = `# Neurons that are left out of ${basename(source)}, ${values.type}\n\n${describeMachine(machine())}\n\n${table(['neurons', 'skipped', ...JUDGED], rows)}\n\n\`${command}\`\n`;
  if (values.out === undefined) process.stdout.write(report);
  else writeFileSync(values.out, report);
} finally {
  rmSync(folder, { recursive: true });
}
