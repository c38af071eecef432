/**
 * Waiting time of other clients of `quantlet serve` while it answers each request of
 * test/fuzz/hostile-requests.ts, on an otherwise idle machine.
 *
 * Usage:
 *
 *   node --import tsx bench/hostile.ts [--tries 5] [--build simd] [--threads 1]
 *
 * Another thread asks for /health every few milliseconds. The table also has the longest turn of
 * the server's event loop in processor time, and its memory. Other work on the machine can only
 * increase a wait, so a request is repeated while its longest wait is above the limit. Exit code 1
 * if one stays above it.
 */
import { hostileRequests } from '../test/fuzz/hostile-requests.ts';
import { LATE_MS, hostileServer, loadOf, measuring, send, startProbe, wrong } from '../test/fuzz/requests.ts';
import type { Build } from '../src/wasm/load.ts';
import { describeMachine, flags, machine, show, table, warnIfBusy } from './support.ts';

const options = flags('how long others wait beside hostile requests', { tries: '5', build: 'simd', threads: '1' });
const tries = Number(options.tries);
const here = machine();
warnIfBusy(here);
const { file, env } = measuring();
const server = await hostileServer(Number(options.threads), options.build as Build, env);
const probe = startProbe(server.url);
await probe.longest();
await loadOf(file);

const rows: { name: string; health: number; turn: number; rss: number; tried: number }[] = [];
const faults: string[] = [];
for (const hostile of hostileRequests) {
  const row = { name: hostile.name, health: Infinity, turn: Infinity, rss: 0, tried: 0 };
  while (row.tried < tries && (row.health > LATE_MS || row.turn > LATE_MS)) {
    const fault = wrong(hostile, await send(server.url, hostile));
    if (fault !== undefined) faults.push(`${hostile.name}: ${fault}`);
    row.health = Math.min(row.health, await probe.longest());
    const { turnMs, rssMiB } = await loadOf(file);
    row.turn = Math.min(row.turn, turnMs);
    row.rss = Math.max(row.rss, rssMiB);
    row.tried++;
  }
  rows.push(row);
}
await probe.stop();
server.kill('SIGTERM');
await server.exit;

const late = rows.filter(({ health }) => health > LATE_MS);
const shown = [...new Set([...late, ...rows.toSorted((a, b) => b.health - a.health).slice(0, 10)])];
console.log(`${describeMachine(here)}\n`);
console.log(
  table(
    ['request', 'longest /health, ms', 'longest turn, ms', 'memory, MiB', 'tries'],
    shown.map(({ name, health, turn, rss, tried }) => [name, show(health), show(turn), rss.toFixed(0), String(tried)]),
  ),
);
const most = (of: 'health' | 'turn' | 'rss'): string => show(Math.max(...rows.map((row) => row[of])));
console.log(
  `\n${rows.length} requests: /health within ${most('health')} ms, turns of ${most('turn')} ms of processor time, ${most('rss')} MiB at most; ${late.length} kept others waiting for more than ${LATE_MS} ms, ${faults.length} wrong answers`,
);
for (const fault of faults) console.log(fault);
process.exit(late.length + faults.length > 0 ? 1 : 0);
