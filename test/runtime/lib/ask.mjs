// A request to a server under test that may never answer. After a time-out it fails with the name
// of the request and where the server stood.
import { join } from 'node:path';
import { here } from './consumer.mjs';
import { STEP_MS } from './wait.mjs';

/** Environment of a server that ask() can query. */
export const questionable = { NODE_OPTIONS: `--require ${JSON.stringify(join(here, 'lib/where.cjs'))}` };

/**
 * The response and its text; `server` is the result of start(). For a broken body `broken` converts
 * the error, or ask() throws.
 */
export async function ask(server, url, what, { ms = STEP_MS, broken } = {}) {
  const signal = AbortSignal.timeout(ms);
  let headers = false;
  try {
    const response = await fetch(url, { signal });
    headers = true;
    return {
      response,
      text: await (broken ? response.text().catch((error) => (signal.aborted ? Promise.reject(error) : broken(error))) : response.text()),
    };
  } catch (error) {
    if (!signal.aborted) throw new Error(`${what} (GET ${url}) failed: ${error.cause?.message ?? error.message}`, { cause: error });
    server.signal('SIGUSR2');
    await new Promise((resolve) => setTimeout(resolve, 1000));
    throw new Error(
      `${what} (GET ${url}) waited ${ms / 1000} s for the ${headers ? 'rest of the answer' : 'answer'}; the server said: ${server.output().slice(-4000)}`,
      { cause: error },
    );
  }
}
