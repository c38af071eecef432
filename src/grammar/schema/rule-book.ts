/** The rules of a grammar that is being written: names, bodies and the shared rules in use. */
import { schemaError } from '../schema-error.ts';

/**
 * Rules that all schemas share, by name, without `root`. Blanks are bounded, so that a model cannot
 * write them forever, and numbers have a bounded number of digits.
 */
const SHARED_RULES: Readonly<Record<string, string>> = {
  ws: '| " " | "\\n" [ \\t]{0,20}',
  value: 'object | array | string | number | boolean | null',
  object: '"{" ws (string ws ":" ws value ws ("," ws string ws ":" ws value ws)*)? "}"',
  array: '"[" ws (value ws ("," ws value ws)*)? "]"',
  string: '"\\"" char* "\\""',
  // \uXXXX excludes surrogates, so that each escape is one character.
  char: '[^"\\\\\\x00-\\x1F] | "\\\\" (["\\\\/bfnrt] | "u" ([0-9A-CEFa-cef] hex hex hex | [Dd] [0-7] hex hex))',
  hex: '[0-9A-Fa-f]',
  // Characters that JSON requires to be escaped, each in one spelling.
  escaped: '"\\\\" (["\\\\bfnrt] | "u00" ("0" [0-7be-f] | "1" [0-9a-f]))',
  number: 'integer ("." [0-9]{1,16})? ([eE] [+\\-]? [0-9]{1,2})?',
  integer: '"-"? ("0" | [1-9] [0-9]{0,15})',
  boolean: '"true" | "false"',
  null: '"null"',
};

/** Longest grammar in characters, because a small schema may repeat its parts many times. */
const MAX_TEXT = 1_000_000;
/** Length of a rule's name that comes from a schema's pointer. */
const MAX_HINT = 60;

export class RuleBook {
  /** Bodies of rules by name. */
  readonly #rules = new Map<string, string>();
  /** Names of rules by body. */
  readonly #byBody = new Map<string, string>();
  /** Names of the shared rules in use. */
  readonly #shared = new Set<string>();
  readonly #taken = new Set([...Object.keys(SHARED_RULES), 'root']);
  /** The next number to append to a name that is taken. */
  readonly #numbers = new Map<string, number>();
  #length = 0;

  /** Reserves a name that shows where in the schema a rule comes from. */
  nameFor(pointer: string): string {
    const base =
      pointer
        .split('/')
        .filter((part) => part !== '' && part !== 'properties' && part !== '$defs')
        .join('-')
        .replace(/[^A-Za-z0-9_-]/g, '_')
        .slice(-MAX_HINT) || 'part';
    let name = base;
    for (let i = this.#numbers.get(base) ?? 2; this.#taken.has(name); i++) {
      name = `${base}-${i}`;
      this.#numbers.set(base, i + 1);
    }
    this.#taken.add(name);
    return name;
  }

  /**
   * Adds a rule under a reserved name.
   * @throws QuantletError ERR_GRAMMAR if the grammar becomes too large
   */
  write(name: string, body: string): void {
    if ((this.#length += body.length) > MAX_TEXT)
      throw schemaError(
        '',
        `as a grammar, the schema has more than ${MAX_TEXT} characters; expected fewer properties, shorter lists or smaller counts`,
      );
    this.#rules.set(name, withoutParentheses(body));
  }

  /** Returns the name of the rule with this body, and adds it if missing. */
  rule(hint: string, body: string): string {
    let name = this.#byBody.get(body);
    if (name === undefined) {
      name = this.nameFor(hint);
      this.#byBody.set(body, name);
      this.write(name, body);
    }
    return name;
  }

  /** Marks a shared rule and all rules that it names as used. Returns its name. */
  share(name: string): string {
    if (!this.#shared.has(name)) {
      this.#shared.add(name);
      for (const [word] of SHARED_RULES[name].replace(/"(\\.|[^"\\])*"|\[(\\.|[^\]\\])*\]/g, ' ').matchAll(/[a-z-]+/g)) this.share(word);
    }
    return name;
  }

  /** The grammar as text, with the rule `root` first. */
  text(): string {
    const { root, ...others } = Object.fromEntries(this.#rules);
    const lines = Object.entries({ root, ...others }).map(([name, body]) => `${name} ::= ${body}`);
    for (const name of this.#shared) lines.push(`${name} ::= ${SHARED_RULES[name]}`);
    return lines.join('\n') + '\n';
  }
}

/** The text of a rule without parentheses around all of it. */
function withoutParentheses(text: string): string {
  if (!text.startsWith('(') || !text.endsWith(')')) return text;
  let depth = 0;
  for (const { 0: mark, index } of text.matchAll(/"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|[()]/g)) {
    if (mark === '(') depth++;
    else if (mark === ')' && --depth === 0 && index < text.length - 1) return text;
  }
  return text.slice(1, -1);
}
