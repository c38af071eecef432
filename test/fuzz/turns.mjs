// Preloaded (node --import) into a server under attack: the longest turn of its event loop in processor time, which says nearly the same on a busy machine
// as on an idle one, and the most memory it had. Both go to the file that QUANTLET_TURNS names, as JSON, when one of them grows; the file gone, they start anew.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';

const file = process.env.QUANTLET_TURNS;
/** Milliseconds of processor time of this thread: newer versions of Node say it, Linux does for all. */
function cpuMs() {
  if (!process.threadCpuUsage) return Number(readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[0]) / 1e6;
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

let before = cpuMs();
let told;
// A timer cannot fire within a turn: what was computed between two of its calls is at least the longest turn between them.
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
