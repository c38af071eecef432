// node producer.mjs IN.jsonl: a job for each of OpenAI's batch lines. The same lines again double nothing.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { connect, openQueue } from './queue.mjs';

const [input] = process.argv.slice(2);
if (!input) {
  console.error('usage: node producer.mjs IN.jsonl');
  process.exit(2);
}

/** Lines end at a line feed and nowhere else: node:readline would end them at U+2028 too. */
async function* linesOf(path) {
  let rest = '';
  for await (const text of createReadStream(path, 'utf8')) {
    const lines = (rest + text).split('\n');
    rest = lines.pop();
    yield* lines;
  }
  yield rest;
}

/** A custom_id is any text, and a job's id is not (no colon, no number). */
const jobId = (customId) => createHash('sha256').update(customId).digest('hex').replace(/^/, 'line-');

const connection = connect();
const queue = openQueue(connection);
let [number, jobs, bad] = [0, [], 0];
const flush = async () => {
  await queue.addBulk(jobs);
  jobs = [];
};
const ids = new Set();
for await (const text of linesOf(input)) {
  number++;
  if (text.trim() === '') continue;
  let line;
  try {
    line = JSON.parse(text);
  } catch {
    // Told below.
  }
  const known = typeof line?.custom_id === 'string' && ids.has(line.custom_id);
  if (known || typeof line?.custom_id !== 'string' || typeof line.url !== 'string' || typeof line.body !== 'object') {
    bad++;
    console.error(`${input}:${number}: expected {"custom_id", "method", "url", "body"}${known ? ' with a custom_id of its own' : ''}`);
    continue;
  }
  ids.add(line.custom_id);
  const { custom_id, url, body } = line;
  jobs.push({
    name: 'line',
    data: { line: number, custom_id, url, body },
    // A failure of the worker (not a refusal, which is an answer) is tried again; what is done stays, so that it is not done twice.
    opts: { jobId: jobId(custom_id), attempts: 5, backoff: { type: 'exponential', delay: 1000 } },
  });
  if (jobs.length === 1000) await flush();
}
await flush();
console.log(JSON.stringify({ lines: ids.size, bad, jobs: await queue.getJobCounts() }));
await queue.close();
connection.disconnect();
