/** Syntax tree of templates. */
import type { Value } from './values.ts';

export type Expression =
  | { readonly type: 'const'; readonly value: Value }
  | { readonly type: 'name'; readonly name: string }
  | { readonly type: 'list' | 'tuple'; readonly items: readonly Expression[] }
  | { readonly type: 'dict'; readonly entries: readonly (readonly [Expression, Expression])[] }
  | { readonly type: 'attribute'; readonly of: Expression; readonly name: string }
  | { readonly type: 'item'; readonly of: Expression; readonly key: Expression }
  | { readonly type: 'slice'; readonly of: Expression; readonly bounds: readonly (Expression | undefined)[] }
  | Called
  | Filtered
  | { readonly type: 'test'; readonly of: Expression; readonly name: string; readonly args: Arguments }
  | { readonly type: 'binary'; readonly operator: string; readonly left: Expression; readonly right: Expression }
  | { readonly type: 'unary'; readonly operator: string; readonly of: Expression }
  | {
      readonly type: 'compare';
      readonly first: Expression;
      readonly rest: readonly { readonly operator: string; readonly right: Expression }[];
    }
  | { readonly type: 'concat'; readonly parts: readonly Expression[] }
  | { readonly type: 'not'; readonly of: Expression }
  | { readonly type: 'and' | 'or'; readonly left: Expression; readonly right: Expression }
  | { readonly type: 'if'; readonly test: Expression; readonly then: Expression; readonly otherwise: Expression | undefined };

export interface Called {
  readonly type: 'call';
  readonly of: Expression;
  readonly args: Arguments;
}

/** Application of a filter. `of` is undefined if a block is filtered. */
export interface Filtered {
  readonly type: 'filter';
  readonly of: Expression | undefined;
  readonly name: string;
  readonly args: Arguments;
}

export interface Arguments {
  readonly positional: readonly Expression[];
  readonly named: readonly (readonly [string, Expression])[];
  /** Arguments `*list` (`more`) and `**dictionary` (`moreNamed`). */
  readonly more: Expression | undefined;
  readonly moreNamed: Expression | undefined;
}

/** Target of an assignment. */
export type Target =
  | { readonly type: 'name'; readonly name: string }
  | { readonly type: 'attribute'; readonly of: string; readonly name: string }
  | { readonly type: 'tuple'; readonly items: readonly Target[] };

export type Block = readonly Statement[];

export interface Parameter {
  readonly name: string;
  readonly otherwise: Expression | undefined;
}

export interface MacroBody {
  readonly parameters: readonly Parameter[];
  readonly body: Block;
  /**
   * Names that the body reads. A macro accepts further arguments, and a caller, only if its body
   * reads the names for them.
   */
  readonly uses: ReadonlySet<string>;
}

export interface Loop {
  readonly type: 'for';
  readonly target: Target;
  readonly of: Expression;
  readonly test: Expression | undefined;
  readonly recursive: boolean;
  readonly body: Block;
  readonly otherwise: Block;
}

export type Statement =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'output'; readonly value: Expression }
  | { readonly type: 'if'; readonly test: Expression; readonly body: Block; readonly otherwise: Block }
  | Loop
  | { readonly type: 'break' | 'continue' }
  | { readonly type: 'set'; readonly target: Target; readonly value: Expression }
  | { readonly type: 'set block'; readonly target: Target; readonly filter: Filtered | undefined; readonly body: Block }
  | { readonly type: 'with'; readonly values: readonly (readonly [Target, Expression])[]; readonly body: Block }
  | ({ readonly type: 'macro'; readonly name: string } & MacroBody)
  | { readonly type: 'call block'; readonly call: Called; readonly caller: MacroBody }
  | { readonly type: 'filter block'; readonly filter: Filtered; readonly body: Block }
  | { readonly type: 'scope'; readonly body: Block }
  | { readonly type: 'block'; readonly name: string; readonly scoped: boolean; readonly body: Block }
  | { readonly type: 'autoescape'; readonly on: Expression; readonly body: Block }
  | { readonly type: 'load'; readonly tag: string };

export interface Template {
  readonly body: Block;
  readonly blocks: ReadonlyMap<string, Block>;
}

/** Error of a source that is not a valid template. */
export class TemplateSyntaxError extends Error {}
