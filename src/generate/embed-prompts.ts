/** Prompts that a model wants before its texts, by the names that its file gives them. */
import { QuantletError, tell } from '../errors.ts';
import type { GGUFValue } from '../gguf/types.ts';

type Metadata = ReadonlyMap<string, GGUFValue>;

/**
 * Keys of the prompts of `config_sentence_transformers.json`. Converters do not write them yet;
 * overrideKv (`--override-kv`) can.
 */
const KEY = 'sentence_transformers.prompts.';

/** Names for the same purpose, in different models and protocols. */
const SYNONYMS: readonly (readonly string[])[] = [
  ['query', 'search_query'],
  ['document', 'passage', 'search_document'],
];

/** Prompts of a model's file, by name. */
export function promptsOf(metadata: Metadata): ReadonlyMap<string, string> {
  const prompts = new Map<string, string>();
  for (const [key, value] of metadata) if (key.startsWith(KEY) && typeof value === 'string') prompts.set(key.slice(KEY.length), value);
  return prompts;
}

/** The prompt with this name, or with another name for the same purpose. */
export function findPrompt(prompts: ReadonlyMap<string, string>, name: string): string | undefined {
  const names = [name, ...(SYNONYMS.find((same) => same.includes(name)) ?? [])];
  return names.map((one) => prompts.get(one)).find((text) => text !== undefined);
}

/** @throws ERR_INVALID_ARGUMENT if the file has no prompt with this name */
export function promptNamed(metadata: Metadata, name: string): string {
  const prompts = promptsOf(metadata);
  const found = findPrompt(prompts, name);
  if (found !== undefined) return found;
  const expected = prompts.size > 0 ? `one of ${[...prompts.keys()].join(', ')}` : 'none, because the file has no prompts';
  throw new QuantletError(
    'ERR_INVALID_ARGUMENT',
    `promptName is ${tell(name)}; expected ${expected}. Give the text itself as prompt, or put it into the texts`,
  );
}
