/**
 * The table of flags, with llama.cpp's spellings. Each file of flags/ has the rows of one group.
 * Parsing, help, shell completion and docs/flags.md are all made from the table.
 */
import type { LoadOptions } from '../model.ts';
import { CONVERSATION_ROWS } from './flags/conversation.ts';
import { CONVERT_ROWS } from './flags/convert.ts';
import type { Flag } from './flags/flag.ts';
import { IMAGE_ROWS } from './flags/images.ts';
import { LOAD_ROWS } from './flags/load.ts';
import { MEASURE_ROWS } from './flags/measure.ts';
import { METADATA_ROWS } from './flags/metadata.ts';
import { MODEL_ROWS } from './flags/model.ts';
import { OUTPUT_ROWS } from './flags/output.ts';
import { SAMPLING_ROWS } from './flags/sampling.ts';
import { SERVER_ROWS } from './flags/server.ts';
import { SPECULATION_ROWS } from './flags/speculation.ts';
import { TEXT_ROWS } from './flags/text.ts';
import { VECTOR_ROWS } from './flags/vectors.ts';

export const FLAGS = {
  ...MODEL_ROWS,
  ...IMAGE_ROWS,
  ...METADATA_ROWS,
  ...LOAD_ROWS,
  ...SPECULATION_ROWS,
  ...SAMPLING_ROWS,
  ...TEXT_ROWS,
  ...VECTOR_ROWS,
  ...CONVERSATION_ROWS,
  ...OUTPUT_ROWS,
  ...MEASURE_ROWS,
  ...CONVERT_ROWS,
  ...SERVER_ROWS,
} as const;

export type FlagKey = keyof typeof FLAGS;

/** Flags that set options of the sampler or of loadModel. */
type SamplingFlag = { [K in FlagKey]: (typeof FLAGS)[K] extends { readonly sampler: string } ? K : never }[FlagKey];
type LoadingFlag = { [K in FlagKey]: (typeof FLAGS)[K] extends { readonly load: string } ? K : never }[FlagKey];
export type LoadValues = Values<LoadingFlag>;
const keysWith = (field: 'sampler' | 'load'): FlagKey[] => (Object.keys(FLAGS) as FlagKey[]).filter((key) => field in FLAGS[key]);
export const SAMPLING_FLAGS = keysWith('sampler') as readonly SamplingFlag[];
const LOADING_FLAGS = keysWith('load') as readonly LoadingFlag[];

const given = (entries: readonly (readonly [string, unknown])[]): { [option: string]: unknown } =>
  Object.fromEntries(entries.filter(([, value]) => value !== undefined));
/** Values of the flags, by the names of the options that they set. */
export const samplerValues = (values: Values<SamplingFlag>): { [option: string]: unknown } =>
  given(SAMPLING_FLAGS.map((key) => [FLAGS[key].sampler, values[key]]));
export const loadValues = (values: LoadValues): LoadOptions => given(LOADING_FLAGS.map((key) => [FLAGS[key].load, values[key]]));

interface ValueTypes {
  string: string;
  strings: string[];
  number: number;
  integer: number;
  integers: number[];
  boolean: boolean;
}
/** Parsed values, by the keys of the table. */
export type Values<K extends FlagKey> = { [P in K]?: ValueTypes[(typeof FLAGS)[P]['type']] };

/** Flags that override metadata of the file. */
export const METADATA_FLAGS = Object.keys(METADATA_ROWS) as readonly (keyof typeof METADATA_ROWS)[];

/** Flags for generating text, common to all of llama.cpp's generating tools. */
export const TEXT_FLAGS = [
  'predict',
  ...SAMPLING_FLAGS,
  'samplers',
  'samplerSeq',
  'grammar',
  'grammarFile',
  'jsonSchema',
  'jsonSchemaFile',
  'ignoreEos',
] as const satisfies readonly FlagKey[];

/** Replaces option names in a library error by the flags that set them. */
export function flagNames(said: string): string {
  const message = said.replace(/^(loadModel|generate|chat): (?=\w+ is )/, ''); // the flag already says which function
  const named = (Object.values(FLAGS) as (Flag & { sampler?: string; load?: string; option?: string })[]).flatMap((f) => [
    [f.sampler ?? f.load ?? f.option ?? '', `--${f.name}`] as const,
  ]);
  return named
    .filter(([option]) => /^[a-z]+[A-Z]/.test(option) || message.startsWith(`${option} is `))
    .reduce((text, [option, flag]) => text.replaceAll(new RegExp(`(?<![\\w-])${option}\\b`, 'g'), flag), message);
}

/** The flag given last. If several flags mean the same, the last one wins. */
export const lastOf = <K extends FlagKey>(values: Values<K>, ...keys: readonly K[]): K | undefined =>
  Object.keys(values).findLast((key): key is K => (keys as readonly string[]).includes(key));
