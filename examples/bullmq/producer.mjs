// Usage: node producer.mjs IN.jsonl. Adds a job for each line of an OpenAI batch file. Adding the
// same lines again has no effect.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { connect, openQueue } from './queue.mjs';

const [input] = process.argv.slice(2);
if (!input) {
  console.error('usage: node producer.mjs IN.jsonl');
  process.exit(2);
}

/** Splits at line feeds only; node:readline would also split at U+2028. */
async function* linesOf(path) {
  let rest = '';
  for await (const text of createReadStream(path, 'utf8')) {
    const lines = (rest + text).split('\n');
    rest = lines.pop();
    yield* lines;
  }
  yield rest;
}

/**
 * Id of a job. A custom_id may be any text, but a job's id must not have a colon or be a number.
 */
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
    // reported below
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
    // If the worker fails, the job is tried again. (A refusal is an answer, not a failure.)
    // Finished jobs are kept, so that they are not done again.
    opts: { jobId: jobId(custom_id), attempts: 5, backoff: { type: 'exponential', delay: 1000 } },
  });
  if (jobs.length === 1000) await flush();
}
await flush();
console.log(JSON.stringify({ lines: ids.size, bad, jobs: await queue.getJobCounts() }));
await queue.close();
connection.disconnect();
