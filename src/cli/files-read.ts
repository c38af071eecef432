/** Lists the files that a command reads, so that no output overwrites one of them. */
import { splitNames } from '../gguf/split.ts';
import type { Flag } from './flags/flag.ts';
import { FLAGS, type FlagKey, type Values } from './flags.ts';

/**
 * Flags excluded from this list: they name outputs, a file that may also be the output (--in-file),
 * or a file in a hub repository.
 */
const NOT_READ: ReadonlySet<string> = new Set<FlagKey>([
  'imatrixFile',
  'sparseFile',
  'checkpoint',
  'klBase',
  'batchOutput',
  'errorsFile',
  'promptCache',
  'inFile',
  'hfFile',
]);

function namedBy(key: FlagKey, value: unknown): string[] {
  const { value: form = '' }: Flag = FLAGS[key];
  if (value === undefined || NOT_READ.has(key) || !form.startsWith('FILE')) return [];
  const given = [value].flat() as string[];
  const listed = form.endsWith(',...') ? given.flatMap((list) => list.split(',')) : given;
  return form.startsWith('FILE:SCALE') ? listed.map((item) => item.replace(/:[^:]*$/, '')) : listed;
}

/**
 * The files that flags name for reading. A split file is given as all its parts.
 * @param others further files that the command reads
 */
export const filesRead = (values: Values<FlagKey>, ...others: readonly string[]): string[] =>
  [...(Object.keys(values) as FlagKey[]).flatMap((key) => namedBy(key, values[key])), ...others].flatMap(
    (path) => splitNames(path) ?? [path],
  );
