/** Python's textwrap.wrap. */
import { headOf, longerThan, textLength } from '../characters.ts';

const blank = '[\\t\\n\\v\\f\\r ]';
const solid = '[^\\t\\n\\v\\f\\r ]';
const punctuated = '[\\p{L}\\p{N}_!"\'&.,?]';
const letter = '[\\p{L}_]';
/**
 * Splits into words, parts of hyphenated words, dashes and blanks. The pattern is that of Python's
 * textwrap.
 */
const byHyphens = new RegExp(
  `(${blank}+|(?<=${punctuated})-{2,}(?=[\\p{L}\\p{N}_])|${solid}+?(?:-(?:(?<=${letter}{2}-)|(?<=${letter}-${punctuated}-))(?=${letter}-?${letter})|(?=${blank}|$)|(?<=${punctuated})(?=-{2,}[\\p{L}\\p{N}_])))`,
  'u',
);
const byBlanks = new RegExp(`(${blank}+)`);
const isBlank = (chunk: string): boolean => chunk.trim() === '';

/** Wraps one paragraph into lines. */
export function wrapped(text: string, width: number, breakWords: boolean, breakHyphens: boolean): string[] {
  const chunks = text
    .split(breakHyphens ? byHyphens : byBlanks)
    .filter((chunk) => chunk !== '')
    .reverse();
  const lines: string[] = [];
  while (chunks.length > 0) {
    if (lines.length > 0 && isBlank(chunks.at(-1)!)) chunks.pop();
    const line: string[] = [];
    let length = 0;
    while (chunks.length > 0 && !longerThan(chunks.at(-1)!, width - length)) {
      line.push(chunks.pop()!);
      length += textLength(line.at(-1)!);
    }
    if (chunks.length > 0 && longerThan(chunks.at(-1)!, width)) takeLong(chunks, line, width - length, breakWords, breakHyphens);
    if (line.length > 0 && isBlank(line.at(-1)!)) line.pop();
    if (line.length > 0) lines.push(line.join(''));
  }
  return lines;
}

/**
 * Handles a word longer than a line: adds the part of it that fits, or all of it if words must not
 * be broken and the line is empty.
 */
function takeLong(chunks: string[], line: string[], room: number, breakWords: boolean, breakHyphens: boolean): void {
  if (!breakWords) {
    if (line.length === 0) line.push(chunks.pop()!);
    return;
  }
  const chunk = chunks.pop()!;
  const head = headOf(chunk, room);
  const hyphen = breakHyphens ? head.lastIndexOf('-') : -1;
  const end = hyphen > 0 && /[^-]/.test(head.slice(0, hyphen)) ? hyphen + 1 : head.length;
  line.push(chunk.slice(0, end));
  chunks.push(chunk.slice(end));
}
