/** Grammars for a generation's options (GBNF or JSON schema), with a cache of compiled grammars. */
import { QuantletError } from '../errors.ts';
import { bigJson } from '../chat/exact-json.ts';
import { inSlices, type Work } from '../slices.ts';
import type { CallsFormat } from './calls/notation.ts';
import { createGrammarWork, type Grammar, type GrammarVocabulary } from './grammar.ts';
import type { JsonSchema } from './schema.ts';
import { plainFormat, type PlainFormat, type ResponseFormat } from './schema-source.ts';

export interface ConstraintOptions {
  /**
   * A grammar in llama.cpp's GBNF that the text must follow. Cannot be combined with
   * responseFormat.
   */
  grammar?: string | undefined;
  responseFormat?: ResponseFormat | undefined;
  /** Calls of tools that the text must consist of. @internal */
  calls?: CallsFormat;
  /**
   * The end of the prompt, if an answer has already begun there. The grammar or format treats this
   * as the beginning of the text. @internal
   */
  begun?: string;
}

/**
 * Number of compiled grammars in the cache, with their states and masks. Servers are asked for the
 * same few again and again.
 */
const MAX_KEPT = 8;

/**
 * Makes the constraints for one model's generations, without blocking the event loop.
 * @throws (by the returned function) QuantletError ERR_GRAMMAR for an invalid grammar or schema,
 * ERR_INVALID_ARGUMENT for both at once
 */
export function createConstraints(
  vocabulary: GrammarVocabulary,
): (options: ConstraintOptions, signal?: AbortSignal) => Promise<Grammar> | undefined {
  const kept = new Map<string, Grammar>();
  const make = async (options: ConstraintOptions, signal?: AbortSignal): Promise<Grammar> => {
    const asked = askedOf(options);
    const key = typeof asked === 'string' ? asked : `json ${bigJson(asked)}`;
    const grammar = kept.get(key) ?? (await inSlices(await workOf(asked, vocabulary), signal));
    kept.delete(key);
    kept.set(key, grammar);
    if (kept.size > MAX_KEPT) kept.delete(kept.keys().next().value!);
    const reader = grammar.clone();
    if (options.begun !== undefined) await inSlices(reader.begin(options.begun), signal);
    return reader;
  };
  // Without a constraint the result is undefined at once, so that the generation begins before a
  // later caller's.
  return (options, signal) =>
    options.grammar === undefined && !options.calls && (options.responseFormat === undefined || options.responseFormat.type === 'text')
      ? undefined
      : make(options, signal);
}

/**
 * The grammar, or the format to make a grammar from.
 * @throws ERR_INVALID_ARGUMENT
 */
function askedOf({ grammar, responseFormat, calls }: ConstraintOptions): string | PlainFormat | CallsFormat | undefined {
  if (calls && grammar !== undefined)
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      'grammar is given, and a call of a tool or a responseFormat is required; expected one of them',
    );
  if (calls) return calls;
  const format = responseFormat === undefined ? undefined : plainFormat(responseFormat);
  if (grammar !== undefined && typeof grammar !== 'string')
    throw new QuantletError('ERR_INVALID_ARGUMENT', `grammar is ${typeof grammar}; expected GBNF text`);
  if (grammar !== undefined && (!format || format.type === 'text')) return grammar;
  if (grammar !== undefined)
    throw new QuantletError('ERR_INVALID_ARGUMENT', 'grammar and responseFormat are both given; expected one of them');
  return format;
}

/**
 * Compiles a grammar or the schema of a format. The code for JSON is imported only here, so that
 * pages without JSON do not load it.
 */
async function workOf(asked: string | PlainFormat | CallsFormat | undefined, vocabulary: GrammarVocabulary): Promise<Work<Grammar>> {
  if (typeof asked === 'string') return createGrammarWork(asked, vocabulary);
  if (asked && 'tools' in asked) return (await import('./calls/calls-grammar.ts')).callsGrammarWork(asked, vocabulary);
  const { schemaGrammarWork } = await import('./schema-grammar.ts');
  return asked?.type === 'json_schema'
    ? schemaGrammarWork(asked.schema as JsonSchema, vocabulary, asked.strict ?? [])
    : schemaGrammarWork({ type: 'object' }, vocabulary, []);
}
