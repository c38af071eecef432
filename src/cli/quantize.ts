/** quantlet quantize: the command line of llama-quantize. */
import { QuantletError } from '../errors.ts';
import { COPY, FTYPES, parseTensorType } from '../quantize/ftype.ts';
import { parseTensorTypeRule, quantize as quantizeFile, type QuantizeResult } from '../tools/quantize.ts';
import { forTerminal, readText, type Command } from './command.ts';
import { filesRead } from './files-read.ts';
import { writtenOverrides } from './metadata.ts';
import { asUsage, checkOutput, tell } from './output.ts';
import { parseFlags } from './parse-flags.ts';
import { phaseBars } from './progress.ts';
import { parseQuantizeArgs } from './quantize-args.ts';

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
    const { input, output, ftype, nthreads } = parseQuantizeArgs(positionals);
    const { tensorType = [], tensorTypeFile, outputTensorType, tokenEmbeddingType, includeWeights, excludeWeights } = values;
    const { imatrix, json, dryRun = false, pure, allowRequantize, leaveOutputTensor, overrideKv } = values;
    if (includeWeights && excludeWeights)
      throw new QuantletError('ERR_USAGE', '--include-weights and --exclude-weights exclude each other; give one');
    const listed = tensorTypeFile === undefined ? [] : (await readText(tensorTypeFile, 'the tensor types')).split(/\s+/).filter(Boolean);
    const rules = [...tensorType, ...listed];
    checkTypes(rules, [outputTensorType, tokenEmbeddingType]);
    if (!dryRun) await checkOutput(output, filesRead(values, input));
    const bars = phaseBars();
    const start = performance.now();
    try {
      const result = await quantizeFile(input, output, {
        type: ftype.name,
        ...{ imatrix, includeWeights, excludeWeights, pure, allowRequantize, leaveOutputTensor, dryRun, signal },
        ...{ outputTensorType, tokenEmbeddingType, tensorType: rules },
        overrideKv: overrideKv && writtenOverrides(overrideKv),
        threads: nthreads,
        onProgress: bars.set,
      });
      bars.end();
      const seconds = (performance.now() - start) / 1000;
      tell(
        json
          ? `${JSON.stringify({ input, output, ftype: ftype.name, ...toJson(result), threads: result.threads, seconds })}\n`
          : forTerminal(report(dryRun ? `${input} would be` : `quantized ${input} to ${output}`, result, seconds)),
      );
      return 0;
    } finally {
      bars.end();
    }
  },
};

/** @throws ERR_USAGE for an invalid rule or type */
function checkTypes(rules: readonly string[], types: readonly (string | undefined)[]): void {
  try {
    rules.forEach(parseTensorTypeRule);
    for (const type of types) if (type !== undefined) parseTensorType(type);
  } catch (error) {
    asUsage(error);
  }
}

const toJson = (r: QuantizeResult) => ({
  tensors: r.tensors,
  types: r.types,
  source_bytes: r.sourceBytes,
  target_bytes: r.targetBytes,
  source_bpw: r.sourceBitsPerWeight,
  target_bpw: r.targetBitsPerWeight,
  fallbacks: r.fallbacks.map(({ tensor, type, insteadOf }) => ({ tensor, type, instead_of: insteadOf })),
});

const mib = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(2)} MiB`;

/** One line for all tensors with the same fallback. */
function fallbackLines({ fallbacks }: QuantizeResult): string[] {
  const names = new Map<string, string[]>();
  for (const { tensor, type, insteadOf, blockSize, rowLength } of fallbacks) {
    const why = `${type} instead of ${insteadOf}, whose blocks of ${blockSize} do not divide rows of ${rowLength}`;
    names.set(why, [...(names.get(why) ?? []), tensor]);
  }
  return [...names].map(([why, of]) => `  ${of.length > 2 ? `${of[0]} and ${of.length - 1} more` : of.join(', ')}: ${why}`);
}

const report = (done: string, s: QuantizeResult, seconds: number): string =>
  [
    `${done} as ${s.type}`,
    ...fallbackLines(s),
    `model size = ${mib(s.sourceBytes)} (${s.sourceBitsPerWeight.toFixed(2)} BPW)`,
    `quant size = ${mib(s.targetBytes)} (${s.targetBitsPerWeight.toFixed(2)} BPW): ${s.tensors} tensors, ${Object.entries(s.types)
      .map(([type, n]) => `${n} ${type}`)
      .join(', ')}`,
    `quantize time = ${seconds.toFixed(2)} s`,
  ].join('\n') + '\n';
