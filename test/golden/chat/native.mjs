// Asks native llama.cpp v0.5.0 (llama_chat_apply_template) to render the conversations by its
// built-in templates. Writes golden.json.
//   node native.mjs FOLDER_WITH_NODE_MODULES
import { createRequire } from 'node:module';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { conversations } from './conversations.mjs';

const folder = resolve(process.argv[2]);
const koffi = createRequire(join(folder, 'x.js'))('koffi');
const libs = join(folder, 'node_modules/@node-llama-cpp/linux-x64/bins/linux-x64');
koffi.load(join(libs, 'libggml-base.so'), { global: true });
koffi.load(join(libs, 'libggml.v0.5.0.so'), { global: true });
const llama = koffi.load(join(libs, 'libllama.v0.5.0.so'));
koffi.struct('llama_chat_message', { role: 'const char *', content: 'const char *' });
const apply = llama.func('int llama_chat_apply_template(const char *, llama_chat_message *, size_t, bool, void *, int)');
const names = llama.func('int llama_chat_builtin_templates(_Out_ const char **, size_t)');

const list = new Array(names([], 0));
names(list, list.length);
const SIZE = 1 << 16;
const rows = list.flatMap((name) =>
  conversations.map((messages) => {
    const room = Buffer.alloc(SIZE);
    const n = apply(name, messages, messages.length, true, room, SIZE);
    if (n < 0 || n > SIZE) throw new Error(`${name}: ${n}`);
    return room.toString('utf8', 0, n);
  }),
);
const byName = Object.fromEntries(list.map((name, i) => [name, rows.slice(i * conversations.length, (i + 1) * conversations.length)]));
const text = Object.keys(byName)
  .sort()
  .map((name) => `  ${JSON.stringify(name)}: [\n${byName[name].map((prompt) => `    ${JSON.stringify(prompt)}`).join(',\n')}\n  ]`)
  .join(',\n');
writeFileSync(new URL('golden.json', import.meta.url), `{\n${text}\n}\n`);
