/** Escapes in Python's strings. */
const simple: Readonly<Record<string, string>> = {
  '\n': '',
  '\\': '\\',
  "'": "'",
  '"': '"',
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};
const escape = /\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([xuUN])|(.))/gs;

/**
 * Value of a string literal without its quotes; undefined if it has an invalid escape. Character
 * names, `\N{...}`, are not supported.
 */
export function parseString(source: string): string | undefined {
  if (!source.includes('\\')) return source;
  let bad = false;
  const text = source.replace(
    escape,
    (whole, octal?: string, two?: string, four?: string, eight?: string, broken?: string, char?: string) => {
      if (broken !== undefined) return ((bad = true), '');
      if (char !== undefined) return simple[char] ?? whole;
      const code = octal === undefined ? Number.parseInt((two ?? four ?? eight)!, 16) : Number.parseInt(octal, 8);
      if (code > 0x10ffff) return ((bad = true), '');
      return String.fromCodePoint(code);
    },
  );
  return bad ? undefined : text;
}
