/** A compiled grammar run on bytes: which places of the grammar a text may have led to. */
import { QuantletError } from '../errors.ts';
import { RETURN } from './compile.ts';
import type { Program } from './compile.ts';

/** Where calls return to: a list that shares its tails; equal lists are one object with one id. */
interface Stack {
  readonly id: number;
  readonly to: number;
  readonly below: Stack | null;
}

/** A place that reads something next, and what follows the rule it stands in. */
interface Place {
  readonly node: number;
  readonly stack: Stack;
}

/** All places a text may have led to. Equal sets are one object, so what is found out about one is found out once. */
export interface State {
  readonly places: readonly Place[];
  /** whether the text may end here */
  readonly complete: boolean;
  /** by kind of byte: the state after it, null where it does not fit, undefined where nobody asked yet */
  readonly next: (State | null | undefined)[];
  /** whether a place reads whole tokens */
  readonly readsTokens: boolean;
  /** the tokens that fit, one bit each, once somebody asked */
  mask: Uint32Array | null;
}

/** A state takes up to 2 KB, and each of its places some 60 bytes: beyond so many they are forgotten, and made again where they are met again. */
const MAX_STATES = 20_000;
const MAX_KEPT_PLACES = 500_000;
/** A grammar that keeps so many readings of one text apart is ambiguous by mistake. */
const MAX_PLACES = 20_000;

export interface Automaton {
  readonly start: State;
  /** The kind of each byte: no place of the grammar tells bytes of one kind apart. */
  readonly kindOf: Uint8Array;
  /** @returns null where no reading of the text goes on with this byte */
  step(state: State, byte: number): State | null;
  /** The token references of the places. */
  tokensOf(state: State): { readonly id: number; readonly negated: boolean }[];
  /** The state after a whole token, read by token references alone; null where none fits. */
  stepToken(state: State, id: number): State | null;
  union(a: State, b: State): State;
}

/** Bytes between which no class of the program begins or ends are of one kind: a state is found for each kind, not for each byte. */
function kindsOfBytes({ nodes }: Program): { readonly kindOf: Uint8Array; readonly kinds: number } {
  const begins = new Uint8Array(257);
  for (const node of nodes) {
    if (node.type !== 'bytes') continue;
    for (let i = 0; i < node.edges.length; i += 3) begins[node.edges[i]] = begins[node.edges[i + 1] + 1] = 1;
  }
  let kind = 0;
  const kindOf = Uint8Array.from({ length: 256 }, (_, byte) => (kind += byte > 0 ? begins[byte] : 0));
  return { kindOf, kinds: kind + 1 };
}

/** Runs a program on bytes: a nondeterministic automaton with stacks, made deterministic as far as a text has come. */
export function createAutomaton(program: Program): Automaton {
  const { nodes, start } = program;
  const { kindOf, kinds } = kindsOfBytes(program);
  const bottom: Stack = { id: 0, to: RETURN, below: null };
  let stacks = new Map<number, Stack>();
  let states = new Map<string, State>();
  let nextStackId = 1;
  let keptPlaces = 0;

  function push(to: number, below: Stack): Stack {
    // a call at the end of a rule returns to where the rule itself would: right recursion needs no stack
    if (to === RETURN) return below;
    const key = below.id * nodes.length + to;
    let stack = stacks.get(key);
    if (!stack) {
      stack = { id: nextStackId++, to, below };
      stacks.set(key, stack);
    }
    return stack;
  }

  /** Follows splits, calls and returns to the places that read, and makes a state of them. */
  function close(work: Place[]): State | null {
    const seen = new Set<number>();
    const places: Place[] = [];
    let complete = false;
    let readsTokens = false;
    const visit = (node: number, stack: Stack): void => {
      const key = stack.id * nodes.length + node;
      if (seen.has(key)) return;
      if (seen.size >= MAX_PLACES)
        throw new QuantletError(
          'ERR_GRAMMAR',
          `the grammar can read this text in more than ${MAX_PLACES} ways at once: expected a less ambiguous one`,
        );
      seen.add(key);
      work.push({ node, stack });
    };
    const first = work;
    work = [];
    for (const { node, stack } of first) visit(node, stack);
    for (let place = work.pop(); place; place = work.pop()) {
      const { stack } = place;
      const node = nodes[place.node];
      switch (node.type) {
        case 'split':
          for (const target of node.targets) visit(target, stack);
          break;
        case 'call':
          visit(node.start, push(node.next, stack));
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
    return places.length === 0 && !complete ? null : intern(places, complete, readsTokens);
  }

  function intern(places: Place[], complete: boolean, readsTokens: boolean): State {
    const key = `${complete ? '.' : ''}${Float64Array.from(places, ({ node, stack }) => stack.id * nodes.length + node)
      .sort()
      .join()}`;
    let state = states.get(key);
    if (!state) {
      keptPlaces += places.length;
      if (states.size >= MAX_STATES || keptPlaces >= MAX_KEPT_PLACES) {
        // Readers keep the states they are in, but those do not lead to others any more: all would hang together.
        for (const old of states.values()) old.next.fill(undefined);
        states = new Map();
        stacks = new Map();
        keptPlaces = places.length;
      }
      state = { places, complete, next: new Array<State | null | undefined>(kinds).fill(undefined), readsTokens, mask: null };
      states.set(key, state);
    }
    return state;
  }

  function step(state: State, byte: number): State | null {
    const known = state.next[kindOf[byte]];
    if (known !== undefined) return known;
    const reached: Place[] = [];
    for (const { node, stack } of state.places) {
      const place = nodes[node];
      if (place.type !== 'bytes') continue;
      const { edges } = place;
      for (let i = 0; i < edges.length; i += 3) {
        if (byte >= edges[i] && byte <= edges[i + 1]) reached.push({ node: edges[i + 2], stack });
      }
    }
    return (state.next[kindOf[byte]] = reached.length === 0 ? null : close(reached));
  }

  return {
    start: close([{ node: start, stack: bottom }])!,
    kindOf,
    step,
    tokensOf: (state) => state.places.map(({ node }) => nodes[node]).filter((node) => node.type === 'token'),
    stepToken(state, id) {
      const reached: Place[] = [];
      for (const { node, stack } of state.places) {
        const place = nodes[node];
        if (place.type === 'token' && (place.id === id) !== place.negated) reached.push({ node: place.next, stack });
      }
      return reached.length === 0 ? null : close(reached);
    },
    union(a, b) {
      if (a === b) return a;
      const places = new Map([...a.places, ...b.places].map((place) => [place.stack.id * nodes.length + place.node, place]));
      return intern([...places.values()], a.complete || b.complete, a.readsTokens || b.readsTokens);
    },
  };
}
