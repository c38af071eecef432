// Removes from the package's declarations what no export of the package refers to.
import { rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { files } from './bundle.mjs';

/**
 * Declarations are for users: tsc writes one file for each module, with everything that modules
 * share among themselves. Files that no entry reaches go, and top-level declarations of the others.
 * @param entries paths of the entries' declarations
 */
export function pruneDeclarations(ts, entries) {
  const options = { noEmit: true, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, types: ['node'] };
  const program = ts.createProgram(entries, { ...options, target: ts.ScriptTarget.ES2022, lib: ['lib.es2024.d.ts', 'lib.dom.d.ts'] });
  const kept = keptNodes(ts, program, entries);
  for (const file of files('dist').filter((name) => name.endsWith('.d.ts'))) {
    const source = program.getSourceFile(resolve(file));
    const text = source && textOf(ts, source, kept);
    if (text === undefined || !kept.has(source)) rmSync(file);
    else writeFileSync(file, text);
  }
}

/** Source files, statements, and parts of imports and exports that the entries' exports need. */
function keptNodes(ts, program, entries) {
  const checker = program.getTypeChecker();
  const kept = new Set();
  const ours = (node) => resolve(node.getSourceFile().fileName).startsWith(join(resolve('dist'), '/'));

  /** Keeps a symbol's declarations and the imports and exports on the way to them. */
  function keepSymbol(symbol) {
    for (const node of symbol?.declarations ?? []) if (ours(node)) keepNode(node);
    if (symbol && symbol.flags & ts.SymbolFlags.Alias) keepSymbol(checker.getImmediateAliasedSymbol(symbol));
  }

  function keepNode(node) {
    if (ts.isSourceFile(node)) return keepFile(node);
    if (kept.has(node)) return;
    kept.add(node);
    kept.add(node.getSourceFile());
    if (ts.isExportSpecifier(node) || ts.isImportSpecifier(node)) return;
    let statement = node;
    while (!ts.isSourceFile(statement.parent)) statement = statement.parent;
    if (statement !== node && kept.has(statement)) return;
    kept.add(statement);
    visit(statement);
  }

  function visit(node) {
    if (ts.isIdentifier(node)) keepSymbol(checker.getSymbolAtLocation(node));
    ts.forEachChild(node, visit);
  }

  /** Keeps all that a file exports. */
  function keepFile(source) {
    if (kept.has(source.symbol)) return;
    kept.add(source.symbol);
    kept.add(source);
    for (const statement of source.statements)
      if (ts.isExportDeclaration(statement) && !statement.exportClause && statement.moduleSpecifier)
        keepSymbol(checker.getSymbolAtLocation(statement.moduleSpecifier));
    for (const symbol of checker.getExportsOfModule(source.symbol)) keepSymbol(symbol);
  }

  for (const entry of entries) {
    const source = program.getSourceFile(resolve(entry));
    if (source.symbol) keepFile(source);
    else kept.add(source); // declares modules by their names
  }
  return kept;
}

/** The text of the kept parts of a file. */
function textOf(ts, source, kept) {
  const text = source.getFullText();
  const references = text.match(/^\/\/\/ <reference .*\n/gm) ?? [];
  const partOf = (statement) => {
    const whole = text.slice(statement.getFullStart(), statement.end);
    const named = ts.isImportDeclaration(statement) ? statement.importClause?.namedBindings : statement.exportClause;
    if (!named?.elements?.length) return kept.has(statement) || ts.isExportDeclaration(statement) || !source.symbol ? whole : '';
    const names = named.elements.filter((element) => kept.has(element)).map((element) => element.getText());
    const begin = text.slice(statement.getFullStart(), named.getStart());
    return names.length === 0 ? '' : `${begin}{ ${names.join(', ')} }${text.slice(named.end, statement.end)}`;
  };
  const body = source.statements.map(partOf).join('');
  return `${references.join('')}${body.replace(/^\/\/\/ <reference .*\n/gm, '').trim()}\n`;
}
