/**
 * quantlet inspect: prints the header of a GGUF file, and says if it runs and how its experts are
 * used.
 */
import { canRun } from '../plan/can-run.ts';
import { platform } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { withMetadata } from '../gguf/metadata.ts';
import { isaOf, isThreaded, pickBuild } from '../wasm/load.ts';
import { FILE_FLAGS, located, openHeader, weightsMemoryOf, type Command } from './command.ts';
import { expertLines, expertUse } from './experts.ts';
import { parseFlags } from './parse-flags.ts';
import { loadValues } from './flags.ts';
import { inspect, inspectToJson, memoryLines } from './inspect.ts';
import { overridesOf } from './metadata.ts';

const KEYS = [
  ...FILE_FLAGS,
  'overrideKv',
  'experts',
  'file',
  'prompt',
  'ctx',
  'chunks',
  'memory',
  'cacheTypeK',
  'cacheTypeV',
  'iqWeights',
  'weightsMemory',
  'neuronWindow',
  'ctxCheckpoints',
  'batch',
  'parallel',
  'threads',
  'json',
  'help',
] as const;

export const inspectCommand: Command = {
  name: 'inspect',
  synopsis: '[FILE|URL] [--json] [--memory -c N] [--experts -f TEXT]',
  summary: 'list the metadata and tensors of a GGUF file, its memory and if it runs, or the use of its experts',
  flags: KEYS,
  defaults: { ctx: '0, or 512 with --experts' },
  examples: [
    'quantlet inspect model.gguf',
    'quantlet inspect model.gguf --json | jq .types',
    'quantlet inspect --memory -c 32768 -ctk q8_0 -ctv q8_0 model.gguf',
    'quantlet inspect --experts -m mixture.gguf -f text.txt',
  ],
  async run(argv, signal) {
    const { values, positionals } = parseFlags(argv, KEYS);
    const [model = values.model, ...more] = positionals;
    if (more.length > 0) throw new QuantletError('ERR_USAGE', `inspect takes one file, not ${positionals.length}`);
    if (values.experts) {
      const use = await expertUse({ ...values, ...(model === undefined ? {} : { model }) }, signal);
      process.stdout.write(values.json ? `${JSON.stringify(use)}\n` : `${expertLines(use).join('\n')}\n`);
      return 0;
    }
    const header = await openHeader((await located({ ...values, ...(model === undefined ? {} : { model }) }, signal)).model);
    const gguf = withMetadata(header, overridesOf(values.overrideKv));
    const build = pickBuild(platform.features(), values.memory ? platform.forcedBuild() : 'simd');
    const isa = isaOf(build);
    if (values.memory) {
      const threads = isThreaded(build) ? (values.threads ?? platform.defaultThreads()) : 1;
      const parallel = values.parallel === undefined ? {} : { parallel: values.parallel };
      const options = { ...loadValues({ ...values, threads }), ...weightsMemoryOf(values), ...parallel };
      const verdict = canRun(gguf, { isa, threads, free: Infinity }, options);
      process.stdout.write(`${values.json ? JSON.stringify(verdict) : memoryLines(verdict).join('\n')}\n`);
      return verdict.runs ? 0 : 1;
    }
    const verdict = canRun(gguf, { isa, threads: 1, free: Infinity });
    const shown = values.json ? JSON.stringify({ ...inspectToJson(header), verdict }) : inspect(header, verdict).join('\n');
    process.stdout.write(`${shown}\n`);
    return 0;
  },
};
