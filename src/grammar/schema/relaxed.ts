/** Keywords that are held only in part. */
import { schemaError } from '../schema-error.ts';
import { TooManyStates } from './regex.ts';

/** A keyword that a compiled schema does not hold, or holds only in part. */
export interface Relaxation {
  /** The tool whose arguments the schema describes. */
  readonly tool?: string;
  /** JSON pointer of the schema with the keyword. */
  readonly pointer: string;
  readonly keyword: string;
}

/** Thrown for a keyword that cannot be held. The message says why and what was expected. */
export class Unheld extends Error {}

/** Thrown for a keyword whose value JSON Schema does not allow. */
export class Malformed extends Unheld {}

/** A part of a schema in which keywords must be held exactly. */
export interface StrictPart {
  readonly pointer: string;
  /** Its name in errors, such as `the tool "x"`; empty for the whole schema. */
  readonly name: string;
}

/** The whole of a schema, as a strict part. */
export const WHOLE: StrictPart = { pointer: '', name: '' };

/** The handling of keywords that cannot be held. */
export interface Strictness {
  readonly strict: readonly StrictPart[];
  /** True: values that JSON Schema does not allow are refused everywhere. */
  readonly wellFormed: boolean;
}

/** Collects keywords that are held only in part, or refuses them. */
export class Relaxations {
  readonly #strictness: Strictness;
  readonly #found = new Map<string, Relaxation>();

  constructor(strictness: Strictness) {
    this.#strictness = strictness;
  }

  get list(): readonly Relaxation[] {
    return [...this.#found.values()];
  }

  /** @throws QuantletError ERR_GRAMMAR in a strict part */
  add(pointer: string, keyword: string, why: string): void {
    const part = this.#strictness.strict.find(({ pointer: from }) => pointer === from || pointer.startsWith(`${from}/`));
    if (part) throw schemaError(`${pointer.slice(part.pointer.length)}/${keyword}`, why, part.name);
    this.#found.set(`${pointer} ${keyword}`, { pointer, keyword });
  }

  /**
   * Handles an error of a keyword.
   * @throws the error, if it is of another kind; QuantletError ERR_GRAMMAR in a strict part
   */
  addError(pointer: string, keyword: string, error: unknown): void {
    if (error instanceof Malformed && this.#strictness.wellFormed) throw schemaError(`${pointer}/${keyword}`, error.message);
    if (error instanceof Unheld) this.add(pointer, keyword, error.message);
    else if (error instanceof TooManyStates)
      this.add(pointer, keyword, `${keyword} combines with other keywords to too many states; expected a simpler one`);
    else throw error;
  }
}
