/** Names and their values, including those of the enclosing scopes. */
import type { Value } from './values.ts';

export class Scope {
  readonly #values = new Map<string, Value>();
  readonly #outer: Scope | undefined;
  constructor(outer?: Scope) {
    this.#outer = outer;
  }
  get(name: string): Value | undefined {
    let value = this.#values.get(name);
    for (let scope = this.#outer; value === undefined && scope; scope = scope.#outer) value = scope.#values.get(name);
    return value;
  }
  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }
}
