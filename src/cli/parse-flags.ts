/**
 * Parses command lines by the table of flags. node:util's parseArgs is not used, because it refuses
 * `-n -1` and `-p "-5 + 3"`, and reads `-np 4` as `-n p 4`.
 */
import { QuantletError } from '../errors.ts';
import { nearest } from '../nearest.ts';
import { spellingsOf, type Flag } from './flags/flag.ts';
import { FLAGS, METADATA_FLAGS, TEXT_FLAGS, type FlagKey, type Values } from './flags.ts';
import { LLAMA_FLAGS, SWITCH_WORDS, type LlamaFlag } from './llama-flags.ts';

const usage = (message: string): QuantletError => new QuantletError('ERR_USAGE', message);

/**
 * Flags that llama.cpp accepts in all tools that use common/arg.cpp, even in those without a use
 * for them.
 */
const COMMON_FLAGS: readonly FlagKey[] = [
  ...TEXT_FLAGS,
  'threads',
  'threadsBatch',
  'ctx',
  'batch',
  'parallel',
  'cacheTypeK',
  'cacheTypeV',
  'draftCacheTypeK',
  'draftCacheTypeV',
  'lora',
  'loraScaled',
  ...METADATA_FLAGS,
  'escape',
  'warmup',
  'contextShift',
  'keep',
  'quiet',
  'perf',
  'verbose',
];
const COMMON_COMMANDS = ['run', 'chat', 'serve', 'embed', 'perplexity', 'imatrix', 'tokenize'];

/**
 * Finds a llama.cpp flag that has no effect in a command; undefined if the command has no such
 * flag.
 */
export function llamaFlag(spelling: string, command: string): LlamaFlag | undefined {
  const found = LLAMA_FLAGS.filter((f) => f.spellings.includes(spelling) && (f.commands?.includes(command) ?? true));
  if (found.length > 0) return found.find((f) => f.commands) ?? found[0];
  if (!COMMON_COMMANDS.includes(command)) return undefined;
  const key = COMMON_FLAGS.find((k) => spellingsOf(FLAGS[k]).includes(spelling));
  if (key === undefined) return undefined;
  const { value }: Flag = FLAGS[key];
  return {
    spellings: spellingsOf(FLAGS[key]),
    values: value === undefined ? [] : [value],
    way: 'ignored',
    why: `quantlet ${command} does not use it`,
  };
}

export interface Parsed<K extends FlagKey> {
  values: Values<K>;
  positionals: string[];
}

/**
 * Parses the arguments of a command into flags and positional arguments. If the command replaces a
 * tool of llama.cpp, flags of that tool without an effect here are skipped. With --verbose a note
 * on stderr names them.
 * @throws ERR_USAGE naming the flag and the expected value
 */
export function parseFlags<K extends FlagKey>(argv: readonly string[], keys: readonly K[], command?: string): Parsed<K> {
  const bySpelling = new Map(keys.flatMap((key) => spellingsOf(FLAGS[key]).map((spelling) => [spelling, key] as const)));
  const values: Record<string, unknown> = {};
  const positionals: string[] = [];
  const notes: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const arg = argv[i];
    if (arg === '--') {
      positionals.push(...argv.slice(i + 1));
      break;
    }
    if (!arg.startsWith('-') || arg === '-') {
      positionals.push(arg);
      continue;
    }
    const equals = arg.startsWith('--') ? arg.indexOf('=') : -1;
    const written = equals < 0 ? arg : arg.slice(0, equals);
    const spelling = written.startsWith('--') ? written.replaceAll('_', '-') : written; // as in llama.cpp
    /** The value after the flag; undefined if it is optional and missing. */
    const value = (name: string, help = ''): string | undefined => {
      if (equals >= 0) return arg.slice(equals + 1);
      if (name.startsWith('[') && !Object.hasOwn(SWITCH_WORDS, argv[i + 1] ?? '')) return undefined;
      if (i + 1 >= argv.length) throw usage(`${spelling} needs a value: ${name}${help && `, ${help}`}`);
      return argv[++i];
    };
    const key = bySpelling.get(spelling);
    if (key === undefined) {
      const other = command === undefined ? undefined : llamaFlag(spelling, command);
      if (!other) throw usage(`unknown flag ${spelling}; ${alike(spelling, [...bySpelling.keys()])}--help lists those of this command`);
      if (other.way === 'refused') throw usage(`${spelling} is not supported here: ${other.why}`);
      for (const name of other.values) value(name);
      notes.push(`${spelling} has no effect here: ${other.why}`);
      continue;
    }
    const f: Flag = FLAGS[key];
    const before = values[key];
    delete values[key]; // keeps the keys in the order in which they were given
    if (f.type === 'boolean') {
      if (equals >= 0) throw usage(`${spelling} takes no value`);
      values[key] = !f.off?.includes(spelling);
      continue;
    }
    const given = value(f.value!, f.help) ?? 'on';
    if (given.trim() === '' && /^(FILE|DIR|USER)/.test(f.value!))
      throw usage(`${spelling} is empty; expected ${f.value!} (a variable of the shell may not be set)`);
    const text = f.value!.startsWith('[') ? (Object.hasOwn(SWITCH_WORDS, given) ? SWITCH_WORDS[given] : given) : given;
    if (f.type === 'strings') values[key] = [...((before as string[] | undefined) ?? []), text];
    else if (f.type === 'integers')
      values[key] = [...((before as number[] | undefined) ?? []), ...text.split(',').flatMap((n) => range(f, n))];
    else {
      const one = convert(f, text);
      if (!(f.cores && (one as number) < 0)) values[key] = one;
    }
  }
  if (values.verbose) for (const note of notes) process.stderr.write(`quantlet: ${note}\n`);
  return { values: values as Values<K>, positionals };
}

/**
 * Parses a command that takes only flags.
 * @param how tells the user where a positional argument belongs
 * @throws ERR_USAGE for positional arguments
 */
export function parseOnlyFlags<K extends FlagKey>(argv: readonly string[], keys: readonly K[], how: string, command?: string): Values<K> {
  const { values, positionals } = parseFlags(argv, keys, command);
  if (positionals.length > 0) throw usage(`"${positionals[0]}" is not a flag; ${how}`);
  return values;
}

/** `did you mean X? ` for a misspelled or incomplete long flag. */
function alike(spelling: string, known: readonly string[]): string {
  if (spelling.length < 5) return '';
  const [best] = nearest(
    spelling,
    known.filter((k) => k.length >= 5),
    spelling.length < 8 ? 1 : 2,
  );
  return best ? `did you mean ${best}? ` : '';
}

/** Parses `5`, or a range in llama-bench's notation: `4-16`, `4-16+4`, `4-16*2`. */
function range(f: Flag, text: string): number[] {
  const [, first, last, sign, by] = /^(\d+)-(\d+)(?:([+*])(\d+))?$/.exec(text) ?? [];
  if (first === undefined) return [convert(f, text) as number];
  const [from, to, step] = [first, last, by ?? '1'].map(Number);
  const next = (n: number): number => (sign === '*' ? n * step : n + step);
  if (to < from || next(from) <= from || (to - from) / (sign === '*' ? 1 : step) > MOST_OF_A_RANGE)
    throw usage(`--${f.name} is "${text}"; expected a rising range, like 4-16, 4-16+4 or 4-16*2, of ${MOST_OF_A_RANGE} numbers at most`);
  const all: number[] = [];
  for (let n = from; n <= to; n = next(n)) all.push(n);
  return all;
}
const MOST_OF_A_RANGE = 10_000;

function convert(f: Flag, value: string): string | number {
  if (f.type === 'string') return value;
  const n = value.trim() === '' ? NaN : Number(value);
  if (Number.isNaN(n) || (f.type !== 'number' && !Number.isInteger(n)))
    throw usage(`--${f.name} is "${value}"; expected ${f.type === 'number' ? 'a number' : 'a whole number'}`);
  return n;
}
