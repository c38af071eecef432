/** Runs a compiled grammar on bytes. */
import { QuantletError } from '../errors.ts';
import { RETURN, type Program } from './program.ts';

/**
 * Return addresses of calls, as a linked list with shared tails. Equal lists are one object with
 * one id.
 */
interface Stack {
  readonly id: number;
  readonly to: number;
  readonly below: Stack | null;
}

/** A node of the grammar, with the stack of the rule that contains it. */
interface Place {
  readonly node: number;
  readonly stack: Stack;
}

/**
 * All places that the text read so far can lead to. Equal sets are one object, so that the
 * transitions and the mask of a set are computed once.
 */
export interface State {
  readonly places: readonly Place[];
  /** True if the text may end here. */
  readonly complete: boolean;
  /**
   * The state after each kind of byte: null if the byte does not fit, undefined if not computed
   * yet.
   */
  readonly next: (State | null | undefined)[];
  /** True if some place reads whole tokens. */
  readonly readsTokens: boolean;
  /** The tokens that fit, one bit each; null if not computed yet. */
  mask: Uint32Array | null;
}

/**
 * Limits of cached states and places. A state takes up to 2 KB, each of its places about 60 bytes.
 * Past a limit all states are dropped, and computed again when needed.
 */
const MAX_STATES = 20_000;
const MAX_KEPT_PLACES = 500_000;
/**
 * Limit of places in a state, each a way to read the same text. A grammar with more is ambiguous by
 * mistake.
 */
const MAX_PLACES = 20_000;

/** More than the nodes of any grammar; lazy nodes add to them as texts are read. */
const MAX_NODES = 2 ** 26;

/** The stack of the root rule. */
const BOTTOM: Stack = { id: 0, to: RETURN, below: null };

/**
 * Divides bytes into kinds. All classes of the program treat bytes of one kind alike, so
 * transitions are cached per kind instead of per byte.
 */
function kindsOfBytes({ nodes }: Program): { readonly kindOf: Uint8Array; readonly kinds: number } {
  // The classes of nodes that are not written yet are not known.
  if (nodes.some((node) => node.type === 'lazy')) return { kindOf: Uint8Array.from({ length: 256 }, (_, byte) => byte), kinds: 256 };
  const begins = new Uint8Array(257);
  for (const node of nodes) {
    if (node.type !== 'bytes') continue;
    for (let i = 0; i < node.edges.length; i += 3) begins[node.edges[i]] = begins[node.edges[i + 1] + 1] = 1;
  }
  let kind = 0;
  const kindOf = Uint8Array.from({ length: 256 }, (_, byte) => (kind += byte > 0 ? begins[byte] : 0));
  return { kindOf, kinds: kind + 1 };
}

/**
 * Runs a program on bytes: a nondeterministic automaton with stacks, made deterministic lazily, as
 * texts reach new states.
 */
export class Automaton {
  readonly start: State;
  /** The kind of each byte. The grammar treats bytes of one kind alike. */
  readonly kindOf: Uint8Array;
  readonly #kinds: number;
  readonly #nodes: Program['nodes'];
  /** Stacks and states made so far, by content. */
  #stacks = new Map<number, Stack>();
  #states = new Map<string, State>();
  #nextStackId = 1;
  /** Number of places in these states. */
  #keptPlaces = 0;

  constructor(program: Program) {
    this.#nodes = program.nodes;
    const { kindOf, kinds } = kindsOfBytes(program);
    this.kindOf = kindOf;
    this.#kinds = kinds;
    this.start = this.#close([{ node: program.start, stack: BOTTOM }])!;
  }

  /** The state after a byte; null if no reading of the text continues with that byte. */
  step(state: State, byte: number): State | null {
    const known = state.next[this.kindOf[byte]];
    if (known !== undefined) return known;
    const reached: Place[] = [];
    for (const { node, stack } of state.places) {
      const place = this.#nodes[node];
      if (place.type !== 'bytes') continue;
      const { edges } = place;
      for (let i = 0; i < edges.length; i += 3) {
        if (byte >= edges[i] && byte <= edges[i + 1]) reached.push({ node: edges[i + 2], stack });
      }
    }
    return (state.next[this.kindOf[byte]] = reached.length === 0 ? null : this.#close(reached));
  }

  /** The token references among a state's places. */
  tokensOf(state: State): { readonly id: number; readonly negated: boolean }[] {
    return state.places.map(({ node }) => this.#nodes[node]).filter((node) => node.type === 'token');
  }

  /** The state after a whole token, read by token references alone; null if none fits. */
  stepToken(state: State, id: number): State | null {
    const reached: Place[] = [];
    for (const { node, stack } of state.places) {
      const place = this.#nodes[node];
      if (place.type === 'token' && (place.id === id) !== place.negated) reached.push({ node: place.next, stack });
    }
    return reached.length === 0 ? null : this.#close(reached);
  }

  union(a: State, b: State): State {
    if (a === b) return a;
    const places = new Map([...a.places, ...b.places].map((place) => [this.#key(place.node, place.stack), place]));
    return this.#intern([...places.values()], a.complete || b.complete, a.readsTokens || b.readsTokens);
  }

  /** A number that identifies a pair of node and stack. */
  #key(node: number, stack: Stack): number {
    return stack.id * MAX_NODES + node;
  }

  #push(to: number, below: Stack): Stack {
    // A call at the end of a rule returns where the rule itself would, so right recursion needs no
    // stack.
    if (to === RETURN) return below;
    const key = this.#key(to, below);
    let stack = this.#stacks.get(key);
    if (!stack) {
      stack = { id: this.#nextStackId++, to, below };
      this.#stacks.set(key, stack);
    }
    return stack;
  }

  /**
   * Follows splits, calls and returns until all places read something, and makes a state of them.
   */
  #close(reached: readonly Place[]): State | null {
    const seen = new Set<number>();
    const open: Place[] = [];
    const places: Place[] = [];
    let complete = false;
    let readsTokens = false;
    const visit = (node: number, stack: Stack): void => {
      const key = this.#key(node, stack);
      if (seen.has(key)) return;
      if (seen.size >= MAX_PLACES)
        throw new QuantletError(
          'ERR_GRAMMAR',
          `the grammar can parse this text in more than ${MAX_PLACES} ways at once; expected a less ambiguous grammar`,
        );
      seen.add(key);
      open.push({ node, stack });
    };
    for (const { node, stack } of reached) visit(node, stack);
    for (let place = open.pop(); place; place = open.pop()) {
      const { stack } = place;
      const node = this.#nodes[place.node];
      switch (node.type) {
        case 'split':
          for (const target of node.targets) visit(target, stack);
          break;
        case 'lazy': {
          const target = node.make();
          this.#nodes[place.node] = { type: 'split', targets: [target] };
          visit(target, stack);
          break;
        }
        case 'call':
          visit(node.start, this.#push(node.next, stack));
          break;
        case 'return':
          if (stack.below) visit(stack.to, stack.below);
          else complete = true;
          break;
        case 'token':
          readsTokens = true;
          places.push(place);
          break;
        case 'bytes':
          places.push(place);
          break;
      }
    }
    return places.length === 0 && !complete ? null : this.#intern(places, complete, readsTokens);
  }

  /** The state with these places; equal sets are one object. */
  #intern(places: readonly Place[], complete: boolean, readsTokens: boolean): State {
    const key = `${complete ? '.' : ''}${Float64Array.from(places, ({ node, stack }) => this.#key(node, stack))
      .sort()
      .join()}`;
    let state = this.#states.get(key);
    if (!state) {
      this.#keptPlaces += places.length;
      if (this.#states.size >= MAX_STATES || this.#keptPlaces >= MAX_KEPT_PLACES) this.#forget(places.length);
      state = { places, complete, next: new Array<State | null | undefined>(this.#kinds).fill(undefined), readsTokens, mask: null };
      this.#states.set(key, state);
    }
    return state;
  }

  /**
   * Drops all states. Readers keep their current state, but links between states are cut, because
   * they would keep all states in memory.
   */
  #forget(keptPlaces: number): void {
    for (const state of this.#states.values()) state.next.fill(undefined);
    this.#states = new Map();
    this.#stacks = new Map();
    this.#keptPlaces = keptPlaces;
  }
}
