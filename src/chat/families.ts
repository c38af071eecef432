/** Families of models, by the marks in their templates, with the readers and texts of their calls. */
import type { CallNotation } from '../grammar/calls/notation.ts';
import { MAX_HEAD, type CallReader, type ParsedCall } from './call-text.ts';
import type { CallSyntax, ChatFormat } from './chat-format.ts';
import { elementReader } from './element-calls.ts';
import { bareJson, jsonReader, namedReader } from './json-calls.ts';
import * as notations from './notations.ts';
import { gemmaReader, GEMMA_QUOTE, pythonReader } from './pythonic.ts';
import { functionXml, invokeXml, keyValueXml, openXml, paramXml, xmlReader } from './xml-calls.ts';

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
export const tagged: CallSyntax = { start: '<tool_call>', read: taggedReader('</tool_call>') };

export interface Family {
  readonly name: string;
  readonly is: (text: string) => boolean;
  readonly calls: readonly CallSyntax[];
  /** Notations of the model's own calls, from the template's text; Hermes' or GLM's if absent. */
  readonly notations?: (text: string) => readonly CallNotation[];
  readonly reasoning?: ChatFormat['reasoning'];
  readonly bare?: CallReader;
  readonly drop?: readonly string[];
  readonly write?: ChatFormat['write'];
  readonly reasoningAnywhere?: boolean;
  readonly callsEndReasoning?: boolean;
  readonly turn?: ChatFormat['turn'];
}

export const hermesText = (call: ParsedCall): string => `<tool_call>\n${callText(call)}\n</tool_call>`;
export const callText = (call: ParsedCall, key = 'arguments'): string =>
  `{"name": ${JSON.stringify(call.name)}, "${key}": ${call.arguments}}`;
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

/** Precedes every tag of MiniMax M3. */
const M3_MARK = ']<]minimax[>[';

/** The most specific first: a template may contain other families' markers as well as its own. */
export const families: readonly Family[] = [
  {
    name: 'harmony',
    notations: () => notations.harmony,
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
    notations: (text) => [notations.dsml(text)],
    is: has('｜DSML｜'),
    calls: ['function_calls', 'tool_calls'].map((tag) => ({
      start: `<｜DSML｜${tag}>`,
      read: xmlReader(`</｜DSML｜${tag}>`, invokeXml('｜DSML｜')),
    })),
    callsEndReasoning: true,
  },
  {
    name: 'deepseek',
    notations: (text) => [notations.deepseek(text)],
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
    notations: () => [notations.kimiK2],
    is: has('<|tool_call_argument_begin|>'),
    calls: [{ start: '<|tool_call_begin|>', read: namedReader(/<\|tool_call_argument_begin\|>/, ['<|tool_call_end|>'], kimiHead) }],
    drop: ['<|tool_calls_section_begin|>', '<|tool_calls_section_end|>'],
    callsEndReasoning: true,
  },
  {
    name: 'solar',
    notations: () => [notations.solar],
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
    notations: () => [notations.minimax],
    is: has('<minimax:tool_call>'),
    calls: [{ start: '<minimax:tool_call>', read: xmlReader('</minimax:tool_call>', invokeXml('')) }],
  },
  {
    name: 'minimax-m3',
    notations: () => [notations.minimaxM3(M3_MARK)],
    is: has(']<]minimax[>['),
    reasoning: [{ start: '<mm:think>', end: '</mm:think>' }],
    calls: [{ start: ']<]minimax[>[<tool_call>', read: elementReader(M3_MARK, '</tool_call>') }],
    drop: ['</mm:think>'],
  },
  {
    name: 'muse',
    notations: () => [notations.muse],
    is: has('<atem:function_calls>'),
    reasoning: [{ start: ' to=self<|message|>', end: '<|eom|>' }],
    calls: [{ start: ' to=', read: museReader }],
    drop: [' to=user<|message|>', '<|start|>assistant', '<|eom|>', '<|eot|>'],
    reasoningAnywhere: true,
  },
  {
    name: 'seed',
    notations: () => [notations.seed],
    is: has('<seed:tool_call>'),
    reasoning: [{ start: '<seed:think>', end: '</seed:think>' }],
    calls: [{ start: '<seed:tool_call>', read: xmlReader('</seed:tool_call>', functionXml) }],
  },
  { name: 'hunyuan', is: (text) => /<tool_call:\w+>/.test(text), calls: [] },
  {
    name: 'minicpm',
    notations: () => [notations.minicpm],
    is: has('<function name="', '<param name="'),
    calls: [{ start: '<function name="', read: xmlReader('', paramXml, true) }],
  },
  {
    name: 'kimi-k3',
    notations: () => [notations.kimiK3],
    is: has('<|open|>', '<|close|>', '<|sep|>'),
    reasoning: [{ start: '<|open|>think<|sep|>', end: '<|close|>think<|sep|>' }],
    calls: [{ start: '<|open|>tools<|sep|>', read: xmlReader('<|close|>tools<|sep|>', openXml) }],
    drop: ['<|open|>response<|sep|>', '<|close|>response<|sep|>', '<|close|>message<|sep|>', '<|end_of_msg|>'],
  },
  {
    name: 'gemma',
    notations: () => [notations.gemma(GEMMA_QUOTE)],
    is: has('<|tool_call>call:'),
    reasoning: [{ start: '<|channel>thought', end: '<channel|>' }],
    calls: [{ start: '<|tool_call>', read: gemmaReader('<tool_call|>') }],
    drop: ['<|channel>', '<channel|>'],
    reasoningAnywhere: true,
    turn: { end: '<turn|>\n', start: '<|turn>model\n' },
  },
  {
    name: 'functionary-v3.2',
    notations: () => [notations.functionaryV32],
    is: has('>>>all'),
    calls: [{ start: '>>>', read: namedReader(/\n/, [], (text) => (text === 'all' ? undefined : { name: text.trim() })) }],
    drop: ['>>>all\n'],
  },
  {
    name: 'firefunction',
    notations: () => [notations.firefunction],
    is: has('functools['),
    calls: [{ start: 'functools', read: jsonReader('') }],
  },
  {
    name: 'mistral',
    notations: (text) => [notations.mistral(text)],
    is: has('[TOOL_CALLS]'),
    calls: [{ start: '[TOOL_CALLS]', read: mistralReader }],
    write: (calls) => `[TOOL_CALLS]${listText(calls)}`,
  },
  {
    name: 'command-r7b',
    notations: () => [notations.commandR7b],
    is: has('<|START_ACTION|>'),
    reasoning: [{ start: '<|START_THINKING|>', end: '<|END_THINKING|>' }],
    calls: [{ start: '<|START_ACTION|>', read: jsonReader('<|END_ACTION|>') }],
    drop: ['<|START_RESPONSE|>', '<|END_RESPONSE|>', '<|START_TEXT|>', '<|END_TEXT|>'],
    reasoningAnywhere: true,
  },
  {
    name: 'command-r',
    notations: () => [notations.commandR],
    is: has('Action:', '"tool_name"'),
    calls: [{ start: 'Action:', read: fencedReader }],
  },
  {
    name: 'nemotron',
    notations: () => [notations.nemotron],
    is: has('<TOOLCALL>'),
    calls: [{ start: '<TOOLCALL>', read: jsonReader('</TOOLCALL>') }],
    write: (calls) => `<TOOLCALL>${listText(calls)}</TOOLCALL>`,
  },
  {
    name: 'apertus',
    notations: () => [notations.apertus],
    is: has('<|tools_prefix|>'),
    reasoning: [{ start: '<|inner_prefix|>', end: '<|inner_suffix|>' }],
    calls: [{ start: '<|tools_prefix|>', read: jsonReader('<|tools_suffix|>', true) }],
  },
  {
    name: 'apriel',
    notations: () => [notations.apriel],
    is: has('<tool_calls>', '[BEGIN FINAL RESPONSE]'),
    reasoning: [{ start: 'Here are my reasoning steps:', end: '[BEGIN FINAL RESPONSE]' }],
    calls: [{ start: '<tool_calls>', read: jsonReader('</tool_calls>') }],
    drop: ['[BEGIN FINAL RESPONSE]', '[END FINAL RESPONSE]'],
  },
  {
    name: 'minimax-m1',
    notations: () => [notations.minimaxM1],
    is: has('<tool_calls>', '</tool_calls>'),
    calls: [{ start: '<tool_calls>', read: jsonReader('</tool_calls>') }],
  },
  {
    name: 'granite',
    notations: () => [notations.granite],
    is: has('<|tool_call|>'),
    calls: [{ start: '<|tool_call|>', read: jsonReader('<|/tool_call|>') }],
    write: (calls) => `<|tool_call|>${listText(calls)}`,
  },
  {
    name: 'lfm2',
    notations: () => notations.lfm2,
    is: (text) => text.includes('<|tool_call_start|>') && /"'" \+ \w+ \+ "'"/.test(text),
    calls: [{ start: '<|tool_call_start|>', read: lfmReader(true) }],
    write: lfmText,
  },
  {
    name: 'lfm2',
    notations: () => notations.lfm2,
    is: (text) => ['<|tool_call_start|>', '<|tool_list_start|>', '"List of tools: ["'].some((mark) => text.includes(mark)),
    calls: [{ start: '<|tool_call_start|>', read: lfmReader(false) }],
    write: lfmText,
  },
  {
    name: 'gigachat',
    notations: () => [notations.gigachat],
    is: has('<|function_call|>'),
    calls: [{ start: '<|function_call|>', read: jsonReader('') }],
  },
  {
    name: 'gigachat-3',
    notations: () => [notations.gigachat3],
    is: has('function call<|role_sep|>'),
    calls: [{ start: 'function call<|role_sep|>', read: jsonReader('') }],
    drop: ['<|message_sep|>'],
  },
  { name: 'ling', is: has('<role>ASSISTANT</role>', '<arg_key>'), calls: [], drop: ['<|role_end|>'], callsEndReasoning: true },
  {
    name: 'qwen3-coder',
    notations: () => notations.qwen3Coder,
    is: has('<tool_call>', '<function=', '<parameter='),
    calls: [{ start: '<function=', read: functionTag('</tool_call>') }],
    callsEndReasoning: true,
  },
  { name: 'hermes', is: has('<tool_call>'), calls: [{ start: '<function=', read: functionTag('</tool_call>') }] },
  {
    name: 'functionary-v3.1',
    notations: () => [notations.functionaryV31],
    is: has('<function=', '</function>'),
    calls: [
      { start: '<function=', read: functionTag() },
      { start: '<|python_tag|>', read: pythonTagReader },
    ],
  },
  {
    name: 'llama-3',
    notations: () => [notations.llama3],
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
