#!/usr/bin/env node
// TypeScript's type check of assembly/, as far as the two languages agree. One kind of error is not reported: a property of a value whose type
// is a type parameter. AssemblyScript compiles a generic function anew for every type and looks then; TypeScript wants to know it before.
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

/** The innermost node that begins at a place. */
const nodeAt = (node, at) =>
  ts.forEachChild(node, (child) => (child.getStart() <= at && at < child.end ? nodeAt(child, at) : undefined)) ?? node;

function isOfTypeParameter({ code, file, start }) {
  if (code !== 2339) return false;
  const { parent } = nodeAt(file, start);
  return ts.isPropertyAccessExpression(parent) && Boolean(checker.getTypeAtLocation(parent.expression).flags & ts.TypeFlags.TypeParameter);
}

const found = [...errors, ...ts.getPreEmitDiagnostics(program)];
const shown = found.filter((d) => !isOfTypeParameter(d));
const names = { getCanonicalFileName: (f) => f, getCurrentDirectory: ts.sys.getCurrentDirectory, getNewLine: () => '\n' };
if (shown.length) console.error(ts.formatDiagnostics(shown, names));
console.log(
  `assembly/: ${fileNames.length} files, ${shown.length} errors (and ${found.length - shown.length} properties of type parameters)`,
);
process.exitCode = shown.length ? 1 : 0;
