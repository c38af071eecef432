/** The backend of a page that `quantlet serve` serves: the endpoints of the same server. */
import { effect, signal } from '@preact/signals';
import {
  PageError,
  failureOf,
  readingPart,
  type AnswerEnd,
  type AnswerPart,
  type AnswerRequest,
  type Backend,
  type Call,
  type Failure,
  type ModelInfo,
} from './backend.ts';
import { fitText, roomFor } from './fit.ts';
import type { GenerationOptions } from './settings.ts';

/** The server's API key, stored until the tab is closed. */
export const apiKey = signal(sessionStorage.getItem('key') ?? '');
effect(() => sessionStorage.setItem('key', apiKey.value));

const headers = (): Record<string, string> => ({
  'content-type': 'application/json',
  ...(apiKey.value ? { authorization: `Bearer ${apiKey.value}` } : {}),
});

/** @throws PageError with a message for people; signal.reason */
async function request(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers: headers() });
  } catch (error) {
    init.signal?.throwIfAborted();
    throw new PageError(`The server cannot be reached (${(error as Error).message}). Is quantlet serve still running?`);
  }
  if (response.ok) return response;
  const { error } = (await response.json().catch(() => ({}))) as { error?: { message?: string; code?: string } };
  if (response.status === 401)
    throw new PageError('The server needs an API key, or a different one. Enter it in the settings and try again.', 'unauthorized');
  throw new PageError(error?.message ?? `The server answered with status ${response.status}.`, error?.code);
}

const BROKEN = 'The connection broke before the answer was complete.';

/** Delay before asking a server again that did not answer. */
const RETRY_MS = 3000;

const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Options as fields of a request. */
function fieldsOf({ responseFormat, templateVariables, ...options }: GenerationOptions): Record<string, unknown> {
  const format =
    responseFormat?.type === 'json_schema'
      ? { type: 'json_schema', json_schema: { name: 'answer', schema: responseFormat.schema } }
      : responseFormat;
  return {
    ...Object.fromEntries(Object.entries(options).map(([name, value]) => [snake(name), value])),
    ...(format ? { response_format: format } : {}),
    ...(templateVariables ? { chat_template_kwargs: templateVariables } : {}),
  };
}

interface CallPiece {
  readonly index: number;
  readonly id?: string;
  readonly function: { readonly name?: string; readonly arguments?: string };
}

interface Chunk {
  readonly error?: { readonly message?: string; readonly code?: string };
  readonly choices?: readonly {
    readonly text?: string;
    readonly delta?: {
      readonly content?: string;
      readonly reasoning_content?: string;
      readonly tool_calls?: readonly CallPiece[];
    };
    readonly finish_reason?: string | null;
  }[];
  /** Messages that the server left out for lack of room. Only in the first chunk. */
  readonly quantlet?: { readonly left_out?: number };
  /** Tokens of the prompt, while it is read. */
  readonly prompt_progress?: {
    readonly total: number;
    readonly cache: number;
    readonly processed: number;
    readonly images?: { readonly done: number; readonly total: number };
  };
  /** Only with the last part of an answer. */
  readonly timings?: { readonly prompt_ms: number; readonly predicted_ms: number };
  readonly usage?: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number };
  } | null;
}

/**
 * The text of a stream.
 * @throws PageError if the connection to the server is lost
 */
async function* texts(response: Response): AsyncGenerator<string> {
  try {
    yield* response.body!.pipeThrough(new TextDecoderStream());
  } catch (error) {
    throw error instanceof DOMException && error.name === 'AbortError' ? error : new PageError(BROKEN);
  }
}

/**
 * The parsed JSON of a stream's events.
 * @throws PageError if the server reports an error in the stream
 */
async function* chunks(response: Response): AsyncGenerator<Chunk> {
  let held = '';
  for await (const text of texts(response)) {
    const events = (held + text).split('\n\n');
    held = events.pop()!;
    for (const event of events) {
      if (!event.startsWith('data: ') || event === 'data: [DONE]') continue;
      const chunk = JSON.parse(event.slice(6)) as Chunk;
      if (chunk.error) throw new PageError(chunk.error.message ?? 'The server stopped answering.', chunk.error.code);
      yield chunk;
    }
  }
}

/**
 * Request fields for a conversation. The server leaves out the oldest turns if asked to, because
 * only the server knows the template.
 */
const chatFields = (
  { messages, continues }: Extract<AnswerRequest['task'], { messages: unknown }>,
  leaveOut: boolean,
): Record<string, unknown> => ({
  messages,
  ...(continues ? { continue_final_message: true } : {}),
  ...(leaveOut ? { quantlet: { on_context_full: 'shift' } } : {}),
});

/** The number of tokens of a text. */
async function count(content: string, model: string | undefined, signal: AbortSignal): Promise<number> {
  const body = JSON.stringify({ ...(model ? { model } : {}), content, add_special: true });
  const response = await request('tokenize', { method: 'POST', body, signal });
  return ((await response.json()) as { tokens: readonly unknown[] }).tokens.length;
}

/** Adds a piece of a call. The first piece has the id and the name. */
function addCall(calls: Call[], { index, id, function: { name, arguments: text = '' } }: CallPiece): void {
  const begun = calls.at(index);
  if (begun) calls[index] = { ...begun, arguments: begun.arguments + text };
  else calls.push({ id: id ?? name ?? '', name: name ?? '', arguments: text });
}

async function* answer(asked: AnswerRequest, contextLength: number | undefined): AsyncGenerator<AnswerPart, AnswerEnd> {
  const { model, task, options, leaveOut, signal } = asked;
  let fields: Record<string, unknown>;
  if ('messages' in task) fields = chatFields(task, leaveOut);
  else {
    // The server does not shorten plain text, which has no turns, so the page does.
    const room = leaveOut && contextLength !== undefined ? roomFor(contextLength, options.maxTokens) : Infinity;
    const { prompt, leftOut } = await fitText(task.prompt, room, (text) => count(text, model, signal));
    if (leftOut > 0) yield { type: 'leftOut', messages: leftOut };
    fields = { prompt };
  }
  const body = {
    ...(model ? { model } : {}),
    ...fieldsOf(options),
    ...fields,
    stream: true,
    return_progress: true,
    stream_options: { include_usage: true },
  };
  const path = 'prompt' in task ? 'v1/completions' : 'v1/chat/completions';
  const response = await request(path, { method: 'POST', body: JSON.stringify(body), signal });
  const calls: Call[] = [];
  let finishReason = '';
  let usage: Chunk['usage'];
  let timings: Chunk['timings'];
  for await (const chunk of chunks(response)) {
    usage = chunk.usage ?? usage;
    timings = chunk.timings ?? timings;
    if (chunk.quantlet?.left_out) yield { type: 'leftOut', messages: chunk.quantlet.left_out };
    if (chunk.prompt_progress) {
      const { total, cache: cached, processed: done, images } = chunk.prompt_progress;
      yield readingPart({ done, total, cached }, images);
    }
    for (const { text, delta, finish_reason } of chunk.choices ?? []) {
      finishReason = finish_reason ?? finishReason;
      if (delta?.reasoning_content) yield { type: 'reasoning', delta: delta.reasoning_content };
      const content = text ?? delta?.content;
      if (content) yield { type: 'content', delta: content };
      for (const call of delta?.tool_calls ?? []) addCall(calls, call);
    }
  }
  for (const call of calls) yield { type: 'toolCall', call };
  signal.throwIfAborted();
  if (!finishReason) throw new PageError(BROKEN);
  return {
    finishReason,
    promptTokens: usage?.prompt_tokens ?? 0,
    cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? 0,
    tokens: usage?.completion_tokens ?? 0,
    ...(timings ? { promptMs: timings.prompt_ms, predictedMs: timings.predicted_ms } : {}),
  };
}

export interface ServedBackend extends Backend {
  /** Asks the server for its models again. */
  refresh(): Promise<void>;
}

/** A model of GET /v1/models. It has `meta` and `capabilities` once it is loaded. */
interface ListedModel {
  readonly id: string;
  readonly meta?: { readonly n_ctx?: number };
  readonly capabilities?: readonly string[];
}

/** The fields of GET /props that the page reads. */
interface Props {
  readonly chat_template_warnings?: readonly string[];
  readonly modalities?: { readonly vision?: boolean };
}

export function createServedBackend(): ServedBackend {
  const models = signal<readonly ModelInfo[]>([]);
  const problem = signal<Failure | undefined>(undefined);
  return {
    models,
    problem,
    count,
    enlarge: 'start the server with a larger context (-c)',
    toSee: 'The model of this server reads no pictures. Start the server with one that does, and with its projector (--mmproj).',
    async *answer(asked) {
      const lengthOf = (): number | undefined => models.value.find(({ id }) => id === asked.model)?.contextLength;
      // The server reports a model's context length only after the model is loaded.
      if (asked.leaveOut && lengthOf() === undefined) await this.refresh();
      return yield* answer(asked, lengthOf());
    },
    async refresh() {
      try {
        const { data } = (await (await request('v1/models')).json()) as { data: readonly ListedModel[] };
        // /props describes a server's only model, so it is not asked if there are several.
        const props = data.length === 1 ? ((await (await request('props')).json()) as Props) : undefined;
        models.value = data.map(({ id, meta, capabilities = [] }) => ({
          id,
          contextLength: meta?.n_ctx,
          chat: (props?.chat_template_warnings ?? []).length === 0,
          sees: props ? props.modalities?.vision === true : meta && capabilities.includes('multimodal'),
        }));
        problem.value = undefined;
      } catch (error) {
        models.value = [];
        problem.value = failureOf(error);
        // The server may still be loading its model or be restarting. A missing key cannot be
        // solved by asking again.
        if (problem.value.code !== 'unauthorized') setTimeout(() => void this.refresh(), RETRY_MS);
      }
    },
  };
}
