/** POST /infill of llama-server: text between a prefix and a suffix. */
import { isRecord } from '../../chat/json.ts';
import { encode, roomFor } from '../../chat/run.ts';
import type { FimTokens } from '../../tokenize/special-tokens.ts';
import type { Context } from '../context.ts';
import type { Prompt } from './completions.ts';
import { invalid, numberField, stringField, type Body } from './fields.ts';
import { HttpError } from '../http/http-error.ts';
import { complete } from './llama-server.ts';

/** Maximum number of additional texts in one request. */
const maxExtra = 256;
/**
 * Separator of texts for vocabularies without a file token; then llama-server's names for the
 * repository and the file.
 */
const SNIPPET = '\n\n--- snippet ---\n\n';
const REPOSITORY = 'myproject\n';
const FILE = 'filename\n';

/** POST /infill. */
export async function infill(context: Context, body: Body): Promise<Response> {
  const prefix = required(body, 'input_prefix');
  const suffix = required(body, 'input_suffix');
  const prompt = stringField(body, 'prompt') ?? '';
  const nPredict = numberField(body, 'n_predict', { least: -1, integer: true }) ?? -1;
  return complete(context, body, await fimPrompt(context, { prefix: [prefix, prompt], suffix, extra: extraOf(body) }, nPredict));
}

/**
 * The prompt for a text between a prefix and a suffix. Parts that do not fit are cut.
 * @throws HttpError 501 if the model has no tokens for that
 */
export async function fimPrompt(
  context: Context,
  {
    prefix,
    suffix,
    extra = [],
  }: { readonly prefix: readonly string[]; readonly suffix: string; readonly extra?: ReturnType<typeof extraOf> },
  nPredict: number,
): Promise<Prompt> {
  const { backend } = context;
  const { fim } = backend;
  if (!fim)
    throw new HttpError(501, 'This model cannot fill in the middle: its vocabulary has no tokens for that. Expected a model for code.', {
      code: 'not_supported',
    });
  const ids = async (text: string): Promise<readonly number[]> =>
    text === '' ? [] : context.work(encode(backend, text, { addSpecial: false, parseSpecial: false }));
  const parts = {
    before: await extraIds(fim, extra, ids),
    prefix: await together(prefix.map(ids)),
    suffix: await ids(suffix),
  };
  // Reserves 4 tokens: the three that mark prefix, suffix and middle, and the beginning of the
  // sequence.
  const { before, prefix: first, suffix: last } = fitted(parts, nPredict, backend.contextLength - 4);
  const [begin, end] = [
    [fim.prefix, ...first],
    [fim.suffix, ...last],
  ];
  const order = context.options.spmInfill ? [...end, ...begin] : [...begin, ...end];
  const promptIds = [...before, ...beginning(context), ...order, fim.middle];
  return {
    ids: promptIds,
    room: roomFor(promptIds.length, backend),
    text: () => backend.detokenize(promptIds, { special: true }),
  };
}

const together = async (lists: readonly Promise<readonly number[]>[]): Promise<readonly number[]> => (await Promise.all(lists)).flat();

function required(body: Body, name: string): string {
  const text = stringField(body, name);
  if (text === undefined) throw invalid(name, 'a string', undefined);
  return text;
}

function extraOf(body: Body): readonly { readonly filename?: string; readonly text: string }[] {
  const extra = body.input_extra ?? [];
  const fits =
    Array.isArray(extra) &&
    extra.length <= maxExtra &&
    extra.every((one) => isRecord(one) && typeof one.text === 'string' && ['string', 'undefined'].includes(typeof one.filename));
  if (!fits) throw invalid('input_extra', `a list of at most ${maxExtra} {"filename", "text"}, both strings`, extra);
  return extra as { filename?: string; text: string }[];
}

/** The beginning-of-sequence token, if the model's tokenizer adds one. */
export function beginning({ backend }: Context): readonly number[] {
  if (backend.bos === '') return [];
  const [bos] = backend.tokenize(backend.bos, { addSpecial: false, parseSpecial: true });
  return backend.tokenize('a', { addSpecial: true })[0] === bos ? [bos] : [];
}

/**
 * Other files of the repository, in the format that code models were trained on (Qwen 2.5 Coder,
 * arXiv 2409.12186).
 */
async function extraIds(
  { repository, file }: FimTokens,
  extra: ReturnType<typeof extraOf>,
  ids: (text: string) => Promise<readonly number[]>,
): Promise<readonly number[]> {
  const all: number[] = [];
  const add = (more: readonly number[]): void => {
    for (const id of more) all.push(id);
  };
  if (repository !== undefined) add([repository, ...(await ids(REPOSITORY))]);
  for (const { filename = 'tmp', text } of extra) {
    add(file === undefined ? await ids(SNIPPET) : [file, ...(await ids(`${filename}\n`))]);
    add(await ids(text));
  }
  if (file !== undefined) add([file, ...(await ids(FILE))]);
  return all;
}

type Parts = Readonly<Record<'before' | 'prefix' | 'suffix', readonly number[]>>;

/**
 * Cuts the parts to fit the context together with an answer. The end of the prefix and the
 * beginning of the suffix have priority, 3 to 1 if both are long. The end of the additional texts
 * gets the rest.
 */
function fitted({ before, prefix, suffix }: Parts, nPredict: number, contextLength: number): Parts {
  // Reserves a quarter of the context for the answer, or less if a shorter answer is requested.
  const answer = Math.min(nPredict < 0 ? Infinity : nPredict, contextLength >> 2);
  const room = Math.max(0, contextLength - answer);
  const nSuffix = Math.min(suffix.length, Math.max(room >> 2, room - prefix.length));
  const nPrefix = Math.min(prefix.length, room - nSuffix);
  const nBefore = Math.min(before.length, room - nSuffix - nPrefix);
  const end = (list: readonly number[], n: number): readonly number[] => list.slice(list.length - n);
  return { before: end(before, nBefore), prefix: end(prefix, nPrefix), suffix: suffix.slice(0, nSuffix) };
}
