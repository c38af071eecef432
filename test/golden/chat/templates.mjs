// Asks native llama.cpp what its models/templates write for the conversations of turns.mjs, and writes templates.json.
//   node templates.mjs FOLDER_OF_TEMPLATES PROGRAM [FOLDER_FOR_TEXTS]
// PROGRAM is native.cpp compiled (README.md). The prompts are kept as hashes; FOLDER_FOR_TEXTS gets them as text, to look at what differs.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { conversations } from './turns.mjs';

const [folder, program, texts] = process.argv.slice(2);
const names = readdirSync(folder).filter((name) => name.endsWith('.jinja'));
const rows = names.flatMap((name) => Object.entries(conversations).map(([what, conversation]) => ({ name, what, ...conversation })));
const requests = rows.map(({ name, messages, tools }) =>
  JSON.stringify({ template: readFileSync(join(folder, name), 'utf8'), messages, tools }),
);
const answers = execFileSync(program, { input: `${requests.join('\n')}\n`, maxBuffer: 1 << 30, env: { ...process.env, TZ: 'UTC' } });
const hashes = Object.fromEntries(names.map((name) => [name, {}]));
for (const [i, line] of answers.toString().trim().split('\n').entries()) {
  const { name, what, messages, said, mayLack = [] } = rows[i];
  const { prompt = '', systemRole } = JSON.parse(line);
  // What a template has no place for is refused, lost or added in a way of its own; quantlet has ways of its own for it.
  if (![...said, ...mayLack].every((word) => prompt.includes(word)) || (messages[0].role === 'system' && !systemRole)) continue;
  hashes[name][what] = createHash('sha256').update(prompt).digest('hex').slice(0, 16);
  if (texts) writeFileSync(join(texts, `${name}.${what}.txt`), prompt);
}
const written = { date: new Date().toISOString().slice(0, 10), templates: hashes };
writeFileSync(new URL('templates.json', import.meta.url), `${JSON.stringify(written, null, 2)}\n`);
