// Usage: node rate.mjs [JOBS]. Measures the jobs per second, of 1 KB each, that this Redis accepts
// and delivers, with workers that compute nothing.
import { Queue, Worker } from 'bullmq';
import { connect } from './queue.mjs';

const jobs = Number(process.argv[2] ?? 20_000);
const NAME = 'quantlet-rate';
const queue = new Queue(NAME, { connection: connect() });
const text = 'x'.repeat(1000);
const rate = (ms) => `${Math.round((1000 * jobs) / ms)} jobs/s`;

let began = performance.now();
for (let i = 0; i < jobs; i += 1000)
  await queue.addBulk(Array.from({ length: Math.min(1000, jobs - i) }, () => ({ name: 'line', data: { text }, opts: { attempts: 5 } })));
const added = performance.now() - began;

began = performance.now();
let done = 0;
await new Promise((resolve) => {
  const work = async () => {
    if (++done === jobs) resolve();
    return { text };
  };
  new Worker(NAME, work, { connection: connect(), concurrency: 32 });
});
console.log(JSON.stringify({ jobs, added: rate(added), answered: rate(performance.now() - began) }));
await queue.obliterate({ force: true });
process.exit(0);
