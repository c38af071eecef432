// Usage: MODEL=file.gguf PARALLEL=1 node worker.mjs. Answers jobs until SIGTERM. Run one on each
// machine.
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { MetricsTime, Worker } from 'bullmq';
import { loadModel } from 'quantlet';
import { createHandler } from 'quantlet/openai';
import { connect, QUEUE } from './queue.mjs';

// Default: the model in the package. The path of any GGUF file works.
const path = process.env.MODEL ?? fileURLToPath(import.meta.resolve('quantlet/models/tiny-stories-q4_0.gguf'));
const parallel = Number(process.env.PARALLEL ?? 1);
const model = await loadModel(path, { parallel });
const handler = createHandler(model, { timeoutMs: 0 });

/**
 * Record of a job, in the form of OpenAI's output files. A refusal by the model is an answer. A
 * failure here is thrown, and the job is tried again.
 */
async function answer({ data: { line, custom_id, url, body } }) {
  const headers = { 'content-type': 'application/json' };
  const response = await handler(
    new Request(`http://localhost${url}`, { method: 'POST', headers, body: JSON.stringify({ ...body, stream: false }) }),
  );
  const said = await response.json();
  if (response.status === 429 || (response.status >= 500 && response.status !== 501)) throw new Error(said.error.message);
  const error = response.status < 400 ? null : { code: said.error.code, message: said.error.message, line };
  return { id: randomUUID(), custom_id, response: { status_code: response.status, request_id: randomUUID(), body: said }, error };
}

const connection = connect();
const worker = new Worker(
  QUEUE,
  async (job) => {
    const record = await answer(job);
    await job.updateProgress({ tokens: record.response.body.usage?.completion_tokens ?? 0 });
    return record;
  },
  {
    connection,
    concurrency: parallel, // one job for each sequence of the model: their steps share each pass over the weights
    maxStalledCount: 2, // a job whose worker was lost is started again; after three lost workers it has failed
    metrics: { maxDataPoints: MetricsTime.ONE_WEEK },
  },
);
worker.on('error', (error) => console.error(`worker: ${error.message || error.code}`));
worker.on('failed', (job, error) => console.error(`${job?.data.custom_id}: ${error.message}`));

const stop = async () => {
  await worker.close(); // finishes running jobs and starts no others
  await model.dispose();
  connection.disconnect();
  process.exit(0);
};
process.once('SIGTERM', stop);
process.once('SIGINT', stop);
console.error(`answers ${parallel} lines at once with ${model.name}, build ${model.build}, ${model.threads} threads`);
