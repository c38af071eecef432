/** Texts of calls in the notations of families, for grammars. Their readers are in families.ts. */
import { DIGITS, GAP, ID, LINES, pieces, type CallNotation, type Piece, type XmlSyntax } from '../grammar/calls/notation.ts';
import { functionXml, invokeXml, keyValueXml, openXml, paramXml } from './xml-calls.ts';

/** A call within the texts of a section. */
type Call = Pick<CallNotation, 'head' | 'form' | 'tail'> & Partial<Pick<CallNotation, 'names'>>;

/** Names between marks, as readers of such calls take them. */
const PLAIN_NAMES = /^[\w.:/-]+$/;
const JSON_FORM = { type: 'json' } as const;

/** An object with name and arguments; `first` and `last` are further members. */
export const jsonCall = (name = 'name', args = 'arguments', first: readonly Piece[] = [], last: readonly Piece[] = []): Call => ({
  head: (tool) => ['{', GAP, ...first, ...pieces`"${name}":${GAP}${JSON.stringify(tool)},${GAP}"${args}":${GAP}`],
  form: JSON_FORM,
  tail: [...last, GAP, '}'],
});

/** A name between two texts, then the arguments as JSON. */
const namedCall = (head: CallNotation['head'], tail: readonly Piece[]): Call => ({ head, form: JSON_FORM, tail, names: PLAIN_NAMES });

/** @param inner text that begins a call within a value */
const xmlCall = (syntax: XmlSyntax, inner = syntax.call, attributes: readonly Piece[] = []): Call => {
  const quote = syntax.call.endsWith('"') ? '"' : '';
  return {
    head: (tool) => [syntax.call, tool, quote, ...attributes, syntax.named],
    form: { type: 'xml', syntax, inner },
    tail: [syntax.callEnd],
    names: PLAIN_NAMES,
  };
};

type Around = Partial<Pick<CallNotation, 'before' | 'after' | 'again' | 'triggers' | 'byName' | 'onlyFirst'>>;

/** A section with one call. */
const single = (start: string, close: readonly Piece[], call: Call, around: Around = {}): CallNotation => ({
  start,
  open: [],
  close,
  again: [LINES],
  ...call,
  ...around,
});

/** A call between two tags. */
const tagged = (start: string, close: string, call: Call): CallNotation => ({ ...single(start, [GAP, close], call), open: [GAP] });

/** Several calls between two tags. */
const section = (start: string, close: string, call: Call): CallNotation => ({ ...tagged(start, close, call), between: [GAP] });

/** A list of calls. */
const list = (start: string, close: string, call: Call = jsonCall()): CallNotation => ({
  ...single(start, [GAP, ']', close], call),
  open: [GAP, '[', GAP],
  between: [GAP, ',', GAP],
});

const python: Call = { head: (tool) => [`${tool}(`, GAP], form: { type: 'python' }, tail: [GAP, ')'], names: /^[A-Za-z_][\w.-]*$/ };

export const hermes = tagged('<tool_call>', '</tool_call>', jsonCall());

const keyValue = (suffix = ''): CallNotation => {
  const [start, close] = [`<tool_call${suffix}>`, `</tool_call${suffix}>`];
  return { ...tagged(start, close, xmlCall(keyValueXml(suffix), start)), open: [] };
};
/** GLM's, and Hermes' for other templates with `<tool_call>`. */
export const taggedNotation = (template: string): CallNotation => (template.includes('<arg_key>') ? keyValue() : hermes);

export const hunyuan = (suffix: string): CallNotation => ({
  ...keyValue(suffix),
  head: (tool) => [tool, `<tool_sep${suffix}>`],
  before: [`<tool_calls${suffix}>`, GAP],
  after: [GAP, `</tool_calls${suffix}>`],
});

export const harmony: readonly CallNotation[] = [
  ['<|channel|>commentary to=functions.', ' <|constrain|>json<|message|>'],
  [' to=functions.', '<|channel|>commentary <|constrain|>json<|message|>'],
  [' to=functions.', '<|channel|>commentary json<|message|>'],
].map(([start, head]) =>
  single(
    start,
    [],
    namedCall((tool) => [tool, head], ['<|call|>']),
    { again: ['<|start|>assistant'] },
  ),
);

export const dsml = (template: string): CallNotation => {
  const tag = template.includes('function_calls') ? 'function_calls' : 'tool_calls';
  return section(`<｜DSML｜${tag}>`, `</｜DSML｜${tag}>`, xmlCall({ ...invokeXml('｜DSML｜'), attribute: 'string' }));
};

/** To R1: `function`, separator, name and fenced JSON. From V3.1: name, separator and JSON. */
export const deepseek = (template: string): CallNotation => {
  const fenced = template.includes('```json');
  const head: CallNotation['head'] = fenced
    ? (tool) => ['function<｜tool▁sep｜>', tool, '\n```json\n']
    : (tool) => [tool, '<｜tool▁sep｜>'];
  return single('<｜tool▁call▁begin｜>', [], namedCall(head, [fenced ? '\n```' : '', '<｜tool▁call▁end｜>']), {
    before: ['<｜tool▁calls▁begin｜>'],
    after: ['<｜tool▁calls▁end｜>'],
  });
};

export const kimiK2 = single(
  '<|tool_call_begin|>',
  [],
  namedCall((tool) => pieces`functions.${tool}:${DIGITS}<|tool_call_argument_begin|>`, ['<|tool_call_end|>']),
  { before: ['<|tool_calls_section_begin|>'], after: ['<|tool_calls_section_end|>'], again: [] },
);

export const solar = single(
  '<|tool_call:begin|>',
  [],
  namedCall((tool) => pieces`${ID}<|tool_call:name|>${tool}<|tool_call:args|>`, ['<|tool_call:end|>']),
  { before: ['<|tool_calls|>'], after: ['<|calls|>'], again: [] },
);

export const minimax = section('<minimax:tool_call>', '</minimax:tool_call>', xmlCall(invokeXml('')));

export const minimaxM3 = (mark: string): CallNotation =>
  section(`${mark}<tool_call>`, `${mark}</tool_call>`, {
    head: (tool) => [`${mark}<invoke name="${tool}">`],
    form: { type: 'elements', mark },
    tail: [`${mark}</invoke>`],
    names: PLAIN_NAMES,
  });

const museCall = xmlCall(invokeXml('atem:'));
export const muse: CallNotation = {
  ...single(' to=', [GAP, '</atem:function_calls>'], museCall, { again: ['<|eom|><|start|>assistant'], byName: true }),
  head: (tool) => [tool, '<|message|><atem:function_calls>', GAP, ...museCall.head(tool)],
};

export const seed = tagged('<seed:tool_call>', '</seed:tool_call>', xmlCall(functionXml));

export const minicpm: CallNotation = {
  ...single('<function name="', [], xmlCall(paramXml)),
  head: (tool) => [`${tool}">`],
};

export const kimiK3 = {
  ...section(
    '<|open|>tools<|sep|>',
    '<|close|>tools<|sep|>',
    xmlCall({ ...openXml, attribute: 'type' }, openXml.call, pieces` index="${DIGITS}"`),
  ),
  open: [],
  between: [],
};

export const gemma = (quote: string): CallNotation =>
  single(
    '<|tool_call>',
    ['<tool_call|>'],
    { head: (tool) => [`call:${tool}`], form: { type: 'quoted', quote }, tail: [], names: /^[\w.-]+$/ },
    { again: [] },
  );

export const functionaryV32 = single(
  '>>>',
  [],
  namedCall((tool) => [tool, '\n'], []),
  { again: [], byName: true },
);
export const functionaryV31 = single(
  '<function=',
  [],
  namedCall((tool) => [tool, '>'], ['</function>']),
);

export const firefunction = list('functools', '');

/** With `[ARGS]`, a name and arguments (from v11), some with an id between them. Otherwise a list of objects. */
export const mistral = (template: string): CallNotation => {
  const head: CallNotation['head'] = (tool) => [tool, ...(template.includes('[CALL_ID]') ? ['[CALL_ID]', ID] : []), '[ARGS]'];
  if (template.includes('[ARGS]')) return single('[TOOL_CALLS]', [], namedCall(head, []), { again: [] });
  return list('[TOOL_CALLS]', '', jsonCall('name', 'arguments', [], pieces`,${GAP}"id":${GAP}"${ID}"`));
};

export const commandR7b = list(
  '<|START_ACTION|>',
  '<|END_ACTION|>',
  jsonCall('tool_name', 'parameters', pieces`"tool_call_id":${GAP}"${DIGITS}",${GAP}`),
);
export const commandR: CallNotation = {
  ...list('Action:', '```', jsonCall('tool_name', 'parameters')),
  open: [GAP, '```json', GAP, '[', GAP],
  triggers: ['Action:\n```json', 'Action: ```json', 'Action:```json'],
};

export const nemotron = list('<TOOLCALL>', '</TOOLCALL>');
export const apertus = list('<|tools_prefix|>', '<|tools_suffix|>', {
  head: (tool) => pieces`{${GAP}${JSON.stringify(tool)}:${GAP}`,
  form: JSON_FORM,
  tail: [GAP, '}'],
  // Other readings of the first key.
  names: /^(?!(?:name|tool_name|function|arguments|parameters|args)$)/,
});
export const apriel = list('<tool_calls>', '</tool_calls>');
export const minimaxM1 = section('<tool_calls>', '</tool_calls>', jsonCall());
export const granite = list('<|tool_call|>', '');
export const lfm2: readonly CallNotation[] = [
  list('<|tool_call_start|>', '<|tool_call_end|>', python),
  list('<|tool_call_start|>', '<|tool_call_end|>'),
];
export const gigachat = single('<|function_call|>', [], jsonCall());
export const gigachat3: CallNotation = { ...single('function call<|role_sep|>', [], jsonCall()), open: [GAP] };

/** The first is the whole call; the second is for models that leave out the outer tag. */
export const qwen3Coder: readonly CallNotation[] = [
  tagged('<tool_call>', '</tool_call>', xmlCall({ ...functionXml, lines: true })),
  { ...single('<function=', [], xmlCall({ ...functionXml, lines: true })), head: (tool) => [`${tool}>`] },
];

export const llama3 = single('', [], jsonCall('name', 'parameters'), { again: ['; '], byName: true, onlyFirst: true });

/** A call as JSON alone. */
export const json = single('', [], jsonCall());
