/**
 * Notations of reasoning and tool calls, by family of models. The family is recognised from the
 * chat template.
 */
import { MAX_HEAD, type CallReader, type ParsedCall } from './call-text.ts';
import { elementReader } from './element-calls.ts';
import { bareJson, jsonReader, namedReader } from './json-calls.ts';
import { gemmaReader, pythonReader } from './pythonic.ts';
import { functionXml, invokeXml, keyValueXml, openXml, paramXml, xmlReader } from './xml-calls.ts';

/** A marker that opens calls, and the reader of what follows it. */
export interface CallSyntax {
  readonly start: string;
  readonly read: CallReader;
}

/** Notation of reasoning and tool calls of a family of models. */
export interface ChatFormat {
  readonly name: string;
  /** Marker pairs around reasoning. */
  readonly reasoning: readonly { readonly start: string; readonly end: string }[];
  /**
   * Reasoning may also come after content (channels). Otherwise it comes only at the start of an
   * answer, so that content may mention `<think>`.
   */
  readonly reasoningAnywhere: boolean;
  /**
   * Calls may follow unfinished reasoning, because these models leave out its end marker before
   * calls. In other formats, such text is part of the reasoning.
   */
  readonly callsEndReasoning: boolean;
  readonly calls: readonly CallSyntax[];
  /** A call without a marker, at the start of an answer. */
  readonly bare: CallReader | undefined;
  /** Markers to remove: they are neither content nor the start of another part. */
  readonly drop: readonly string[];
  /**
   * Markers for the end of a turn and the start of an answer, for templates that may omit the
   * latter: Gemma 4's do so after results of a message that also had content.
   */
  readonly turn?: { readonly end: string; readonly start: string };
  /** Calls as text, for the history of templates that cannot write them. */
  readonly write: (calls: readonly ParsedCall[]) => string;
}

/**
 * `<tool_call>` as three families write it: JSON (Hermes, Qwen), `<function=...>` (Qwen3-Coder),
 * `name<arg_key>...` (GLM).
 */
function taggedReader(close: string): CallReader {
  const json = jsonReader(close);
  const xml = xmlReader(close, functionXml);
  const keyed = xmlReader(close, keyValueXml());
  return function* (text, sink) {
    const char = yield* text.blanks();
    return yield* (char === '{' || char === '[' ? json : char === '<' ? xml : keyed)(text, sink);
  };
}

/**
 * Hermes' notation, read in every format. It is the most widespread, and is used for templates
 * without tools (see template.ts).
 */
const tagged: CallSyntax = { start: '<tool_call>', read: taggedReader('</tool_call>') };

interface Family {
  readonly name: string;
  readonly is: (text: string) => boolean;
  readonly calls: readonly CallSyntax[];
  readonly reasoning?: ChatFormat['reasoning'];
  readonly bare?: CallReader;
  readonly drop?: readonly string[];
  readonly write?: ChatFormat['write'];
  readonly reasoningAnywhere?: boolean;
  readonly callsEndReasoning?: boolean;
  readonly turn?: ChatFormat['turn'];
}

const hermesText = (call: ParsedCall): string => `<tool_call>\n${callText(call)}\n</tool_call>`;
const callText = (call: ParsedCall, key = 'arguments'): string => `{"name": ${JSON.stringify(call.name)}, "${key}": ${call.arguments}}`;
const lfmText = (calls: readonly ParsedCall[]): string => `<|tool_call_start|>${listText(calls)}<|tool_call_end|>`;
const listText = (calls: readonly ParsedCall[]): string => `[${calls.map((call) => callText(call)).join(', ')}]`;

const has =
  (...words: readonly string[]) =>
  (text: string): boolean =>
    words.every((word) => text.includes(word));

/** Id and name of a Kimi call. The text before the separator is the id, `functions.NAME:INDEX`. */
const kimiHead = (text: string): { name: string; id: string } => {
  const id = text.trim();
  return { id, name: id.replace(/^functions\./, '').replace(/:\d+$/, '') };
};

/** Reads a recipient, optionally its channel and type, then the message. */
const harmonyReader = namedReader(/<\|message\|>/, ['<|call|>'], (text) => ({
  name: (/^[^\s<]*/.exec(text)?.[0] ?? '').replace(/^functions\./, ''),
}));

/**
 * Reader for Muse: a recipient and `<|message|>` precede the calls. A message without
 * `<atem:function_calls>` is not a call.
 */
const museReader: CallReader = function* (text, sink) {
  const recipient = yield* text.run(/[^\s<]/);
  if (recipient.length === MAX_HEAD || !(yield* text.eat('<|message|>'))) return false;
  yield* text.blanks();
  return (yield* text.eat('<atem:function_calls>')) && (yield* xmlReader('</atem:function_calls>', invokeXml('atem:'))(text, sink));
};

/** Reader for text after `<|python_tag|>`: JSON, or else Python's call notation. */
const pythonTagReader: CallReader = function* (text, sink) {
  const char = yield* text.blanks();
  return yield* (char === '{' || char === '[' ? jsonReader('') : pythonReader(''))(text, sink);
};

/** Mistral: a list of JSON calls (to v7), or name, optional id, arguments (from v11). */
const mistralReader: CallReader = function* (text, sink) {
  const char = yield* text.blanks();
  if (char === '[' || char === '{') return yield* jsonReader('')(text, sink);
  return yield* namedReader(/\[ARGS\]|(?=\{)/, [], (head) => {
    const [name, id] = head.trim().split('[CALL_ID]');
    return { name, ...(id === undefined ? {} : { id }) };
  })(text, sink);
};

/** Command R+: the list is in a Markdown fence. */
const fencedReader: CallReader = function* (text, sink) {
  yield* text.blanks();
  if (!(yield* text.eat('```'))) return false;
  yield* text.eat('json');
  return yield* jsonReader('```')(text, sink);
};

/** LFM2: Python's call notation, or JSON. The choice depends on the text after a bracket and blanks. */
const lfmReader = (raw: boolean): CallReader =>
  function* (text, sink) {
    const first = yield* text.blanks();
    const at = first === '[' ? yield* text.afterBlanks(1) : 0;
    const inside = yield* text.charAt(at);
    return yield* (inside === '{' ? jsonReader('<|tool_call_end|>') : pythonReader('<|tool_call_end|>', raw))(text, sink);
  };

/** The most specific first: a template may contain other families' markers as well as its own. */
const families: readonly Family[] = [
  {
    name: 'harmony',
    is: has('<|channel|>', '<|message|>', '<|start|>'),
    reasoning: [{ start: '<|channel|>analysis<|message|>', end: '<|end|>' }],
    calls: ['<|channel|>commentary to=', '<|channel|>analysis to=', ' to=functions.'].map((start) => ({ start, read: harmonyReader })),
    drop: [
      '<|start|>assistant',
      '<|channel|>commentary to=assistant',
      ...['commentary', 'final', 'final json', 'final <|constrain|>json'].map((header) => `<|channel|>${header}<|message|>`),
      '<|end|>',
      '<|return|>',
    ],
    reasoningAnywhere: true,
  },
  {
    name: 'deepseek-dsml',
    is: has('｜DSML｜'),
    calls: ['function_calls', 'tool_calls'].map((tag) => ({
      start: `<｜DSML｜${tag}>`,
      read: xmlReader(`</｜DSML｜${tag}>`, invokeXml('｜DSML｜')),
    })),
    callsEndReasoning: true,
  },
  {
    name: 'deepseek',
    is: has('<｜tool▁call▁begin｜>'),
    calls: [
      {
        start: '<｜tool▁call▁begin｜>',
        // R1: function, separator, name, fenced JSON; from V3.1: name, separator, JSON.
        read: namedReader(/<｜tool▁sep｜>(?=\s*\{)|\n```json\n/, ['```', '<｜tool▁call▁end｜>'], (text) => ({
          name: text.replace(/^\s*function<｜tool▁sep｜>/, '').trim(),
        })),
      },
    ],
    drop: ['<｜tool▁calls▁begin｜>', '<｜tool▁calls▁end｜>'],
  },
  {
    name: 'kimi-k2',
    is: has('<|tool_call_argument_begin|>'),
    calls: [{ start: '<|tool_call_begin|>', read: namedReader(/<\|tool_call_argument_begin\|>/, ['<|tool_call_end|>'], kimiHead) }],
    drop: ['<|tool_calls_section_begin|>', '<|tool_calls_section_end|>'],
    callsEndReasoning: true,
  },
  {
    name: 'solar',
    is: has('<|tool_call:args|>'),
    reasoning: [{ start: '<|think|>', end: '<|end|>' }],
    calls: [
      {
        start: '<|tool_call:begin|>',
        read: namedReader(/<\|tool_call:args\|>/, ['<|tool_call:end|>'], (text) => {
          const [id, name = ''] = text.split('<|tool_call:name|>');
          return { id, name };
        }),
      },
    ],
    drop: ['<|tool_calls|>', '<|calls|>', '<|content|>'],
  },
  {
    name: 'minimax',
    is: has('<minimax:tool_call>'),
    calls: [{ start: '<minimax:tool_call>', read: xmlReader('</minimax:tool_call>', invokeXml('')) }],
  },
  {
    name: 'minimax-m3',
    is: has(']<]minimax[>['),
    reasoning: [{ start: '<mm:think>', end: '</mm:think>' }],
    calls: [{ start: ']<]minimax[>[<tool_call>', read: elementReader(']<]minimax[>[', '</tool_call>') }],
    drop: ['</mm:think>'],
  },
  {
    name: 'muse',
    is: has('<atem:function_calls>'),
    reasoning: [{ start: ' to=self<|message|>', end: '<|eom|>' }],
    calls: [{ start: ' to=', read: museReader }],
    drop: [' to=user<|message|>', '<|start|>assistant', '<|eom|>', '<|eot|>'],
    reasoningAnywhere: true,
  },
  {
    name: 'seed',
    is: has('<seed:tool_call>'),
    reasoning: [{ start: '<seed:think>', end: '</seed:think>' }],
    calls: [{ start: '<seed:tool_call>', read: xmlReader('</seed:tool_call>', functionXml) }],
  },
  { name: 'hunyuan', is: (text) => /<tool_call:\w+>/.test(text), calls: [] },
  {
    name: 'minicpm',
    is: has('<function name="', '<param name="'),
    calls: [{ start: '<function name="', read: xmlReader('', paramXml, true) }],
  },
  {
    name: 'kimi-k3',
    is: has('<|open|>', '<|close|>', '<|sep|>'),
    reasoning: [{ start: '<|open|>think<|sep|>', end: '<|close|>think<|sep|>' }],
    calls: [{ start: '<|open|>tools<|sep|>', read: xmlReader('<|close|>tools<|sep|>', openXml) }],
    drop: ['<|open|>response<|sep|>', '<|close|>response<|sep|>', '<|close|>message<|sep|>', '<|end_of_msg|>'],
  },
  {
    name: 'gemma',
    is: has('<|tool_call>call:'),
    reasoning: [{ start: '<|channel>thought', end: '<channel|>' }],
    calls: [{ start: '<|tool_call>', read: gemmaReader('<tool_call|>') }],
    drop: ['<|channel>', '<channel|>'],
    reasoningAnywhere: true,
    turn: { end: '<turn|>\n', start: '<|turn>model\n' },
  },
  {
    name: 'functionary-v3.2',
    is: has('>>>all'),
    calls: [{ start: '>>>', read: namedReader(/\n/, [], (text) => (text === 'all' ? undefined : { name: text.trim() })) }],
    drop: ['>>>all\n'],
  },
  { name: 'firefunction', is: has('functools['), calls: [{ start: 'functools', read: jsonReader('') }] },
  {
    name: 'mistral',
    is: has('[TOOL_CALLS]'),
    calls: [{ start: '[TOOL_CALLS]', read: mistralReader }],
    write: (calls) => `[TOOL_CALLS]${listText(calls)}`,
  },
  {
    name: 'command-r7b',
    is: has('<|START_ACTION|>'),
    reasoning: [{ start: '<|START_THINKING|>', end: '<|END_THINKING|>' }],
    calls: [{ start: '<|START_ACTION|>', read: jsonReader('<|END_ACTION|>') }],
    drop: ['<|START_RESPONSE|>', '<|END_RESPONSE|>', '<|START_TEXT|>', '<|END_TEXT|>'],
    reasoningAnywhere: true,
  },
  { name: 'command-r', is: has('Action:', '"tool_name"'), calls: [{ start: 'Action:', read: fencedReader }] },
  {
    name: 'nemotron',
    is: has('<TOOLCALL>'),
    calls: [{ start: '<TOOLCALL>', read: jsonReader('</TOOLCALL>') }],
    write: (calls) => `<TOOLCALL>${listText(calls)}</TOOLCALL>`,
  },
  {
    name: 'apertus',
    is: has('<|tools_prefix|>'),
    reasoning: [{ start: '<|inner_prefix|>', end: '<|inner_suffix|>' }],
    calls: [{ start: '<|tools_prefix|>', read: jsonReader('<|tools_suffix|>', true) }],
  },
  {
    name: 'apriel',
    is: has('<tool_calls>', '[BEGIN FINAL RESPONSE]'),
    reasoning: [{ start: 'Here are my reasoning steps:', end: '[BEGIN FINAL RESPONSE]' }],
    calls: [{ start: '<tool_calls>', read: jsonReader('</tool_calls>') }],
    drop: ['[BEGIN FINAL RESPONSE]', '[END FINAL RESPONSE]'],
  },
  { name: 'minimax-m1', is: has('<tool_calls>', '</tool_calls>'), calls: [{ start: '<tool_calls>', read: jsonReader('</tool_calls>') }] },
  {
    name: 'granite',
    is: has('<|tool_call|>'),
    calls: [{ start: '<|tool_call|>', read: jsonReader('<|/tool_call|>') }],
    write: (calls) => `<|tool_call|>${listText(calls)}`,
  },
  {
    name: 'lfm2',
    is: (text) => text.includes('<|tool_call_start|>') && /"'" \+ \w+ \+ "'"/.test(text),
    calls: [{ start: '<|tool_call_start|>', read: lfmReader(true) }],
    write: lfmText,
  },
  {
    name: 'lfm2',
    is: (text) => ['<|tool_call_start|>', '<|tool_list_start|>', '"List of tools: ["'].some((mark) => text.includes(mark)),
    calls: [{ start: '<|tool_call_start|>', read: lfmReader(false) }],
    write: lfmText,
  },
  { name: 'gigachat', is: has('<|function_call|>'), calls: [{ start: '<|function_call|>', read: jsonReader('') }] },
  {
    name: 'gigachat-3',
    is: has('function call<|role_sep|>'),
    calls: [{ start: 'function call<|role_sep|>', read: jsonReader('') }],
    drop: ['<|message_sep|>'],
  },
  { name: 'ling', is: has('<role>ASSISTANT</role>', '<arg_key>'), calls: [], drop: ['<|role_end|>'], callsEndReasoning: true },
  {
    name: 'qwen3-coder',
    is: has('<tool_call>', '<function=', '<parameter='),
    calls: [{ start: '<function=', read: functionTag('</tool_call>') }],
    callsEndReasoning: true,
  },
  { name: 'hermes', is: has('<tool_call>'), calls: [{ start: '<function=', read: functionTag('</tool_call>') }] },
  {
    name: 'functionary-v3.1',
    is: has('<function=', '</function>'),
    calls: [
      { start: '<function=', read: functionTag() },
      { start: '<|python_tag|>', read: pythonTagReader },
    ],
  },
  {
    name: 'llama-3',
    is: has('<|start_header_id|>', '<|end_header_id|>', 'parameters'),
    calls: [{ start: '<|python_tag|>', read: pythonTagReader }],
    bare: bareJson,
    write: (calls) => calls.map((call) => callText(call, 'parameters')).join('; '),
  },
  { name: 'generic', is: () => true, calls: [] },
];

/**
 * Reads `<function=name>{json}</function>`, or Qwen3-Coder's parameters without the tag around
 * them.
 * @param after closing tag of the outer element, which may follow
 */
function functionTag(after = ''): CallReader {
  const json = namedReader(/>/, ['</function>', ...(after === '' ? [] : [after])], (text) => ({ name: text }));
  const xml = xmlReader(after, functionXml, true);
  return function* (text, sink) {
    let length = 0;
    while (length < MAX_HEAD && /[\w.:/-]/.test(yield* text.charAt(length))) length++;
    if (length === 0 || (yield* text.charAt(length)) !== '>') return false;
    const inside = yield* text.charAt(yield* text.afterBlanks(length + 1));
    return yield* (inside === '{' ? json : xml)(text, sink);
  };
}

/** Markers of reasoning for families that define none, used if the template contains them. */
const commonReasoning: ChatFormat['reasoning'] = [
  { start: '[THINK]', end: '[/THINK]' },
  { start: '<think>', end: '</think>' },
];

/**
 * Format of an answer that a schema constrains to JSON: a call of an offered tool, or the answer
 * itself.
 */
export const jsonCallFormat: ChatFormat = {
  name: 'json',
  reasoning: [],
  reasoningAnywhere: false,
  callsEndReasoning: false,
  calls: [],
  bare: bareJson,
  drop: [],
  write: (calls) => calls.map((call) => callText(call)).join('\n'),
};

/**
 * Detects a model's format from its template's source and from the rendering of a tool call, if it
 * can render one. Some templates assemble their markers from pieces, so the source is not enough.
 */
export function detectFormat(source: string, sample = ''): ChatFormat {
  const text = `${source}\n${sample}`;
  const family = families.find(({ is }) => is(text)) as Family;
  const suffix = family.name === 'hunyuan' ? (/<tool_call(:\w+)>/.exec(text)?.[1] ?? '') : '';
  const reasoning = [...(family.reasoning ?? commonReasoning.filter(({ start, end }) => text.includes(end) || text.includes(start)))];
  if (suffix !== '') reasoning.push({ start: `<think${suffix}>`, end: `</think${suffix}>` });
  return {
    name: family.name,
    reasoning,
    reasoningAnywhere: family.reasoningAnywhere ?? false,
    callsEndReasoning: family.callsEndReasoning ?? false,
    calls: [
      ...family.calls,
      ...(suffix === '' ? [] : [{ start: `<tool_call${suffix}>`, read: xmlReader(`</tool_call${suffix}>`, keyValueXml(suffix)) }]),
      tagged,
    ],
    bare: family.bare,
    ...(family.turn ? { turn: family.turn } : {}),
    drop: suffix === '' ? (family.drop ?? []) : [`<tool_calls${suffix}>`, `</tool_calls${suffix}>`],
    write: family.write ?? ((calls) => calls.map(hermesText).join('\n')),
  };
}
