/** Free memory, from Linux's files. */

/**
 * Memory that Linux gives without ending a process: memory that is free or can be reclaimed, plus
 * swap, within the container's limit (cgroup v2 or v1). Undefined on other systems, whose figures
 * leave out memory that they would give.
 * @param text returns a file's text; throws if there is no such file
 */
export function freeMemory(text: (path: string) => string): number | undefined {
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
  const [v2, v1] = ['/sys/fs/cgroup/memory.', '/sys/fs/cgroup/memory/memory.'];
  const all = [
    kib('MemAvailable') + kib('SwapFree'),
    group(`${v2}max`, `${v2}current`, /^file (\d+)$/m, `${v2}stat`),
    group(`${v1}limit_in_bytes`, `${v1}usage_in_bytes`, /^total_cache (\d+)$/m, `${v1}stat`),
  ];
  const least = Math.min(...all.filter((n) => !Number.isNaN(n)));
  return Number.isFinite(least) ? least : undefined;
}
