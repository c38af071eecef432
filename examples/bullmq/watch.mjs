// Usage: node watch.mjs. Prints finished and remaining jobs until none remain.
import { QueueEvents } from 'bullmq';
import { connect, openQueue, QUEUE } from './queue.mjs';

const connection = connect();
const queue = openQueue(connection);
const events = new QueueEvents(QUEUE, { connection: connect() });
let [tokens, done] = [0, 0];
events.on('progress', ({ data }) => (tokens += data.tokens));
events.on('completed', () => done++);
events.on('stalled', ({ jobId }) => console.error(`${jobId}: its worker is lost, another takes it`));
for (let began = Date.now(); ; began = Date.now()) {
  [tokens, done] = [0, 0];
  await new Promise((resolve) => setTimeout(resolve, 2000));
  const { completed, failed, ...open } = await queue.getJobCounts();
  const left = Object.values(open).reduce((sum, n) => sum + n, 0);
  const [rate, speed] = [done, tokens].map((n) => (1000 * n) / (Date.now() - began));
  const time = rate > 0 ? `, ${Math.ceil(left / rate)} s left` : '';
  console.log(`${completed} done, ${failed} failed, ${left} left; ${rate.toFixed(1)} jobs/s, ${speed.toFixed(0)} tokens/s${time}`);
  if (left === 0) break;
}
const { data } = await queue.getMetrics('completed', 0, 9); // recorded by the workers
console.log(`jobs of the last minutes: ${data.join(', ')}`);
process.exit(0);
