/** Settings of a conversation, and their translation into the options of a request. */
import { SAMPLER_NUMBERS, type SamplerOptions } from '../../src/sample/options.ts';
import { PageError, nameOnPage } from './backend.ts';

export type NumberName = keyof typeof SAMPLER_NUMBERS;

export interface Settings {
  /** `text`: no roles and no template; the model continues the given text. */
  readonly mode: 'chat' | 'text';
  /** Undefined: the first available model. */
  readonly model?: string | undefined;
  readonly system: string;
  /** Values as typed; an empty field keeps the default. */
  readonly numbers: Readonly<Partial<Record<NumberName | 'maxTokens', number>>>;
  /** One per line. */
  readonly stop: string;
  readonly drySequenceBreakers: string;
  /** JSON: an object of token id to number. */
  readonly logitBias: string;
  readonly format: 'text' | 'json_object' | 'json_schema' | 'grammar';
  readonly schema: string;
  readonly grammar: string;
  /** JSON: a list of tools in OpenAI's spelling. */
  readonly tools: string;
  readonly toolChoice: 'auto' | 'none' | 'required';
  /** `enable_thinking`, for templates that know it. */
  readonly thinking: 'default' | 'on' | 'off';
  /** If the context is full, refuse the request or leave out the oldest turns. */
  readonly whenFull: 'refuse' | 'leaveOut';
}

export const DEFAULT_SETTINGS: Settings = {
  mode: 'chat',
  system: '',
  numbers: {},
  stop: '',
  drySequenceBreakers: '',
  logitBias: '',
  format: 'text',
  schema: '',
  grammar: '',
  tools: '',
  toolChoice: 'auto',
  thinking: 'default',
  whenFull: 'refuse',
};

interface Tool {
  readonly type: 'function';
  readonly function: { readonly name: string; readonly description?: string; readonly parameters?: object };
}

/** Options by the names of model.chat(). The server has the same names in snake case. */
export interface GenerationOptions extends Omit<SamplerOptions, 'drySequenceBreakers' | 'logitBias'> {
  drySequenceBreakers?: string[];
  logitBias?: Record<number, number>;
  maxTokens?: number;
  stop?: string[];
  grammar?: string;
  responseFormat?: { type: 'json_object' } | { type: 'json_schema'; schema: object };
  tools?: Tool[];
  toolChoice?: Settings['toolChoice'];
  templateVariables?: Record<string, unknown>;
}

const lines = (text: string): string[] => text.split('\n').filter((line) => line !== '');
/** Replaces `\n`, `\t` and `\\`, as people type them into a single line. */
const unescaped = (text: string): string => text.replace(/\\([nt\\])/g, (_, c: string) => ({ n: '\n', t: '\t', '\\': '\\' })[c]!);

/** @throws PageError naming the setting whose JSON cannot be used */
function json(what: string, text: string, wanted: string, fits: (value: unknown) => boolean): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new PageError(`${what} in the settings is not JSON: ${(error as Error).message}. Expected ${wanted}.`);
  }
  if (!fits(value)) throw new PageError(`${what} in the settings is JSON of another kind; expected ${wanted}.`);
  return value;
}
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * Parses the tools. Accepts one function, one tool or a list of them.
 * @throws PageError
 */
export function toolsOf(text: string): Tool[] {
  if (text.trim() === '') return [];
  const named = (value: unknown): boolean => isObject(value) && typeof value.name === 'string';
  const fits = (value: unknown): boolean => isObject(value) && (named(value) || named(value.function));
  const value = json('Tools', text, 'a list of {"type": "function", "function": {"name", "description", "parameters"}}', (value) =>
    Array.isArray(value) ? value.every(fits) : fits(value),
  );
  return (Array.isArray(value) ? value : [value]).map((tool: Tool | Tool['function']) =>
    'function' in tool ? { ...tool, type: 'function' } : { type: 'function', function: tool },
  );
}

/**
 * Checks the numbers, because an imported conversation may contain anything.
 * @throws PageError
 */
function checkNumbers(numbers: Settings['numbers']): void {
  for (const { name, label } of NUMBER_FIELDS.flatMap(({ fields }) => fields)) {
    const value = numbers[name];
    const wrong = value === undefined ? undefined : outOfBounds(value, rowOf(name));
    if (wrong) throw new PageError(`“${label}” in the settings is ${value}; ${wrong}.`);
  }
}

/** @throws PageError if a number is out of bounds or a JSON setting is invalid */
export function optionsOf(settings: Settings): GenerationOptions {
  checkNumbers(settings.numbers);
  const options: GenerationOptions = { ...settings.numbers };
  const stop = lines(settings.stop).map(unescaped);
  if (stop.length > 0) options.stop = stop;
  const breakers = lines(settings.drySequenceBreakers).map(unescaped);
  if (breakers.length > 0) options.drySequenceBreakers = breakers;
  if (settings.logitBias.trim())
    options.logitBias = json(
      'Logit bias',
      settings.logitBias,
      'an object of token id to number',
      (value) => isObject(value) && Object.values(value).every((bias) => typeof bias === 'number'),
    ) as Record<number, number>;
  if (settings.format === 'grammar' && settings.grammar.trim()) options.grammar = settings.grammar;
  if (settings.format === 'json_object') options.responseFormat = { type: 'json_object' };
  if (settings.format === 'json_schema')
    options.responseFormat = { type: 'json_schema', schema: json('The JSON schema', settings.schema, 'an object', isObject) as object };
  if (settings.mode === 'text') return options;
  const tools = toolsOf(settings.tools);
  if (tools.length > 0) Object.assign(options, { tools, toolChoice: settings.toolChoice });
  if (settings.thinking !== 'default') options.templateVariables = { enable_thinking: settings.thinking === 'on' };
  return options;
}

export interface NumberField {
  readonly name: NumberName | 'maxTokens';
  readonly label: string;
  readonly hint: string;
}

/** All numeric options of the sampler, in the groups that the settings show. */
export const NUMBER_FIELDS: readonly { readonly title: string; readonly fields: readonly NumberField[] }[] = [
  {
    title: 'Length and chance',
    fields: [
      { name: 'maxTokens', label: 'New tokens at most', hint: 'Empty: until the model ends, or the context is full.' },
      { name: 'temperature', label: 'Temperature', hint: '0 always takes the likeliest token.' },
      { name: 'seed', label: 'Seed', hint: 'The same seed gives the same text; -1: random.' },
    ],
  },
  {
    title: 'Which tokens are considered',
    fields: [
      { name: 'topK', label: 'Top k', hint: 'The k most probable tokens; 0: all.' },
      { name: 'topP', label: 'Top p', hint: 'The most probable tokens whose probabilities add up to p; 1: all.' },
      { name: 'minP', label: 'Min p', hint: 'Tokens at least this many times as probable as the most probable one; 0: all.' },
      { name: 'typicalP', label: 'Typical p', hint: 'Tokens whose surprise is nearest to the expected one; 1: off.' },
      { name: 'topNSigma', label: 'Top n sigma', hint: 'Logits within n standard deviations of the largest; -1: all.' },
      { name: 'minKeep', label: 'Keep at least', hint: 'The limits above leave at least this many tokens.' },
      {
        name: 'xtcProbability',
        label: 'XTC probability',
        hint: 'Probability of removing all but the last of several likely tokens; 0: off.',
      },
      { name: 'xtcThreshold', label: 'XTC threshold', hint: 'A token is likely from this probability on.' },
    ],
  },
  {
    title: 'Against repetition',
    fields: [
      { name: 'repeatPenalty', label: 'Repeat penalty', hint: 'Divides the logits of recent tokens; 1: off.' },
      { name: 'frequencyPenalty', label: 'Frequency penalty', hint: 'Subtracted from a token’s logit for each time it occurred; 0: off.' },
      { name: 'presencePenalty', label: 'Presence penalty', hint: 'Subtracted once from the logit of a token that occurred; 0: off.' },
      { name: 'repeatLastN', label: 'Recent tokens', hint: 'Number of last tokens that the penalties apply to; -1: all.' },
      { name: 'dryMultiplier', label: 'DRY multiplier', hint: 'Against repeated sequences; 0: off.' },
      { name: 'dryBase', label: 'DRY base', hint: 'Growth of the penalty with the length of the repetition.' },
      { name: 'dryAllowedLength', label: 'DRY allowed length', hint: 'Repetitions of up to this many tokens have no penalty.' },
      { name: 'dryPenaltyLastN', label: 'DRY recent tokens', hint: 'Number of last tokens to search; -1: all.' },
    ],
  },
  {
    title: 'Temperature by certainty, Mirostat',
    fields: [
      { name: 'dynatempRange', label: 'Dynamic temperature range', hint: 'Temperature ± this, by how certain the model is; 0: off.' },
      { name: 'dynatempExponent', label: 'Dynamic temperature exponent', hint: 'Shape of the curve between the two temperatures.' },
      { name: 'mirostat', label: 'Mirostat', hint: '1 or 2: Mirostat in place of the limits above; 0: off.' },
      { name: 'mirostatTau', label: 'Mirostat tau', hint: 'Target surprise, in bits.' },
      { name: 'mirostatEta', label: 'Mirostat eta', hint: 'Speed at which it adapts.' },
    ],
  },
];

/** Labels of these settings, for errors that name options. */
nameOnPage({
  ...Object.fromEntries(NUMBER_FIELDS.flatMap(({ fields }) => fields.map(({ name, label }) => [name, `“${label}”`]))),
  stop: '“Stop at”',
  logitBias: '“Logit bias”',
  drySequenceBreakers: '“DRY sequence breakers”',
  responseFormat: '“The answer is”',
  toolChoice: '“Calls”',
  tools: '“Tools”',
  grammar: '“Grammar”',
});

/** Bounds and default of a field, from the sampler. */
export const rowOf = (name: NumberField['name']): Bounds & { standard?: number } =>
  name === 'maxTokens' ? { least: 1, most: 2 ** 31 - 1, integer: true } : SAMPLER_NUMBERS[name];

export interface Bounds {
  readonly least: number;
  readonly most: number;
  readonly integer?: boolean;
}

/** The expected range, as the end of a sentence, if a number is out of bounds; else undefined. */
export function outOfBounds(value: number, { least, most, integer }: Bounds): string | undefined {
  if (value >= least && value <= most && (!integer || Number.isInteger(value))) return undefined;
  const range = [Number.isFinite(least) && `at least ${least}`, Number.isFinite(most) && most < 2 ** 31 - 1 && `at most ${most}`].filter(
    Boolean,
  );
  return `expected ${integer ? 'an integer' : 'a number'}${range.length > 0 ? ` of ${range.join(' and ')}` : ''}`;
}
