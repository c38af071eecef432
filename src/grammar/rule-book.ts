/** The rules of a grammar that is being written: names, bodies and the shared rules in use. */
import { schemaError } from './schema-error.ts';
import { SHARED_RULES } from './schema-string.ts';

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

  has(name: string): boolean {
    return this.#rules.has(name);
  }

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
    this.#rules.set(name, body);
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

  /** The grammar as text, with `root` as its start rule. */
  text(root: string): string {
    const lines = root === 'root' ? [] : [`root ::= ${root}`];
    for (const [name, body] of this.#rules) lines.push(`${name} ::= ${body}`);
    for (const name of this.#shared) lines.push(`${name} ::= ${SHARED_RULES[name]}`);
    return lines.join('\n') + '\n';
  }
}
