/** What a rendering may still do: templates come from files of strangers, and conversations from clients. */
import { getAttribute, getItem } from './access.ts';
import { filters } from './filters/index.ts';
import { tests } from './tests.ts';
import { JinjaError, type Runtime, type Table } from './values.ts';

/** A template that does more than its conversation can need. */
export class TemplateBudget extends Error {}

/**
 * Steps of one rendering, beside those that the length of its conversation allows. Templates in use take 25 to 140 for a message, one that
 * looks through all earlier messages for each takes 550 at 200 messages.
 */
const STEPS = 5_000_000;
/** Characters that count as one step: what looks at a text once takes at most about so long. */
const CHARACTERS = 32;
/** Steps allowed for each character of the conversation: every string of it may be looked at 64 times. */
const STEPS_OF_CHARACTER = 2;
/** Elements that a step copies. */
const ELEMENTS = 4;
/** Characters of a text that a template makes out of a number: an indentation, a row of placeholders. */
const MAX_MADE = 1_000_000;

/** Macros in macros and turns of recursive loops, one inside the other: about as many as fit into Python's stack. */
const MAX_DEPTH = 200;

export class Rendering implements Runtime {
  readonly now: () => Date;
  readonly filters: Table = filters;
  readonly tests: Table = tests;
  readonly getAttribute = getAttribute;
  readonly getItem = getItem;
  /** Whether expressions are escaped as HTML where they are written: `{% autoescape true %}`. */
  autoescape = false;
  readonly #characters: number;
  readonly #most: number;
  #left: number;
  #depth = 0;
  /** @param characters of the conversation */
  constructor(now: () => Date, characters: number) {
    this.now = now;
    this.#characters = characters;
    this.#most = this.#left = STEPS + STEPS_OF_CHARACTER * characters;
  }
  spend(steps: number): void {
    this.#left -= steps;
    if (!(this.#left >= 0))
      throw new TemplateBudget(`it takes more than ${this.#most} steps for a conversation of ${this.#characters} characters`);
  }
  read(characters: number): void {
    this.spend(characters / CHARACTERS);
  }
  walk(elements: number): void {
    this.spend(elements / ELEMENTS);
  }
  /** Work one level deeper. @throws JinjaError where that is too deep */
  nested<T>(work: () => T): T {
    if (this.#depth === MAX_DEPTH) throw new JinjaError(`macros and recursive loops are more than ${MAX_DEPTH} deep`);
    this.#depth++;
    try {
      return work();
    } finally {
      this.#depth--;
    }
  }
  make(characters: number): void {
    if (!(characters <= MAX_MADE)) throw new JinjaError(`a text of more than ${MAX_MADE} characters made of a number`);
    this.read(characters);
  }
}
