/** Free memory, from Linux's files. */
import { groupFolders, type TextOf } from '../threads/cgroup.ts';

/**
 * Memory that Linux gives without ending a process: memory that is free or can be reclaimed, plus
 * swap, within the limits of its control groups (v2 or v1). Undefined on other systems, whose
 * figures leave out memory that they would give.
 * @param text returns a file's text; throws if the file does not exist
 */
export function freeMemory(text: TextOf): number | undefined {
  const read = (path: string, find: RegExp): number => {
    try {
      return Number(find.exec(text(path))?.[1] ?? NaN);
    } catch {
      return NaN;
    }
  };
  const kib = (name: string): number => 1024 * read('/proc/meminfo', new RegExp(`^${name}:\\s+(\\d+) kB`, 'm'));
  const group = (limit: string, used: string, cached: RegExp, stat: string): number =>
    read(limit, /^(\d+)$/m) - (read(used, /^(\d+)$/m) - read(stat, cached));
  const { v1, v2 } = groupFolders(text, 'memory');
  const all = [
    kib('MemAvailable') + kib('SwapFree'),
    ...v2.map((at) => group(`${at}/memory.max`, `${at}/memory.current`, /^file (\d+)$/m, `${at}/memory.stat`)),
    ...v1.map((at) => group(`${at}/memory.limit_in_bytes`, `${at}/memory.usage_in_bytes`, /^total_cache (\d+)$/m, `${at}/memory.stat`)),
  ];
  const least = Math.min(...all.filter((n) => !Number.isNaN(n)));
  return Number.isFinite(least) ? least : undefined;
}
