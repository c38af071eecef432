/** /v1/files and /v1/batches: OpenAI's protocol. */
import { isRecord } from '../../chat/json.ts';
import { BATCH_ENDPOINTS } from '../batch/batch-line.ts';
import { KEEP_SECONDS, type Batches, type BatchObject } from '../batch/batch-state.ts';
import type { Context } from '../context.ts';
import { invalid, metadataField, stringField, type Body } from './fields.ts';
import { HttpError } from '../http/http-error.ts';
import { readForm } from '../http/multipart.ts';
import { allowsOrigin, decodedBody, givenKey, undecoded } from '../http/request.ts';
import { sha256 } from '../../sha256.ts';

/** Maximum bytes of a form in addition to its file. */
const FORM = 64 * 1024;
/** Bytes of a file that are written at once. */
const PIECE = 256 * 1024;

function batchesOf({ options }: Context): Batches {
  if (options.batches) return options.batches;
  throw new HttpError(501, 'This server keeps no files and batches; start it with --batch-dir (batches).', { code: 'not_supported' });
}

/** The client's identity: a hash of its key, or '' for everyone if no key is required. */
async function ownerOf({ options, request }: Context): Promise<string> {
  if (options.apiKey === undefined) return '';
  return sha256(givenKey(request));
}

/** POST /v1/files: multipart/form-data with `file`, `purpose` and optionally `expires_after`. */
export async function uploadFile(context: Context): Promise<Response> {
  const batches = batchesOf(context);
  const { request } = context;
  checkOrigin(context);
  const owner = await ownerOf(context);
  const declared = Number(request.headers.get('content-length'));
  const most = batches.maxFileBytes + FORM;
  const tooLarge = (): HttpError =>
    new HttpError(413, `The file is larger than ${batches.maxFileBytes} bytes. Send it in several.`, { code: 'file_too_large' });
  if (declared > most) throw tooLarge();
  const file = await batches.addFile(owner, async (append) => {
    let buffered: Uint8Array[] = [];
    let size = 0;
    const flush = async (): Promise<void> => {
      const piece = new Uint8Array(size);
      let at = 0;
      for (const part of buffered) {
        piece.set(part, at);
        at += part.length;
      }
      [buffered, size] = [[], 0];
      await append(piece);
    };
    const { fields, filename } = await readForm(
      chunksOf(request, context.limits.bodyTimeoutMs),
      request.headers.get('content-type'),
      async (piece) => {
        buffered.push(piece);
        size += piece.length;
        if (size >= PIECE) await flush();
      },
    );
    if (size > 0) await flush();
    const purpose = fields.get('purpose');
    if (purpose !== 'batch') throw invalid('purpose', '"batch"', purpose);
    const expires = fields.get('expires_after[seconds]');
    return {
      filename,
      keep: keepSeconds('expires_after', expires && { anchor: fields.get('expires_after[anchor]'), seconds: Number(expires) }),
    };
  });
  return Response.json(file);
}

/**
 * Refuses forms from other pages. Pages of any origin may post forms without a CORS preflight. So
 * if the browser names an origin, it must be one that may read answers.
 */
function checkOrigin({ request, options: { cors = false } }: Context): void {
  const origin = request.headers.get('origin');
  if (origin === null || allowsOrigin(origin, cors)) return;
  if (URL.canParse(origin) && new URL(origin).host === request.headers.get('host')) return;
  throw new HttpError(403, `Pages of ${JSON.stringify(origin.slice(0, 80))} may not send files here. Allow them with cors (--cors).`, {
    code: 'origin_not_allowed',
  });
}

/**
 * The body's chunks.
 * @throws HttpError 400 without a body, 408 if no chunk arrives for `timeoutMs`
 */
async function* chunksOf(request: Request, timeoutMs: number): AsyncGenerator<Uint8Array, void> {
  const body = decodedBody(request);
  if (!body) throw new HttpError(400, 'The request has no body; expected a form with a file.', { code: 'invalid_form' });
  const reader = body.getReader();
  let late = false;
  try {
    for (;;) {
      const timer = setTimeout(() => {
        late = true;
        void reader.cancel().catch(() => undefined);
      }, timeoutMs);
      const { done, value } = await reader
        .read()
        .catch(undecoded(request))
        .finally(() => clearTimeout(timer));
      if (late) throw new HttpError(408, `Nothing of the body arrived for ${timeoutMs} ms.`, { code: 'timeout' });
      if (done) return;
      yield value;
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

/** OpenAI's `expires_after` as seconds after creation. */
function keepSeconds(param: string, value: unknown): number {
  if (value === undefined || value === null || value === '') return KEEP_SECONDS;
  const { anchor, seconds } = isRecord(value) ? value : {};
  if (anchor === 'created_at' && Number.isInteger(seconds) && (seconds as number) >= 3600 && (seconds as number) <= KEEP_SECONDS)
    return seconds as number;
  throw invalid(param, `{"anchor": "created_at", "seconds"} of 3600 to ${KEEP_SECONDS} seconds`, value);
}

/** GET /v1/files. */
export async function listFiles(context: Context): Promise<Response> {
  const purpose = context.query.get('purpose');
  const files = batchesOf(context).files(await ownerOf(context));
  return Response.json(
    listOf(
      context,
      files.filter((file) => purpose === null || file.purpose === purpose),
      10_000,
    ),
  );
}

/** GET /v1/files/{id} and /v1/files/{id}/content. */
export async function batchFile(context: Context): Promise<Response> {
  const batches = batchesOf(context);
  const [, id, content] = /^(.*?)(\/content)?$/s.exec(context.rest)!;
  const file = batches.file(id, await ownerOf(context));
  if (!content) return Response.json(file);
  const pieces = batches.content(id)[Symbol.asyncIterator]();
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await pieces.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: () => void pieces.return?.(),
    },
    { highWaterMark: 0 },
  );
  return new Response(body, { headers: { 'content-type': 'application/octet-stream', 'content-length': String(file.bytes) } });
}

/** DELETE /v1/files/{id}. */
export async function deleteFile(context: Context): Promise<Response> {
  const id = context.rest;
  await batchesOf(context).removeFile(id, await ownerOf(context));
  return Response.json({ id, object: 'file', deleted: true });
}

/** POST /v1/batches. */
export async function createBatch(context: Context, body: Body): Promise<Response> {
  const batches = batchesOf(context);
  const owner = await ownerOf(context);
  const endpoint = stringField(body, 'endpoint');
  if (endpoint === undefined || !BATCH_ENDPOINTS.includes(endpoint)) throw invalid('endpoint', BATCH_ENDPOINTS.join(', '), body.endpoint);
  const window = /^(\d{1,3})h$/.exec(stringField(body, 'completion_window') ?? '');
  const hours = Number(window?.[1]);
  if (!(hours >= 1 && hours <= 168))
    throw invalid('completion_window', '"24h", or another number of hours up to 168', body.completion_window);
  const file = batches.file(stringField(body, 'input_file_id') ?? '', owner);
  if (file.purpose !== 'batch') throw invalid('input_file_id', 'a file of purpose "batch"', file.id);
  const what = { endpoint, input_file_id: file.id, completion_window: window![0], metadata: metadataField(body) };
  const made = await batches.create(owner, what, hours * 3600, keepSeconds('output_expires_after', body.output_expires_after));
  return Response.json(made);
}

/** GET /v1/batches. */
export async function listBatches(context: Context): Promise<Response> {
  return Response.json(listOf(context, batchesOf(context).batches(await ownerOf(context)), 100));
}

/** GET /v1/batches/{id}. */
export async function batch(context: Context): Promise<Response> {
  return Response.json(batchesOf(context).batch(context.rest, await ownerOf(context)));
}

/** POST /v1/batches/{id}/cancel. */
export async function cancelBatch(context: Context): Promise<Response> {
  const [, id] = /^(.*)\/cancel$/s.exec(context.rest) ?? [];
  if (id === undefined) throw new HttpError(404, 'There is nothing at this path; expected /v1/batches/{id}/cancel.', { code: 'not_found' });
  return Response.json(await batchesOf(context).cancel(id, await ownerOf(context)));
}

/** A page of a list, newest first by default: up to `limit` items after `after`. */
function listOf({ query }: Context, items: readonly (BatchObject | ReturnType<Batches['file']>)[], most: number): object {
  const limit = query.get('limit') ?? String(Math.min(most, most === 100 ? 20 : most));
  if (!/^\d{1,5}$/.test(limit) || Number(limit) < 1 || Number(limit) > most)
    throw invalid('limit', `a whole number from 1 to ${most}`, limit);
  const order = query.get('order') ?? 'desc';
  if (order !== 'asc' && order !== 'desc') throw invalid('order', '"asc" or "desc"', order);
  const sorted = order === 'desc' ? [...items].reverse() : items;
  const after = query.get('after');
  const from = after === null ? 0 : sorted.findIndex(({ id }) => id === after) + 1;
  if (after !== null && from === 0) throw invalid('after', 'the id of an item of this list', after);
  const data = sorted.slice(from, from + Number(limit));
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: from + data.length < sorted.length,
  };
}
