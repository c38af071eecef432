/** Options of createHandler. */
import { CHAT_OPTIONS, type ChatOptions } from '../chat/options.ts';
import { QuantletError } from '../errors.ts';
import { GENERATE_OPTIONS } from '../generate/checked.ts';
import type { EmbedOptions } from '../generate/embed.ts';
import type { GenerateOptions } from '../generate/generate.ts';
import { KIND, nested, oneOf, type Kind, type Kinds } from '../options.ts';
import { SAMPLER_DEFAULTS, type SamplerOptions } from '../sample/options.ts';
import type { Batches } from './batch-state.ts';

export interface HandlerOptions {
  /** Keys that clients must send as a bearer token; none: everyone may. */
  apiKey?: string | readonly string[] | undefined;
  /** Origins whose pages may read answers; `localhost` among them: those of this machine, at any port; true: all. Default false. */
  cors?: boolean | readonly string[] | undefined;
  /** Hosts (names or addresses, without a port) that requests may be for; others get 403. Default: any. For servers that only this machine reaches: LOOPBACK_HOSTS. */
  allowedHosts?: readonly string[] | undefined;
  /** Read the text of control tokens (`<|im_end|>`) in messages as those tokens, as llama-server does. Default false: they stay text. */
  parseSpecial?: boolean | undefined;
  /**
   * An assistant's message at the end of a conversation is how the answer begins, as with llama-server's --prefill-assistant and in Anthropic's protocol.
   * False: it is a whole message, and a new answer begins. Default true.
   */
  prefillAssistant?: boolean | undefined;
  /** Bytes of a request body at most. Default 10 MiB. */
  maxBodyBytes?: number | undefined;
  /** Bytes of all requests together: bodies that are not yet answered, and answers that are not yet read. More get 503. Default 64 MiB. */
  maxBufferedBytes?: number | undefined;
  /** Characters of all strings of a request together, names of fields among them; more get 413. Default 2^20. */
  maxTextChars?: number | undefined;
  /** Messages of a conversation; more get 413. Default 4096. */
  maxMessages?: number | undefined;
  /** Milliseconds for a request body to arrive. Default 30 s. Timers end at 2^31 - 1 (25 days): more means that, here and below. */
  bodyTimeoutMs?: number | undefined;
  /** Milliseconds for an answer, waiting included; 0 for no limit. Default 1 h: a slow machine may read a long prompt for a good part of it. */
  timeoutMs?: number | undefined;
  /** Milliseconds of silence before a stream pings, by a comment or as its protocol has it; 0: never. A request's `sse_ping_interval` (seconds) goes first. Default 30 s. */
  ssePingMs?: number | undefined;
  /** Requests that wait for a place at most; more get 429. Default 64. */
  maxQueue?: number | undefined;
  /** Refuse (404) requests that name another model. Default false: one model is served, whatever its name. */
  checkModel?: boolean | undefined;
  /** What requests leave out: options of the sampler, `maxTokens`, `stop`, `special` (of texts without turns), a grammar or a format. */
  defaults?: RequestDefaults | undefined;
  /** The same of conversations: variables of the template, and what becomes of reasoning. */
  chatDefaults?: ChatDefaults | undefined;
  /**
   * An answer that fills the context goes on, as with llama-server's --context-shift: behind the first `keep` tokens of its prompt the older half is forgotten.
   * Only maxTokens, the model and `timeoutMs` end it then. Default: it ends there.
   */
  contextShift?: { readonly keep: number } | undefined;
  /** How /v1/embeddings makes a vector of the vectors of tokens. Default: as the model's file says. */
  pooling?: NonNullable<EmbedOptions['pooling']> | undefined;
  /** What the vectors of /v1/embeddings are divided by, as llama-server's --embd-normalize says: -1 nothing, 0 so that the largest number is 32760, p their p-norm. Default 2. */
  embdNormalize?: number | undefined;
  /** /infill puts the suffix before the prefix, which some models for code want. Default false. */
  spmInfill?: boolean | undefined;
  /** Where /slots/{id} saves sequences and finds them again; without it these requests get 501. */
  slotStore?: SlotStore | undefined;
  /** Files and batches (openBatches); without them /v1/files and /v1/batches get 501. */
  batches?: Batches | undefined;
  /** Serve GET /slots. Default true. */
  slots?: boolean | undefined;
  /** Answer POST /props, which has nothing to set. Default false. */
  props?: boolean | undefined;
  /** Serve GET /metrics. Default true. */
  metrics?: boolean | undefined;
  /** Path before all others: with `/api`, /v1/models is at /api/v1/models. Default none. */
  apiPrefix?: string | undefined;
  /** An HTML page to serve at /. */
  page?: string | undefined;
  /** What is served to GET where no endpoint is, by its path (decoded, from a slash on); undefined: nothing there. No key is needed, as for `page`. */
  files?: ((path: string) => Promise<Response | undefined>) | undefined;
  /** Aborts: the server stops. Answers that have not ended end with an error, streams with that of their protocol. Batches end by their own close(). */
  signal?: AbortSignal | undefined;
  /** Called once per request, when its answer is complete or given up. */
  onAccess?: ((access: Access) => void) | undefined;
  /** Called with failures of the server itself (status 500 and above), which clients are told little about. */
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

/** The longest time that setTimeout takes: anything above ends at once. */
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

const pick = <T extends object, K extends keyof T>(table: T, ...names: readonly K[]): Pick<T, K> =>
  Object.fromEntries(names.map((name) => [name, table[name]])) as Pick<T, K>;

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

/** Every option of createHandler. Its numbers are looked into by limitsOf(). */
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

/** Saved sequences by their names: letters, digits, `.`, `_` and `-`, at most 128 of them, no `.` first. */
export interface SlotStore {
  write(name: string, state: Uint8Array): Promise<void>;
  /** Undefined where there is none of this name. */
  read(name: string): Promise<Uint8Array | undefined>;
}

/** The limits that the options set, and the defaults of the others. @throws ERR_INVALID_ARGUMENT where a number makes no sense, of a limit or another option */
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
