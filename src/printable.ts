/**
 * Makes text from strangers (names and strings of a file, messages of a server) safe for a terminal
 * or a log.
 */

/**
 * Control characters, which a terminal obeys, and characters that change the direction of text,
 * which deceive readers.
 */
const HARMFUL = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

/** The text with such characters as escapes: `\u001b`. */
export const printable = (text: string): string =>
  text.replace(HARMFUL, (c) => (c === '\n' ? '\\n' : `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`));

/**
 * Text of several lines in any script, with control characters other than newlines and tabs as
 * escapes.
 */
export const printableLines = (text: string): string => text.replace(/[^\P{Cc}\n\t]/gu, printable);
