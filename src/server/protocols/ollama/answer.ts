/** Answers of /api/chat and /api/generate: JSON lines, or one object. */
import { exactJson } from '../../../chat/exact-json.ts';
import { argumentsObject, newCallId } from '../../../chat/messages.ts';
import { collectEvents, type ChatEvent } from '../../../chat/parser.ts';
import type { ChatOutcome, ChatStep } from '../../../chat/run.ts';
import type { GenerateOptions } from '../../../generate/generate.ts';
import { answer, createUsage, drained, mapped, type Context, type UsageCounter } from '../../context.ts';
import type { StreamProtocol } from '../../http/event-stream.ts';
import { JsonList, JsonText } from '../../http/json-pieces.ts';
import type { Body } from '../fields.ts';
import { chatEntry } from '../logprobs.ts';
import { keepAlive, modelOf, ollamaError, streams } from './fields.ts';

/** A part of an answer. */
export interface Part {
  readonly content: string;
  readonly thinking?: string;
  readonly calls?: readonly unknown[];
}

/** An endpoint's parts of an answer. */
interface Generated {
  readonly ids: readonly number[];
  readonly options: GenerateOptions;
  run(usage: UsageCounter): AsyncGenerator<ChatStep, ChatOutcome>;
  /** A part in the endpoint's form. */
  write(part: Part): object;
  /** Further fields of the last line. */
  last?(outcome: ChatOutcome): object;
}

/** The beginning of every line. The model has the name that the client gave it. */
export const head = (body: Body): { model: string; created_at: string } => ({
  model: modelOf(body),
  created_at: new Date().toISOString(),
});

/** The stream of a request, with an empty part as its ping; undefined if it wants none. */
export const streamOf =
  (write: (part: Part) => object) =>
  (body: Body): StreamProtocol | undefined =>
    body.stream === false ? undefined : lines(body, write);

const lines = (body: Body, write: (part: Part) => object): Required<StreamProtocol> => ({
  lines: true,
  ping: { model: body.model ?? body.name, created_at: new Date().toISOString(), ...write({ content: '' }), done: false },
  streamError: ollamaError,
});

const nanoseconds = (ms: number): number => Math.round(ms * 1e6);

/** Durations that every answer has, in nanoseconds. */
export const durations = ({ began, loadMs }: Context): { readonly total_duration: number; readonly load_duration: number } => ({
  total_duration: nanoseconds(performance.now() - began),
  load_duration: nanoseconds(loadMs),
});

/** Token counts and durations, in nanoseconds. */
function measures(context: Context, promptTokens: number, { result }: ChatOutcome, tokens: number): object {
  return {
    ...durations(context),
    prompt_eval_count: promptTokens,
    prompt_eval_duration: nanoseconds(result?.timings.promptMs ?? 0),
    eval_count: tokens,
    eval_duration: nanoseconds(result?.timings.predictedMs ?? 0),
  };
}

type CallEvent = ChatEvent & { readonly type: 'toolCall' };

/** A call. Its arguments are an object, unlike OpenAI's. `write` keeps the spelling of their numbers. */
const callOf = ({ call, index }: CallEvent, write: (args: object) => unknown = (args) => args): object => ({
  id: call.id ?? newCallId(),
  function: { index, name: call.name, arguments: write(argumentsObject({ function: call })) },
});

function partOf(event: ChatEvent): Part {
  if (event.type === 'toolCall') return { content: '', calls: [callOf(event)] };
  return event.type === 'reasoning' ? { content: '', thinking: event.delta } : { content: event.delta };
}

/** Answers a request, as lines unless it has `stream: false`. */
export function ollamaAnswer(context: Context, body: Body, { ids, options, run, write, last }: Generated): Promise<Response> {
  const { backend } = context;
  const usage = createUsage(context.metrics);
  const end = (outcome: ChatOutcome, tokens: number): object => ({
    done: true,
    // Ollama has no reason of its own for calls.
    done_reason: outcome.finishReason === 'length' ? 'length' : 'stop',
    ...last?.(outcome),
    ...measures(context, ids.length, outcome, tokens),
  });

  async function* events(place: Promise<unknown>): AsyncGenerator<object | string, void> {
    await place;
    keepAlive(context, body);
    let entries: object[] = [];
    let tokens = 0;
    const line = (part: Part): string => {
      const logprobs = entries.length > 0 ? { logprobs: entries } : {};
      entries = [];
      return exactJson({ ...head(body), ...write(part), done: false, ...logprobs });
    };
    const outcome = yield* mapped(run(usage), ({ events, part }) => {
      if ((part?.id ?? -1) >= 0) tokens++;
      if (part?.logprobs) entries.push(chatEntry(backend, part.logprobs));
      return events.map((event) => line(partOf(event)));
    });
    const rest = entries.length > 0 ? { logprobs: entries } : {};
    yield { ...head(body), ...write({ content: '' }), ...rest, ...end(outcome, tokens) };
  }

  async function whole(): Promise<object> {
    keepAlive(context, body);
    const all: ChatEvent[] = [];
    const logprobs = new JsonList();
    let tokens = 0;
    const outcome = await drained(run(usage), ({ events, part }) => {
      all.push(...events);
      if ((part?.id ?? -1) >= 0) tokens++;
      if (part?.logprobs) context.hold(logprobs.push(chatEntry(backend, part.logprobs)));
    });
    const { content, reasoning } = collectEvents(all);
    const exact = (args: object): JsonText => new JsonText(exactJson(args));
    const calls = all.flatMap((event) => (event.type === 'toolCall' ? [callOf(event, exact)] : []));
    const part = { content, ...(reasoning === '' ? {} : { thinking: reasoning }), ...(calls.length > 0 ? { calls } : {}) };
    return { ...head(body), ...write(part), ...(options.logprobs === undefined ? {} : { logprobs }), ...end(outcome, tokens) };
  }

  return answer(context, { ...lines(body, write), body, streams: streams(body), generations: [[ids, options]], events, whole });
}
