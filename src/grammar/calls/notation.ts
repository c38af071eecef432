/**
 * Notations of tool calls as data. Readers of answers and grammars of calls are made from the same
 * descriptions.
 */
import type { PlainFormat } from '../schema-source.ts';

/** Characters that the model chooses: flat ranges of codes, and how many of them. */
export interface Letters {
  readonly letters: readonly number[];
  readonly min: number;
  readonly max: number;
}

/** Place for a few blanks, or none. */
export interface Gap {
  readonly gap: 'few' | 'lines';
}

/** Piece of a notation: a text as it is, blanks, or characters of an id. */
export type Piece = string | Gap | Letters;

/** A blank, or a line end with blanks after it. */
export const GAP: Gap = { gap: 'few' };
/** Up to two line ends, or a blank: between reasoning, calls and the texts around them. */
export const LINES: Gap = { gap: 'lines' };
export const DIGITS: Letters = { letters: [0x30, 0x39], min: 1, max: 2 };
/** An id of nine letters and digits, as Mistral's templates accept it. */
export const ID: Letters = { letters: [0x30, 0x39, 0x41, 0x5a, 0x61, 0x7a], min: 9, max: 9 };

/** The pieces of a template literal. */
export const pieces = (texts: TemplateStringsArray, ...values: readonly Piece[]): Piece[] =>
  texts.flatMap((text, i) => [...(text === '' ? [] : [text]), ...(i < values.length ? [values[i]] : [])]);

/** An XML-like notation of calls. */
export interface XmlSyntax {
  /** Beginning of a call, up to its name; '' if the name comes right after the outer marker. */
  readonly call: string;
  /** End of the name; '' if the name ends at the first character that no name has. */
  readonly named: string;
  /** End of a call; '' if the outer marker ends it. */
  readonly callEnd: string;
  /** Beginning of an argument up to its key, end of the key, and end of the argument. */
  readonly argument: string;
  readonly keyed: string;
  readonly argumentEnd: string;
  /** A further tag between the key and the value. */
  readonly value?: string;
  /**
   * Attribute of an argument that names its type: `string` is true or false, `type` is the type of
   * JSON. The key is then in quotes.
   */
  readonly attribute?: 'string' | 'type';
  /** Values may be in CDATA sections. */
  readonly cdata?: boolean;
  /** A tag that may follow the name. */
  readonly afterName?: string;
  /** Line breaks around a value that begins with one are not part of it. */
  readonly trimLines: boolean;
  /** The templates write values on lines of their own. */
  readonly lines?: boolean;
  /** The templates write `None`, `True` and lists as Python does. */
  readonly python: boolean;
}

/** The way in which a notation writes arguments. */
export type ArgumentForm =
  | { readonly type: 'json' }
  /** `key=literal` of Python, within brackets. */
  | { readonly type: 'python' }
  /** JSON with bare keys, and a text of its own as the quote. */
  | { readonly type: 'quoted'; readonly quote: string }
  /** `syntax.argument` and so on; `inner` begins a call within a value. */
  | { readonly type: 'xml'; readonly syntax: XmlSyntax; readonly inner: string }
  /** Elements of the arguments' names at every level; `mark` precedes every tag. */
  | { readonly type: 'elements'; readonly mark: string };

/** Texts of calls in a notation. */
export interface CallTexts {
  /** Text that begins a section of calls. */
  readonly start: string;
  /** Between the start and the first call, between calls, and after the last one. */
  readonly open: readonly Piece[];
  /** Undefined: a section has one call. */
  readonly between?: readonly Piece[];
  readonly close: readonly Piece[];
  /** Around all sections of an answer. The calls are read without these, too. */
  readonly before?: readonly Piece[];
  readonly after?: readonly Piece[];
  /** Between sections. */
  readonly again?: readonly Piece[];
  readonly form: ArgumentForm;
  /** After a call's arguments. */
  readonly tail: readonly Piece[];
}

/** A notation of calls. */
export interface CallNotation extends CallTexts {
  /** From the beginning of a call to its arguments. */
  readonly head: (name: string) => readonly Piece[];
  /** Names of tools that the notation can write. */
  readonly names?: RegExp;
  /** True: only the name of an offered tool tells that a call begins, not the start alone. */
  readonly byName?: boolean;
  /** A call begins only at the start of an answer. */
  readonly onlyFirst?: boolean;
  /** Texts with which calls begin, if not with the start. */
  readonly triggers?: readonly string[];
}

/** Calls that an answer must consist of, or may contain. */
export interface CallsFormat {
  readonly tools: readonly { readonly name: string; readonly schema: object; readonly strict: boolean }[];
  /** Notations, and the heads of calls of each tool. */
  readonly notations: readonly (CallTexts & { readonly heads: readonly (readonly Piece[])[] })[];
  /** More than one call is allowed. */
  readonly several: boolean;
  /** True: the text is one section of calls. False: a whole answer. */
  readonly section: boolean;
  /** The answer may be this instead. */
  readonly answer?: PlainFormat;
}
