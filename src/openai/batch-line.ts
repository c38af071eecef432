/** Lines of OpenAI's Batch format, one request each, and the records that answer them. */
import { parseExactJson } from '../chat/exact-json.ts';
import { isRecord, shortJson } from '../chat/json.ts';
import { newId } from '../chat/messages.ts';
import type { Body } from './fields.ts';
import { HttpError } from './http-error.ts';
import { createJsonGauge } from './json-body.ts';
import { readLines, type Line } from './lines.ts';
import { inSlices, ownTurn, type Work } from '../slices.ts';

/** What the lines of a batch may ask. */
export const BATCH_ENDPOINTS: readonly string[] = ['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/rerank'];

/** Bytes of a line: a body of 10 MiB may be written with escapes. */
export const MAX_LINE = 16 * 2 ** 20;

/** A line that can be asked. */
export interface BatchLine {
  readonly line: number;
  readonly customId: string;
  readonly url: string;
  readonly body: Body;
  /** Bytes of the line. */
  readonly size: number;
}

/** One line of an output or error file. */
export interface BatchRecord {
  readonly customId: string | null;
  /** `line` counts from 1 in the input. */
  readonly error: { readonly code: string; readonly message: string; readonly line: number } | null;
  /** All of it, as JSON without a line feed. */
  readonly text: string;
}

/** What is wrong with a line's form. */
export class BadLine extends Error {
  readonly code: string;
  readonly line: number;
  readonly customId: string | null;
  /** Bytes of the line. */
  readonly size: number;

  constructor(code: string, message: string, line: number, customId: string | null, size = 0) {
    super(message);
    this.name = 'BadLine';
    this.code = code;
    this.line = line;
    this.customId = customId;
    this.size = size;
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Is there nothing in the line but blanks? */
const isEmpty = (bytes: Uint8Array): boolean => bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);

/** Bytes of a line that are looked at between two pauses. */
const BLOCK = 64 * 1024;

/**
 * The lines of a file; empty ones are none, and a custom_id that was there before is wrong in a later line. Large lines and many leave others their turn.
 * @param endpoint the one that all lines are for; default: any of BATCH_ENDPOINTS
 * @param most lines, empty ones too: one more is a BadLine, and the last
 */
export async function* readBatch(
  source: AsyncIterable<Uint8Array>,
  { endpoint, most = Infinity }: { endpoint?: string; most?: number } = {},
): AsyncGenerator<BatchLine | BadLine, void> {
  const seen = new Set<string>();
  let began = performance.now();
  for await (const raw of readLines(source, MAX_LINE)) {
    if (raw.number > most) {
      yield new BadLine('too_many_lines', `The file has more than ${most} lines; send it as several.`, raw.number, null);
      return;
    }
    if (performance.now() - began > 2) {
      await ownTurn();
      began = performance.now();
    }
    let line: BatchLine | BadLine | undefined;
    try {
      line = await inSlices(parsed(raw, endpoint === undefined ? BATCH_ENDPOINTS : [endpoint], seen));
    } catch (error) {
      if (!(error instanceof BadLine)) throw error;
      line = error;
    }
    if (line) yield line;
  }
}

/** @throws BadLine */
function* parsed({ number, bytes, size }: Line, endpoints: readonly string[], seen: Set<string>): Work<BatchLine | undefined> {
  let customId: string | null = null;
  const bad = (code: string, message: string): BadLine => new BadLine(code, message, number, customId, size);
  if (!bytes) throw bad('line_too_large', `The line has ${size} bytes; expected at most ${MAX_LINE}.`);
  if (isEmpty(bytes)) return undefined;
  let value: unknown;
  try {
    const gauge = createJsonGauge(Infinity);
    for (let at = 0; at < bytes.length; at += BLOCK) {
      gauge(bytes.subarray(at, at + BLOCK));
      yield;
    }
    value = parseExactJson(utf8.decode(bytes));
  } catch (error) {
    throw error instanceof HttpError
      ? bad(error.code!, error.message)
      : bad('invalid_json', `The line is not JSON: ${error instanceof Error ? error.message : 'cannot be read'}.`);
  }
  yield;
  if (!isRecord(value)) throw bad('invalid_json', 'The line is JSON, but no object; expected {"custom_id", "method", "url", "body"}.');
  const { custom_id: id, method, url, body } = value;
  if (typeof id !== 'string') throw bad('missing_custom_id', `custom_id is ${shortJson(id)}; expected a text that no other line has.`);
  customId = id;
  if (seen.has(id)) throw bad('duplicate_custom_id', `An earlier line has the custom_id ${shortJson(id)}; expected one of its own.`);
  seen.add(id);
  if (method !== 'POST') throw bad('invalid_method', `method is ${shortJson(method)}; expected "POST".`);
  if (typeof url !== 'string' || !endpoints.includes(url))
    throw bad(endpoints.length > 1 ? 'invalid_url' : 'mismatched_endpoint', `url is ${shortJson(url)}; expected ${endpoints.join(', ')}.`);
  if (!isRecord(body)) throw bad('invalid_body', `body is ${shortJson(body)}; expected an object.`);
  return { line: number, customId: id, url, body, size };
}

/** Is a record of the line there already? */
export const isDone = (line: BatchLine | BadLine, { answered, told }: Done): boolean =>
  told.has(line.line) || (!(line instanceof BadLine) && answered.has(line.customId));

/**
 * What is at the beginning of a prompt comes first here: lines whose keys begin alike can share what was computed of their prompts.
 * Characters beyond the first 65,536 make no difference.
 */
export function prefixKey({ url, body }: BatchLine): string {
  const { model, tools, messages, prompt, input, query } = body;
  return JSON.stringify([url, model, tools, messages ?? prompt ?? query ?? input]).slice(0, 65_536);
}

/** @param response its JSON, '' for none */
function recordOf(customId: string | null, response: string, error: BatchRecord['error']): BatchRecord {
  const [id, name, wrong] = [newId('batch_req_', 24), customId, error].map((value) => JSON.stringify(value));
  return { customId, error, text: `{"id":${id},"custom_id":${name},"response":${response || 'null'},"error":${wrong}}` };
}

export const badRecord = ({ code, message, line, customId }: BadLine): BatchRecord => recordOf(customId, '', { code, message, line });

/** What the server said to a line, as JSON text, which may be long and stays as it is; a refusal is told as an error beside. */
export function answerRecord({ line, customId }: BatchLine, status: number, body: string): BatchRecord {
  const response = `{"status_code":${status},"request_id":"${newId('req_', 24)}","body":${body}}`;
  if (status < 400) return recordOf(customId, response, null);
  const { error } = JSON.parse(body) as { error?: { code?: string | null; message?: string } };
  return recordOf(customId, response, { code: error?.code ?? 'failed', message: error?.message ?? `status ${status}`, line });
}

export const recordBytes = ({ text }: BatchRecord): Uint8Array => new TextEncoder().encode(`${text}\n`);

/** What the records of an output or error file say is done. */
export interface Done {
  /** The custom_id of lines that were answered. */
  readonly answered: Set<string>;
  /** The numbers of lines whose errors were told. */
  readonly told: Set<number>;
}

/** Bytes of a record: more is no text that can be parsed. */
const MAX_RECORD = 2 ** 29;

/**
 * Adds what a file holds to `done`.
 * @returns bytes of its whole lines: half a line behind them is what a process that was killed has left
 * @throws BadLine for a line that is no record
 */
export async function readRecords(source: AsyncIterable<Uint8Array>, done: Done): Promise<number> {
  let size = 0;
  for await (const line of readLines(source, MAX_RECORD)) {
    if (!line.whole) break;
    const { custom_id: id, error } = parsedRecord(line) ?? {};
    if (isRecord(error) && Number.isInteger(error.line)) done.told.add(error.line as number);
    else if (typeof id === 'string' && !error) done.answered.add(id);
    else throw new BadLine('invalid_record', `line ${line.number} is no record of a batch`, line.number, null);
    size += line.size;
  }
  return size;
}

function parsedRecord({ bytes }: Line): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(utf8.decode(bytes));
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
