/**
 * Fields of Ollama's requests: read, ignored or refused, and their translation to llama-server's
 * fields, whose checks and meaning they then have.
 */
import { isRecord } from '../../../chat/json.ts';
import { SAMPLER_NUMBERS } from '../../../sample/options.ts';
import type { ChatTemplate } from '../../../chat/template.ts';
import type { Context } from '../../context.ts';
import { HttpError } from '../../http/http-error.ts';
import { all, checkFields, ignored, read, refused, type Allowed, type FieldTable, type Refusals } from '../field-table.ts';
import { booleanField, invalid, numberField, recordField, type Body } from '../fields.ts';

const none: Allowed = { name: 'a number that is not above 0', test: (value) => typeof value === 'number' && value <= 0 };

const OPTION_REFUSALS: Refusals = {
  'options.tfs_z': refused('This sampler does not exist here. Leave it out.', 1),
  'options.penalize_newline': refused('Newlines are penalised as other tokens are. Leave it out.', true),
  'options.vocab_only': refused('A vocabulary alone gives no answer. Leave it out.', false),
  'options.draft_num_predict': refused('Drafting is set at the start (--spec-type). Leave it out.', none),
};

/** Options with a meaning here. All samplers of llama.cpp are options, besides Ollama's own. */
const OPTIONS = [
  ...Object.keys(SAMPLER_NUMBERS).map((name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)),
  ...['stop', 'samplers', 'dry_sequence_breakers', 'logit_bias', 'grammar', 'ignore_eos'],
];
/** Options that say how a model is loaded, and that change no answer. */
const LOADING =
  'num_batch num_gpu main_gpu low_vram f16_kv use_mmap use_mlock num_thread numa logits_all embedding_only use_imagegen_runner'.split(' ');
/** Options that are translated below. */
const OWN = ['num_ctx', 'num_predict', 'num_keep'];

const optionNames = (names: readonly string[]): string => names.map((name) => `options.${name}`).join(' ');

const COMMON = (): FieldTable => ({
  ...all(read, `model stream options keep_alive format think truncate shift logprobs top_logprobs ${optionNames([...OPTIONS, ...OWN])}`),
  ...all(ignored('the flags of the server decide how models are loaded'), `${optionNames(LOADING)} runner`),
});

/** POST /api/chat. */
export const OLLAMA_CHAT_REFUSALS: Refusals = {
  ...OPTION_REFUSALS,
  images: refused("Send it in a message: 'messages[].images'.", []),
  _debug_render_only: refused('Ask /apply-template for the prompt.', false),
};
export const OLLAMA_CHAT_FIELDS = (): FieldTable => ({
  ...all(read, 'messages messages[].images tools'),
  ...COMMON(),
  ...OLLAMA_CHAT_REFUSALS,
});

/** POST /api/generate. */
export const OLLAMA_GENERATE_REFUSALS: Refusals = {
  ...OPTION_REFUSALS,
  ...all(refused('Images are not made here. Leave it out.', 0), 'width height steps'),
  _debug_render_only: refused('Ask /apply-template for the prompt.', false),
};
export const OLLAMA_GENERATE_FIELDS = (): FieldTable => ({
  ...all(read, 'prompt images suffix system template context raw'),
  ...COMMON(),
  ...OLLAMA_GENERATE_REFUSALS,
});

/** POST /api/embed, and /api/embeddings with `prompt` for `input`. */
export const OLLAMA_EMBED_FIELDS = (): FieldTable => ({
  ...all(read, 'model input truncate dimensions keep_alive'),
  options: ignored('vectors have no options'),
});

/** Milliseconds of the units of a duration. */
const UNITS: Readonly<Record<string, number>> = { ns: 1e-6, us: 1e-3, µs: 1e-3, ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/**
 * Milliseconds of `keep_alive`: a number of seconds, or a duration as Go writes it (`5m`, `1h30m`).
 * Negative: for ever.
 */
export function keepAliveOf(body: Body): number | undefined {
  const value = body.keep_alive ?? undefined;
  if (value === undefined) return undefined;
  const bad = (): never => {
    throw invalid('keep_alive', 'a number of seconds, or a duration like "5m" (negative: for ever)', value);
  };
  let ms = NaN;
  if (typeof value === 'number') ms = value * 1000;
  else if (typeof value === 'string' && value.length <= 100) {
    const [, sign, rest] = /^([+-]?)(.*)$/s.exec(value)!;
    const parts = [...rest.matchAll(/(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)/g)];
    const sum = parts.reduce((total, [, number, unit]) => total + Number(number) * UNITS[unit], 0);
    // Without a unit, these are seconds, as in OLLAMA_KEEP_ALIVE.
    if (/^\d+$/.test(rest)) ms = Number(rest) * 1000;
    else if (rest !== '' && parts.map(([text]) => text).join('') === rest) ms = sum;
    if (sign === '-') ms = -ms;
  }
  if (Number.isNaN(ms)) return bad();
  return ms < 0 ? Infinity : ms;
}

/** Limits the time for which the request's model stays loaded. */
export function keepAlive({ models }: Context, body: Body): void {
  const ms = keepAliveOf(body);
  if (ms !== undefined) models.keep?.(modelOf(body), ms);
}

/**
 * A text after its images, which Ollama has as a list of files in base64.
 * @throws HttpError 400
 */
export function contentOf(text: string, images: unknown, at = 'images'): string | object[] {
  const list = images ?? [];
  if (!Array.isArray(list) || !list.every((one) => typeof one === 'string')) throw invalid(at, 'a list of images in base64', images);
  if (list.length === 0) return text;
  const parts = list.map((url) => ({ type: 'image_url', image_url: { url } }));
  return text === '' ? parts : [...parts, { type: 'text', text }];
}

/** `format`: "json", or a JSON schema. */
function formatOf({ format }: Body): object {
  if ((format ?? '') === '') return {};
  if (format === 'json') return { response_format: { type: 'json_object' } };
  if (isRecord(format)) return { response_format: { type: 'json_schema', json_schema: { schema: format } } };
  throw invalid('format', '"json" or a JSON schema', format);
}

const EFFORTS = ['minimal', 'low', 'medium', 'high', 'max'];

/** `think`: true, false, or an effort. */
function thinkingOf({ think }: Body): object {
  if ((think ?? '') === '') return {};
  if (typeof think === 'boolean') return { enable_thinking: think };
  if (EFFORTS.includes(think as string)) return { enable_thinking: true, reasoning_effort: think };
  throw invalid('think', `true, false, or one of ${EFFORTS.join(', ')}`, think);
}

/** True if a template has reasoning: its marks, or a switch for it. */
export const canThink = ({ source, format }: ChatTemplate): boolean =>
  format.reasoning.some(({ start }) => source.includes(start)) || /enable_thinking|\bthinking\b|reasoning_effort/.test(source);

/** @throws HttpError 400, with Ollama's words, if the request wants reasoning that the model does not have */
function checkThinking({ backend }: Context, body: Body): void {
  if ((body.think ?? '') === '' || body.think === false || canThink(backend.chatTemplate)) return;
  throw new HttpError(400, `${JSON.stringify(modelOf(body))} does not support thinking. Leave out 'think'.`, {
    param: 'think',
    code: 'unsupported_parameter',
  });
}

/**
 * The options of a request as llama-server's fields. Options that are unknown or that this model
 * cannot have are named in a header of the answer.
 */
function optionsOf({ backend, leftOut, options: { contextShift } }: Context, body: Body): Body {
  const given = recordField(body, 'options') ?? {};
  const fields: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(given)) {
    if ((value ?? undefined) === undefined || LOADING.includes(name) || OWN.includes(name)) continue;
    if (OPTIONS.includes(name)) fields[name] = value;
    else if (!Object.hasOwn(OPTION_REFUSALS, `options.${name}`)) leftOut.push(`options.${name.slice(0, 100)}`);
  }
  const integer = { integer: true };
  const context = numberField(body, 'options.num_ctx', { least: 0, ...integer }) ?? 0;
  // A conversation that does not fit into the model's context is cut or refused, with a word.
  if (context > backend.contextLength) leftOut.push('options.num_ctx');
  const length = numberField(body, 'options.num_predict', { least: -2, ...integer });
  // As in Ollama, 0 and negative numbers mean no limit.
  if (length !== undefined) fields.max_tokens = length > 0 ? length : -1;
  const keep = numberField(body, 'options.num_keep', { least: -1, ...integer });
  if (keep !== undefined) fields.n_keep = keep;
  if (booleanField(body, 'shift') && !contextShift) leftOut.push('shift');
  return fields;
}

/**
 * The fields of a request that generates, as llama-server's. The caller adds messages or a prompt.
 * @throws HttpError 400
 */
export function translated(context: Context, body: Body, refusals: Refusals): Body {
  checkFields(refusals, body);
  keepAliveOf(body);
  const thinking = thinkingOf(body);
  checkThinking(context, body);
  const logprobs = booleanField(body, 'logprobs') ?? false;
  const top = numberField(body, 'top_logprobs', { least: 0, most: 20, integer: true });
  const grammar = recordField(body, 'options')?.grammar;
  if (grammar && (body.format ?? '') !== '')
    throw new HttpError(400, "'format' and 'options.grammar' are both given; expected one of them.", {
      param: 'format',
      code: 'invalid_value',
    });
  return {
    ...optionsOf(context, body),
    ...formatOf(body),
    ...thinking,
    ...(logprobs ? { logprobs, top_logprobs: top ?? 0 } : {}),
    // Ollama leaves out the oldest messages of a conversation that does not fit.
    ...((booleanField(body, 'truncate') ?? true) ? { quantlet: { on_context_full: 'shift' } } : {}),
  };
}

/**
 * The name of the model in a body. Older clients send `name`.
 * @throws HttpError 400
 */
export function modelOf(body: Body): string {
  const model = body.model ?? body.name;
  if (typeof model === 'string' && model !== '') return model;
  throw new HttpError(400, `model is required; expected the name of a model in 'model'.`, { param: 'model', code: 'invalid_value' });
}

/** True unless the request has `stream: false`. */
export const streams = (body: Body): boolean => booleanField(body, 'stream') ?? true;

/** A failure in Ollama's format, with the words that its clients look for. */
export const ollamaError = ({ code, message }: HttpError): object => ({
  error: code === 'model_not_found' ? `model not found: ${message}` : message,
});
