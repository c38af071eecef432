/** Writes assembly/layout.ts, from the tables of src/graph/layout.ts and structures.ts. */
import ts from 'typescript';
import * as layout from '../src/graph/layout.ts';
import { STRUCTURES } from '../src/graph/structures.ts';
import { source } from './kernel-source.ts';

/** Types of the kernels' constants; i32 for the others. */
const TYPES: { readonly [name in keyof typeof layout]?: 'u32' | 'usize' } = {
  OP_BARRIER: 'u32',
  LAYOUT: 'u32',
  SYNC: 'usize',
  REACHED_STRIDE: 'usize',
  SYNC_SIZE: 'usize',
  ACC_BYTES: 'usize',
  TYPE_ACT: 'u32',
  ACT_K: 'u32',
  ACT_64: 'u32',
  ACT_4: 'u32',
  ACT_I8: 'u32',
  ACT: 'u32',
  ACT_COLUMNS: 'usize',
  SPARSE_SCRATCH: 'usize',
  AXPY_SCRATCH: 'usize',
  UNARY_SCRATCH: 'usize',
  FWHT_SCRATCH: 'usize',
  COPY_SCRATCH: 'usize',
  KV_STORE_SCRATCH: 'usize',
  ATTENTION_BLOCK: 'usize',
};
/** Offsets that the host has in 32-bit words and the kernels in bytes. */
const IN_WORDS: readonly string[] = ['SYNC', 'REACHED_STRIDE'] satisfies readonly (keyof typeof layout)[];

/**
 * Comments of a module's exported constants, in its order, and of the entries of their tables: by
 * name, as in `SYNC` and `SYNC.step`. Empty without comments.
 */
function comments(path: string): ReadonlyMap<string, string> {
  const file = ts.createSourceFile(path, source(path), ts.ScriptTarget.Latest, true);
  const found = new Map<string, string>();
  const add = (name: string, node: ts.Node): void => {
    const texts = ts.getLeadingCommentRanges(file.text, node.getFullStart()) ?? [];
    const text = texts.map(({ pos, end }) => file.text.slice(pos, end)).findLast((comment) => comment.startsWith('/**'));
    found.set(name, text ?? '');
  };
  const addEntries = (table: string, node: ts.Node): void =>
    ts.forEachChild(node, (child) => {
      if (!ts.isPropertyAssignment(child)) return addEntries(table, child);
      const name = `${table}.${child.name.getText()}`;
      add(name, child);
      addEntries(name, child.initializer);
    });
  for (const statement of file.statements) {
    if (!ts.isVariableStatement(statement) || !statement.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) continue;
    for (const declaration of statement.declarationList.declarations) {
      add(declaration.name.getText(), statement);
      addEntries(declaration.name.getText(), declaration);
    }
  }
  return found;
}

/** A comment on several constants, which must not belong to the first of them. */
const asLines = (comment: string): string =>
  comment
    .slice('/**'.length, -'*/'.length)
    .split('\n')
    .map((line) => line.replace(/^ *\*? ?/, '').trimEnd())
    .filter(Boolean)
    .map((line) => `// ${line}`)
    .join('\n');

function constants(): string {
  const of = comments('src/graph/layout.ts');
  const values: { readonly [name: string]: number | { readonly [entry: string]: number } } = layout;
  const written = [...of.keys()].map((name) => {
    const value = values[name];
    const type = TYPES[name as keyof typeof layout] ?? 'i32';
    const constant = (full: string, n: number, comment = ''): string =>
      `${comment}\nexport const ${full}: ${type} = ${IN_WORDS.includes(name) ? 4 * n : n};`.trimStart();
    if (value === undefined) return ''; // an entry of a table, written with the table
    if (typeof value === 'number') return constant(name, value, of.get(name));
    const entries = Object.entries(value).map(([entry, n]) => constant(`${name}_${entry.toUpperCase()}`, n, of.get(`${name}.${entry}`)));
    return `\n${asLines(of.get(name)!)}\n${entries.join('\n')}\n`;
  });
  return written.filter(Boolean).join('\n');
}

function classes(): string {
  const of = comments('src/graph/structures.ts');
  return Object.entries(STRUCTURES)
    .map(([name, fields]) => {
      const lines = Object.entries(fields).flatMap(([field, type]: [string, string | readonly [string, number]]) => {
        const comment = of.get(`STRUCTURES.${name}.${field}`)!;
        if (typeof type === 'string') return [comment, `${field}: ${type};`];
        return [comment, ...Array.from({ length: type[1] }, (_, i) => `${field}${i}: ${type[0]};`)];
      });
      return `${of.get(`STRUCTURES.${name}`)}\n@unmanaged\nexport class ${name} {\n${lines.filter(Boolean).join('\n')}\n}\n`;
    })
    .join('\n');
}

/** The text of assembly/layout.ts. */
export const layoutSource = (): string => `/** Structures and constants that host and kernels share. */

${classes()}
${constants()}`;
