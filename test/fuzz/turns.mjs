// Preloaded (node --import) into a server under attack. Measures the longest turn of its event loop
// in processor time, which hardly depends on how busy the machine is, and the most memory it had.
// Both are written as JSON to the file that QUANTLET_TURNS names when one of them grows. If that
// file is deleted, measuring starts from zero.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';

const file = process.env.QUANTLET_TURNS;
/**
 * Milliseconds of processor time of this thread: from Node if it is new enough, else from Linux.
 */
function cpuMs() {
  if (!process.threadCpuUsage) return Number(readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[0]) / 1e6;
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

let before = cpuMs();
let told;
// A timer cannot fire within a turn, so the processor time between two of its calls is at least
// that of the longest turn between them.
setInterval(() => {
  if (!existsSync(file)) told = { turnMs: 0, rssMiB: 0 };
  const turnMs = cpuMs() - before;
  const rssMiB = process.memoryUsage.rss() / 2 ** 20;
  if (turnMs > told.turnMs + 0.1 || rssMiB > told.rssMiB + 1) {
    told = { turnMs: Math.max(turnMs, told.turnMs), rssMiB: Math.max(rssMiB, told.rssMiB) };
    writeFileSync(file, JSON.stringify(told));
  }
  before = cpuMs();
}, 1).unref();
