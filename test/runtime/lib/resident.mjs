// What a program and those that it started have in memory, by Linux's /proc.
import { readdirSync, readFileSync } from 'node:fs';

/** Bytes that the processes below the one with this text in its command line have in memory. */
export function residentBelow(text) {
  const all = new Map();
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const status = readFileSync(`/proc/${pid}/status`, 'utf8');
      const field = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0);
      all.set(pid, {
        parent: String(field('PPid')),
        bytes: 1024 * field('VmRSS'),
        named: readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(text),
      });
    } catch {
      // It has ended since.
    }
  }
  const below = (pid) => all.has(pid) && (all.get(pid).named || below(all.get(pid).parent));
  return [...all].reduce((sum, [pid, { bytes }]) => sum + (below(pid) ? bytes : 0), 0);
}
