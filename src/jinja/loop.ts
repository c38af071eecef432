/** The variable `loop`. */
import { equals } from './operators.ts';
import { JinjaError, Thing, Tuple, Undefined, type Runtime, type Value } from './values.ts';

/** State of a running loop. */
export interface LoopState {
  index: number;
  readonly items: readonly Value[];
  /** Depth of a recursive loop; 0 for the outermost one. */
  readonly depth: number;
  /** Renders the loop again with other items; undefined if it is not recursive. */
  readonly recurse: ((items: Value, depth: number) => Value) | undefined;
  changed: Value;
}

type Attribute = (state: LoopState) => Value;

const attributes: Readonly<Record<string, Attribute>> = {
  index: ({ index }) => index + 1,
  index0: ({ index }) => index,
  revindex: ({ index, items }) => items.length - index,
  revindex0: ({ index, items }) => items.length - index - 1,
  first: ({ index }) => index === 0,
  last: ({ index, items }) => index === items.length - 1,
  length: ({ items }) => items.length,
  depth: ({ depth }) => depth + 1,
  depth0: ({ depth }) => depth,
  previtem: ({ index, items }) => (index > 0 ? items[index - 1] : new Undefined('there is no previous item')),
  nextitem: ({ index, items }) => (index + 1 < items.length ? items[index + 1] : new Undefined('there is no next item')),
  cycle: (state) =>
    new Thing(
      () => '<bound method LoopContext.cycle>',
      (_, { positional }) => {
        if (positional.length === 0) throw new JinjaError('no items for cycling given');
        return positional[state.index % positional.length];
      },
    ),
  changed: (state) =>
    new Thing(
      () => '<bound method LoopContext.changed>',
      (runtime: Runtime, { positional }) => {
        const value = new Tuple(positional);
        if (equals(runtime, state.changed, value)) return false;
        state.changed = value;
        return true;
      },
    ),
};

export function loopVariable(state: LoopState): Thing {
  return new Thing(
    () => `<LoopContext ${state.index + 1}/${state.items.length}>`,
    (_, { positional }) => {
      if (!state.recurse) throw new JinjaError("The loop must have the 'recursive' marker to be called recursively.");
      if (positional.length !== 1) throw new JinjaError('loop() takes one argument');
      return state.recurse(positional[0], state.depth + 1);
    },
    (name) => (Object.hasOwn(attributes, name) ? attributes[name](state) : undefined),
  );
}
