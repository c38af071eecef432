/** Writes the error codes of docs/troubleshooting.md, from their comments in src/errors.ts. */

/** The text between these two lines is generated; the rest of the page is written by hand. */
const BEGIN = '<!-- Generated from src/errors.ts by `npm run generate`: edit the comments there and run it again. -->';
const END = '<!-- End of what is generated. -->';

/** A comment on one line, with its semicolons masked: they do not end the union. */
function flattened(comment: string): string {
  const lines = comment.slice('/**'.length, -'*/'.length).split('\n');
  const text = lines.map((line) => line.replace(/^\s*\*?\s*/, '').trimEnd()).join(' ');
  return `/** ${text.trim().replaceAll(';', '\0')} */`;
}

/**
 * Every code with its comment.
 * @throws Error for a code that has none
 */
export function errorCodes(source: string): readonly (readonly [code: string, meaning: string])[] {
  const union = /export type QuantletErrorCode =\n([^;]*);/.exec(source.replaceAll(/\/\*\*.*?\*\//gs, flattened));
  if (!union) throw new Error('src/errors.ts has no type QuantletErrorCode');
  return [...union[1].matchAll(/(?:\/\*\* (.*?) \*\/\s*)?\| '(\w+)'/g)].map(([, meaning, code]) => {
    if (meaning === undefined) throw new Error(`${code} has no comment in src/errors.ts that says what it means and what to do`);
    return [code, meaning.replaceAll('\0', ';')] as const;
  });
}

/** Returns the page with its current table. */
export function withErrorTable(page: string, source: string): string {
  const [before, rest] = page.split(BEGIN);
  const after = rest?.split(END)[1];
  if (after === undefined) throw new Error(`docs/troubleshooting.md lacks the lines ${BEGIN} and ${END}`);
  const rows = errorCodes(source).map(([code, meaning]) => `| \`${code}\` | ${meaning.replaceAll('|', '\\|')} |`);
  return `${before}${BEGIN}\n\n| Code | What it means, and what to do |\n| --- | --- |\n${rows.join('\n')}\n\n${END}${after}`;
}
