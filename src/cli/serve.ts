/** quantlet serve: the HTTP interfaces of OpenAI, Anthropic, Ollama and llama-server. */
import type { AddressInfo } from 'node:net';
import { onAbort } from '../abort.ts';
import { createHandler } from '../server/handler.ts';
import { clientErrorBody } from '../server/protocols/anthropic.ts';
import { errorResponse, HttpError } from '../server/http/http-error.ts';
import { nodeListener } from '../server/http/node-listener.ts';
import { LOOPBACK_HOSTS } from '../server/http/request.ts';
import { DRAIN_MS, type Command } from './command.ts';
import { parseOnlyFlags } from './parse-flags.ts';
import { SERVE_KEYS } from './serve-flags.ts';
import { listen, refuse, serverOf, stallMsOf } from './serve-http.ts';
import { modelsOf } from './serve-models.ts';
import { handlerOptions } from './serve-options.ts';

/** Milliseconds in which unfinished answers can report that they were cut off. */
const END_MS = 1000;
/**
 * Upper limit of the default context, because each parallel answer has its own and caches grow with
 * it.
 */
const CONTEXT = 4096;

export const serve: Command = {
  name: 'serve',
  llama: 'llama-server',
  synopsis: '[-m FILE] [--port N] [flags]',
  summary: 'serve models over HTTP, with the interfaces of OpenAI, Anthropic, Ollama and llama-server',
  flags: SERVE_KEYS,
  defaults: { ctx: '0, or 4096 where that is more' },
  notes: `-c is the context of each answer; without it, what the model was trained for, at most ${CONTEXT}. After SIGTERM or Ctrl-C, answers have ${DRAIN_MS / 1000} s to end. Flags for sampling, templates and reasoning are the defaults for requests that do not set them.`,
  examples: [
    'quantlet serve -m llama-3.2-1b.Q4_K_M.gguf --port 8080',
    'quantlet serve -hf ggml-org/Qwen3-0.6B-GGUF --parallel 8 --api-key "$KEY" --access-log',
    'quantlet serve --models-dir models --models-max 2',
    'quantlet serve --models-pull --port 11434',
    `curl http://127.0.0.1:8080/v1/chat/completions -H 'content-type: application/json' -d '{"messages": [{"role": "user", "content": "Hello"}]}'`,
  ],
  async run(argv, signal) {
    const values = parseOnlyFlags(argv, SERVE_KEYS, 'give the model with -m', 'serve');
    const cut = new AbortController();
    const options = { ...(await handlerOptions(values)), signal: cut.signal };
    const stopping = new AbortController();
    const stop = (): void => stopping.abort(new DOMException('stopped', 'AbortError'));
    let interrupted = 130;
    const terminated = (): void => void (interrupted = 0); // a supervisor takes any other exit code for a failure
    process.once('SIGTERM', terminated);
    onAbort(signal, stop);

    // The port is open while the model loads. Clients get status 503, and a supervisor sees that
    // the process is running.
    const loading = new HttpError(503, 'Loading model', { code: 'unavailable', headers: { 'retry-after': '1' } });
    let handler = (request: Request): Promise<Response> => Promise.resolve(errorResponse(loading, clientErrorBody(request)));
    let active = 0;
    const listener = nodeListener((request) => handler(request), { stallMs: stallMsOf(values) });
    const server = await serverOf(values, (request, response) => {
      active++;
      response.on('close', () => void active--);
      if (stopping.signal.aborted) response.setHeader('connection', 'close');
      listener(request, response);
    });
    server.maxConnections = 2048;
    server.on('clientError', refuse);
    const address = await listen(server, values);
    const { address: ip } = server.address() as AddressInfo;
    const local = /^127\.|^::1$|^::ffff:127\./.test(ip);
    const given = values.allowedHosts ?? [];
    const allowedHosts = given.includes('*') || (given.length === 0 && !local) ? undefined : [...LOOPBACK_HOSTS, ip, ...given];
    if (!local && options.apiKey === undefined)
      process.stderr.write(
        `quantlet: ${address} is open to everybody who can reach this machine; give an --api-key unless the network is private\n`,
      );
    try {
      const { models, library, said } = await modelsOf(values, options.defaults ?? {}, stopping.signal);
      try {
        handler = createHandler(models, { ...options, library, ...(allowedHosts ? { allowedHosts } : {}) });
        process.stderr.write(`quantlet serves ${said(address)}\n`);
        await new Promise<void>((resolve) => void onAbort(stopping.signal, resolve));
        server.close();
        const idle = async (ms: number): Promise<void> => {
          for (const end = Date.now() + ms; active > 0 && Date.now() < end;) await new Promise((resolve) => setTimeout(resolve, 20));
        };
        if (active > 0) process.stderr.write(`quantlet: ${waitingFor(active)}; press Ctrl-C again to end at once\n`);
        const drained = options.batches?.close(DRAIN_MS);
        await idle(DRAIN_MS);
        cut.abort();
        await Promise.all([drained, idle(END_MS)]);
        server.closeAllConnections();
      } finally {
        await models.dispose();
      }
    } catch (error) {
      if (!stopping.signal.aborted) throw error;
    } finally {
      process.off('SIGTERM', terminated);
      server.close();
      server.closeAllConnections();
    }
    return signal.aborted ? interrupted : 0;
  },
};

const waitingFor = (answers: number): string =>
  `${answers === 1 ? 'one answer is' : `${answers} answers are`} under way and ${answers === 1 ? 'has' : 'have'} ${DRAIN_MS / 1000} s to end`;
