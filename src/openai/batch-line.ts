/** Lines of OpenAI's Batch format, one request each, and the records that answer them. */
import { isRecord, shortJson } from '../chat/json.ts';
import { newId } from '../chat/messages.ts';
import type { Body } from './fields.ts';
import { HttpError } from './http-error.ts';
import { createJsonGauge } from './json-body.ts';
import { readLines, type Line } from './lines.ts';

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
  readonly id: string;
  readonly custom_id: string | null;
  readonly response: { readonly status_code: number; readonly request_id: string; readonly body: unknown } | null;
  /** `line` counts from 1 in the input. */
  readonly error: { readonly code: string; readonly message: string; readonly line: number } | null;
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

/**
 * Reads the lines of a file one after the other: a custom_id that was there before is wrong in a later line.
 * @param endpoint the one that all lines are for; default: any of BATCH_ENDPOINTS
 * @returns a function of a line: undefined where it is empty
 */
export function createLineReader(endpoint?: string): (line: Line) => BatchLine | BadLine | undefined {
  const seen = new Set<string>();
  const read = ({ number, bytes, size }: Line): BatchLine | undefined => {
    let customId: string | null = null;
    const bad = (code: string, message: string): BadLine => new BadLine(code, message, number, customId, size);
    if (!bytes) throw bad('line_too_large', `The line has ${size} bytes; expected at most ${MAX_LINE}.`);
    if (isEmpty(bytes)) return undefined;
    let value: unknown;
    try {
      createJsonGauge(Infinity)(bytes);
      value = JSON.parse(utf8.decode(bytes));
    } catch (error) {
      throw error instanceof HttpError
        ? bad(error.code!, error.message)
        : bad('invalid_json', `The line is not JSON: ${error instanceof Error ? error.message : 'cannot be read'}.`);
    }
    if (!isRecord(value)) throw bad('invalid_json', 'The line is JSON, but no object; expected {"custom_id", "method", "url", "body"}.');
    const { custom_id: id, method, url, body } = value;
    if (typeof id !== 'string') throw bad('missing_custom_id', `custom_id is ${shortJson(id)}; expected a text that no other line has.`);
    customId = id;
    if (seen.has(id)) throw bad('duplicate_custom_id', `An earlier line has the custom_id ${shortJson(id)}; expected one of its own.`);
    seen.add(id);
    if (method !== 'POST') throw bad('invalid_method', `method is ${shortJson(method)}; expected "POST".`);
    const expected = endpoint === undefined ? BATCH_ENDPOINTS : [endpoint];
    if (typeof url !== 'string' || !expected.includes(url))
      throw bad(
        endpoint === undefined ? 'invalid_url' : 'mismatched_endpoint',
        `url is ${shortJson(url)}; expected ${expected.join(', ')}.`,
      );
    if (!isRecord(body)) throw bad('invalid_body', `body is ${shortJson(body)}; expected an object.`);
    return { line: number, customId: id, url, body, size };
  };
  return (line) => {
    try {
      return read(line);
    } catch (error) {
      if (error instanceof BadLine) return error;
      throw error;
    }
  };
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

const recordId = (): string => newId('batch_req_', 24);

export const badRecord = ({ code, message, line, customId }: BadLine): BatchRecord => ({
  id: recordId(),
  custom_id: customId,
  response: null,
  error: { code, message, line },
});

/** What the server said to a line; a refusal is told as an error beside. */
export function answerRecord({ line, customId }: BatchLine, status: number, body: unknown): BatchRecord {
  const refusal = isRecord(body) && isRecord(body.error) ? body.error : {};
  return {
    id: recordId(),
    custom_id: customId,
    response: { status_code: status, request_id: newId('req_', 24), body },
    error: status < 400 ? null : { code: String(refusal.code ?? 'failed'), message: String(refusal.message ?? `status ${status}`), line },
  };
}

export const recordLine = (record: BatchRecord): Uint8Array => new TextEncoder().encode(`${JSON.stringify(record)}\n`);

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
    const { custom_id: id, error } = recordOf(line) ?? {};
    if (isRecord(error) && Number.isInteger(error.line)) done.told.add(error.line as number);
    else if (typeof id === 'string' && !error) done.answered.add(id);
    else throw new BadLine('invalid_record', `line ${line.number} is no record of a batch`, line.number, null);
    size += line.size;
  }
  return size;
}

function recordOf({ bytes }: Line): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(utf8.decode(bytes));
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
