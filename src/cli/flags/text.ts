/** Flags for prompts and other texts: where they come from, and how they become tokens. */
import { flag, toggle, type Flag } from './flag.ts';

export const TEXT_ROWS = {
  prompt: flag('prompt', '-p', 'string', 'TEXT', 'text to continue; empty: the model begins by itself'),
  message: flag('prompt', '-p', 'string', 'TEXT', 'message to answer; default: ask for messages'),
  text: flag('prompt', '-p', 'string', 'TEXT', 'the text'),
  file: flag('file', '-f', 'string', 'FILE', 'read the text from a file; -: standard input'),
  stdin: flag('stdin', '', 'boolean', '', 'read the text from standard input'),
  escape: toggle('escape', '-e', '--no-escape', 'replace \\n, \\t, \\x41 ... in the prompt (on)'),
  noBos: flag('no-bos', '', 'boolean', '', 'without the beginning-of-text token'),
  noParseSpecial: flag('no-parse-special', '', 'boolean', '', 'read <|im_start|> and the like as plain text'),
  contextShift: toggle('context-shift', '', '--no-context-shift', 'if the context is full, drop the older half and continue (off)'),
  keep: flag('keep', '', 'integer', 'N', 'prompt tokens that --context-shift keeps; -1: all (0)'),
  promptCache: flag('prompt-cache', '', 'string', 'FILE', 'start from the state of the prompt in this file, and save it there at the end'),
  promptCacheAll: flag('prompt-cache-all', '', 'boolean', '', 'save the generated text too, not only the prompt'),
  promptCacheRo: flag('prompt-cache-ro', '', 'boolean', '', 'read the file, do not write it'),
} as const satisfies { readonly [key: string]: Flag };
