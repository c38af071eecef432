// Usage: node collect.mjs OUT.jsonl. Writes the records of all finished jobs. Failed jobs become
// errors.
import { createWriteStream } from 'node:fs';
import { once } from 'node:events';
import { finished } from 'node:stream/promises';
import { connect, openQueue } from './queue.mjs';

const [output] = process.argv.slice(2);
if (!output) {
  console.error('usage: node collect.mjs OUT.jsonl');
  process.exit(2);
}
const PAGE = 1000;
const connection = connect();
const queue = openQueue(connection);
const out = createWriteStream(output);
let [answers, errors] = [0, 0];
for (const state of ['completed', 'failed'])
  for (let from = 0; ; from += PAGE) {
    const jobs = await queue.getJobs([state], from, from + PAGE - 1, true);
    for (const { id, data, returnvalue, failedReason } of jobs) {
      const record = returnvalue ?? {
        id,
        custom_id: data.custom_id,
        response: null,
        error: { code: 'failed', message: failedReason, line: data.line },
      };
      if (record.error) errors++;
      else answers++;
      if (!out.write(`${JSON.stringify(record)}\n`)) await once(out, 'drain');
    }
    if (jobs.length < PAGE) break;
  }
out.end();
await finished(out);
const { completed, failed, ...open } = await queue.getJobCounts();
console.log(JSON.stringify({ answers, errors, left: Object.values(open).reduce((sum, n) => sum + n, 0) }));
await queue.close();
connection.disconnect();
