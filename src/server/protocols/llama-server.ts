/**
 * llama-server's endpoints that OpenAI does not have: /completion, /tokenize, /detokenize,
 * /apply-template, /props, /lora-adapters; and lists of models.
 */
import { hasImages, isImagePart } from '../../chat/images.ts';
import type { ChatMessage, ChatPart } from '../../chat/messages.ts';
import { isRecord } from '../../chat/json.ts';
import type { GenerateOptions, GenerationPart, GenerationResult } from '../../generate/generate.ts';
import { chatRequest, checkMessageCount } from './chat.ts';
import { preparedPrompt, runText, type Prompt, type TextRun } from './completions.ts';
import { encode, renderOptions, roomFor } from '../../chat/run.ts';
import { idsWithImages, readParts, type PromptPart } from '../../generate/parts.ts';
import { answer, createUsage, drained, jsonAnswer, mapped, promptProgress, relaxedIn, timings, type Context } from '../context.ts';
import { Reading, withReading } from '../../generate/progress.ts';
import { checkFields } from './field-table.ts';
import { booleanField, inputsField, invalid, numberField, stringField, type Body } from './fields.ts';
import { HttpError } from '../http/http-error.ts';
import { JsonList, jsonList, jsonPieces } from '../http/json-pieces.ts';
import { chatEntry } from './logprobs.ts';
import { imageReader } from '../images.ts';
import { modelNamed, unknownModel, type ModelStatus } from '../models.ts';
import { NATIVE_REFUSALS } from './protocol.ts';
import { lengthField, lengthOf, setFormat, settingsOf, textOptions } from './sampling.ts';
import { resolveSamplerOptions } from '../../sample/options.ts';

/**
 * POST /completion of llama-server: one prompt, `n_predict`, `n_probs`, `grammar`, `json_schema`.
 */
export async function completion(context: Context, body: Body): Promise<Response> {
  if (isRecord(body.prompt)) return complete(context, body, await imagePrompt(context, body.prompt));
  const [given] = inputsField(body, 'prompt', 1);
  return complete(context, body, await preparedPrompt(context, given));
}

/** Text in `prompt_string` that stands for an image, as in llama-server. */
const MEDIA_MARKER = '<__media__>';

/** A prompt of llama-server with images: a text with markers, and the images in base64. */
async function imagePrompt(context: Context, { prompt_string: text, multimodal_data: data }: Body): Promise<Prompt> {
  const { backend, signal } = context;
  const shape = '{"prompt_string": a string, "multimodal_data": a list of images and sounds in base64}';
  if (typeof text !== 'string' || !Array.isArray(data) || !data.every((one) => typeof one === 'string'))
    throw invalid('prompt', shape, { prompt_string: text, multimodal_data: data });
  const texts = text.split(MEDIA_MARKER);
  if (texts.length !== data.length + 1)
    throw invalid('prompt.prompt_string', `a marker ${MEDIA_MARKER} for each of ${data.length} images and sounds`, text);
  const parts = texts.flatMap((piece, i): PromptPart[] => (i === 0 ? [piece] : [{ type: 'image', image: data[i - 1] as string }, piece]));
  const readImage = imageReader(context);
  if (data.length > 0 && !readImage)
    throw new HttpError(
      400,
      'The model was loaded without a projector and takes neither images nor sounds; start the server with --mmproj.',
      {
        param: 'prompt.multimodal_data',
        code: 'invalid_value',
      },
    );
  const { text: marked, images } = await readParts(parts, (media, s) => readImage!(media, s), signal);
  const ids = await context.work(
    idsWithImages({ text: marked, breaks: [] }, images, (piece, begins) =>
      encode(backend, piece.text, { addSpecial: begins, parseSpecial: true }),
    ),
  );
  return { ids, room: roomFor(ids.length, backend), text: () => text };
}

/** Continues a prompt with the options of /completion. */
export async function complete(context: Context, body: Body, prompt: Prompt): Promise<Response> {
  const { backend, signal } = context;
  checkFields(NATIVE_REFUSALS, body);
  const probs = { least: 0, most: 100, integer: true };
  const nProbs = numberField(body, 'n_probs', probs) ?? numberField(body, 'logprobs', probs) ?? 0;
  const shared = textOptions(context, body);
  const nPredict = lengthField(body, 'n_predict') ?? shared.maxTokens ?? -1;
  const withProgress = booleanField(body, 'return_progress') ?? false;
  const withTokens = booleanField(body, 'return_tokens') ?? false;
  setFormat(shared, body);
  const options = {
    ...shared,
    signal,
    ...lengthOf(context, body, nPredict < 0 ? Infinity : nPredict, prompt.room),
    ...(nProbs > 0 ? { logprobs: nProbs } : {}),
  };
  const usage = createUsage(context.metrics);
  const inContext = backend.encoder ? 1 : prompt.ids.length;

  const probability = ({ logprobs }: GenerationPart): object | undefined =>
    logprobs && { id: logprobs.id, ...chatEntry(backend, logprobs) };
  const probabilities = (list: JsonList | readonly (object | undefined)[]): object =>
    nProbs > 0 ? { completion_probabilities: list } : {};
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
    truncated: inContext + result.ids.length > backend.contextLength,
    stop_type: result.finishReason === 'length' ? 'limit' : result.stopText === undefined ? 'eos' : 'word',
    stopping_word: result.stopText ?? '',
    tokens_cached: Math.min(inContext + result.ids.length, backend.contextLength),
    timings: timings(result),
    ...relaxedIn([result]),
  });

  async function* events(place: Promise<unknown>): AsyncGenerator<object | string, void> {
    let predicted = 0;
    await place;
    const run = (more: GenerateOptions = {}): TextRun => runText(context, usage, 0, prompt.ids, { ...options, ...more });
    const parts = withProgress ? withReading((onProgress) => run({ onProgress })) : run();
    const event = (content: string, tokens: readonly number[], more: object): object => ({
      ...{ index: 0, content, tokens, stop: false, id_slot: -1 },
      ...{ tokens_predicted: predicted, tokens_evaluated: prompt.ids.length, ...more },
    });
    const result = yield* mapped(parts, (part: GenerationPart | Reading) => {
      if (part instanceof Reading) return [event('', [], promptProgress(part))];
      const { id, text } = part;
      if (id >= 0) predicted++;
      if (text === '' && nProbs === 0) return [];
      return [event(text, id >= 0 ? [id] : [], probabilities([probability(part)].filter((one) => one !== undefined)))];
    });
    yield last(result, '');
  }

  async function whole(): Promise<object> {
    const list = new JsonList();
    const result = await drained(runText(context, usage, 0, prompt.ids, options), (part) =>
      context.hold(part.logprobs ? list.push(probability(part)) : 0),
    );
    return { ...last(result, result.text), ...(withTokens ? { tokens: result.ids } : {}), ...probabilities(list) };
  }

  return answer(context, { body, generations: [[prompt.ids, options]], events, whole });
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** POST /tokenize. A piece that is not valid UTF-8 is given as bytes. */
export async function tokenize(context: Context, body: Body): Promise<Response> {
  const { backend } = context;
  const content = stringField(body, 'content');
  if (content === undefined) throw invalid('content', 'a string', undefined);
  const ids = await context.work(
    encode(backend, content, {
      addSpecial: booleanField(body, 'add_special') ?? false,
      parseSpecial: booleanField(body, 'parse_special') ?? true,
    }),
  );
  const withPieces = booleanField(body, 'with_pieces');
  const piece = (id: number): string | number[] => {
    const bytes = backend.tokenBytes(id);
    try {
      return utf8.decode(bytes);
    } catch {
      return [...bytes];
    }
  };
  const list = await context.work(jsonList(ids, withPieces ? (id) => ({ id, piece: piece(id) }) : (id) => id));
  return jsonAnswer(context, ['{"tokens":', ...list, '}']);
}

/** POST /detokenize. */
export async function detokenize(context: Context, body: Body): Promise<Response> {
  const { backend } = context;
  const { tokens } = body;
  if (!Array.isArray(tokens) || !tokens.every((id) => Number.isInteger(id))) throw invalid('tokens', 'a list of token ids', tokens);
  const ids = tokens as number[];
  const content = backend.decodeWork ? await context.work(backend.decodeWork(ids)) : backend.detokenize(ids);
  return jsonAnswer(context, await context.work(jsonPieces({ content })));
}

/** POST /apply-template: the prompt of a chat request. */
export async function applyTemplate(context: Context, body: Body): Promise<Response> {
  const { backend } = context;
  const { messages, options } = chatRequest(context, body);
  checkMessageCount(context, body.messages, 'messages');
  const { text: prompt } = await context.work(backend.chatTemplate.renderWork(renderOptions(plainImages(messages), options)));
  return jsonAnswer(context, await context.work(jsonPieces({ prompt })));
}

/** Messages whose images are llama-server's marker. */
const plainImages = (messages: readonly ChatMessage[]): readonly ChatMessage[] =>
  hasImages(messages)
    ? messages.map((message) => ({
        ...message,
        content: Array.isArray(message.content)
          ? (message.content as readonly ChatPart[]).map((part) => (isImagePart(part) ? { type: 'image', marker: MEDIA_MARKER } : part))
          : message.content,
      }))
    : messages;

/** GET /props. */
export function props({ backend, options: { defaults = {} } }: Context): Response {
  return Response.json({
    default_generation_settings: {
      n_ctx: backend.contextLength,
      params: settingsOf(resolveSamplerOptions(defaults, backend.samplerDefaults), defaults),
    },
    total_slots: backend.parallel,
    model_alias: backend.name,
    modalities: { vision: false, audio: false, ...backend.modalities, video: false },
    media_marker: MEDIA_MARKER,
    chat_template: backend.chatTemplate.source,
    ...(backend.chatTemplate.toolUse ? { chat_template_tool_use: backend.chatTemplate.toolUse.source } : {}),
    chat_template_caps: { ...backend.chatTemplate.capabilities },
    chat_template_warnings: backend.chatTemplate.warnings,
    bos_token: backend.bos,
    eos_token: backend.eos,
    build_info: `quantlet${backend.build === undefined ? '' : ` ${backend.build}`}${backend.turbo ? ' with turbo' : ''}`,
  });
}

/** GET /props without a loaded model, as in llama-server's router mode. */
export const noProps = (): Response =>
  Response.json({
    role: 'router',
    default_generation_settings: { n_ctx: 0, params: {} },
    total_slots: 0,
    model_alias: '',
    modalities: { vision: false, video: false, audio: false },
    build_info: 'quantlet',
  });

/** POST /props, if enabled. Like llama-server, it has no property to set. */
export function setProps({ options }: Context): Response {
  if (options.props) return Response.json({ success: true });
  throw new HttpError(501, 'This server does not take properties; start it with --props.', { code: 'not_supported' });
}

/** GET /lora-adapters. */
export const loraAdapters = ({ backend }: Context): Response =>
  Response.json((backend.adapters ?? []).map(({ name, scale }, id) => ({ id, path: name, scale })));

/**
 * POST /lora-adapters. Adapters that are not named get 0, as in llama-server. Scales are part of
 * the plan, so a change is refused.
 */
export function setLoraAdapters({ backend }: Context, { items }: Body): Response {
  const adapters = backend.adapters ?? [];
  const expected = `a list of {"id", "scale"} with ids of GET /lora-adapters, of which there are ${adapters.length}`;
  if (!Array.isArray(items)) throw invalid('items', expected, items);
  const wanted = new Map<unknown, number>();
  for (const item of items as unknown[]) {
    const { id, scale } = isRecord(item) ? item : {};
    if (!Number.isInteger(id) || !((id as number) in adapters) || typeof scale !== 'number') throw invalid('items', expected, item);
    wanted.set(id, scale);
  }
  if (adapters.some(({ scale }, id) => scale !== (wanted.get(id) ?? 0)))
    throw new HttpError(501, 'The scales of adapters cannot be changed while they are loaded; start the server with --lora-scaled.', {
      code: 'not_supported',
    });
  return Response.json({ success: true });
}

/**
 * A model in the format of OpenAI's and Anthropic's lists, with llama-server's `meta` and `status`.
 */
function modelOf(created: number, { id, status, backend }: ModelStatus): object {
  return {
    id,
    object: 'model',
    created,
    owned_by: 'quantlet',
    type: 'model',
    display_name: id,
    created_at: new Date(1000 * created).toISOString(),
    status: { value: status },
    ...(backend ? { meta: { n_ctx: backend.contextLength } } : {}),
    ...(backend?.modalities?.vision ? { capabilities: ['completion', 'multimodal'] } : {}),
  };
}

/** GET /v1/models. */
export function modelList({ models, created }: Context): Response {
  const data = models.list();
  return Response.json({
    object: 'list',
    data: data.map((model) => modelOf(created, model)),
    has_more: false,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  });
}

/** GET /v1/models/{id}. */
export function modelInfo({ models, created, rest }: Context): Response {
  const all = models.list();
  const model = modelNamed(all, rest);
  if (!model)
    throw unknownModel(
      rest,
      all.map(({ id }) => id),
    );
  return Response.json(modelOf(created, model));
}

/** POST /models/load. */
export async function loadModel({ models, signal }: Context, body: Body): Promise<Response> {
  (await models.use(modelField(body), signal)).release();
  return Response.json({ success: true });
}

/** POST /models/unload. */
export async function unloadModel({ models }: Context, body: Body): Promise<Response> {
  await models.unload(modelField(body));
  return Response.json({ success: true });
}

function modelField(body: Body): string {
  const model = stringField(body, 'model');
  if (model === undefined) throw invalid('model', 'the name of a model', undefined);
  return model;
}
