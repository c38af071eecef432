/**
 * Plugin that teaches prettier two things about AssemblyScript, which it otherwise reads as
 * TypeScript:
 * - Decorators may stand on functions and variables, which prettier's parser refuses. The parser
 *   gets a comment instead, and the printer writes the decorator again.
 * - A cast, `<usize>n`, is an operator like `-`, and often stands inside shifts and masks. Prettier
 *   would put parentheses around each cast; around a unary operator it keeps only needed ones.
 */
import * as estree from 'prettier/plugins/estree';
import * as typescript from 'prettier/plugins/typescript';
import ts from 'typescript';

const AST_FORMAT = 'assemblyscript-estree';
const DECORATOR = /^@[a-z]+$/;

const parser = typescript.parsers.typescript;
const printer = estree.printers.estree;

/** Turns the decorators of functions and variables, which TypeScript refuses, into comments. */
function hideDecorators(text) {
  const source = ts.createSourceFile('assembly.ts', text, ts.ScriptTarget.Latest, true);
  const hidden = [];
  const visit = (node) => {
    if (ts.isFunctionDeclaration(node) || ts.isVariableStatement(node)) hidden.push(...(node.modifiers ?? []).filter(ts.isDecorator));
    ts.forEachChild(node, visit);
  };
  visit(source);
  let out = '';
  let at = 0;
  for (const decorator of hidden) {
    const start = decorator.getStart(source);
    const name = text.slice(start, decorator.end);
    if (!DECORATOR.test(name)) throw new SyntaxError(`the formatter knows decorators without arguments only, not ${name}`);
    out += `${text.slice(at, start)}/*${name}*/`;
    at = decorator.end;
  }
  return out + text.slice(at);
}

/** Turns every cast below a node into a unary operator. */
function castsAsOperators(node, text) {
  if (!node || typeof node !== 'object') return;
  if (node.type === 'TSTypeAssertion') {
    const { typeAnnotation, expression } = node;
    Object.assign(node, {
      type: 'UnaryExpression',
      prefix: true,
      operator: `<${text.slice(...typeAnnotation.range)}>`,
      argument: expression,
    });
    delete node.typeAnnotation;
    delete node.expression;
  }
  for (const [key, child] of Object.entries(node)) if (key !== 'range' && key !== 'loc') castsAsOperators(child, text);
}

export const parsers = {
  typescript: {
    ...parser,
    astFormat: AST_FORMAT,
    preprocess: hideDecorators,
    async parse(text, options) {
      const ast = await parser.parse(text, options);
      castsAsOperators(ast.body, text);
      return ast;
    },
  },
};

export const printers = {
  [AST_FORMAT]: {
    ...printer,
    printComment: (path, options) => (DECORATOR.test(path.node.value) ? path.node.value : printer.printComment(path, options)),
  },
};
