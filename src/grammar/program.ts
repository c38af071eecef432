/** A compiled grammar: nodes of an automaton over bytes, with calls. */
import type { Work } from '../slices.ts';
import type { Position } from './gbnf-cursor.ts';

/**
 * A node of an automaton over bytes with calls. Text and classes are spelled in UTF-8 bytes, so a
 * token may end in the middle of a character. Numbers refer to other nodes.
 */
export type Node =
  /** reads one byte: flat [low, high, next, low, high, next ...] */
  | { readonly type: 'bytes'; readonly edges: readonly number[] }
  /** reads one whole token */
  | { readonly type: 'token'; readonly id: number; readonly negated: boolean; readonly next: number }
  /** continues at every target */
  | { readonly type: 'split'; readonly targets: readonly number[] }
  /** runs the rule that starts at node `start`, then continues at `next` */
  | { readonly type: 'call'; readonly start: number; readonly next: number }
  /** nodes that are written when a text first reaches them; continues at the node that make() returns */
  | { readonly type: 'lazy'; readonly make: () => number }
  /** the end of a rule */
  | { readonly type: 'return' };

export interface Program {
  /** Lazy nodes add others to the end. */
  readonly nodes: Node[];
  readonly start: number;
}

/** Node 0 ends every rule. */
export const RETURN = 0;

/** A rule that is being compiled. */
export interface CompiledRule {
  readonly name: string;
  readonly at: Position;
  readonly build: () => Work<number>;
  /** The rule's first node; -1 before it is compiled. */
  start: number;
}

/** A call whose rule may not be compiled yet. `start` is filled in at the end. */
export interface Call {
  readonly type: 'call';
  start: number;
  readonly next: number;
  readonly rule: CompiledRule;
}

/** A node during compilation, when calls refer to rules. */
export type Place = Exclude<Node, { readonly type: 'call' }> | Call;
