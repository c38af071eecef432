/** The HTTP server of quantlet serve: its limits, its address, and connections that are not HTTP. */
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { QuantletError } from '../errors.ts';
import { errorBody, HttpError } from '../server/http/http-error.ts';
import { readText } from './command.ts';
import type { ServeFlags } from './serve-flags.ts';

/**
 * Time limit for uploads. It is longer than for requests, because the handler itself ends stalled
 * uploads.
 */
const UPLOAD_SECONDS = 3600;
/** Port of Ollama's server. */
const OLLAMA_PORT = 11434;

/**
 * The time of --timeout in milliseconds.
 * @throws ERR_USAGE
 */
export function stallMsOf({ timeout = 60 }: ServeFlags): number {
  if (timeout < 0) throw new QuantletError('ERR_USAGE', `--timeout is ${timeout}; expected a number of seconds, or 0 for no limit`);
  return Math.min(timeout * 1000, 2 ** 31 - 1);
}

/**
 * Creates the server with limits for slow or endless headers and bodies. The handler limits the
 * size of bodies and the time of answers.
 * @throws ERR_USAGE for one of the two files of HTTPS, or files that are not PEM
 */
export async function serverOf(
  { sslKeyFile, sslCertFile, bodyTimeout = 0, batchDir }: ServeFlags,
  listener: RequestListener,
): Promise<Server> {
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

/**
 * The host and the port of OLLAMA_HOST, in the forms that Ollama reads: `0.0.0.0`, `:11435`,
 * `http://127.0.0.1:11434`. Its default port is Ollama's.
 * @throws ERR_USAGE
 */
export function ollamaHost(text: string | undefined): { readonly host?: string; readonly port?: number } {
  const trimmed = text?.trim() ?? '';
  if (trimmed === '') return {};
  const [, , bracketed, plain, port] = /^(https?:\/\/)?(?:\[([\da-f:.]+)\]|([^[\]/:?#\s]*))(?::(\d{1,5}))?\/?$/i.exec(trimmed) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined || Number(port ?? 0) > 65535)
    throw new QuantletError(
      'ERR_USAGE',
      `OLLAMA_HOST is ${JSON.stringify(trimmed)}; expected HOST, HOST:PORT or :PORT; or give --host and --port`,
    );
  return { ...(host === '' ? {} : { host }), port: port === undefined ? OLLAMA_PORT : Number(port) };
}

/**
 * Listens on --host and --port, or on OLLAMA_HOST if neither is given.
 * @returns the address of the server
 * @throws ERR_USAGE, or ERR_IO if the port cannot be opened
 */
export function listen(server: Server, values: ServeFlags): Promise<string> {
  const named = values.host === undefined && values.port === undefined ? ollamaHost(process.env.OLLAMA_HOST) : values;
  const { host = '127.0.0.1', port = 8080 } = named;
  const { sslKeyFile } = values;
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
export function refuse(error: NodeJS.ErrnoException, socket: Socket): void {
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
