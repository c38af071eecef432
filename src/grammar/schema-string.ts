/** JSON strings as GBNF: shared rules, formats, and keys other than given names. */
import { QuantletError } from '../errors.ts';
import type { Work } from '../slices.ts';
import { gbnfClass, gbnfText } from './gbnf-text.ts';
import { normalizeRanges } from './ranges.ts';

/**
 * Rules that all schemas share, by name, without `root`. Whitespace is bounded, so that a model
 * cannot write it forever.
 */
export const SHARED_RULES: Readonly<Record<string, string>> = {
  ws: '| " " | "\\n" [ \\t]{0,20}',
  value: 'object | array | string | number | boolean | null',
  object: '"{" ws (string ws ":" ws value (ws "," ws string ws ":" ws value)*)? ws "}"',
  array: '"[" ws (value (ws "," ws value)*)? ws "]"',
  string: '"\\"" char* "\\""',
  // \uXXXX excludes surrogates, so that each escape is one character.
  char: '[^"\\\\\\x00-\\x1F\\x7F] | "\\\\" (["\\\\/bfnrt] | "u" ([0-9A-CEFa-cef] hex hex hex | [Dd] [0-7] hex hex))',
  hex: '[0-9A-Fa-f]',
  number: 'integer ("." [0-9]{1,16})? ([eE] [+\\-]? [0-9]{1,2})?',
  integer: '"-"? ("0" | [1-9] [0-9]{0,15})',
  boolean: '"true" | "false"',
  null: '"null"',
  'key-char': '[^"\\\\\\x00-\\x1F\\x7F] | "\\\\" ["\\\\bfnrt]',
};

const YEAR_MONTH_DAY =
  '[0-9]{4} "-" (("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) | ("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30") | "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8]))';
const CLOCK = '("0" | "1") [0-9] | "2" [0-3]';
const TIME = `(${CLOCK}) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,9})? ("Z" | [+\\-] (${CLOCK}) ":" [0-5] [0-9])`;
const OCTET = '("25" [0-5] | "2" [0-4] [0-9] | "1" [0-9] [0-9] | [1-9] [0-9] | [0-9])';

/**
 * String contents by format. A format that is not a regular language gets a subset (dates without
 * 29 February).
 */
export const STRING_FORMATS: Readonly<Record<string, string>> = {
  date: YEAR_MONTH_DAY,
  time: TIME,
  'date-time': `${YEAR_MONTH_DAY} "T" ${TIME}`,
  uuid: '[0-9a-fA-F]{8} ("-" [0-9a-fA-F]{4}){3} "-" [0-9a-fA-F]{12}',
  ipv4: `${OCTET} ("." ${OCTET}){3}`,
  email:
    '[a-zA-Z0-9_] ([a-zA-Z0-9_\\-] | "." [a-zA-Z0-9_]){0,62} "@" [a-zA-Z0-9] ([a-zA-Z0-9] | [\\-.] [a-zA-Z0-9]){0,60} "." [a-zA-Z]{2,12}',
};

/** Puts quotes around a content. */
export const quoted = (content: string): string => `"\\"" ${content} "\\""`;

/** Limit of nodes in the tree of names, because each becomes a rule. */
const MAX_BRANCHES = 20_000;

/**
 * Rules for a key (with its quotes) that is not in `names`. The names form a tree of characters,
 * and a key leaves the tree at a character that no name has there. Each character of such a key has
 * a single spelling, so that a key cannot equal a name in another spelling.
 * @param rule declares a rule and returns its name
 */
export function* keyExcept(names: readonly string[], rule: (hint: string, body: string) => string): Work<string> {
  interface Branch {
    end: boolean;
    readonly next: Map<string, Branch>;
  }
  const root: Branch = { end: false, next: new Map() };
  let branches = 0;
  for (const name of names) {
    const units =
      JSON.stringify(name)
        .slice(1, -1)
        .match(/\\u....|\\.|[^\\]/gsu) ?? [];
    // key-char cannot spell these characters, so no other key equals such a name.
    if (units.some((unit) => unit.startsWith('\\u') || unit === '\x7f')) continue;
    let at = root;
    for (const unit of units) {
      let branch = at.next.get(unit);
      if (!branch) {
        at.next.set(unit, (branch = { end: false, next: new Map() }));
        if (++branches > MAX_BRANCHES)
          throw new QuantletError(
            'ERR_GRAMMAR',
            `schema: the names of an object that allows others have more than ${MAX_BRANCHES} characters; expected fewer or shorter ones, or "additionalProperties": false`,
          );
      }
      at = branch;
    }
    at.end = true;
    yield;
  }
  function* afterUnit(branch: Branch): Work<string> {
    yield;
    const options = branch.end ? [] : ['""'];
    const raw: [number, number][] = [
      [0, 0x1f],
      [34, 34],
      [92, 92],
      [0x7f, 0x7f],
    ];
    let escapes = '"\\bfnrt';
    for (const [unit, next] of branch.next) {
      options.push(`${gbnfText(unit)} ${rule('key', yield* afterUnit(next))}`);
      if (unit.startsWith('\\')) escapes = escapes.replace(unit[1], '');
      else raw.push([unit.codePointAt(0)!, unit.codePointAt(0)!]);
    }
    options.push(`${gbnfClass(normalizeRanges(raw, true))} key-char*`);
    if (escapes !== '') {
      const kept = normalizeRanges(
        Array.from(escapes, (c): [number, number] => [c.charCodeAt(0), c.charCodeAt(0)]),
        false,
      );
      options.push(`"\\\\" ${gbnfClass(kept)} key-char*`);
    }
    return options.join(' | ');
  }
  return quoted(rule('key', yield* afterUnit(root)));
}
