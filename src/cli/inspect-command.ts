import { QuantletError } from '../errors.ts';
import { openHeader, type Command } from './command.ts';
import { parseFlags } from './flags.ts';
import { inspect, inspectToJson } from './inspect.ts';

const KEYS = ['model', 'json', 'help'] as const;

export const inspectCommand: Command = {
  name: 'inspect',
  synopsis: 'FILE [--json]',
  summary: 'list the metadata and tensors of a GGUF file',
  flags: KEYS,
  examples: ['quantlet inspect model.gguf', 'quantlet inspect model.gguf --json | jq .types'],
  async run(argv) {
    const { values, positionals } = parseFlags(argv, KEYS);
    const [file = values.model, ...more] = positionals;
    if (file === undefined || more.length > 0) throw new QuantletError('ERR_USAGE', `inspect takes one file, ${positionals.length} were given`);
    const gguf = await openHeader(file);
    process.stdout.write(values.json ? `${JSON.stringify(inspectToJson(gguf))}\n` : `${inspect(gguf).join('\n')}\n`);
    return 0;
  },
};
