/** Values that XML-like calls write as bare text, as JSON text. */
import { kindOf, typesOf, type Subschema, type ValueKind, type ValueTypes } from './argument-types.ts';
import { parseJson } from './json.ts';
import { pythonJson } from './pythonic.ts';

/** Rules of a notation for bare values. */
export interface BareSyntax {
  /** Values stand on their own lines: the line breaks around a value are not part of it. */
  readonly trimLines: boolean;
  /** The templates write `None`, `True` and lists as Python does. */
  readonly python: boolean;
}

const string = (text: string): string => JSON.stringify(text);
/** JSON of a part of a string, without the quotes. */
const inString = (text: string): string => string(text).slice(1, -1);

/**
 * JSON of a value that was written as bare text. Strings stay strings if the schema says so; other
 * text is read as JSON or Python if that gives a value that the schema allows.
 */
export function bareJsonOf(text: string, { kinds, texts }: ValueTypes, python: boolean): string {
  if (texts.has(text) || (kinds.size === 1 && kinds.has('string'))) return string(text);
  const trimmed = text.trim();
  const json = parseJson(trimmed) === undefined ? pythonJson(trimmed) : trimmed;
  if (json === undefined) return string(text);
  if (!kinds.has('string')) return json;
  // A string may look like Python where templates write JSON.
  if (json !== trimmed && !python) return string(text);
  return kinds.has(kindOf(parseJson(json))) ? json : string(text);
}

/** Beginnings of texts that may become a value of a kind other than string. */
const BEGUN: Readonly<Record<Exclude<ValueKind, 'string'>, RegExp>> = {
  number: /^-?\d*(?:\.\d*)?(?:[eE][-+]?\d*)?$/,
  boolean: /^(?:t(?:r(?:ue?)?)?|f(?:a(?:l(?:se?)?)?)?|T(?:r(?:ue?)?)?|F(?:a(?:l(?:se?)?)?)?)?$/,
  null: /^(?:n(?:u(?:ll?)?)?|N(?:o(?:ne?)?)?)?$/,
  object: /^(?:$|\{)/,
  array: /^(?:$|\[)/,
};

/** Tells if text that began so may still be something other than a string. */
const mayBeOther = (begun: string, { kinds }: ValueTypes): boolean =>
  // Without a schema, quoted text is a JSON string.
  (kinds.size === 6 && begun.startsWith('"')) || [...kinds].some((kind) => kind !== 'string' && BEGUN[kind].test(begun));

/**
 * Writes one bare value as JSON while it arrives. Strings are passed on at once. Other values wait
 * for their end, because only the whole text tells what they are.
 */
export class BareValue {
  readonly #types: ValueTypes;
  readonly #syntax: BareSyntax;
  readonly #write: (json: string) => void;
  /** Text that was not written yet. */
  #held = '';
  #isString: boolean | undefined;
  #begun = false;
  /** A line break stood before the value, so the one after it is dropped. */
  #ownLines = false;

  /** @param type the kind that the call itself names, if it does */
  constructor(slot: Subschema, type: ValueKind | undefined, syntax: BareSyntax, write: (json: string) => void) {
    this.#types = type === undefined ? typesOf(slot) : { kinds: new Set([type]), texts: new Set() };
    this.#syntax = syntax;
    this.#write = write;
  }

  push(text: string): void {
    if (text === '') return;
    this.#held += text;
    if (!this.#begun) {
      this.#begun = true;
      this.#ownLines = this.#syntax.trimLines && this.#held.startsWith('\n');
      if (this.#ownLines) this.#held = this.#held.slice(1);
    }
    if (this.#isString === undefined) this.#decide();
    if (this.#isString !== true) return;
    // The last line break may be dropped, and half a character has no escape of its own.
    const kept = /(?:\n|[\ud800-\udbff])$/.test(this.#held) ? 1 : 0;
    const ready = this.#held.slice(0, this.#held.length - kept);
    this.#held = this.#held.slice(ready.length);
    if (ready !== '') this.#write(inString(ready));
  }

  /** Ends the value. */
  end(): void {
    const rest = this.#ownLines ? this.#held.replace(/\n$/, '') : this.#held;
    if (this.#isString) this.#write(`${inString(rest)}"`);
    else this.#write(bareJsonOf(rest, this.#types, this.#syntax.python));
  }

  /** Ends what there is of a value that the answer's end cut off. */
  cut(): void {
    const rest = this.#held.replace(this.#ownLines ? /[\n\ud800-\udbff]$/ : /[\ud800-\udbff]$/, '');
    if (this.#isString && rest !== '') this.#write(inString(rest));
  }

  #decide(): void {
    const { kinds } = this.#types;
    if (!kinds.has('string') || (kinds.size > 1 && mayBeOther(this.#held.trim(), this.#types))) return;
    this.#isString = true;
    this.#write('"');
  }
}
