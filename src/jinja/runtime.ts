/** Limits of a rendering. Templates come from strangers' files, and conversations from clients. */
import { getAttribute, getItem } from './access.ts';
import { filters } from './filters/index.ts';
import { tests } from './tests.ts';
import { JinjaError, type Runtime, type Table } from './values.ts';

/** Error of a template that does more work than its conversation can need. */
export class TemplateBudget extends Error {}

/**
 * Steps of one rendering; the length of the conversation adds more. Templates in use take 25 to 140
 * steps a message. One that searches all earlier messages for each message takes 550 at 200
 * messages.
 */
const STEPS = 5_000_000;
/** Characters that one step reads. */
const CHARACTERS = 32;
/**
 * Steps added for each character of the conversation, enough to read every string 64 times (at 32
 * characters a step).
 */
const STEPS_OF_CHARACTER = 2;
/** Elements that one step copies. */
const ELEMENTS = 4;
/** Longest text that a template can make from a number, such as an indentation. */
const MAX_MADE = 1_000_000;

/** Depth of nested macros and recursive loops. About as many fit into Python's stack. */
const MAX_DEPTH = 200;

export class Rendering implements Runtime {
  readonly now: () => Date;
  readonly filters: Table = filters;
  readonly tests: Table = tests;
  readonly getAttribute = getAttribute;
  readonly getItem = getItem;
  /** Set by `{% autoescape true %}`: expressions are escaped for HTML when they are written. */
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
  /**
   * Runs `work` one level deeper.
   * @throws JinjaError beyond MAX_DEPTH
   */
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
