/** llama-server's own endpoints: /completion, /tokenize, /detokenize, /apply-template, /props. */
import type { GenerationPart, GenerationResult } from '../generate.ts';
import { chatOptions, messagesOf } from './chat.ts';
import { promptOf, runText } from './completions.ts';
import { encode } from '../chat/run.ts';
import { inSlices } from '../slices.ts';
import { answer, createUsage, drained, mapped, type Context } from './context.ts';
import { booleanField, inputsField, invalid, numberField, recordField, stringField, type Body } from './fields.ts';
import { jsonList, jsonResponse } from './json-list.ts';
import { chatEntry } from './logprobs.ts';
import { textOptions } from './sampling.ts';

/** POST /completion, llama-server's own: one prompt, `n_predict`, `n_probs`, `grammar`, `json_schema`. */
export async function completion(context: Context, body: Body): Promise<Response> {
  const { backend, signal } = context;
  const stream = booleanField(body, 'stream') ?? false;
  const nProbs = numberField(body, 'n_probs', { least: 0, most: 100, integer: true }) ?? 0;
  const nPredict = numberField(body, 'n_predict', { least: -1, integer: true }) ?? numberField(body, 'max_tokens', { least: -1, integer: true }) ?? -1;
  const withTokens = booleanField(body, 'return_tokens') ?? false;
  const schema = recordField(body, 'json_schema');
  const [given] = inputsField(body, 'prompt', 1);
  const prompt = await promptOf(context, given);
  const options = { ...textOptions(body), signal, maxTokens: nPredict < 0 ? prompt.room : Math.min(nPredict, prompt.room), ...(nProbs > 0 ? { logprobs: nProbs } : {}), ...(schema ? { responseFormat: { type: 'json_schema', schema } as const } : {}) };
  const usage = createUsage(context.metrics);

  const probabilities = (parts: readonly GenerationPart[]): object =>
    nProbs > 0 ? { completion_probabilities: parts.flatMap((part) => (part.logprobs ? [{ id: part.logprobs.id, ...chatEntry(backend, part.logprobs) }] : [])) } : {};
  const last = (result: GenerationResult, content: string): object => ({
    index: 0,
    content,
    tokens: [],
    stop: true,
    model: backend.name,
    tokens_predicted: result.ids.length,
    tokens_evaluated: prompt.ids.length,
    prompt: prompt.text(),
    has_new_line: result.text.includes('\n'),
    truncated: false,
    stop_type: ({ eog: 'eos', stop: 'word', length: 'limit', context: 'limit' } as const)[result.finishReason],
    stopping_word: result.stopText ?? '',
    tokens_cached: prompt.ids.length + result.ids.length,
    timings: timings(result),
  });

  async function* chunks(): AsyncGenerator<object | string, void> {
    let predicted = 0;
    const result = yield* mapped(runText(context, usage, 0, prompt.ids, options), (part) => {
      const { id, text } = part;
      if (id >= 0) predicted++;
      return text !== '' || nProbs > 0 ? [{ index: 0, content: text, tokens: id >= 0 ? [id] : [], stop: false, id_slot: -1, tokens_predicted: predicted, tokens_evaluated: prompt.ids.length, ...probabilities([part]) }] : [];
    });
    yield last(result, '');
  }

  async function whole(): Promise<object> {
    const all: GenerationPart[] = [];
    const result = await drained(runText(context, usage, 0, prompt.ids, options), (part) => all.push(part));
    return { ...last(result, result.text), ...(withTokens ? { tokens: result.ids } : {}), ...probabilities(all) };
  }

  return answer(context, stream, chunks, whole);
}

function timings({ timings: { promptTokens, promptMs, predictedTokens, predictedMs } }: GenerationResult): object {
  const per = (ms: number, tokens: number): number => (tokens > 0 ? ms / tokens : 0);
  const rate = (ms: number, tokens: number): number => (ms > 0 ? (1000 * tokens) / ms : 0);
  return {
    prompt_n: promptTokens,
    prompt_ms: promptMs,
    prompt_per_token_ms: per(promptMs, promptTokens),
    prompt_per_second: rate(promptMs, promptTokens),
    predicted_n: predictedTokens,
    predicted_ms: predictedMs,
    predicted_per_token_ms: per(predictedMs, predictedTokens),
    predicted_per_second: rate(predictedMs, predictedTokens),
  };
}

/** POST /tokenize. A piece that is no UTF-8 is given as its bytes. */
export async function tokenize({ backend, signal }: Context, body: Body): Promise<Response> {
  const content = stringField(body, 'content');
  if (content === undefined) throw invalid('content', 'a string', undefined);
  const ids = await inSlices(encode(backend, content, { addSpecial: booleanField(body, 'add_special') ?? false, parseSpecial: booleanField(body, 'parse_special') ?? true }), signal);
  const withPieces = booleanField(body, 'with_pieces');
  const piece = (id: number): string | number[] => {
    const bytes = backend.tokenBytes(id);
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return [...bytes];
    }
  };
  return jsonResponse('{"tokens":', await inSlices(jsonList(ids, withPieces ? (id) => ({ id, piece: piece(id) }) : (id) => id), signal), '}');
}

/** POST /detokenize. */
export async function detokenize({ backend, signal }: Context, body: Body): Promise<Response> {
  const { tokens } = body;
  if (!Array.isArray(tokens) || !tokens.every((id) => Number.isInteger(id))) throw invalid('tokens', 'a list of token ids', tokens);
  const ids = tokens as number[];
  return Response.json({ content: backend.decodeWork ? await inSlices(backend.decodeWork(ids), signal) : backend.detokenize(ids) });
}

/** POST /apply-template: the prompt that a chat request would be. */
export async function applyTemplate({ backend, signal }: Context, body: Body): Promise<Response> {
  const { tools = [], toolChoice, templateVariables } = chatOptions(body);
  const { text: prompt } = await inSlices(backend.chatTemplate.renderWork({
    messages: messagesOf(body),
    tools: toolChoice === 'none' ? [] : tools,
    addGenerationPrompt: booleanField(body, 'add_generation_prompt') ?? true,
    ...(templateVariables ? { extra: templateVariables } : {}),
  }), signal);
  return Response.json({ prompt });
}

/** GET /props. */
export function props({ backend }: Context): Response {
  return Response.json({
    default_generation_settings: { n_ctx: backend.contextLength, params: {} },
    total_slots: backend.parallel,
    model_alias: backend.name,
    modalities: { vision: false, audio: false },
    chat_template: backend.chatTemplate.source,
    chat_template_caps: { ...backend.chatTemplate.capabilities },
    bos_token: backend.bos,
    eos_token: backend.eos,
    build_info: 'quantlet',
  });
}

/** The model list's `meta` and ids. */
export function modelList({ backend, created }: Context): object {
  const model = { id: backend.name, object: 'model', created, owned_by: 'quantlet', meta: { n_ctx: backend.contextLength } };
  return { object: 'list', data: [model] };
}
