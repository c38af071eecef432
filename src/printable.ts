/** Text that strangers wrote (names and strings of a file, what a server says) on its way to a terminal or a log. */

/** Control characters, and those which turn the direction of writing round: a terminal obeys the first, readers are deceived by the second. */
const HARMFUL = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

/** The same text with such characters as escapes: `\u001b`. */
export const printable = (text: string): string =>
  text.replace(HARMFUL, (c) => (c === '\n' ? '\\n' : `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`));

/** A text of several lines in any script: control characters other than newlines and tabs as escapes. */
export const printableLines = (text: string): string => text.replace(/[^\P{Cc}\n\t]/gu, printable);
