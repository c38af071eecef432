// node worker.mjs: answers jobs until SIGTERM; as many of these as there are machines. MODEL=file.gguf PARALLEL=1
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { MetricsTime, Worker } from 'bullmq';
import { loadModel } from 'quantlet';
import { createHandler } from 'quantlet/openai';
import { connect, QUEUE } from './queue.mjs';

// The model that ships with the package; any GGUF file's path will do.
const path = process.env.MODEL ?? fileURLToPath(import.meta.resolve('quantlet/models/tiny-stories-q4_0.gguf'));
const parallel = Number(process.env.PARALLEL ?? 1);
const model = await loadModel(path, { parallel });
const handler = createHandler(model, { timeoutMs: 0 });

/** The record of a job, as OpenAI's output files have it. What the model refuses is an answer; what fails here is thrown, and tried again. */
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
    concurrency: parallel, // as many jobs as the model has sequences: their steps share each pass over the weights
    maxStalledCount: 2, // a job whose worker was lost is taken up again; one that has cost three workers has failed
    metrics: { maxDataPoints: MetricsTime.ONE_WEEK },
  },
);
worker.on('error', (error) => console.error(`worker: ${error.message || error.code}`));
worker.on('failed', (job, error) => console.error(`${job?.data.custom_id}: ${error.message}`));

const stop = async () => {
  await worker.close(); // the jobs under way are finished, no other is begun
  await model.dispose();
  connection.disconnect();
  process.exit(0);
};
process.once('SIGTERM', stop);
process.once('SIGINT', stop);
console.error(`answers ${parallel} lines at once with ${model.name}, build ${model.build}, ${model.threads} threads`);
