/** quantlet quantize: the command line of llama-quantize. */
import { defaultThreads } from '../threads/node.ts';
import { platform } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { openModelFiles } from '../io/model-files.ts';
import { COPY, FTYPES, parseTensorType } from '../quantize/ftype.ts';
import { readImatrix, type Imatrix } from '../quantize/imatrix.ts';
import { createRowsPool } from '../threads/rows-node.ts';
import type { TypeTraits } from '../type-traits.ts';
import { pickBuild } from '../wasm/load.ts';
import { forTerminal, readText, type Command } from './command.ts';
import { filesRead } from './files-read.ts';
import { tell } from './new-file.ts';
import { parseFlags } from './parse-flags.ts';
import { writtenOverrides } from './metadata.ts';
import { progressBar } from './progress.ts';
import { parseQuantizeArgs } from './quantize-args.ts';
import { quantizeFile, type QuantizeSummary } from './quantize.ts';

const KEYS = [
  'imatrix',
  'includeWeights',
  'excludeWeights',
  'pure',
  'allowRequantize',
  'leaveOutputTensor',
  'outputTensorType',
  'tokenEmbeddingType',
  'tensorType',
  'tensorTypeFile',
  'overrideKv',
  'dryRun',
  'json',
  'help',
] as const;

/** Limit for quoting a pattern in an error. */
const SHOWN_CHARACTERS = 200;

/**
 * Parses `attn_v=q6_K`. The last equals sign separates pattern and type, because the pattern may
 * contain one.
 */
function parseTensorTypeRule(text: string): readonly [pattern: RegExp, type: TypeTraits] {
  const equals = text.lastIndexOf('=');
  if (equals < 1) throw new QuantletError('ERR_USAGE', `--tensor-type is "${text}", expected NAME=TYPE: attn_v=q6_K, say`);
  const type = parseTensorType(text.slice(equals + 1));
  try {
    const pattern = new RegExp(text.slice(0, equals), 'i');
    // V8 reports too many groups only at the first use, and separately for two-byte strings.
    for (const name of ['', '\u0100']) pattern.test(name);
    return [pattern, type];
  } catch (cause) {
    const shown = text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}... (${text.length} characters)` : text;
    throw new QuantletError(
      'ERR_USAGE',
      `--tensor-type is "${shown}", expected a regular expression before the equals sign: ${(cause as Error).message.slice(-SHOWN_CHARACTERS)}`,
      { cause },
    );
  }
}

async function openImatrix(path: string, signal: AbortSignal): Promise<Imatrix> {
  const { bytes, close } = await platform.open(path, signal);
  try {
    return await readImatrix(bytes, signal);
  } finally {
    await close();
  }
}

const withTensors = (imatrix: Imatrix, wanted: (name: string) => boolean): Imatrix => ({
  ...imatrix,
  values: new Map([...imatrix.values].filter(([name]) => wanted(name))),
});

export const quantize: Command = {
  name: 'quantize',
  llama: 'llama-quantize',
  synopsis: '[flags] IN.gguf [OUT.gguf] TYPE [nthreads]',
  summary: 'make a smaller copy of a model',
  flags: KEYS,
  notes: `types (a name or its number; without OUT.gguf the file is ggml-model-TYPE.gguf beside IN.gguf):\n${FTYPES.map((f) => `  ${String(f.id).padStart(2)}  or  ${f.name.padEnd(10)}${f.help}`).join('\n')}\n          ${COPY.name.padEnd(10)}${COPY.help}`,
  examples: [
    'quantlet quantize model-F16.gguf model-Q4_K_M.gguf Q4_K_M',
    'quantlet quantize --imatrix imatrix.gguf model-F16.gguf IQ4_XS 8',
    'quantlet quantize --tensor-type attn_v=q6_K --output-tensor-type q8_0 model-F16.gguf small.gguf Q4_0',
  ],
  async run(argv, signal) {
    const { values, positionals } = parseFlags(argv, KEYS, 'quantize');
    const { input, output, ftype, nthreads = defaultThreads() } = parseQuantizeArgs(positionals);
    const { outputTensorType, tokenEmbeddingType, tensorType = [], tensorTypeFile, imatrix, includeWeights, excludeWeights } = values;
    const { json, dryRun = false, pure, allowRequantize, leaveOutputTensor, overrideKv } = values;
    if (includeWeights && excludeWeights)
      throw new QuantletError('ERR_USAGE', '--include-weights and --exclude-weights exclude each other; give one');
    const listed = tensorTypeFile === undefined ? [] : (await readText(tensorTypeFile, 'the tensor types')).split(/\s+/).filter(Boolean);
    const types = {
      ...(pure ? { pure } : {}),
      ...(allowRequantize ? { allowRequantize } : {}),
      ...(leaveOutputTensor ? { leaveOutputTensor } : {}),
      ...(overrideKv ? { overrideKv: writtenOverrides(overrideKv) } : {}),
      tensorTypes: [...tensorType, ...listed].map(parseTensorTypeRule),
      ...(outputTensorType !== undefined ? { outputTensorType: parseTensorType(outputTensorType) } : {}),
      ...(tokenEmbeddingType !== undefined ? { tokenEmbeddingType: parseTensorType(tokenEmbeddingType) } : {}),
    };
    const wanted = (name: string): boolean =>
      (includeWeights?.some((part) => name.includes(part)) ?? true) && !(excludeWeights ?? []).some((part) => name.includes(part));
    const importance =
      imatrix === undefined ? {} : { imatrix: withTensors(await openImatrix(imatrix, signal), wanted), imatrixName: imatrix };
    // All builds quantise to the same bits, so take the one that runs everywhere.
    const module = await platform.module(pickBuild(platform.features(), 'simd'));
    const model = await openModelFiles(platform, input, signal);
    const pool = createRowsPool(module, nthreads);
    const bar = progressBar('quantizing');
    const start = performance.now();
    try {
      const summary = await quantizeFile({
        ...types,
        dryRun,
        ...importance,
        model,
        inputs: filesRead(values, input),
        output,
        ftype,
        quantizeRows: pool.quantizeRows,
        // One more job than threads keeps all threads busy while one job reads or writes.
        nthreads: nthreads + 1,
        signal,
        onProgress: ({ doneBytes, totalBytes }) => bar.set(doneBytes / totalBytes),
      });
      bar.end();
      const seconds = (performance.now() - start) / 1000;
      tell(
        json
          ? `${JSON.stringify({ input, output, ftype: ftype.name, ...toJson(summary), threads: nthreads, seconds })}\n`
          : forTerminal(report(dryRun ? `${input} would be` : `quantized ${input} to ${output}`, ftype.name, summary, seconds)),
      );
      return 0;
    } finally {
      bar.end();
      await pool.dispose();
      await model.close();
    }
  },
};

const toJson = (s: QuantizeSummary) => ({
  tensors: s.tensors,
  types: s.types,
  source_bytes: s.sourceBytes,
  target_bytes: s.targetBytes,
  source_bpw: s.sourceBitsPerWeight,
  target_bpw: s.targetBitsPerWeight,
  fallbacks: s.fallbacks.map(({ info, type, insteadOf }) => ({ tensor: info.name, type: type.name, instead_of: insteadOf?.name })),
});

const mib = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(2)} MiB`;

/** One line for all tensors with the same fallback. */
function fallbackLines({ fallbacks }: QuantizeSummary): string[] {
  const names = new Map<string, string[]>();
  for (const { info, type, insteadOf } of fallbacks) {
    const why = `${type.name} instead of ${insteadOf?.name}, whose blocks of ${insteadOf?.blckSize} do not divide rows of ${info.ne[0]}`;
    names.set(why, [...(names.get(why) ?? []), info.name]);
  }
  return [...names].map(([why, of]) => `  ${of.length > 2 ? `${of[0]} and ${of.length - 1} more` : of.join(', ')}: ${why}`);
}

const report = (done: string, ftype: string, s: QuantizeSummary, seconds: number): string =>
  [
    `${done} as ${ftype}`,
    ...fallbackLines(s),
    `model size = ${mib(s.sourceBytes)} (${s.sourceBitsPerWeight.toFixed(2)} BPW)`,
    `quant size = ${mib(s.targetBytes)} (${s.targetBitsPerWeight.toFixed(2)} BPW): ${s.tensors} tensors, ${Object.entries(s.types)
      .map(([type, n]) => `${n} ${type}`)
      .join(', ')}`,
    `quantize time = ${seconds.toFixed(2)} s`,
  ].join('\n') + '\n';
