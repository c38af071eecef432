/** quantlet serve: OpenAI's and llama-server's HTTP interface over a model. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { basename } from 'node:path';
import { QuantletError } from '../errors.ts';
import { createHandler, type HandlerOptions } from '../openai/handler.ts';
import { errorBody, errorResponse, HttpError } from '../openai/http-error.ts';
import { nodeListener } from '../openai/node-listener.ts';
import { chatPage } from '../openai/page.ts';
import { LOOPBACK_HOSTS } from '../openai/request.ts';
import { CACHE_FLAGS, MODEL_FLAGS, located, openModel, readText, templateOf, type Command } from './command.ts';
import { printable, printableLines } from '../printable.ts';
import { parseFlags, type FlagKey, type Values } from './flags.ts';

const KEYS = [
  ...MODEL_FLAGS, ...CACHE_FLAGS, 'host', 'port', 'parallel', 'ctx', 'batch', 'threads', 'alias', 'apiKey', 'apiKeyFile', 'cors', 'timeout', 'maxQueue', 'maxBody', 'maxBuffered', 'maxText', 'maxMessages', 'bodyTimeout', 'allowedHosts', 'parseSpecial', 'accessLog', 'noWebui',
  'chatTemplate', 'chatTemplateFile', 'noWarmup', 'turbo', 'build', 'help',
] as const satisfies readonly FlagKey[];
type Flags = Values<(typeof KEYS)[number]>;

/** Answers under way may end by themselves for so long after SIGTERM. */
const DRAIN_MS = 5000;
/** A context nobody asked for: each of the parallel answers has one, and caches grow with it. */
const CONTEXT = 4096;

export const serve: Command = {
  name: 'serve',
  synopsis: '[-m FILE] [--port N] [flags]',
  summary: 'answer over HTTP, as OpenAI and llama-server do',
  flags: KEYS,
  notes: `-c is the context of each answer; without it, what the model was trained for, at most ${CONTEXT}. SIGTERM and Ctrl-C let answers end for ${DRAIN_MS / 1000} s.`,
  examples: [
    'quantlet serve -m llama-3.2-1b.Q4_K_M.gguf --port 8080',
    'quantlet serve -hf ggml-org/Qwen3-0.6B-GGUF --parallel 8 --api-key "$KEY" --access-log',
    `curl http://127.0.0.1:8080/v1/chat/completions -H 'content-type: application/json' -d '{"messages": [{"role": "user", "content": "Hello"}]}'`,
  ],
  async run(argv, signal) {
    const { values, positionals } = parseFlags(argv, KEYS);
    if (positionals.length > 0) throw new QuantletError('ERR_USAGE', `"${positionals[0]}" is no flag; give the model with -m`);
    const options = await handlerOptions(values);
    const stopping = new AbortController();
    const stop = (): void => stopping.abort(new DOMException('stopped', 'AbortError'));
    process.once('SIGTERM', stop);
    signal.addEventListener('abort', stop, { once: true });

    // The port is open while the model loads: clients get status 503, and a supervisor sees that the process is up.
    let handler = (_: Request): Promise<Response> => Promise.resolve(errorResponse(new HttpError(503, 'Loading model', { code: 'unavailable', headers: { 'retry-after': '1' } })));
    let active = 0;
    const listener = nodeListener((request) => handler(request));
    const server = createServer(
      // Slow or endless headers and bodies end here; the size of bodies and the time of answers are the handler's.
      { maxHeaderSize: 16 * 1024, headersTimeout: 10_000, requestTimeout: 60_000, keepAliveTimeout: 5000, connectionsCheckingInterval: 1000 },
      (request, response) => {
        active++;
        response.on('close', () => void active--);
        if (stopping.signal.aborted) response.setHeader('connection', 'close');
        listener(request, response);
      },
    );
    server.maxConnections = 2048;
    server.on('clientError', refuse);
    const address = await listen(server, values), { address: ip } = server.address() as AddressInfo, local = /^127\.|^::1$|^::ffff:127\./.test(ip);
    const given = values.allowedHosts ?? [], allowedHosts = given.includes('*') || (given.length === 0 && !local) ? undefined : [...LOOPBACK_HOSTS, ip, ...given];
    if (!local && options.apiKey === undefined) process.stderr.write(`quantlet: ${address} is open to everybody who reaches this machine; expected --api-key where it is not on a network of its own\n`);
    try {
      const file = await located(values, stopping.signal), { parallel = 4, alias } = values;
      const name = alias ?? basename(file.model).replace(/\.gguf$/i, '');
      const model = await openModel(file, stopping.signal, { parallel, name, contextLength: values.ctx ?? undefined, ...(await templateOf(values)) });
      try {
        handler = createHandler(model, { ...options, ...(allowedHosts ? { allowedHosts } : {}) });
        process.stderr.write(`quantlet serves ${printable(model.name)} at ${address} (${parallel} at once, context ${model.contextLength}, build ${model.build}, ${model.threads} threads)\n`);
        await new Promise<void>((resolve) => (stopping.signal.aborted ? resolve() : stopping.signal.addEventListener('abort', () => resolve(), { once: true })));
        server.close();
        for (const end = Date.now() + DRAIN_MS; active > 0 && Date.now() < end; ) await new Promise((resolve) => setTimeout(resolve, 20));
        server.closeAllConnections();
      } finally {
        await model.dispose();
      }
    } catch (error) {
      if (!stopping.signal.aborted) throw error;
    } finally {
      process.off('SIGTERM', stop);
      server.close();
      server.closeAllConnections();
    }
    return 0;
  },
};

async function handlerOptions(values: Flags): Promise<HandlerOptions> {
  const file = values.apiKeyFile === undefined ? [] : (await readText(values.apiKeyFile, 'the keys')).split('\n').map((line) => line.trim()).filter((line) => line !== '');
  const given = values.apiKey ?? (process.env.LLAMA_API_KEY ? [process.env.LLAMA_API_KEY] : []);
  const keys = [...given.flatMap((key) => key.split(',')), ...file];
  if (values.apiKeyFile !== undefined && keys.length === 0) throw new QuantletError('ERR_USAGE', `${values.apiKeyFile} holds no key; expected one a line`);
  const { cors } = values;
  return {
    ...(keys.length > 0 ? { apiKey: keys } : {}),
    ...(cors ? { cors: cors.includes('*') ? true : cors } : {}),
    ...(values.timeout !== undefined ? { timeoutMs: values.timeout * 1000 } : {}),
    ...(values.maxQueue !== undefined ? { maxQueue: values.maxQueue } : {}),
    ...(values.maxBody !== undefined ? { maxBodyBytes: values.maxBody } : {}),
    ...(values.maxBuffered !== undefined ? { maxBufferedBytes: values.maxBuffered } : {}),
    ...(values.maxText !== undefined ? { maxTextChars: values.maxText } : {}),
    ...(values.maxMessages !== undefined ? { maxMessages: values.maxMessages } : {}),
    ...(values.bodyTimeout !== undefined ? { bodyTimeoutMs: values.bodyTimeout * 1000 } : {}),
    ...(values.parseSpecial ? { parseSpecial: true } : {}),
    ...(values.noWebui ? {} : { page: chatPage }),
    ...(values.accessLog ? { onAccess: ({ method, path, status, ms }) => void process.stderr.write(`${new Date().toISOString()} ${method} ${JSON.stringify(path).slice(1, -1)} ${status} ${ms.toFixed(1)} ms\n`) } : {}),
    onError: (error) => void process.stderr.write(`quantlet: ${printableLines(error instanceof Error ? (error.stack ?? error.message) : String(error))}\n`),
  };
}

function listen(server: Server, { host = '127.0.0.1', port = 8080 }: Flags): Promise<string> {
  if (port < 0 || port > 65535) throw new QuantletError('ERR_USAGE', `--port is ${port}; expected 0 to 65535`);
  return new Promise((resolve, reject) => {
    server.on('error', (cause: NodeJS.ErrnoException) => {
      const why: Record<string, string> = { EADDRINUSE: 'the port is in use; choose another with --port', EACCES: 'the port may not be used by this user', EADDRNOTAVAIL: 'this machine has no such address', ENOTFOUND: 'there is no such host' };
      reject(new QuantletError('ERR_IO', `cannot listen on ${host}:${port}: ${why[cause.code ?? ''] ?? cause.message}`, { cause }));
    });
    server.listen(port, host, () => {
      const { address, family, port: actual } = server.address() as AddressInfo;
      resolve(`http://${family === 'IPv6' ? `[${address}]` : address}:${actual}`);
    });
  });
}

/** Node's parser refused a request before it became one: too many headers, no HTTP at all, too slow. */
function refuse(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') return void socket.destroy();
  const [status, text] = error.code === 'HPE_HEADER_OVERFLOW' ? [431, 'Request Header Fields Too Large'] : error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? [408, 'Request Timeout'] : [400, 'Bad Request'];
  const body = JSON.stringify(errorBody(new HttpError(Number(status), `${text}.`, { code: 'bad_request' })));
  socket.end(`HTTP/1.1 ${status} ${text}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}
