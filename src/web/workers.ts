/** Starts workers, in ways that suit different bundlers and content security policies. */
import { QuantletError } from '../errors.ts';
import { READY, openChannel, type Channel, type WorkerLike } from './rpc.ts';

export type CreateWorker = () => WorkerLike | Promise<WorkerLike>;

/**
 * Time after which a worker that neither runs nor fails counts as failed. Some policies block a
 * worker without an event.
 */
const START_MS = 10_000;

/**
 * Worker from a blob. Works with every bundler and if files have no COEP header, but a page with a
 * policy must allow `blob:` in worker-src.
 */
async function blobWorker(): Promise<WorkerLike> {
  const { source } = await import('../inline/worker.js');
  const url = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
  const worker = new Worker(url);
  const revoke = (): void => URL.revokeObjectURL(url);
  worker.addEventListener('message', revoke, { once: true });
  worker.addEventListener('error', revoke, { once: true });
  return worker;
}

/**
 * Worker from a file. webpack and Vite recognise this literal and emit a file; needs no `blob:`.
 */
function fileWorker(): WorkerLike {
  return new Worker(new URL('../../dist/worker/web.js', import.meta.url), { type: 'module' });
}

/** The way that worked in this page, tried first from then on. */
let known: CreateWorker | undefined;

/** Creates a worker and waits until its script runs. */
async function ready(create: CreateWorker): Promise<Channel> {
  const worker = await create();
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      worker.addEventListener('message', (event) => void ((event as MessageEvent).data === READY && resolve()));
      worker.addEventListener('error', (event) => {
        event.preventDefault();
        reject(
          new QuantletError(
            'ERR_WORKER_LOST',
            `the worker's script did not start: ${(event as ErrorEvent).message || 'it was not found or a policy blocks it'}`,
          ),
        );
      });
      timer = setTimeout(
        () => reject(new QuantletError('ERR_WORKER_LOST', `the worker's script did not start within ${START_MS / 1000} s`)),
        START_MS,
      );
    });
  } catch (error) {
    worker.terminate();
    throw error;
  } finally {
    clearTimeout(timer);
  }
  return openChannel(worker);
}

/**
 * A running worker: from createWorker if given, else from a blob, else from a file.
 * @throws ERR_WORKER_LOST with the reason of each failed attempt
 */
export async function startWorker(createWorker?: CreateWorker): Promise<Channel> {
  if (typeof Worker !== 'function' && !createWorker) throw new QuantletError('ERR_WORKER_LOST', 'this runtime has no workers');
  const creators = createWorker ? [createWorker] : known ? [known] : [blobWorker, fileWorker];
  const reasons: unknown[] = [];
  for (const create of creators) {
    try {
      const channel = await ready(create);
      if (!createWorker) known = create;
      return channel;
    } catch (error) {
      reasons.push(error);
    }
  }
  const why = reasons.map((r) => (r instanceof Error ? r.message : String(r))).join('; ');
  throw new QuantletError(
    'ERR_WORKER_LOST',
    `no worker could be started: ${why}; allow blob: or the package's worker file in the policy's worker-src, or pass createWorker`,
    { cause: reasons[0] },
  );
}
