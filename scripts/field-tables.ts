/** Writes the fields of requests in docs/server.md, from the tables of src/server/protocols/protocol.ts. */
import {
  CHAT_FIELDS,
  COMPLETION_FIELDS,
  EMBEDDING_FIELDS,
  MESSAGE_FIELDS,
  RERANK_FIELDS,
  RESPONSE_FIELDS,
} from '../src/server/protocols/protocol.ts';
import { OLLAMA_CHAT_FIELDS, OLLAMA_EMBED_FIELDS, OLLAMA_GENERATE_FIELDS } from '../src/server/protocols/ollama/fields.ts';
import { allowedName, type FieldTable } from '../src/server/protocols/field-table.ts';

/** The text between these two lines is generated; the rest of the page is written by hand. */
const BEGIN = '<!-- Generated from src/server/protocols/protocol.ts by `npm run generate`: edit the tables there and run it again. -->';
const END = '<!-- End of what is generated. -->';

const [CHAT, COMPLETION, EMBEDDING, RESPONSE, MESSAGE] = [
  CHAT_FIELDS(),
  COMPLETION_FIELDS(),
  EMBEDDING_FIELDS(),
  RESPONSE_FIELDS(),
  MESSAGE_FIELDS(),
];

const ENDPOINTS: Readonly<Record<string, FieldTable>> = {
  '/v1/chat/completions': CHAT,
  '/v1/completions': COMPLETION,
  '/v1/embeddings': EMBEDDING,
  '/v1/rerank': RERANK_FIELDS(),
  '/v1/responses': RESPONSE,
  '/v1/messages': MESSAGE,
  '/api/chat': OLLAMA_CHAT_FIELDS(),
  '/api/generate': OLLAMA_GENERATE_FIELDS(),
  '/api/embed': OLLAMA_EMBED_FIELDS(),
};

/** Tables whose common rows have a table of their own. */
const GENERATES = new Set([CHAT, COMPLETION, RESPONSE, MESSAGE]);

const code = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(', ');
const cell = (text: string): string => text.replaceAll('|', '\\|');
const row = (...cells: readonly string[]): string => `| ${cells.join(' | ')} |`.replaceAll(/ {2,}/g, ' ');

/** Groups fields with the same text. */
function grouped(entries: readonly (readonly [name: string, text: string])[]): (readonly [names: string, text: string])[] {
  const groups = new Map<string, string[]>();
  for (const [name, text] of entries) groups.set(text, [...(groups.get(text) ?? []), name]);
  return [...groups].map(([text, names]) => [code(names), text]);
}

/** True if a field is the same at all endpoints that generate. */
const isShared = (name: string): boolean =>
  Object.hasOwn(CHAT, name) && [...GENERATES].every((table) => JSON.stringify(table[name]) === JSON.stringify(CHAT[name]));

function section(title: string, table: FieldTable): string {
  const entries = Object.entries(table);
  const read = entries.flatMap(([name, { fate }]) => (fate === 'read' ? [name] : []));
  const ignored = entries.flatMap(([name, field]) => (field.fate === 'ignored' ? ([[name, field.why]] as const) : []));
  const refused = entries.flatMap(([name, field]) => {
    if (field.fate !== 'refused') return [];
    const allowed = field.allowed
      .map((one) => (typeof one === 'object' && 'name' in one ? one.name : `\`${allowedName(one)}\``))
      .join(', ');
    return [[name, `${cell(allowed)} | ${cell(field.remedy)}`] as const];
  });
  const lines = [`**${title}**`, '', row('', 'Fields'), row('---', '---'), row('Read', code(read))];
  for (const [names, why] of grouped(ignored)) lines.push(row('Ignored', `${names}: ${cell(why)}`));
  lines.push('');
  if (refused.length > 0)
    lines.push(
      row('Refused', 'Except these values', 'What to do'),
      row('---', '---', '---'),
      ...grouped(refused).map((r) => row(...r)),
      '',
    );
  return lines.join('\n');
}

const part = (table: FieldTable, which: (name: string) => boolean): FieldTable =>
  Object.fromEntries(Object.entries(table).filter(([name]) => which(name)));

/** Returns the page with its current tables. */
export function withFieldTables(page: string): string {
  const [before, rest] = page.split(BEGIN);
  const after = rest?.split(END)[1];
  if (after === undefined) throw new Error(`docs/server.md lacks the lines ${BEGIN} and ${END}`);
  const own = Object.entries(ENDPOINTS).map(([path, table]) =>
    section(
      `\`POST ${path}\``,
      part(table, (name) => !GENERATES.has(table) || !isShared(name)),
    ),
  );
  const shared = section('All endpoints that generate', part(CHAT, isShared));
  return `${before}${BEGIN}\n\n${[...own, shared].join('\n')}\n${END}${after}`;
}
