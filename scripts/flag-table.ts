/**
 * Writes docs/flags.md: the support of every flag of llama.cpp's tools (test/golden/flags), from
 * the tables of src/cli.
 */
import { readFileSync } from 'node:fs';
import { allCommands } from '../src/cli/commands.ts';
import { spellingsOf } from '../src/cli/flags/flag.ts';
import { FLAGS } from '../src/cli/flags.ts';
import { llamaFlag } from '../src/cli/parse-flags.ts';
import { NAMED_TEMPLATES } from '../src/chat/named-templates.ts';

/** A flag of llama.cpp: its names, the number of its values, and the tools that have it. */
export interface LlamaRow {
  readonly spellings: readonly string[];
  readonly values: number;
  readonly tools: readonly string[];
}

export const LLAMA_ROWS = JSON.parse(
  readFileSync(new URL('../test/golden/flags/llama-flags.json', import.meta.url), 'utf8'),
) as readonly LlamaRow[];

const commands = await allCommands();
const commandOf = (tool: string): (typeof commands)[number] | undefined => commands.find(({ llama }) => llama === tool);

export interface Way {
  readonly way: 'works' | 'ignored' | 'refused';
  readonly why: string;
  /** Number of values that follow it. */
  readonly values: number;
}

/** Support of a flag by the command that replaces a tool; undefined: unknown to it. */
export function wayOf(spelling: string, tool: string): Way | undefined {
  const command = commandOf(tool);
  if (!command) return undefined;
  if (['--version', '-h', '--help', '--usage'].includes(spelling)) return { way: 'works', why: '', values: 0 };
  const flag = command.flags.map((key) => FLAGS[key]).find((f) => spellingsOf(f).includes(spelling));
  if (flag) return { way: 'works', why: '', values: flag.type === 'boolean' ? 0 : 1 };
  const other = llamaFlag(spelling, command.name);
  return other && { way: other.way, why: other.why, values: other.values.length };
}

const cell = (text: string): string => text.replaceAll('|', '\\|');

/** Lines of a flag: one for each kind of support. */
function lines({ spellings, tools }: LlamaRow): string[] {
  const groups = new Map<string, { spellings: Set<string>; tools: Set<string> }>();
  for (const tool of tools) {
    for (const spelling of spellings) {
      const { way, why } = wayOf(spelling, tool)!;
      const here = way === 'works' ? 'works' : `${way === 'ignored' ? 'no effect' : 'not supported'}: ${why}`;
      const group = groups.get(here) ?? { spellings: new Set(), tools: new Set() };
      group.spellings.add(spelling);
      group.tools.add(tool.replace('llama-', ''));
      groups.set(here, group);
    }
  }
  return [...groups].map(
    ([here, group]) => `| ${[...group.spellings].map((s) => `\`${s}\``).join(' ')} | ${[...group.tools].join(', ')} | ${cell(here)} |`,
  );
}

export function flagTable(): string {
  const tools = [...new Set(LLAMA_ROWS.flatMap((row) => row.tools))];
  return `# The flags of llama.cpp's tools

This page lists every flag of ${tools.length} tools of llama.cpp v0.5.0, and its support in quantlet. \`npm run generate\` writes it from the tables in
\`src/cli\`, and a test checks that no flag is missing.

- **works**: The flag has the same effect as in llama.cpp.
- **no effect**: The flag is accepted, so command lines need no change. \`--verbose\` prints why it has no effect.
- **not supported**: The command exits with code 2 and says what to do instead.

The name of a llama.cpp tool can take the place of a command: \`quantlet llama-cli -m model.gguf\` is \`quantlet chat -m model.gguf\`.

| llama.cpp | quantlet |
| --- | --- |
${tools.map((tool) => `| ${[tool, ...(commandOf(tool)!.alsoLlama ?? [])].join(', ')} | \`quantlet ${commandOf(tool)!.name}\` |`).join('\n')}

\`quantlet run\` continues a text, as \`llama-completion -no-cnv\` does. With a flag that only conversations have (\`-cnv\`, \`-i\`, \`-st\`, \`-sys\`,
\`--chat-template\` ...), it does the same as \`quantlet chat\`.

| flag | of llama- | in quantlet |
| --- | --- | --- |
${LLAMA_ROWS.flatMap(lines).join('\n')}

## Chat templates by name

\`--chat-template NAME\`, and \`chatTemplate\` of the library, take these names of llama.cpp's built-in templates, and write the same text:
${Object.keys(NAMED_TEMPLATES)
  .sort()
  .map((name) => `\`${name}\``)
  .join(', ')}.
`;
}
