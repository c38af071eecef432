/** Flags for what commands print. */
import { flag, toggle, type Flag } from './flag.ts';

export const OUTPUT_ROWS = {
  displayPrompt: toggle('display-prompt', '', '--no-display-prompt', 'repeat the prompt in the output (on)'),
  special: flag('special', '-sp', 'boolean', '', 'show control tokens in the output'),
  showTimings: toggle('show-timings', '', '--no-show-timings', 'print speeds on stderr after each answer (off)'),
  color: flag('color', '-co', 'string', '[on|off|auto]', "dim the model's reasoning; auto: on a terminal, unless NO_COLOR is set (auto)", [
    'on',
    'off',
    'auto',
  ]),
  ids: flag('ids', '', 'boolean', '', 'print the ids only: [1, 2, 3]'),
  showCount: flag('show-count', '', 'boolean', '', 'print the number of tokens'),
  json: flag('json', '', 'boolean', '', 'print one JSON object'),
  verbose: flag('verbose', '-v --log-verbose', 'boolean', '', 'print on stderr if turbo is on, and which flags have no effect'),
  quiet: flag('log-disable', '', 'boolean', '', 'print no summary and no hints on stderr'),
  perf: toggle('perf', '', '--no-perf', 'print a summary with speeds on stderr (on)'),
  help: flag('help', '-h --usage', 'boolean', '', 'show this help'),
} as const satisfies { readonly [key: string]: Flag };
