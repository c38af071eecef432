/** Lines of OpenAI's Batch format, one request each, and the records with their answers. */
import { parseExactJson } from '../../chat/exact-json.ts';
import { isRecord, shortJson } from '../../chat/json.ts';
import { newId } from '../../chat/messages.ts';
import type { Body } from '../protocols/fields.ts';
import { HttpError } from '../http/http-error.ts';
import { createJsonGauge } from '../http/json-body.ts';
import { readLines, type Line } from './lines.ts';
import { inSlices, ownTurn, type Work } from '../../slices.ts';

/** Endpoints for the lines of a batch. */
export const BATCH_ENDPOINTS: readonly string[] = ['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/rerank'];

/** Maximum bytes of a line: a body of 10 MiB, possibly with escapes. */
export const MAX_LINE = 16 * 2 ** 20;

/** A valid line of a batch. */
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
  /** `line` is the line number in the input, from 1. */
  readonly error: { readonly code: string; readonly message: string; readonly line: number } | null;
  /** The record as JSON without a line feed. */
  readonly text: string;
}

/** Error in a line's form. */
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

/** Tells if the line has only blanks. */
const isEmpty = (bytes: Uint8Array): boolean => bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);

/** Bytes of a line that are checked between two pauses. */
const BLOCK = 64 * 1024;

/**
 * Reads the lines of a file. Empty lines are skipped; a repeated custom_id is an error of the later
 * line. Pauses during large lines, and between lines.
 * @param endpoint required endpoint of all lines; default: any of BATCH_ENDPOINTS
 * @param most maximum number of lines, including empty ones. One more gives a final BadLine.
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
  if (!isRecord(value)) throw bad('invalid_json', 'The line is JSON, but not an object; expected {"custom_id", "method", "url", "body"}.');
  const { custom_id: id, method, url, body } = value;
  if (typeof id !== 'string') throw bad('missing_custom_id', `custom_id is ${shortJson(id)}; expected a text that no other line has.`);
  customId = id;
  if (seen.has(id)) throw bad('duplicate_custom_id', `An earlier line has the custom_id ${shortJson(id)}; expected a different one.`);
  seen.add(id);
  if (method !== 'POST') throw bad('invalid_method', `method is ${shortJson(method)}; expected "POST".`);
  if (typeof url !== 'string' || !endpoints.includes(url))
    throw bad(endpoints.length > 1 ? 'invalid_url' : 'mismatched_endpoint', `url is ${shortJson(url)}; expected ${endpoints.join(', ')}.`);
  if (!isRecord(body)) throw bad('invalid_body', `body is ${shortJson(body)}; expected an object.`);
  return { line: number, customId: id, url, body, size };
}

/** Tells if a line already has a record. */
export const isDone = (line: BatchLine | BadLine, { answered, told }: Done): boolean =>
  told.has(line.line) || (!(line instanceof BadLine) && answered.has(line.customId));

/**
 * Text of a line to compare with other lines, with the beginning of its prompt first. Lines whose
 * keys have a common prefix can share cached prompt tokens. Only the first 65,536 characters count.
 */
export function prefixKey({ url, body }: BatchLine): string {
  const { model, tools, messages, prompt, input, query } = body;
  return JSON.stringify([url, model, tools, messages ?? prompt ?? query ?? input]).slice(0, 65_536);
}

/** @param response JSON of the response, '' for none */
function recordOf(customId: string | null, response: string, error: BatchRecord['error']): BatchRecord {
  const [id, name, wrong] = [newId('batch_req_', 24), customId, error].map((value) => JSON.stringify(value));
  return { customId, error, text: `{"id":${id},"custom_id":${name},"response":${response || 'null'},"error":${wrong}}` };
}

export const badRecord = ({ code, message, line, customId }: BadLine): BatchRecord => recordOf(customId, '', { code, message, line });

/**
 * The record of the server's answer to a line. The body, which may be long, is copied unchanged. A
 * refusal also gets an error.
 */
export function answerRecord({ line, customId }: BatchLine, status: number, body: string): BatchRecord {
  const response = `{"status_code":${status},"request_id":"${newId('req_', 24)}","body":${body}}`;
  if (status < 400) return recordOf(customId, response, null);
  const { error } = JSON.parse(body) as { error?: { code?: string | null; message?: string } };
  return recordOf(customId, response, { code: error?.code ?? 'failed', message: error?.message ?? `status ${status}`, line });
}

export const recordBytes = ({ text }: BatchRecord): Uint8Array => new TextEncoder().encode(`${text}\n`);

/** Lines that already have a record in an output or error file. */
export interface Done {
  /** custom_id of each answered line. */
  readonly answered: Set<string>;
  /** Number of each line whose error was recorded. */
  readonly told: Set<number>;
}

/** Maximum bytes of a record: a longer text cannot be parsed. */
const MAX_RECORD = 2 ** 29;

/**
 * Adds the records of a file to `done`.
 * @returns bytes of its complete lines; a killed process may leave an incomplete line after them
 * @throws BadLine for a line that is not a record
 */
export async function readRecords(source: AsyncIterable<Uint8Array>, done: Done): Promise<number> {
  let size = 0;
  for await (const line of readLines(source, MAX_RECORD)) {
    if (!line.whole) break;
    const { custom_id: id, error } = parsedRecord(line) ?? {};
    if (isRecord(error) && Number.isInteger(error.line)) done.told.add(error.line as number);
    else if (typeof id === 'string' && !error) done.answered.add(id);
    else throw new BadLine('invalid_record', `line ${line.number} is not a record of a batch`, line.number, null);
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
