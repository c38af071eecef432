/** quantlet inspect: the header of a GGUF file, and whether it runs. */
import { canRun } from '../engine/can-run.ts';
import { platform } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { kernelFacts, pickBuild } from '../wasm/load.ts';
import { FILE_FLAGS, located, openHeader, type Command } from './command.ts';
import { parseFlags } from './parse-flags.ts';
import { inspect, inspectToJson } from './inspect.ts';

const KEYS = [...FILE_FLAGS, 'json', 'help'] as const;

export const inspectCommand: Command = {
  name: 'inspect',
  synopsis: '[FILE|URL] [--json]',
  summary: 'list the metadata and tensors of a GGUF file, and say whether it runs',
  flags: KEYS,
  examples: ['quantlet inspect model.gguf', 'quantlet inspect model.gguf --json | jq .types'],
  async run(argv, signal) {
    const { values, positionals } = parseFlags(argv, KEYS);
    const [model = values.model, ...more] = positionals;
    if (more.length > 0) throw new QuantletError('ERR_USAGE', `inspect takes one file, not ${positionals.length}`);
    const gguf = await openHeader((await located({ ...values, ...(model === undefined ? {} : { model }) }, signal)).model);
    const verdict = canRun(gguf, kernelFacts(await platform.module(pickBuild(platform.features(), 'simd')), false));
    const shown = values.json ? JSON.stringify({ ...inspectToJson(gguf), verdict }) : inspect(gguf, verdict).join('\n');
    process.stdout.write(`${shown}\n`);
    return 0;
  },
};
