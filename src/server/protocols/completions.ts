/** POST /v1/completions. */
import { encode, roomFor } from '../../chat/run.ts';
import type { GenerateOptions, GenerationPart, GenerationResult } from '../../generate/generate.ts';
import { maxChoices } from './chat.ts';
import {
  answer,
  answerId,
  createUsage,
  drained,
  mapped,
  promptProgress,
  relaxedIn,
  timings,
  type Context,
  type UsageCounter,
} from '../context.ts';
import { Reading, withReading } from '../../generate/progress.ts';
import { checkFields } from './field-table.ts';
import { booleanField, inputsField, numberField, type Body } from './fields.ts';
import { HttpError } from '../http/http-error.ts';
import { completionLogprobs, createLogprobLists } from './logprobs.ts';
import { COMPLETION_REFUSALS } from './protocol.ts';
import { lengthField, lengthOf, setFormat, textOptions } from './sampling.ts';

/** Maximum number of prompts of one request. They are completed one after another. */
const maxPrompts = 64;

/** POST /v1/completions. */
export async function completions(context: Context, body: Body): Promise<Response> {
  const { backend, signal } = context;
  checkFields(COMPLETION_REFUSALS, body);
  const n = numberField(body, 'n', { least: 1, most: maxChoices, integer: true }) ?? 1;
  if ((numberField(body, 'best_of', { least: 1, integer: true }) ?? n) !== n)
    throw new HttpError(400, "'best_of' must equal 'n' or be left out.", { param: 'best_of', code: 'unsupported_parameter' });
  const withProgress = booleanField(body, 'return_progress') ?? false;
  const includeUsage = booleanField(body, 'stream_options.include_usage') ?? false;
  const echo = booleanField(body, 'echo') ?? false;
  const logprobs = numberField(body, 'logprobs', { least: 0, most: 20, integer: true });
  if (echo && logprobs !== undefined)
    throw new HttpError(400, "'echo' with 'logprobs' would need log probabilities of the prompt, which are not kept. Leave one out.", {
      param: 'logprobs',
      code: 'unsupported_parameter',
    });
  const maxTokens = lengthField(body, 'max_tokens');
  const prompts: Prompt[] = [];
  for (const prompt of inputsField(body, 'prompt', maxPrompts)) prompts.push(await preparedPrompt(context, prompt));
  const shared: GenerateOptions = { ...textOptions(context, body), signal, ...(logprobs === undefined ? {} : { logprobs }) };
  setFormat(shared, body);

  const head = { id: answerId('cmpl-'), object: 'text_completion', created: context.created, model: backend.name };
  const usage = createUsage(context.metrics);
  const promptOf = (index: number): number => Math.floor(index / n);
  const generation = (index: number): readonly [readonly number[], GenerateOptions] => {
    const { ids, room } = prompts[promptOf(index)];
    const seed = shared.seed === undefined ? {} : { seed: (shared.seed + (index % n)) % 2 ** 32 };
    const asked = maxTokens ?? shared.maxTokens ?? -1;
    return [ids, { ...shared, ...seed, ...lengthOf(context, body, asked < 0 ? Infinity : asked, room) }];
  };
  const run = (index: number, onProgress?: GenerateOptions['onProgress']): TextRun => {
    const [ids, options] = generation(index);
    return runText(context, usage, promptOf(index), ids, onProgress ? { ...options, onProgress } : options);
  };
  const echoed = (index: number): string => (echo ? prompts[promptOf(index)].text() : '');

  async function* events(place: Promise<unknown>): AsyncGenerator<object | string, void> {
    const base = { ...head, ...(includeUsage ? { usage: null } : {}) };
    await place;
    for (let index = 0; index < n * prompts.length; index++) {
      const choice = (text: string, finish: string | null, part?: GenerationPart): object => ({
        ...base,
        choices: [
          { index, text, logprobs: part?.logprobs ? completionLogprobs(backend, part.logprobs, offset) : null, finish_reason: finish },
        ],
      });
      let offset = echoed(index).length;
      if (offset > 0) yield choice(echoed(index), null);
      const parts = withProgress ? withReading((onProgress) => run(index, onProgress)) : run(index);
      const result = yield* mapped(parts, (part: GenerationPart | Reading) => {
        if (part instanceof Reading) return [{ ...choice('', null), ...promptProgress(part) }];
        // A token that is only part of a character has no text yet, but has its log probability.
        const chunks = part.text !== '' || part.logprobs ? [choice(part.text, null, part)] : [];
        offset += part.text.length;
        return chunks;
      });
      yield { ...choice('', result.finishReason), timings: timings(result), ...relaxedIn([result]) };
    }
    if (includeUsage) yield { ...base, choices: [], usage: usage.total() };
    yield '[DONE]';
  }

  async function whole(): Promise<object> {
    const choices: object[] = [];
    const results: GenerationResult[] = [];
    for (let index = 0; index < n * prompts.length; index++) {
      const lists = createLogprobLists(backend);
      const result = await drained(run(index), (part) => context.hold(part.logprobs ? lists.push(part.logprobs) : 0));
      results.push(result);
      choices.push({
        index,
        text: echoed(index) + result.text,
        logprobs: logprobs === undefined ? null : lists.value,
        finish_reason: result.finishReason,
      });
    }
    return { ...head, choices, usage: usage.total(), ...relaxedIn(results) };
  }

  return answer(context, { body, generations: prompts.map((_, prompt) => generation(prompt * n)), events, whole });
}

export type TextRun = AsyncGenerator<GenerationPart, GenerationResult>;

/**
 * Runs one generation and counts its tokens, even if it fails.
 * @param prompt index of the request's prompt
 */
export async function* runText(
  context: Context,
  usage: UsageCounter,
  prompt: number,
  ids: readonly number[],
  options: GenerateOptions,
): TextRun {
  let tokens = 0;
  let result: GenerationResult | undefined;
  try {
    const generation = context.backend.generate(ids, options);
    for await (const part of generation) {
      if (part.id >= 0) tokens++;
      yield part;
    }
    return (result = await generation.result());
  } finally {
    usage.add(prompt, ids.length, tokens, result);
  }
}

export interface Prompt {
  readonly ids: readonly number[];
  readonly room: number;
  readonly text: () => string;
}

/**
 * A prompt's ids, the number of tokens that may follow, and its text.
 * @throws QuantletError ERR_CONTEXT_FULL
 */
export async function preparedPrompt(context: Context, prompt: string | readonly number[]): Promise<Prompt> {
  const { backend } = context;
  const ids = typeof prompt === 'string' ? await context.work(encode(backend, prompt, { addSpecial: true, parseSpecial: true })) : prompt;
  return {
    ids,
    room: roomFor(ids.length, backend),
    text: () => (typeof prompt === 'string' ? prompt : backend.detokenize(ids)),
  };
}
