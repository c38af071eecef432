/** Rules for values, as the shapes of objects and arrays refer to them. */
import type { Expander } from './expand.ts';
import type { Part } from './facts.ts';
import type { NodeWriter } from './node-writer.ts';

/** Values that satisfy several schemas together. */
export interface Rule {
  readonly parts: readonly Part[];
  /** True if some value satisfies the schemas. */
  productive: boolean;
  /** Rules whose values contain values of this one. */
  readonly parents: Set<Rule>;
  /** The rule's first node, once written. */
  node: number | undefined;
}

/** Makes the rules that a shape refers to. */
export interface RuleMaker {
  readonly expander: Expander;
  ruleFor(parts: readonly Part[]): Rule;
}

/** The texts among all that satisfy a schema. */
export interface Style {
  /** True: properties come in the order of the schema. */
  readonly ordered: boolean;
  /**
   * True: objects and arrays have no other parts if the schema lists parts and does not ask for
   * others, and values have the types that the keywords speak of.
   */
  readonly closed: boolean;
  /** True: few blanks between the parts of JSON; false: any. */
  readonly brief: boolean;
}

/** Writes the values of rules as nodes. */
export interface ValueWriter {
  readonly writer: NodeWriter;
  readonly style: Style;
  /** The first node of a rule's values. */
  value(rule: Rule): number;
}
