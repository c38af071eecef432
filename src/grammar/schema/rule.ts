/** Rules for values, as the shapes of objects and arrays refer to them. */
import type { Expander } from './expand.ts';
import type { Part } from './facts.ts';
import type { NodeWriter } from './node-writer.ts';
import type { Regex } from './regex.ts';

/** Values that satisfy several schemas together. */
export interface Rule {
  readonly parts: readonly Part[];
  /** True if some value satisfies the schemas. */
  productive: boolean;
  /** Rules whose values contain values of this one. */
  readonly parents: Set<Rule>;
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

/** Texts of a notation around the members of an object. Functions return the first node. */
export interface ObjectForm {
  /** True: an object without members cannot be written. */
  readonly nonEmpty?: boolean;
  open(next: number): number;
  comma(next: number): number;
  close(next: number): number;
  /** Text before a name. */
  before(next: number): number;
  /** Spellings of a listed name; none if it, or every value of its rule, cannot be written. */
  spell(name: string, rule: Rule): readonly string[];
  /** The rule for the other names, of a language; undefined: they cannot be written. */
  others(language: Regex): number | undefined;
  /** Text between a name and its value. */
  colon(next: number): number;
  /** The rule for the values of a name, and what ends them. */
  value(rule: Rule, name: string | undefined): number;
}

/** Texts of a notation around the items of an array. Functions return the first node. */
export interface ArrayForm {
  /** True: an array without items cannot be written. */
  readonly nonEmpty?: boolean;
  open(next: number): number;
  comma(next: number): number;
  close(next: number): number;
  /** False for an item none of whose values can be written. Default true. */
  canWrite?(rule: Rule, index: number): boolean;
  /** The rule for the values of an item, and what stands around them. */
  item(rule: Rule, index: number): number;
  /** Text of an item that is one JSON value. */
  listed(json: string): string;
}

/** Writes the values of rules as nodes. */
export interface ValueWriter {
  readonly writer: NodeWriter;
  readonly style: Style;
  /** The first node of a rule's values. */
  value(rule: Rule): number;
}
