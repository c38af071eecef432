// Asks native llama.cpp to render the conversations of turns.mjs. Templates of ./templates give
// own-templates.json with the prompts. Its own models/templates, if their folder is named, give
// templates.json with hashes.
//   node templates.mjs PROGRAM [FOLDER_OF_TEMPLATES [FOLDER_FOR_TEXTS]]
// PROGRAM is native.cpp compiled (README.md). FOLDER_FOR_TEXTS gets the hashed prompts, to look at
// differences.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { conversations } from './turns.mjs';

const [program, folder, texts] = process.argv.slice(2);
const own = fileURLToPath(new URL('templates/', import.meta.url));

/** Results of `keep` for each prompt, by template and conversation. */
function promptsOf(templates, keep) {
  const names = readdirSync(templates).filter((name) => name.endsWith('.jinja'));
  const rows = names.flatMap((name) => Object.entries(conversations).map(([what, conversation]) => ({ name, what, ...conversation })));
  const requests = rows.map(({ name, messages, tools }) =>
    JSON.stringify({ template: readFileSync(join(templates, name), 'utf8'), messages, tools }),
  );
  const answers = execFileSync(program, { input: `${requests.join('\n')}\n`, maxBuffer: 1 << 30, env: { ...process.env, TZ: 'UTC' } });
  const prompts = Object.fromEntries(names.map((name) => [name, {}]));
  for (const [i, line] of answers.toString().trim().split('\n').entries()) {
    const { name, what, messages, said, mayLack = [] } = rows[i];
    const { prompt = '', systemRole } = JSON.parse(line);
    // Skips prompts that lack an expected word: templates refuse, drop or rewrite roles they do not
    // know, and quantlet handles these roles by its own rules.
    if (![...said, ...mayLack].every((word) => prompt.includes(word)) || (messages[0].role === 'system' && !systemRole)) continue;
    prompts[name][what] = keep(prompt, `${name}.${what}.txt`);
  }
  return prompts;
}

function write(file, templates) {
  const date = new Date().toISOString().slice(0, 10);
  writeFileSync(new URL(file, import.meta.url), `${JSON.stringify({ date, templates }, null, 2)}\n`);
}

write(
  'own-templates.json',
  promptsOf(own, (prompt) => prompt),
);
if (folder)
  write(
    'templates.json',
    promptsOf(folder, (prompt, file) => {
      if (texts) writeFileSync(join(texts, file), prompt);
      return createHash('sha256').update(prompt).digest('hex').slice(0, 16);
    }),
  );
