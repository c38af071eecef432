/** Files that a command reads: an output that is one of them would destroy it. */
import { splitNames } from '../gguf/split.ts';
import { FLAGS, type Flag, type FlagKey, type Values } from './flags.ts';

/** Flags of files that are written, that may be written back to (--in-file), or that lie in a repository. */
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
 * Files that flags name for reading, all parts of split ones.
 * @param others files that no flag names
 */
export const filesRead = (values: Values<FlagKey>, ...others: readonly string[]): string[] =>
  [...(Object.keys(values) as FlagKey[]).flatMap((key) => namedBy(key, values[key])), ...others].flatMap(
    (path) => splitNames(path) ?? [path],
  );
