/** Failures in OpenAI's format. Messages name fields of the request instead of options. */
import { isRecord } from '../../chat/json.ts';
import { CHAT_OPTIONS } from '../../chat/options.ts';
import type { ContextFull } from '../../chat/run.ts';
import type { QuantletError, QuantletErrorCode } from '../../errors.ts';

/** A failure with its HTTP status. */
export class HttpError extends Error {
  readonly status: number;
  /** The invalid field of the request, if any. */
  readonly param: string | null;
  readonly code: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** Anthropic's `error.details`, which its client evaluates. */
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

/** Errors that are the client's fault. Every other code is the server's fault. */
const clientErrors: Readonly<Partial<Record<QuantletErrorCode, readonly [status: number, code: string]>>> = {
  ERR_CONTEXT_FULL: [400, 'context_length_exceeded'],
  ERR_INVALID_ARGUMENT: [400, 'invalid_value'],
  ERR_GRAMMAR: [400, 'invalid_grammar'],
  ERR_CHAT_TEMPLATE: [400, 'invalid_chat'],
  ERR_UNSUPPORTED_ARCH: [501, 'not_supported'],
  ERR_BUSY: [429, 'rate_limit_exceeded'],
  ERR_DISPOSED: [503, 'unavailable'],
  ERR_STATE: [400, 'invalid_state'],
  ERR_IMAGE_INVALID: [400, 'invalid_image'],
  ERR_IMAGE_TRUNCATED: [400, 'invalid_image'],
  ERR_IMAGE_TOO_LARGE: [400, 'image_too_large'],
  ERR_AUDIO_INVALID: [400, 'invalid_audio'],
  ERR_AUDIO_TOO_LARGE: [400, 'audio_too_large'],
};

/** JSON of a request. */
type Body = Readonly<Record<string, unknown>>;

/**
 * Request fields whose name is not the snake-case form of the option that they set. A message names
 * the field that the request has, or else the first.
 */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  maxTokens: ['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n_predict'],
  stop: ['stop', 'stop_sequences'],
  responseFormat: ['response_format', 'text.format', 'output_config.format', 'output_format', 'json_schema'],
  logprobs: ['logprobs', 'top_logprobs', 'n_probs'],
  keep: ['n_keep'],
  reasoningBudget: ['reasoning_budget_tokens', 'thinking_budget_tokens', 'thinking.budget_tokens'],
  templateVariables: ['chat_template_kwargs'],
  continueFinalMessage: ['continue_final_message', 'messages', 'input'],
  onContextFull: ['quantlet.on_context_full'],
};

/** Options of the model, which no request field sets. */
const OF_THE_MODEL: readonly (readonly [option: string, words: string])[] = [
  ['contextLength', 'context'],
  ['chatTemplate', "the server's chat template"],
];

/** Options with a capital letter, which cannot be confused with an ordinary word. */
const TELLING = Object.keys(CHAT_OPTIONS).filter((option) => /[A-Z]/.test(option));

/** Tells if a request has a field. `path` has dots, as in messages. */
function has(body: unknown, path: string): boolean {
  let value = body;
  for (const name of path.split('.')) value = isRecord(value) ? value[name] : undefined;
  return (value ?? undefined) !== undefined;
}

/** The field of this request that sets an option. */
const fieldOf = (option: string, body: Body): string => {
  const names = FIELDS[option] ?? [option.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)];
  return names.find((name) => has(body, name)) ?? names[0];
};

/** Matches an option's name in a message, but not in quoted text, nor in a path of a schema. */
const named = (option: string): RegExp => new RegExp(`(?<![\\w"'\`/.#-])${option}(?![\\w"'\`])`, 'g');

/**
 * Replaces option names in a library error by the request's fields. If the message begins with an
 * option, the error is about that field.
 */
function ofFields({ message, code }: Pick<QuantletError, 'message' | 'code'>, body: Body): { param?: string; message: string } {
  const said = message.replace(/^(?:generate|chat|embed|rank): (?=\w)/, '');
  const [option] = /^[a-z][A-Za-z]*(?= (?:is|asks|needs|has|names) )/.exec(said) ?? [];
  const param = option === undefined ? undefined : fieldOf(option, body);
  // Messages about grammars and templates quote other people's text, whose words must not be
  // replaced.
  const own = code === 'ERR_INVALID_ARGUMENT' || code === 'ERR_CONTEXT_FULL' ? TELLING : [];
  const words = [...OF_THE_MODEL, ...own.map((name) => [name, `'${fieldOf(name, body)}'`] as const)];
  const rest = words.reduce((text, [name, word]) => text.replaceAll(named(name), word), said.slice(option?.length ?? 0));
  return param === undefined ? { message: rest } : { param, message: `'${param}'${rest}` };
}

/**
 * Converts any error to an HttpError. An unknown error reveals no internals.
 * @param body the request's body, whose fields the message names
 */
export function toHttpError(error: unknown, body: Body = {}): HttpError {
  if (error instanceof HttpError) return error;
  // No instanceof: the package may be loaded twice (bundled entries), so the code decides.
  const code = error instanceof Error ? (error as Partial<QuantletError>).code : undefined;
  if (error instanceof Error && typeof code === 'string' && code.startsWith('ERR_')) {
    const [status, name] = clientErrors[code] ?? [500, code.toLowerCase()];
    const { message, ...field } = status === 400 ? ofFields({ message: error.message, code }, body) : { message: error.message };
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

/**
 * The token counts of a prompt that leaves no room for an answer, and of the context; undefined for
 * other failures.
 */
export function contextFullOf({ cause }: HttpError): ContextFull | undefined {
  const { promptTokens, contextLength } = ((cause as Error | undefined)?.cause ?? {}) as Partial<ContextFull>;
  return promptTokens === undefined || contextLength === undefined ? undefined : { promptTokens, contextLength };
}

interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
    /** llama-server's fields for a prompt that is too long. */
    readonly n_prompt_tokens?: number;
    readonly n_ctx?: number;
  };
}

/**
 * A failure in OpenAI's format. For a prompt that is too long it has OpenAI's words, because agents
 * and gateways search for them.
 */
export function errorBody(error: HttpError): ErrorBody {
  const type = types[error.status] ?? (error.status >= 500 ? 'server_error' : 'invalid_request_error');
  const { param, code } = error;
  const full = contextFullOf(error);
  if (!full) return { error: { message: error.message, type, param, code } };
  const { promptTokens, contextLength } = full;
  const message = `This model's maximum context length is ${contextLength} tokens. However, your prompt has ${promptTokens} tokens. ${error.message}`;
  return { error: { message, type, param, code, n_prompt_tokens: promptTokens, n_ctx: contextLength } };
}

export function errorResponse(error: HttpError, body: (error: HttpError) => object = errorBody): Response {
  return Response.json(body(error), { status: error.status, headers: error.headers });
}
