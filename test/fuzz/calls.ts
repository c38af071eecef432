/**
 * Calls that a model of noise writes, held by grammars: random tools, every template, one call and
 * several. Each call is read back, and its arguments validate.
 */
import fc from 'fast-check';
import { QuantletError } from '../../src/errors.ts';
import { heldCalls } from '../../src/chat/held-calls.ts';
import type { ChatTool } from '../../src/chat/messages.ts';
import { parseAnswer } from '../../src/chat/parser.ts';
import { createChatTemplate } from '../../src/chat/template.ts';
import { callsGrammarWork } from '../../src/grammar/calls/calls-grammar.ts';
import { createMatcher } from '../../src/grammar/matcher.ts';
import { atOnce } from '../../src/slices.ts';
import { closersOf, walkCalls } from '../chat/call-walk.ts';
import { everyTemplate } from '../chat/templates.ts';
import { byteVocabulary } from '../grammar/helpers.ts';
import { randomSchema } from '../grammar/random-schemas.ts';
import { seeded } from '../web/server.ts';
import { runCases, type CampaignOptions, type CampaignResult } from './campaign.ts';
import { below, pick } from './mutate.ts';

const vocabulary = byteVocabulary(['<tool_call>', '</tool_call>', '{"', '": "', '", "', '\n</', '>\n', 'null', ' true']);
const NAMES = ['text', 'textual', 'n', 'is_open', 'first-name', 'item', 'a.b'];

export const campaign = (options: CampaignOptions): Promise<CampaignResult> => runCases(options, oneCase);

/** @throws Error with the text, if a call is not read back or does not validate */
function oneCase(seed: number): void {
  const random = seeded(seed);
  const [name, source] = pick(random, everyTemplate);
  const { format } = createChatTemplate(source, { bos: '<s>', eos: '</s>' });
  const names = NAMES.filter(() => random() < 0.5);
  const schemas = fc.sample(randomSchema, { seed, numRuns: names.length + 1 });
  const properties = Object.fromEntries(names.map((key, i) => [key, schemas[i]]));
  const parameters = { type: 'object', properties, required: names.filter(() => random() < 0.5), additionalProperties: false };
  const tool: ChatTool = { type: 'function', function: { name: 'act', parameters } };
  const held = { several: random() < 0.5, section: random() < 0.5, prompt: '', begun: '' };
  const calls = heldCalls(format, [tool], held)!;
  const grammar = compiled(calls);
  if (!grammar || grammar.relaxed.some(({ pointer }) => pointer === '')) return;
  const text = walked(() => walkCalls(grammar, vocabulary, closersOf(calls), random, 20 + below(random, 60)));
  if (text === undefined) return;
  const { toolCalls, content } = parseAnswer(format, text, { tools: [tool] });
  const matcher = createMatcher({ schema: parameters });
  const wrong = toolCalls.length === 0 || content.trim() !== '' || toolCalls.some((call) => call.cut || !matcher.accepts(call.arguments));
  if (wrong) throw new Error(JSON.stringify({ name, parameters, text, content, toolCalls }));
}

/** Undefined for a text that does not end: noise finds no end of a string with a pattern, as maxTokens would. */
function walked(walk: () => string): string | undefined {
  try {
    return walk();
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('the walk did not end')) return undefined;
    throw error;
  }
}

/** Undefined for a schema that no object satisfies, or that is refused. */
function compiled(calls: Parameters<typeof callsGrammarWork>[0]): ReturnType<typeof grammarOf> | undefined {
  try {
    return grammarOf(calls);
  } catch (error) {
    if (error instanceof QuantletError && error.code === 'ERR_GRAMMAR') return undefined;
    throw error;
  }
}

const grammarOf = (calls: Parameters<typeof callsGrammarWork>[0]) => atOnce(callsGrammarWork(calls, vocabulary));
