#!/usr/bin/env node
// TypeScript's type check of assembly/, as far as the two languages agree. Two kinds of errors are
// not reported. One is decorators of functions, such as @inline, which TypeScript has for classes
// only. The other is a property of a value whose type is a type parameter: AssemblyScript checks a
// generic function for every type that it is called with, while TypeScript checks it before.
import ts from 'typescript';

const config = 'assembly/tsconfig.json';
const host = {
  ...ts.sys,
  onUnRecoverableConfigFileDiagnostic: (d) => {
    throw new Error(ts.flattenDiagnosticMessageText(d.messageText, '\n'));
  },
};
const { options, fileNames, errors } = ts.getParsedCommandLineOfConfigFile(config, {}, host);
const program = ts.createProgram(fileNames, options);
const checker = program.getTypeChecker();

/** TypeScript's "Decorators are not valid here." */
const DECORATOR_OF_FUNCTION = 1206;
const UNKNOWN_PROPERTY = 2339;

/** The innermost node that begins at a position. */
const nodeAt = (node, at) =>
  ts.forEachChild(node, (child) => (child.getStart() <= at && at < child.end ? nodeAt(child, at) : undefined)) ?? node;

function isOfTypeParameter({ code, file, start }) {
  if (code !== UNKNOWN_PROPERTY) return false;
  const { parent } = nodeAt(file, start);
  return ts.isPropertyAccessExpression(parent) && Boolean(checker.getTypeAtLocation(parent.expression).flags & ts.TypeFlags.TypeParameter);
}

const found = [...errors, ...ts.getPreEmitDiagnostics(program)];
const both = found.filter(({ code }) => code !== DECORATOR_OF_FUNCTION);
const shown = both.filter((d) => !isOfTypeParameter(d));
const names = { getCanonicalFileName: (f) => f, getCurrentDirectory: ts.sys.getCurrentDirectory, getNewLine: () => '\n' };
if (shown.length) console.error(ts.formatDiagnostics(shown, names));
console.log(
  `assembly/: ${fileNames.length} files, ${shown.length} errors (and ${both.length - shown.length} properties of type parameters)`,
);
process.exitCode = shown.length ? 1 : 0;
