/** From a generation's options (GBNF, JSON schema) to its grammar; compiled ones are kept. */
import { QuantletError } from '../errors.ts';
import { inSlices } from '../slices.ts';
import { createGrammarWork, type Grammar, type GrammarVocabulary } from './grammar.ts';
import type { JsonSchema } from './json-schema.ts';
import { plainFormat, type PlainFormat, type ResponseFormat } from './schema-source.ts';

export interface ConstraintOptions {
  /** A grammar in llama.cpp's GBNF that the text must follow; not together with a responseFormat. */
  grammar?: string;
  responseFormat?: ResponseFormat;
  /** The end of the prompt that the grammar or format reads as the beginning of the text: an answer that has begun. @internal */
  begun?: string;
}

/** Grammars kept compiled, with what was found out about them: servers are asked for the same few again and again. */
const MAX_KEPT = 8;

/**
 * Makes the constraints of one model's generations, without holding up the event loop.
 * @throws (the function returned) QuantletError ERR_GRAMMAR for a grammar or a schema that is none, ERR_INVALID_ARGUMENT for both at once
 */
export function createConstraints(
  vocabulary: GrammarVocabulary,
): (options: ConstraintOptions, signal?: AbortSignal) => Promise<Grammar> | undefined {
  const kept = new Map<string, Grammar>();
  const make = async (options: ConstraintOptions, signal?: AbortSignal): Promise<Grammar> => {
    const asked = askedOf(options);
    const gbnf = typeof asked === 'string' ? asked : await jsonGrammar(asked, signal);
    const grammar = kept.get(gbnf) ?? (await inSlices(createGrammarWork(gbnf, vocabulary), signal));
    kept.delete(gbnf);
    kept.set(gbnf, grammar);
    if (kept.size > MAX_KEPT) kept.delete(kept.keys().next().value!);
    const reader = grammar.clone();
    if (options.begun !== undefined) await inSlices(reader.begin(options.begun), signal);
    return reader;
  };
  // Without one nothing waits, not even a turn: whoever asks next finds the generation begun.
  return (options, signal) =>
    options.grammar === undefined && (options.responseFormat === undefined || options.responseFormat.type === 'text')
      ? undefined
      : make(options, signal);
}

/** A grammar, or the format that one is made of. @throws ERR_INVALID_ARGUMENT */
function askedOf({ grammar, responseFormat }: ConstraintOptions): string | PlainFormat | undefined {
  const format = responseFormat === undefined ? undefined : plainFormat(responseFormat);
  if (grammar !== undefined && typeof grammar !== 'string')
    throw new QuantletError('ERR_INVALID_ARGUMENT', `grammar is ${typeof grammar}; expected GBNF text`);
  if (grammar !== undefined && (!format || format.type === 'text')) return grammar;
  if (grammar !== undefined)
    throw new QuantletError('ERR_INVALID_ARGUMENT', 'grammar and responseFormat are both given; expected one of them');
  return format;
}

/** Pages that ask for no JSON do without the code for schemas. */
async function jsonGrammar(format: PlainFormat | undefined, signal: AbortSignal | undefined): Promise<string> {
  const { jsonObjectGrammar, jsonSchemaWork } = await import('./json-schema.ts');
  return format?.type === 'json_schema' ? inSlices(jsonSchemaWork(format.schema as JsonSchema), signal) : jsonObjectGrammar();
}
