/**
 * quantlet tokenize: shows a text as token ids, like llama-tokenize. Works with vocabulary-only
 * models.
 */
import { printable } from '../printable.ts';
import { QuantletError } from '../errors.ts';
import { refuseOtherKinds } from '../plan/file-kind.ts';
import { createTokenizer, type Tokenizer } from '../tokenize/tokenizer.ts';
import { FILE_FLAGS, forTerminal, located, openHeader, readStdin, readText, tellUnreadPipe, unescape, type Command } from './command.ts';
import type { FlagKey } from './flags.ts';
import { parseOnlyFlags } from './parse-flags.ts';

const KEYS = [
  ...FILE_FLAGS,
  'text',
  'file',
  'stdin',
  'ids',
  'noBos',
  'noParseSpecial',
  'showCount',
  'escape',
  'verbose',
  'help',
] as const satisfies readonly FlagKey[];

export interface TokenizeOptions {
  /** Print `[1, 2, 3]` instead of a line per token. */
  ids?: boolean;
  /** Add no BOS and no other token that the model wants around a text. */
  noBos?: boolean;
  /** Treat `<|im_start|>` and other special tokens as plain text. */
  noParseSpecial?: boolean;
  showCount?: boolean;
}

/**
 * Output of the command. Bytes of an incomplete character show as U+FFFD. As in llama-tokenize, a
 * model without BOS gets no EOS either.
 */
export function tokenizeOutput(
  tokenizer: Tokenizer,
  text: string,
  { ids: asIds = false, noBos = false, noParseSpecial = false, showCount = false }: TokenizeOptions = {},
): string {
  const ids = tokenizer.encode(text, { addSpecial: tokenizer.addBos && !noBos, parseSpecial: !noParseSpecial });
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const lines = asIds
    ? [`[${ids.join(', ')}]`]
    : ids.map((id) => `${String(id).padStart(6)} -> '${decoder.decode(tokenizer.pieceBytes(id, true))}'`);
  if (showCount) lines.push(`Total number of tokens: ${ids.length}`);
  return lines.map((line) => `${line}\n`).join('');
}

export const tokenize: Command = {
  name: 'tokenize',
  llama: 'llama-tokenize',
  synopsis: '[-m FILE] -p TEXT [--ids] [flags]',
  summary: 'show the tokens of a text',
  flags: KEYS,
  examples: [
    'quantlet tokenize -m model.gguf -p "Hello world"',
    'quantlet tokenize -m model.gguf -f prompt.txt --ids',
    'cat prompt.txt | quantlet tokenize -m model.gguf --stdin --show-count',
  ],
  async run(argv, signal) {
    const values = parseOnlyFlags(argv, KEYS, 'give the text with -p and the model with -m', 'tokenize');
    const given = [values.text, values.file, values.stdin].filter((from) => from !== undefined).length;
    if (given !== 1)
      throw new QuantletError('ERR_USAGE', `${given === 0 ? 'none' : given} of -p, -f and --stdin were given; expected one, for the text`);
    if (!values.stdin) tellUnreadPipe(values);
    const gguf = await openHeader((await located(values, signal)).model);
    refuseOtherKinds(gguf);
    const tokenizer = createTokenizer(gguf.metadata);
    for (const warning of tokenizer.warnings) process.stderr.write(`quantlet: ${printable(warning)}\n`);
    const text = values.text ?? (values.file === undefined ? await readStdin() : await readText(values.file, 'the text'));
    // As in llama-tokenize, escapes are also replaced in files and standard input. A file's last
    // newline is part of the text.
    process.stdout.write(forTerminal(tokenizeOutput(tokenizer, values.escape === false ? text : unescape(text), values)));
    return 0;
  },
};
