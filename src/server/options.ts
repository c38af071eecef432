/** Options of createHandler. */
import { CHAT_OPTIONS, type ChatOptions } from '../chat/options.ts';
import { QuantletError } from '../errors.ts';
import { GENERATE_OPTIONS } from '../generate/checked.ts';
import type { VectorOptions } from './backend.ts';
import type { GenerateOptions } from '../generate/generate.ts';
import { KIND, nested, oneOf, pick, type Kind, type Kinds } from '../options.ts';
import { SAMPLER_DEFAULTS, type SamplerOptions } from '../sample/options.ts';
import type { Batches } from './batch/batch-state.ts';
import type { MediaOptions } from './media.ts';
import type { ModelLibrary } from './library.ts';

export interface HandlerOptions {
  /** Keys; clients must send one as a bearer token. Default: no key is required. */
  apiKey?: string | readonly string[] | undefined;
  /**
   * Origins whose pages may read answers. `localhost` means this machine at any port; true means
   * all origins. Default false.
   */
  cors?: boolean | readonly string[] | undefined;
  /**
   * Hosts (names or addresses, without a port) to accept in requests; others get 403. Default: any.
   * For servers that only this machine reaches: LOOPBACK_HOSTS.
   */
  allowedHosts?: readonly string[] | undefined;
  /**
   * Read the text of control tokens (`<|im_end|>`) in messages as those tokens, as llama-server
   * does. Default false: they stay text.
   */
  parseSpecial?: boolean | undefined;
  /**
   * An assistant's message at the end of a conversation is the beginning of the answer, as with
   * llama-server's --prefill-assistant and in Anthropic's protocol. False: it is a complete
   * message, and a new answer follows. Default true.
   */
  prefillAssistant?: boolean | undefined;
  /** Maximum bytes of a request body. Default 10 MiB. */
  maxBodyBytes?: number | undefined;
  /**
   * Maximum bytes of all requests together: bodies without an answer yet, and unread answers. More
   * get 503. Default 64 MiB.
   */
  maxBufferedBytes?: number | undefined;
  /**
   * Maximum characters of all strings of a request together, including names of fields; more get
   * 413. Default 2^20.
   */
  maxTextChars?: number | undefined;
  /** Maximum messages of a conversation; more get 413. Default 4096. */
  maxMessages?: number | undefined;
  /**
   * Milliseconds for a request body to arrive. Default 30 s. Here and below, the maximum is 2^31 -
   * 1 (25 days), and larger values are reduced to it.
   */
  bodyTimeoutMs?: number | undefined;
  /**
   * Milliseconds for an answer, including its wait; 0 for no limit. Default 1 h, because a slow
   * machine may need a large part of it for a long prompt.
   */
  timeoutMs?: number | undefined;
  /**
   * Milliseconds of silence before a stream sends a ping (a comment, or the protocol's ping event);
   * 0: never. A request's `sse_ping_interval` (seconds) has priority. Default 30 s.
   */
  ssePingMs?: number | undefined;
  /** Maximum number of requests that wait in the queue; more get 429. Default 64. */
  maxQueue?: number | undefined;
  /** Refuse (404) requests that name another model. Default false: the model serves every name. */
  checkModel?: boolean | undefined;
  /**
   * Defaults for requests: options of the sampler, `maxTokens`, `stop`, `special` (for requests
   * without a chat template), a grammar or a format.
   */
  defaults?: RequestDefaults | undefined;
  /** Defaults for conversations: variables of the template, and handling of reasoning. */
  chatDefaults?: ChatDefaults | undefined;
  /**
   * An answer that fills the context continues, as with llama-server's --context-shift. The first
   * `keep` tokens of the prompt stay, and the older half of the rest is dropped. Then only
   * maxTokens, the model and `timeoutMs` end the answer. Default: a full context ends it.
   */
  contextShift?: { readonly keep: number } | undefined;
  /** Method of /v1/embeddings to combine the vectors of tokens. Default: from the model's file. */
  pooling?: VectorOptions['pooling'];
  /**
   * Norm by which /v1/embeddings divides vectors, as in llama-server's --embd-normalize. -1: none;
   * 0: scale so that the largest number is 32760; p: the p-norm. Default 2.
   */
  embdNormalize?: number | undefined;
  /** /infill puts the suffix before the prefix, as some code models need. Default false. */
  spmInfill?: boolean | undefined;
  /** Storage for sequences saved by /slots/{id}. If absent, these requests get 501. */
  slotStore?: SlotStore | undefined;
  /** Files and batches (openBatches). If absent, /v1/files and /v1/batches get 501. */
  batches?: Batches | undefined;
  /** The files of the models, for Ollama's list, /api/show and /api/pull. Default: none are known. */
  library?: ModelLibrary | undefined;
  /**
   * Reads an image that a request names by a URL other than data:. Clients choose the URL, so the
   * function decides which ones are read. Undefined: the URL is refused. Default: all are.
   */
  media?: ((url: string, options: MediaOptions) => Promise<Uint8Array | undefined>) | undefined;
  /** Serve GET /slots. Default true. */
  slots?: boolean | undefined;
  /** Answer POST /props, which has no settings. Default false. */
  props?: boolean | undefined;
  /** Serve GET /metrics. Default true. */
  metrics?: boolean | undefined;
  /** Path before all others: with `/api`, /v1/models becomes /api/v1/models. Default none. */
  apiPrefix?: string | undefined;
  /** An HTML page to serve at /. */
  page?: string | undefined;
  /**
   * Serves GET requests without an endpoint, by decoded path with a leading slash; undefined: not
   * found. Needs no key, like `page`.
   */
  files?: ((path: string) => Promise<Response | undefined>) | undefined;
  /**
   * Aborted when the server stops. Unfinished answers end with an error, streams with their
   * protocol's error event. Batches have their own close().
   */
  signal?: AbortSignal | undefined;
  /** Called once per request, when its answer is complete or aborted. */
  onAccess?: ((access: Access) => void) | undefined;
  /**
   * Called with failures of the server itself (status 500 and above). Clients get few details of
   * these.
   */
  onError?: ((error: unknown) => void) | undefined;
}

/** A line of the access log. */
export interface Access {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly ms: number;
}

export type RequestDefaults = SamplerOptions &
  Pick<GenerateOptions, 'maxTokens' | 'stop' | 'ignoreEos' | 'special' | 'grammar' | 'responseFormat'>;
export type ChatDefaults = Pick<ChatOptions, 'templateVariables' | 'reasoning' | 'reasoningBudget' | 'reasoningBudgetMessage'>;

/** Maximum delay of setTimeout. A larger value would fire at once. */
const MOST_MS = 2 ** 31 - 1;

const LIMITS = {
  maxBodyBytes: 10 * 2 ** 20,
  maxBufferedBytes: 64 * 2 ** 20,
  maxTextChars: 2 ** 20,
  maxMessages: 4096,
  bodyTimeoutMs: 30_000,
  timeoutMs: 3_600_000,
  ssePingMs: 30_000,
  maxQueue: 64,
};

export type Limits = Readonly<typeof LIMITS>;

const DEFAULTS: Kinds<RequestDefaults> = pick(
  GENERATE_OPTIONS,
  ...(Object.keys(SAMPLER_DEFAULTS) as (keyof SamplerOptions)[]),
  'maxTokens',
  'stop',
  'ignoreEos',
  'special',
  'grammar',
  'responseFormat',
);
const TEXTS: Kind = {
  is: (v) => typeof v === 'string' || (Array.isArray(v) && v.every((text) => typeof text === 'string')),
  expected: 'a string or a list of strings',
};

/** Every option of createHandler. Numbers are checked by limitsOf(). */
export const HANDLER_OPTIONS: Kinds<HandlerOptions> = {
  ...(Object.fromEntries<Kind>(Object.keys(LIMITS).map((name) => [name, KIND.any])) as Record<keyof Limits, Kind>),
  apiKey: TEXTS,
  cors: { is: (v) => typeof v === 'boolean' || (Array.isArray(v) && TEXTS.is(v)), expected: 'true, false or a list of origins' },
  allowedHosts: { is: (v) => Array.isArray(v) && TEXTS.is(v), expected: 'a list of hosts' },
  parseSpecial: KIND.boolean,
  prefillAssistant: KIND.boolean,
  checkModel: KIND.boolean,
  defaults: nested(DEFAULTS),
  chatDefaults: nested<ChatDefaults>(pick(CHAT_OPTIONS, 'templateVariables', 'reasoning', 'reasoningBudget', 'reasoningBudgetMessage')),
  contextShift: nested<NonNullable<HandlerOptions['contextShift']>>({ keep: KIND.any }),
  pooling: oneOf('mean', 'cls', 'last'),
  embdNormalize: KIND.any,
  spmInfill: KIND.boolean,
  slotStore: KIND.any,
  batches: KIND.any,
  library: KIND.any,
  media: KIND.function,
  slots: KIND.boolean,
  props: KIND.boolean,
  metrics: KIND.boolean,
  apiPrefix: KIND.string,
  page: KIND.string,
  files: KIND.function,
  signal: KIND.signal,
  onAccess: KIND.function,
  onError: KIND.function,
};

/**
 * Saved sequences by name: at most 128 letters, digits, `.`, `_` and `-`, not beginning with `.`.
 */
export interface SlotStore {
  write(name: string, state: Uint8Array): Promise<void>;
  /** Undefined if the name does not exist. */
  read(name: string): Promise<Uint8Array | undefined>;
}

/**
 * The limits from the options and the defaults.
 * @throws ERR_INVALID_ARGUMENT for an invalid number in a limit or another option
 */
export function limitsOf(options: HandlerOptions): Limits {
  const check = (name: string, value: unknown, least: 0 | -1): void => {
    if (!Number.isInteger(value) || (value as number) < least)
      throw new QuantletError('ERR_INVALID_ARGUMENT', `${name} is ${String(value)}; expected a whole number from ${least} on.`);
  };
  if (options.contextShift) check('contextShift.keep', options.contextShift.keep, -1);
  if (options.embdNormalize !== undefined) check('embdNormalize', options.embdNormalize, -1);
  const limits = { ...LIMITS };
  for (const name of Object.keys(limits) as (keyof typeof limits)[]) {
    const value = options[name] ?? limits[name];
    check(name, value, 0);
    limits[name] = name.endsWith('Ms') ? Math.min(value, MOST_MS) : value;
  }
  return limits;
}
