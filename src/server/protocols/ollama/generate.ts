/** POST /api/generate: a prompt in the model's template, in a template of the request, or raw. */
import { encode, roomFor, type ChatOutcome, type ChatStep, type PreparedChat } from '../../../chat/run.ts';
import { imagesOf, withImages } from '../../../run/image-tokens.ts';
import type { Work } from '../../../slices.ts';
import { mapped, type Context } from '../../context.ts';
import { HttpError } from '../../http/http-error.ts';
import { preparedPrompt, runText, type Prompt, type TextRun } from '../completions.ts';
import { booleanField, invalid, stringField, type Body } from '../fields.ts';
import { beginning, fimPrompt } from '../infill.ts';
import { lengthField, lengthOf, setFormat, textOptions } from '../sampling.ts';
import { ollamaAnswer, type Part } from './answer.ts';
import { chatAnswer, conversation, loadOrUnload } from './chat.ts';
import { OLLAMA_GENERATE_REFUSALS, translated, contentOf } from './fields.ts';
import { renderGoTemplate, type TemplateValues } from './go-template.ts';

export const generatePart = ({ content, thinking }: Part): object => ({
  response: content,
  ...(thinking === undefined ? {} : { thinking }),
});

/** POST /api/generate. Without a prompt, loads the model, or unloads it with `keep_alive: 0`. */
export async function ollamaGenerate(context: Context, body: Body): Promise<Response> {
  const text = (name: string): string => stringField(body, name) ?? '';
  const [prompt, system, suffix, template] = ['prompt', 'system', 'suffix', 'template'].map(text);
  const raw = booleanField(body, 'raw') ?? false;
  const earlier = idsOf(body);
  const content = contentOf(prompt, body.images);
  const hasImages = typeof content !== 'string';
  if (raw && (template !== '' || system !== '' || suffix !== '' || earlier.length > 0))
    throw new HttpError(400, 'raw mode does not support template, system, suffix, or context. Put them into the prompt.', {
      param: 'raw',
      code: 'invalid_value',
    });
  if (prompt === '' && !hasImages) return loadOrUnload(context, body, generatePart({ content: '' }));
  const fields = translated(context, body, OLLAMA_GENERATE_REFUSALS);
  if (!raw && suffix === '' && template === '') {
    const messages = [...(system === '' ? [] : [{ role: 'system', content: system }]), { role: 'user', content }];
    const chat = continued(context, await conversation(context, body, { ...fields, messages }), earlier);
    // Ids of images are the server's own, and clients cannot send them back.
    return chatAnswer(context, body, chat, generatePart, (ids) => (hasImages ? {} : { context: [...chat.promptIds, ...ids] }));
  }
  if (hasImages)
    throw new HttpError(400, "'images' needs the template of the model; leave out 'raw', 'template' and 'suffix'.", {
      param: 'images',
      code: 'invalid_value',
    });
  if (!raw && template === '' && system !== '') context.leftOut.push('system');
  if (booleanOrText(body.think)) context.leftOut.push('think');
  const values = { System: system, Prompt: prompt, Suffix: suffix };
  const asked = raw
    ? await preparedPrompt(context, prompt)
    : template === ''
      ? await fimPrompt(context, { prefix: [prompt], suffix }, lengthField(fields) ?? -1)
      : await templated(context, template, values);
  return textAnswer(context, body, fields, after(context, asked, earlier), raw);
}

const booleanOrText = (think: unknown): boolean => think === true || (typeof think === 'string' && think !== '');

/** Answers a prompt without a conversation: nothing in it is reasoning. */
function textAnswer(context: Context, body: Body, fields: Body, { ids, room }: Prompt, raw: boolean): Promise<Response> {
  const shared = { ...textOptions(context, fields), signal: context.signal };
  if (fields.logprobs) shared.logprobs = fields.top_logprobs as number;
  setFormat(shared, fields);
  const most = lengthField(fields) ?? shared.maxTokens ?? -1;
  const asked = most < 0 ? Infinity : most;
  const length = booleanField(body, 'shift') === false ? { maxTokens: Math.min(asked, room) } : lengthOf(context, fields, asked, room);
  const options = { ...shared, ...length };
  return ollamaAnswer(context, body, {
    ids,
    options,
    run: (usage) => steps(runText(context, usage, 0, ids, options)),
    write: generatePart,
    last: ({ result }) => (raw ? {} : { context: [...ids, ...(result?.ids ?? [])] }),
  });
}

/** The parts of a text as steps of a conversation. */
async function* steps(run: TextRun): AsyncGenerator<ChatStep, ChatOutcome> {
  const result = yield* mapped(run, (part) => [{ events: part.text === '' ? [] : [{ type: 'content' as const, delta: part.text }], part }]);
  return { finishReason: result.finishReason, result };
}

/** The ids of earlier turns, from the `context` of an earlier answer. */
function idsOf({ context }: Body): readonly number[] {
  const ids = context ?? [];
  if (Array.isArray(ids) && ids.every((id) => Number.isInteger(id) && id >= 0)) return ids as number[];
  throw invalid('context', 'the list of token ids of an earlier answer', context);
}

/** Puts the ids of earlier turns in front of a prompt. Only the first turn begins the sequence. */
function after(context: Context, prompt: Prompt, earlier: readonly number[]): Prompt {
  if (earlier.length === 0) return prompt;
  const [bos] = beginning(context);
  const ids = [...earlier, ...(prompt.ids[0] === bos ? prompt.ids.slice(1) : prompt.ids)];
  return { ...prompt, ids: withImages(ids, imagesOf(prompt.ids)), room: roomFor(ids.length, context.backend) };
}

function continued(context: Context, chat: PreparedChat, earlier: readonly number[]): PreparedChat {
  if (earlier.length === 0) return chat;
  const { ids, room } = after(context, { ids: chat.promptIds, room: 0, text: () => '' }, earlier);
  const { maxTokens = Infinity, answerShift } = chat.options;
  return { ...chat, promptIds: ids, options: { ...chat.options, ...(answerShift ? {} : { maxTokens: Math.min(maxTokens, room) }) } };
}

/** The prompt of a template. Control tokens are read in the template, and stay text in its values. */
async function templated(context: Context, template: string, values: TemplateValues): Promise<Prompt> {
  const { backend, options } = context;
  const pieces = renderGoTemplate(template, values);
  const text = pieces.map((piece) => piece.text).join('');
  function* work(): Work<number[]> {
    const breaks: number[] = [];
    let at = 0;
    for (const piece of pieces) {
      if (piece.given && backend.breaksIn && !options.parseSpecial)
        for (const offset of yield* backend.breaksIn(piece.text)) breaks.push(at + offset);
      at += piece.text.length;
    }
    const begins = backend.bos !== '' && text.startsWith(backend.bos);
    return yield* encode(backend, text, { addSpecial: !begins, parseSpecial: true, breaks });
  }
  const ids = await context.work(work());
  return { ids, room: roomFor(ids.length, backend), text: () => text };
}
