/** Failures as OpenAI writes them. */
import type { QuantletError, QuantletErrorCode } from '../errors.ts';

/** A refusal with its HTTP status, written as OpenAI writes errors. */
export class HttpError extends Error {
  readonly status: number;
  /** The field of the request that is wrong, where one is. */
  readonly param: string | null;
  readonly code: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** Anthropic's `error.details`: what its client decides by. */
  readonly details: object | undefined;

  constructor(
    status: number,
    message: string,
    details: { param?: string; code?: string; headers?: Readonly<Record<string, string>>; details?: object; cause?: unknown } = {},
  ) {
    super(message, { cause: details.cause });
    this.name = 'HttpError';
    this.status = status;
    this.param = details.param ?? null;
    this.code = details.code ?? null;
    this.headers = details.headers ?? {};
    this.details = details.details;
  }
}

/** What the client did wrong; every other code is the server's fault. */
const clientErrors: Readonly<Partial<Record<QuantletErrorCode, readonly [status: number, code: string]>>> = {
  ERR_CONTEXT_FULL: [400, 'context_length_exceeded'],
  ERR_INVALID_ARGUMENT: [400, 'invalid_value'],
  ERR_GRAMMAR: [400, 'invalid_grammar'],
  ERR_CHAT_TEMPLATE: [400, 'invalid_chat'],
  ERR_UNSUPPORTED_ARCH: [501, 'not_supported'],
  ERR_BUSY: [429, 'rate_limit_exceeded'],
  ERR_DISPOSED: [503, 'unavailable'],
  ERR_STATE: [400, 'invalid_state'],
};

/** An error that begins with the name of an option: the name as that of the field, and the text with it. */
function ofField({ message }: Error): { param?: string; message: string } {
  const [option] = /^[a-z][A-Za-z]*(?= (?:is|asks|goes|holds|names) )/.exec(message) ?? [];
  if (option === undefined) return { message };
  const param = option.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return { param, message: `'${param}'${message.slice(option.length)}` };
}

/** Any failure as an HttpError. Unknown ones say nothing of their inside. */
export function toHttpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  // Not instanceof: the package may be loaded twice (bundled entries), and the code is what counts.
  const code = error instanceof Error ? (error as Partial<QuantletError>).code : undefined;
  if (error instanceof Error && typeof code === 'string' && code.startsWith('ERR_')) {
    const [status, name] = clientErrors[code] ?? [500, code.toLowerCase()];
    const { message, ...field } = status === 400 ? ofField(error) : { message: error.message };
    return new HttpError(status, message, { ...field, code: name, cause: error });
  }
  if (error instanceof DOMException && error.name === 'TimeoutError')
    return new HttpError(504, 'The answer took longer than the server allows.', { code: 'timeout', cause: error });
  if (error instanceof DOMException && error.name === 'AbortError')
    return new HttpError(499, 'The client closed the request.', { code: 'aborted', cause: error });
  return new HttpError(500, 'The server failed.', { code: 'internal_error', cause: error });
}

const types: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  501: 'not_supported_error',
  503: 'unavailable_error',
};

export function errorBody(error: HttpError): { error: { message: string; type: string; param: string | null; code: string | null } } {
  const type = types[error.status] ?? (error.status >= 500 ? 'server_error' : 'invalid_request_error');
  return { error: { message: error.message, type, param: error.param, code: error.code } };
}

export function errorResponse(error: HttpError, body: (error: HttpError) => object = errorBody): Response {
  return Response.json(body(error), { status: error.status, headers: error.headers });
}
