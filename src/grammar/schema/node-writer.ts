/** Writes texts, strings and numbers of JSON as nodes of an automaton. */
import { atOnce } from '../../slices.ts';
import { RETURN, type Node } from '../program.ts';
import { MAX_CODE_POINT } from '../ranges.ts';
import { utf8Ranges } from '../utf8-ranges.ts';
import { TooManyStates, type Edge, type Languages, type Regex } from './regex.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
/** Short escapes: the character after the backslash, by code point. */
const SHORT: ReadonlyMap<number, number> = new Map(
  Object.entries({ '"': '"', '\\': '\\', '/': '/', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't' }).map(([c, letter]) => [
    c.charCodeAt(0),
    letter.charCodeAt(0),
  ]),
);
const HEX = [0x30, 0x39, 0x41, 0x46, 0x61, 0x66];
/** Blanks and tabs after a line end, where blanks are few. */
const MAX_INDENT = 20;

/** Bytes of code points without an escape: flat [low, high, ...]. */
function* bare(low: number, high: number): Generator<[number, number]> {
  const cuts = [0x20, QUOTE, QUOTE + 1, BACKSLASH, BACKSLASH + 1, 0xd800, 0xe000, MAX_CODE_POINT + 1];
  for (let i = 0; i < cuts.length; i += 2) {
    const from = Math.max(low, cuts[i]);
    const to = Math.min(high, cuts[i + 1] - 1);
    if (from <= to) yield [from, to];
  }
}

/** True if all characters lead to the same language. Surrogates are no characters. */
function isUniform(edges: readonly Edge[]): boolean {
  let reached = 0;
  for (const { low, high, to } of edges) {
    if (to !== edges[0].to || (low !== reached && !(reached === 0xd800 && low === 0xe000))) return false;
    reached = high + 1;
  }
  return reached === MAX_CODE_POINT + 1;
}

const encoder = new TextEncoder();

/** Nodes of one compiled schema. Most are written when a text first reaches them. */
export class NodeWriter {
  readonly nodes: Node[];
  readonly #languages: Languages;
  readonly #strings = new Map<Regex, number>();
  readonly #raw = new Map<Regex, number>();
  readonly #bare = new Map<number, Map<Regex, number>>();
  /** Continuation bytes of UTF-8, by their ranges and the node after them. */
  readonly #tails = new Map<string, number>();
  readonly #escapes = new Map<number, number>();
  /** Blanks between the parts of JSON. */
  readonly blanks: number;

  /**
   * @param brief true: few blanks, so that a model cannot write them forever
   * @param nodes nodes of other writers of the same program
   */
  constructor(languages: Languages, brief: boolean, nodes: Node[] = [{ type: 'return' }]) {
    this.#languages = languages;
    this.nodes = nodes;
    this.blanks = brief ? this.#briefBlanks() : this.#anyBlanks();
  }

  #anyBlanks(): number {
    const targets = [RETURN];
    const blanks = this.split(targets, true);
    targets.push(this.bytes([9, 10, blanks, 13, 13, blanks, 32, 32, blanks]));
    return blanks;
  }

  #briefBlanks(): number {
    let indent = RETURN;
    for (let i = 0; i < MAX_INDENT; i++) indent = this.split([this.bytes([9, 9, indent, 32, 32, indent]), RETURN]);
    return this.split([RETURN, this.bytes([32, 32, RETURN, 10, 10, indent])]);
  }

  add(node: Node): number {
    return this.nodes.push(node) - 1;
  }

  bytes(edges: readonly number[]): number {
    return this.add({ type: 'bytes', edges });
  }

  /** @param open true if targets are added later */
  split(targets: readonly number[], open = false): number {
    return targets.length === 1 && !open ? targets[0] : this.add({ type: 'split', targets });
  }

  call(start: number, next: number): number {
    return this.add({ type: 'call', start, next });
  }

  /** A node that is written when a text first reaches it. */
  lazy(make: () => number): number {
    return this.add({ type: 'lazy', make });
  }

  text(text: string | Uint8Array, next: number): number {
    const bytes = typeof text === 'string' ? encoder.encode(text) : text;
    let after = next;
    for (let i = bytes.length - 1; i >= 0; i--) after = this.bytes([bytes[i], bytes[i], after]);
    return after;
  }

  /** The rule for a JSON string whose content belongs to a language. */
  string(language: Regex): number {
    return this.bytes([QUOTE, QUOTE, this.content(language)]);
  }

  /** The rule for the content of a JSON string and the quote after it. */
  content(language: Regex): number {
    let node = this.#strings.get(language);
    if (node === undefined) this.#strings.set(language, (node = this.lazy(() => this.#writeContent(language))));
    return node;
  }

  /** The rule for a text of a language as it is: digits. */
  raw(language: Regex): number {
    let node = this.#raw.get(language);
    if (node === undefined) this.#raw.set(language, (node = this.lazy(() => this.#writeRaw(language))));
    return node;
  }

  #writeRaw(language: Regex): number {
    const edges = this.#edges(language).flatMap(({ low, high, to }) => [low, Math.min(high, 0x7f), this.raw(to)]);
    const read = edges.length > 0 ? [this.bytes(edges)] : [];
    return this.split(language.nullable ? [...read, RETURN] : read);
  }

  /** The first node of a text of a language as it is; continues at `end`. */
  bare(language: Regex, end: number): number {
    let known = this.#bare.get(end);
    if (!known) this.#bare.set(end, (known = new Map()));
    let node = known.get(language);
    if (node === undefined) known.set(language, (node = this.lazy(() => this.#writeBare(language, end))));
    return node;
  }

  #writeBare(language: Regex, end: number): number {
    const edges: number[] = [];
    for (const { low, high, to } of this.#edges(language)) {
      const next = this.bare(to, end);
      for (const [from, last] of [
        [low, Math.min(high, 0xd7ff)],
        [Math.max(low, 0xe000), high],
      ])
        if (from <= last) for (const bytes of utf8Ranges(from, last)) edges.push(bytes[0], bytes[1], this.#tail(bytes, 2, next));
    }
    const read = this.bytes(edges);
    return language.nullable ? this.split([read, end]) : read;
  }

  #edges(language: Regex): Edge[] {
    return this.#languages.edges(language).filter(({ to }) => this.#isLive(to));
  }

  #isLive(language: Regex): boolean {
    try {
      return atOnce(this.#languages.isLive(language));
    } catch (error) {
      if (error instanceof TooManyStates) return true;
      throw error;
    }
  }

  #writeContent(language: Regex): number {
    const edges: number[] = [];
    /** Nodes after escaped characters, by code point. */
    const escaped = new Map<number, number>();
    const given = this.#edges(language);
    const uniform = isUniform(given);
    for (const { low, high, to } of given) {
      const next = this.content(to);
      for (const [from, end] of bare(low, high))
        for (const bytes of utf8Ranges(from, end)) edges.push(bytes[0], bytes[1], this.#tail(bytes, 2, next));
      for (let code = low; code <= Math.min(high, 0x1f); code++) escaped.set(code, next);
      for (const code of [QUOTE, BACKSLASH]) if (code >= low && code <= high) escaped.set(code, next);
    }
    if (uniform) edges.push(BACKSLASH, BACKSLASH, this.#anyEscape(this.content(given[0].to)));
    else if (escaped.size > 0) edges.push(BACKSLASH, BACKSLASH, this.#escapeOf(escaped));
    if (language.nullable) edges.push(QUOTE, QUOTE, RETURN);
    return this.bytes(edges);
  }

  /** The node that reads bytes from `at` on. */
  #tail(bytes: readonly number[], at: number, next: number): number {
    if (at >= bytes.length) return next;
    const key = `${next} ${bytes.slice(at).join()}`;
    let node = this.#tails.get(key);
    if (node === undefined) this.#tails.set(key, (node = this.bytes([bytes[at], bytes[at + 1], this.#tail(bytes, at + 2, next)])));
    return node;
  }

  #hex(ranges: readonly number[], next: number): number {
    return this.bytes(ranges.flatMap((byte, i) => (i % 2 === 0 ? [byte, ranges[i + 1], next] : [])));
  }

  /** Any escape of one character, after the backslash. Surrogates are left out. */
  #anyEscape(next: number): number {
    let node = this.#escapes.get(next);
    if (node !== undefined) return node;
    const two = this.#hex(HEX, this.#hex(HEX, next));
    const three = this.#hex(HEX, two);
    const notD = this.#hex([0x30, 0x39, 0x41, 0x43, 0x45, 0x46, 0x61, 0x63, 0x65, 0x66], three);
    const d = this.bytes([0x44, 0x44, this.#hex([0x30, 0x37], two), 0x64, 0x64, this.#hex([0x30, 0x37], two)]);
    const letters = [...SHORT.values()].flatMap((letter) => [letter, letter, next]);
    node = this.bytes([...letters, LETTER_U, LETTER_U, this.split([notD, d])]);
    this.#escapes.set(next, node);
    return node;
  }

  /** Escapes of the characters that JSON requires to be escaped, after the backslash. */
  #escapeOf(escaped: ReadonlyMap<number, number>): number {
    const edges: number[] = [];
    const long: number[] = [];
    for (const [code, next] of escaped) {
      const letter = SHORT.get(code);
      if (letter !== undefined) edges.push(letter, letter, next);
      else long.push(this.text(code.toString(16).padStart(4, '0'), next));
    }
    if (long.length > 0) edges.push(LETTER_U, LETTER_U, this.split(long));
    return this.bytes(edges);
  }
}
