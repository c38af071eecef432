/** quantlet grammar: writes the grammar of a JSON schema, and checks texts against grammars and schemas. */
import { QuantletError } from '../errors.ts';
import { byteName } from '../grammar/grammar.ts';
import { jsonSchemaToGrammar, type JsonSchema } from '../grammar/json-schema.ts';
import { createMatcher, type Matcher, type MatcherState } from '../grammar/matcher.ts';
import { printable } from '../printable.ts';
import { forTerminal, readText, type Command } from './command.ts';
import type { FlagKey } from './flags.ts';
import { jsonOf } from './generate-options.ts';
import { parseOnlyFlags } from './parse-flags.ts';

const KEYS = ['schemaSource', 'grammarFile', 'checkText', 'strictSchema', 'help'] as const satisfies readonly FlagKey[];

/** Number of characters around an error that are shown, and of bytes that are listed as expected. */
const SHOWN = 30;
const LISTED = 20;

/** A schema from the flag's value: JSON, or a file with JSON. */
async function schemaFrom(source: string): Promise<JsonSchema> {
  const inline = /^\s*[{]/.test(source);
  return jsonOf('--json-schema', inline ? source : await readText(source, 'the JSON schema')) as JsonSchema;
}

function listed(state: MatcherState): string {
  const bytes = state.next();
  const all = [...bytes.slice(0, LISTED).map(byteName), ...(bytes.length > LISTED ? ['...'] : []), ...(state.complete ? ['the end'] : [])];
  return all.join(' ');
}

/** Says why a text does not fit; undefined if it fits. */
export function misfit(matcher: Matcher, text: string): string | undefined {
  const bytes = new TextEncoder().encode(text);
  let state = matcher.start;
  for (const [i, byte] of bytes.entries()) {
    const next = state.step(byte);
    if (!next) {
      const before = new TextDecoder().decode(bytes.subarray(0, i));
      const line = before.split('\n').length;
      const column = before.length - before.lastIndexOf('\n');
      return `line ${line}, column ${column}: found ${JSON.stringify(text.slice(before.length, before.length + 1))} after ${JSON.stringify(before.slice(-SHOWN))}; expected one of ${listed(state)}`;
    }
    state = next;
  }
  return state.complete ? undefined : `the text ends after ${JSON.stringify(text.slice(-SHOWN))}; expected one of ${listed(state)}`;
}

export const grammar: Command = {
  name: 'grammar',
  llama: 'llama-gbnf-validator',
  synopsis: '(--json-schema FILE | --grammar-file FILE) [--check FILE] [--strict]',
  summary: 'write the grammar of a JSON schema, or check a text',
  flags: KEYS,
  notes:
    'Without --check, the grammar (GBNF) of the schema is printed; a grammar file is only checked for errors. With it, the exit code is 0 if the text fits, and 1 otherwise. A line end at the end of the file does not count. Keywords that are held only in part are named on standard error.',
  examples: [
    'quantlet grammar --json-schema person.json',
    'quantlet grammar --json-schema person.json --check answer.json',
    'quantlet grammar --grammar-file list.gbnf --check answer.txt',
  ],
  async run(argv) {
    const values = parseOnlyFlags(argv, KEYS, 'give the schema with --json-schema or the grammar with --grammar-file', 'grammar');
    const { schemaSource, grammarFile, checkText, strictSchema: strict = false } = values;
    if ((schemaSource === undefined) === (grammarFile === undefined))
      throw new QuantletError(
        'ERR_USAGE',
        `${schemaSource === undefined ? 'none' : 'both'} of --json-schema and --grammar-file were given; expected one`,
      );
    const schema = schemaSource === undefined ? undefined : await schemaFrom(schemaSource);
    const matcher = createMatcher(schema === undefined ? { grammar: await readText(grammarFile!, 'the grammar') } : { schema, strict });
    for (const { pointer, keyword } of matcher.relaxed)
      process.stderr.write(`quantlet: ${printable(`#${pointer}: ${keyword} is held only in part`)}\n`);
    if (checkText === undefined) {
      if (schema !== undefined) process.stdout.write(forTerminal(jsonSchemaToGrammar(schema, { strict })));
      return 0;
    }
    const why = misfit(matcher, (await readText(checkText, 'the text')).replace(/\r?\n$/, ''));
    process.stdout.write(forTerminal(why === undefined ? 'the text fits\n' : `the text does not fit: ${why}\n`));
    return why === undefined ? 0 : 1;
  },
};
