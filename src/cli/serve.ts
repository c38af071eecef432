/** quantlet serve: the HTTP API of OpenAI and llama-server for a model. */
import { stat } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { onAbort } from '../abort.ts';
import { QuantletError } from '../errors.ts';
import type { Model } from '../model.ts';
import { openBatches } from '../openai/batch-state.ts';
import { createHandler } from '../openai/handler.ts';
import { clientErrorBody } from '../openai/anthropic.ts';
import { errorBody, errorResponse, HttpError } from '../openai/http-error.ts';
import { nodeListener } from '../openai/node-listener.ts';
import { createModels, type Models } from '../openai/models.ts';
import type { HandlerOptions, RequestDefaults } from '../openai/options.ts';
import { LOOPBACK_HOSTS } from '../openai/request.ts';
import { createSampler } from '../sample/sampler.ts';
import {
  COMPUTE_FLAGS,
  CHECKPOINT_FLAGS,
  DRAIN_MS,
  MODEL_FLAGS,
  located,
  openModel,
  readText,
  SPECULATION_FLAGS,
  templateOf,
  unreadable,
  type Command,
} from './command.ts';
import { checkedNorm } from './embed-output.ts';
import { checkKeep, GENERATE_FLAGS, generateOptions } from './generate-options.ts';
import { folderBatches, folderFiles, folderSlots, modelName, modelsIn } from './serve-files.ts';
import { printable, printableLines } from '../printable.ts';
import type { FlagKey, Values } from './flags.ts';
import { parseOnlyFlags } from './parse-flags.ts';
import { TEMPLATE_FLAGS, templateOptions } from './template-options.ts';

type ModelFlag = Exclude<(typeof MODEL_FLAGS)[number], 'model'>;

const KEYS = [
  'models',
  'modelsDir',
  'modelsMax',
  'modelsMemory',
  ...MODEL_FLAGS.filter((key): key is ModelFlag => key !== 'model'),
  ...COMPUTE_FLAGS,
  ...CHECKPOINT_FLAGS,
  ...SPECULATION_FLAGS,
  'host',
  'port',
  'parallel',
  'ctx',
  'batch',
  'threads',
  'threadsBatch',
  'alias',
  'apiKey',
  'apiKeyFile',
  'cors',
  'timeout',
  'answerTimeout',
  'ssePingInterval',
  'maxQueue',
  'maxBody',
  'maxBuffered',
  'maxText',
  'maxMessages',
  'bodyTimeout',
  'allowedHosts',
  'parseSpecial',
  'accessLog',
  'noWebui',
  'path',
  'apiPrefix',
  'sslKeyFile',
  'sslCertFile',
  'metrics',
  'noMetrics',
  'slots',
  'noSlots',
  'props',
  'slotSavePath',
  'batchDir',
  'maxFile',
  'maxFiles',
  'prefillAssistant',
  'spmInfill',
  'embeddings',
  'pooling',
  'reranking',
  'embdNormalize',
  'contextShift',
  'keep',
  'special',
  ...GENERATE_FLAGS,
  ...TEMPLATE_FLAGS,
  'warmup',
  'turbo',
  'verbose',
  'build',
  'help',
] as const satisfies readonly FlagKey[];
type Flags = Values<(typeof KEYS)[number]>;

const POOLINGS = ['mean', 'cls', 'last', 'rank'];
/**
 * Time limit for uploads. It is longer than for requests, because the handler itself ends stalled
 * uploads.
 */
const UPLOAD_SECONDS = 3600;
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
  summary: 'answer over HTTP, as OpenAI and llama-server do',
  flags: KEYS,
  defaults: { ctx: '0, or 4096 where that is more' },
  notes: `-c is the context of each answer; without it, what the model was trained for, at most ${CONTEXT}. After SIGTERM or Ctrl-C, answers have ${DRAIN_MS / 1000} s to end. Flags for sampling, templates and reasoning are the defaults for requests that do not set them.`,
  examples: [
    'quantlet serve -m llama-3.2-1b.Q4_K_M.gguf --port 8080',
    'quantlet serve -hf ggml-org/Qwen3-0.6B-GGUF --parallel 8 --api-key "$KEY" --access-log',
    'quantlet serve --models-dir models --models-max 2',
    `curl http://127.0.0.1:8080/v1/chat/completions -H 'content-type: application/json' -d '{"messages": [{"role": "user", "content": "Hello"}]}'`,
  ],
  async run(argv, signal) {
    const values = parseOnlyFlags(argv, KEYS, 'give the model with -m', 'serve');
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
        `quantlet: ${address} is open to everybody who can reach this machine; give an --api-key unless it is on a network of its own\n`,
      );
    try {
      const { models, said } = await modelsOf(values, options.defaults ?? {}, stopping.signal);
      try {
        handler = createHandler(models, { ...options, ...(allowedHosts ? { allowedHosts } : {}) });
        process.stderr.write(`quantlet serves ${said(address)}\n`);
        await new Promise<void>((resolve) => void onAbort(stopping.signal, resolve));
        server.close();
        const idle = async (ms: number): Promise<void> => {
          for (const end = Date.now() + ms; active > 0 && Date.now() < end;) await new Promise((resolve) => setTimeout(resolve, 20));
        };
        if (active > 0) process.stderr.write(`quantlet: ${waitingFor(active)}; a second Ctrl-C ends at once\n`);
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

/** @throws ERR_USAGE */
function stallMsOf({ timeout = 60 }: Flags): number {
  if (timeout < 0) throw new QuantletError('ERR_USAGE', `--timeout is ${timeout}; expected a number of seconds, or 0 for no limit`);
  return Math.min(timeout * 1000, 2 ** 31 - 1);
}

/** The origins of --cors. */
function corsOf({ cors = ['localhost'] }: Flags): NonNullable<HandlerOptions['cors']> {
  const origins = cors.flatMap((list) => list.split(',')).map((origin) => origin.trim());
  if (origins.includes('*')) return true;
  return origins.filter((origin) => origin !== '' && origin !== 'none');
}

/**
 * The models to serve: one, loaded before the first answer, or several, loaded on demand. `said` is
 * the line to print when the server is ready.
 */
async function modelsOf(
  values: Flags,
  defaults: RequestDefaults,
  signal: AbortSignal,
): Promise<{ models: Model | Models; said: (address: string) => string }> {
  const { models: given = [], modelsDir, modelsMax, modelsMemory, alias, parallel = 4, pooling, reranking } = values;
  const paths = [...given, ...(modelsDir === undefined ? [] : await modelsIn(modelsDir))];
  const several = paths.length > 1 || modelsDir !== undefined;
  if (several && values.hf !== undefined)
    throw new QuantletError('ERR_USAGE', '-hf names one model; expected -m or --models-dir for several');
  if (several && alias !== undefined) throw new QuantletError('ERR_USAGE', '--alias names one model; several are named after their files');
  const template = await templateOf(values);
  const open = async (path: string | undefined): Promise<Model> => {
    const file = await located({ ...values, model: path }, signal);
    const name = alias ?? modelName(file.model);
    const model = await openModel(file, signal, { parallel, name, contextLength: values.ctx ?? undefined, ...template });
    try {
      // Reports a template with a syntax error now, not to every client.
      if (template.chatTemplate !== undefined) void model.chatTemplate;
      // Checks the defaults now, because every request would fail otherwise: bounds, token ids and
      // grammars.
      const { tokenizer } = model.internals;
      createSampler(defaults, tokenizer.nVocab, { pieceBytes: (id) => tokenizer.pieceBytes(id) });
      await model.internals.constraint(defaults, signal);
      if ((reranking || pooling === 'rank') && model.internals.engine.wants !== 'ranks')
        throw new QuantletError(
          'ERR_USAGE',
          `${printable(name)} is not a reranker: its file has no pooling_type rank; leave out --reranking`,
        );
      return model;
    } catch (error) {
      await model.dispose();
      throw error;
    }
  };
  if (!several) {
    const model = await open(paths[0]);
    const { name, contextLength, build, turbo, threads } = model;
    const how = `${parallel} at once, context ${contextLength}, build ${build}${turbo ? ' with turbo' : ''}, ${threads} threads`;
    return { models: model, said: (address) => `${printable(name)} at ${address} (${how})` };
  }
  const entries = paths.map(async (path) => {
    const bytes = /^https?:/i.test(path) ? 0 : (await stat(path).catch(unreadable('the model', path))).size;
    return { id: modelName(path), bytes, load: () => open(path) };
  });
  const models = createModels(await Promise.all(entries), {
    ...(modelsMax === undefined ? {} : { maxLoaded: modelsMax }),
    ...(modelsMemory === undefined ? {} : { maxBytes: modelsMemory }),
    ...(values.maxQueue === undefined ? {} : { maxWaiting: values.maxQueue }),
  });
  return { models, said: (address) => `${paths.length} models at ${address} (loaded on demand, ${parallel} answers of each at once)` };
}

/**
 * Creates the server with limits for slow or endless headers and bodies. The handler limits the
 * size of bodies and the time of answers.
 */
async function serverOf({ sslKeyFile, sslCertFile, bodyTimeout = 0, batchDir }: Flags, listener: RequestListener): Promise<Server> {
  const options = {
    maxHeaderSize: 16 * 1024,
    headersTimeout: 10_000,
    requestTimeout: (bodyTimeout + (batchDir === undefined ? 60 : UPLOAD_SECONDS)) * 1000,
    keepAliveTimeout: 5000,
    connectionsCheckingInterval: 1000,
  };
  if (sslKeyFile === undefined && sslCertFile === undefined) return createServer(options, listener);
  if (sslKeyFile === undefined || sslCertFile === undefined)
    throw new QuantletError('ERR_USAGE', 'HTTPS takes both --ssl-key-file and --ssl-cert-file');
  const key = await readText(sslKeyFile, 'the private key');
  const cert = await readText(sslCertFile, 'the certificate');
  try {
    return createSecureServer({ ...options, key, cert, handshakeTimeout: 10_000 }, listener);
  } catch (cause) {
    throw new QuantletError(
      'ERR_USAGE',
      `--ssl-key-file and --ssl-cert-file are not a key and a certificate in PEM: ${(cause as Error).message}`,
      {
        cause,
      },
    );
  }
}

async function handlerOptions(values: Flags): Promise<HandlerOptions> {
  const file =
    values.apiKeyFile === undefined
      ? []
      : (await readText(values.apiKeyFile, 'the keys'))
          .split('\n')
          .map((line) => line.trim())
          .filter((line) => line !== '');
  const given = values.apiKey ?? (process.env.LLAMA_API_KEY ? [process.env.LLAMA_API_KEY] : []);
  const keys = [...given.flatMap((key) => key.split(',')), ...file];
  if (values.apiKeyFile !== undefined && keys.length === 0)
    throw new QuantletError('ERR_USAGE', `${values.apiKeyFile} holds no key; expected one per line`);
  const { pooling, reasoningFormat, keep = 0, ssePingInterval: ping } = values;
  if (pooling !== undefined && !POOLINGS.includes(pooling))
    throw new QuantletError(
      'ERR_USAGE',
      `--pooling is "${pooling}"; a server gives one vector for each text: expected ${POOLINGS.join(', ')}`,
    );
  if (ping !== undefined && ping < -1)
    throw new QuantletError('ERR_USAGE', `--sse-ping-interval is ${ping}; expected a number of seconds, or -1 for no pings`);
  if (reasoningFormat === 'hidden')
    throw new QuantletError('ERR_USAGE', '--reasoning-format is "hidden", which is for a terminal; expected auto, deepseek or none');
  checkKeep(keep);
  const { maxTokens = -1, ...text } = await generateOptions(values);
  if ([text.stop].flat().includes('')) throw new QuantletError('ERR_USAGE', '-r: a stop string is empty; expected at least one character');
  return {
    defaults: { ...text, ...(maxTokens < 0 ? {} : { maxTokens }), ...(values.special ? { special: true } : {}) },
    chatDefaults: templateOptions(values),
    ...(pooling !== undefined && pooling !== 'rank' ? { pooling: pooling as NonNullable<HandlerOptions['pooling']> } : {}),
    ...(values.embdNormalize !== undefined ? { embdNormalize: checkedNorm(values.embdNormalize) } : {}),
    ...(values.contextShift ? { contextShift: { keep } } : {}),
    ...(values.noMetrics ? { metrics: false } : {}),
    ...(values.noSlots ? { slots: false } : {}),
    ...(values.props ? { props: true } : {}),
    ...(values.prefillAssistant === undefined ? {} : { prefillAssistant: values.prefillAssistant }),
    ...(values.spmInfill ? { spmInfill: true } : {}),
    ...(values.slotSavePath !== undefined ? { slotStore: await folderSlots(values.slotSavePath) } : {}),
    ...(values.batchDir !== undefined
      ? {
          batches: await openBatches(await folderBatches(values.batchDir), {
            ...(values.maxFile === undefined ? {} : { maxFileBytes: values.maxFile }),
            ...(values.maxFiles === undefined ? {} : { maxStoredBytes: values.maxFiles }),
          }),
        }
      : {}),
    ...(values.apiPrefix !== undefined ? { apiPrefix: values.apiPrefix } : {}),
    ...(values.path !== undefined ? { files: await folderFiles(values.path) } : {}),
    ...(keys.length > 0 ? { apiKey: keys } : {}),
    cors: corsOf(values),
    ...(values.answerTimeout !== undefined ? { timeoutMs: values.answerTimeout * 1000 } : {}),
    ...(ping !== undefined ? { ssePingMs: Math.max(0, ping) * 1000 } : {}),
    ...(values.maxQueue !== undefined ? { maxQueue: values.maxQueue } : {}),
    ...(values.maxBody !== undefined ? { maxBodyBytes: values.maxBody } : {}),
    ...(values.maxBuffered !== undefined ? { maxBufferedBytes: values.maxBuffered } : {}),
    ...(values.maxText !== undefined ? { maxTextChars: values.maxText } : {}),
    ...(values.maxMessages !== undefined ? { maxMessages: values.maxMessages } : {}),
    ...(values.bodyTimeout !== undefined ? { bodyTimeoutMs: values.bodyTimeout * 1000 } : {}),
    ...(values.parseSpecial ? { parseSpecial: true } : {}),
    ...(values.noWebui || values.path !== undefined ? {} : { page: (await import('../openai/page.ts')).chatPage }),
    ...(values.accessLog
      ? {
          onAccess: ({ method, path, status, ms }) =>
            void process.stderr.write(
              `${new Date().toISOString()} ${method} ${JSON.stringify(path).slice(1, -1)} ${status} ${ms.toFixed(1)} ms\n`,
            ),
        }
      : {}),
    onError: (error) =>
      void process.stderr.write(`quantlet: ${printableLines(error instanceof Error ? (error.stack ?? error.message) : String(error))}\n`),
  };
}

function listen(server: Server, { host = '127.0.0.1', port = 8080, sslKeyFile }: Flags): Promise<string> {
  if (port < 0 || port > 65535) throw new QuantletError('ERR_USAGE', `--port is ${port}; expected 0 to 65535`);
  return new Promise((resolve, reject) => {
    server.on('error', (cause: NodeJS.ErrnoException) => {
      const why: Record<string, string> = {
        EADDRINUSE: 'the port is in use; choose another with --port',
        EACCES: 'this user is not allowed to use the port',
        EADDRNOTAVAIL: 'this machine has no such address',
        ENOTFOUND: 'there is no such host',
      };
      reject(new QuantletError('ERR_IO', `cannot listen on ${host}:${port}: ${why[cause.code ?? ''] ?? cause.message}`, { cause }));
    });
    server.listen(port, host, () => {
      const { address, family, port: actual } = server.address() as AddressInfo;
      resolve(`http${sslKeyFile === undefined ? '' : 's'}://${family === 'IPv6' ? `[${address}]` : address}:${actual}`);
    });
  });
}

/**
 * Answers a connection whose bytes Node's parser refused: too many headers, no HTTP, or too slow.
 */
function refuse(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') return void socket.destroy();
  const [status, text] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? [431, 'Request Header Fields Too Large']
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? [408, 'Request Timeout']
        : [400, 'Bad Request'];
  const body = JSON.stringify(errorBody(new HttpError(Number(status), `${text}.`, { code: 'bad_request' })));
  socket.end(
    `HTTP/1.1 ${status} ${text}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}
