// Reads the flags of llama.cpp's tools from its source: spellings, number of values, and the tools
// that have each.
//   node extract.mjs FOLDER_OF_LLAMA.CPP
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const source = (path) => readFileSync(join(process.argv[2], path), 'utf8');
const strings = (text) => [...text.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, string]) => string);

/** Tools whose flags are in common/arg.cpp, by its names for them. */
const EXAMPLES = {
  CLI: 'llama-cli',
  COMPLETION: 'llama-completion',
  SERVER: 'llama-server',
  PERPLEXITY: 'llama-perplexity',
  EMBEDDING: 'llama-embedding',
  TOKENIZE: 'llama-tokenize',
  IMATRIX: 'llama-imatrix',
};

/**
 * The text from an opening bracket to its closing one, ignoring brackets in strings, characters and
 * comments.
 */
function bracketed(text, start) {
  let depth = 0;
  for (let i = start; i < text.length; i++) {
    const skipped = /^(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)'|\/\/[^\n]*)/.exec(text.slice(i, i + 5000));
    if (skipped) i += skipped[0].length - 1;
    else if (text[i] === '(') depth++;
    else if (text[i] === ')' && --depth === 0) return text.slice(start, i + 1);
  }
  throw new Error(`no end of what begins with ${text.slice(start, start + 60)}`);
}

const arg = source('common/arg.cpp');
const parser = arg.slice(arg.indexOf('common_params_context common_params_parser_init'));
const lists = Object.fromEntries(
  [...arg.matchAll(/(\w+_examples) = \{([^}]*)\}/g)].map(([, name, items]) => [name, items.match(/(?<=LLAMA_EXAMPLE_)\w+/g)]),
);
const examplesOf = (call, text) => {
  const [, inside] = new RegExp(`\\.${call}\\(([^)]*)\\)`).exec(text) ?? [];
  return inside === undefined ? [] : (lists[inside.trim()] ?? inside.match(/(?<=LLAMA_EXAMPLE_)\w+/g));
};

const rows = [];
for (const { index } of parser.matchAll(/add_opt\(common_arg\(/g)) {
  const text = bracketed(parser, index + 'add_opt'.length).replace(/^\(common_arg\(/, '');
  // A row has one or two lists of spellings, then names of values, the help, and the code.
  let rest = text.replace(/^\s*\/\/[^\n]*\n/, '');
  const names = [];
  for (let list; (list = /^\s*\{([^}]*)\}\s*,/.exec(rest)); rest = rest.slice(list[0].length)) names.push(strings(list[1]));
  const parameters = /\[[&=]?\]\s*\((common_params[^)]*)\)/.exec(rest)[1].split(',').length - 1;
  // with two lists, the second turns off what the first turns on
  const values = names.length > 1 ? 0 : parameters;
  const examples = examplesOf('set_examples', text);
  const excluded = examplesOf('set_excludes', text);
  const tools = Object.keys(EXAMPLES)
    .filter((e) => (examples.length === 0 || examples.includes(e) || examples.includes('COMMON')) && !excluded.includes(e))
    .map((e) => EXAMPLES[e]);
  if (tools.length > 0) rows.push({ spellings: names.flat(), values, tools });
}

/**
 * Flags of tools that compare each argument with spellings. A branch that reads the next argument
 * means that the flag has a value.
 */
function compared(tool, path, pattern) {
  const text = source(path);
  const branches = [...text.matchAll(pattern)];
  branches.forEach((branch, i) => {
    const body = text.slice(branch.index, branches[i + 1]?.index ?? branch.index + 400);
    rows.push({ spellings: strings(branch[0]), values: /\+\+(?:i|arg_idx)\b/.test(body) ? 1 : 0, tools: [tool] });
  });
}
compared('llama-bench', 'tools/llama-bench/llama-bench.cpp', /if \([^\n]*\barg == "[^\n]*/g);
compared('llama-quantize', 'tools/quantize/quantize.cpp', /if \(strcmp\(argv\[arg_idx\], "--[^\n]*/g);
compared('llama-gguf-split', 'tools/gguf-split/gguf-split.cpp', /if \(arg == "-[^\n]*/g);

// Two rows may give one flag to the same tool with different defaults: merge them.
const merged = new Map();
for (const row of rows) {
  const key = JSON.stringify([row.spellings, row.values]);
  merged.set(key, { ...row, tools: [...new Set([...(merged.get(key)?.tools ?? []), ...row.tools])] });
}
writeFileSync(
  new URL('llama-flags.json', import.meta.url),
  `[\n${[...merged.values()].map((row) => `  ${JSON.stringify(row)}`).join(',\n')}\n]\n`,
);
