/** quantlet rotate: makes a copy of a model that computes the same with fewer outliers. */
import { resolve } from 'node:path';
import { bytesText } from '../bytes-text.ts';
import { ROTATIONS } from '../arch/rotation.ts';
import { QuantletError } from '../errors.ts';
import { pick } from '../options.ts';
import { rotate as rotateFile, ROTATE_OPTIONS, type RotateResult } from '../tools/rotate.ts';
import { checkKinds } from './check-kinds.ts';
import { forTerminal, readText, textLines, type Command } from './command.ts';
import { filesRead } from './files-read.ts';
import type { FlagKey, Values } from './flags.ts';
import { checkOutput, tell } from './output.ts';
import { parseFlags } from './parse-flags.ts';
import { phaseBars } from './progress.ts';

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
type Flags = Values<(typeof KEYS)[number]>;

/** @throws ERR_USAGE for values out of range, and flags that do not fit together */
function checkFlags(values: Flags, output: string): void {
  const usage = (message: string): never => {
    throw new QuantletError('ERR_USAGE', message);
  };
  checkKinds(values, { rotationSeed: ROTATE_OPTIONS.seed, ...pick(ROTATE_OPTIONS, 'learnSteps', 'learnRate') });
  const { learn, checkpoint } = values;
  const some = ROTATIONS.some((name) => values[name]);
  if (learn !== undefined && some && !(values.r1 && values.r2))
    usage('--learn finds R1 and R2; give both --r1 and --r2 with it, or no rotation');
  if (learn === undefined && (values.learnSteps ?? values.learnRate ?? checkpoint) !== undefined)
    usage('--learn-steps, --learn-rate and --checkpoint need --learn; give the text with --learn FILE');
  if (checkpoint !== undefined && resolve(checkpoint) === resolve(output))
    usage(`the output and the --checkpoint are both ${output}; expected two files`);
}

export const rotate: Command = {
  name: 'rotate',
  synopsis: '[flags] IN.gguf OUT.gguf',
  summary: 'make a copy of a model without outliers, which loses less when it is quantised',
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
    checkFlags(values, output);
    const { rotationSeed: seed, threads, json, learnSteps, learnRate, checkpoint } = values;
    for (const path of checkpoint === undefined ? [output] : [output, checkpoint]) await checkOutput(path, filesRead(values, input));
    const learn = values.learn === undefined ? undefined : textLines(await readText(values.learn, 'the text'));
    const { r1, r2, r3, r4 } = values;
    const bars = phaseBars();
    const start = performance.now();
    try {
      const result = await rotateFile(input, output, {
        ...{ r1, r2, r3, r4, seed, learn, learnSteps, learnRate, checkpoint, threads, signal },
        onProgress: bars.set,
      });
      bars.end();
      const seconds = (performance.now() - start) / 1000;
      const { sizes, seed: used, steps, loss, untiedBytes: untied_bytes, bytes, threads: computed } = result;
      const value = { input, output, ...sizes, seed: used, steps, loss, untied_bytes, bytes, threads: computed, seconds };
      tell(json ? `${JSON.stringify(value)}\n` : forTerminal(report(input, output, result, seconds)));
      return 0;
    } finally {
      bars.end();
    }
  },
};

function report(input: string, output: string, { sizes, steps, loss, untiedBytes, bytes }: RotateResult, seconds: number): string {
  const done = Object.entries(sizes).map(([name, n]) => `${name.toUpperCase()} of ${n}`);
  return [
    `rotated ${input} to ${output}: ${done.join(', ')}`,
    ...(loss === undefined
      ? []
      : [`learned in ${steps} steps: with matrices of Q4_0 ${loss.toFixed(4)} nats a token from the model as it is`]),
    ...(untiedBytes > 0
      ? [
          `the output has a matrix of its own now, ${bytesText(untiedBytes)}: embeddings without the last norm's weights cannot serve as one`,
        ]
      : []),
    `${bytesText(bytes)} in ${seconds.toFixed(2)} s\n`,
  ].join('\n');
}
