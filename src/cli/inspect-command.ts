/** quantlet inspect: the header of a GGUF file, whether it runs, and how its experts are used. */
import { canRun } from '../engine/can-run.ts';
import { platform } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { kernelFacts, pickBuild } from '../wasm/load.ts';
import { FILE_FLAGS, located, openHeader, type Command } from './command.ts';
import { expertLines, expertUse } from './experts.ts';
import { parseFlags } from './parse-flags.ts';
import { inspect, inspectToJson } from './inspect.ts';

const KEYS = [...FILE_FLAGS, 'experts', 'file', 'prompt', 'ctx', 'chunks', 'threads', 'json', 'help'] as const;

export const inspectCommand: Command = {
  name: 'inspect',
  synopsis: '[FILE|URL] [--json] [--experts -f TEXT]',
  summary: 'list the metadata and tensors of a GGUF file, say whether it runs, or how often its experts are used',
  flags: KEYS,
  examples: [
    'quantlet inspect model.gguf',
    'quantlet inspect model.gguf --json | jq .types',
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
    const gguf = await openHeader((await located({ ...values, ...(model === undefined ? {} : { model }) }, signal)).model);
    const verdict = canRun(gguf, kernelFacts(await platform.module(pickBuild(platform.features(), 'simd')), false));
    const shown = values.json ? JSON.stringify({ ...inspectToJson(gguf), verdict }) : inspect(gguf, verdict).join('\n');
    process.stdout.write(`${shown}\n`);
    return 0;
  },
};
