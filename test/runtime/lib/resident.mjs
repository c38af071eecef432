// Memory of a program and its child processes, from Linux's /proc.
import { readdirSync, readFileSync } from 'node:fs';

/** Resident bytes of a process with this text in its command line, and of its descendants. */
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
      // The process has ended meanwhile.
    }
  }
  const below = (pid) => all.has(pid) && (all.get(pid).named || below(all.get(pid).parent));
  return [...all].reduce((sum, [pid, { bytes }]) => sum + (below(pid) ? bytes : 0), 0);
}
