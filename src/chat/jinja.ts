/** Chat templates compiled and rendered: @huggingface/jinja with what templates in use need beside it. */
import { Environment, parse, tokenize } from '@huggingface/jinja';
import { atOnce, type Work } from '../slices.ts';
import { run, type Node } from './jinja-run.ts';
import { filters, item, iterated, methods, operators, str, tests, toJinja, type JinjaValue } from './python.ts';

/** What a template says through `raise_exception`: the words are the template author's. */
export class TemplateRefusal extends Error {}

/** Jinja's own sandbox limit (MAX_RANGE): a template comes from a file and must not fill the memory. */
const maxRange = 100_000;

const months = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December'];
const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];

/** C's strftime in the C locale, local time, as transformers' `strftime_now` has it (the interpreter's own follows the reader's locale). */
export function strftime(format: string, date: Date): string {
  const two = (n: number): string => String(n).padStart(2, '0');
  const fields: Readonly<Record<string, () => string>> = {
    Y: () => String(date.getFullYear()),
    y: () => two(date.getFullYear() % 100),
    m: () => two(date.getMonth() + 1),
    d: () => two(date.getDate()),
    e: () => String(date.getDate()).padStart(2, ' '),
    B: () => months[date.getMonth()],
    b: () => months[date.getMonth()].slice(0, 3),
    A: () => days[date.getDay()],
    a: () => days[date.getDay()].slice(0, 3),
    H: () => two(date.getHours()),
    I: () => two(date.getHours() % 12 || 12),
    M: () => two(date.getMinutes()),
    S: () => two(date.getSeconds()),
    p: () => (date.getHours() < 12 ? 'AM' : 'PM'),
    '%': () => '%',
  };
  return format.replace(/%([A-Za-z%])/g, (whole, field: string) => fields[field]?.() ?? whole);
}

/** A function that gets and returns the interpreter's own values, so that it can change a list in place. */
function rawFunction(fn: (args: JinjaValue[]) => JinjaValue): JinjaValue {
  const made = toJinja(() => null) as unknown as { value: unknown };
  made.value = fn;
  return made as unknown as JinjaValue;
}

/**
 * Compiles a Jinja chat template once; the result renders it with the given variables.
 *
 * The interpreter is @huggingface/jinja with transformers' environment (trim_blocks, lstrip_blocks, loop controls). Python
 * features that it lacks and that templates in use need are put in by rewriting the syntax tree: see python.ts.
 *
 * @param now the clock behind `strftime_now`
 * @throws Error of the lexer or parser; the returned function throws {@link TemplateRefusal} for `raise_exception`, TemplateBudget where it does too much
 */
export function compileJinja(source: string, now: () => Date = () => new Date()): CompiledJinja {
  const program = rewrite(parse(tokenize(blanksBounded(source), { lstrip_blocks: true, trim_blocks: true })) as unknown as Node);
  function* work(variables: Readonly<Record<string, unknown>>): Work<string> {
    const environment = new Environment();
    const globals: Record<string, unknown> = {
      true: true,
      True: true,
      false: false,
      False: false,
      none: null,
      None: null,
      raise_exception: (message: unknown) => {
        throw new TemplateRefusal(String(message));
      },
      range: (...bounds: number[]) => range(bounds),
      strftime_now: (format: string) => strftime(format, now()),
    };
    for (const [name, value] of Object.entries(globals)) environment.set(name, value);
    for (const [name, fn] of Object.entries(methods)) environment.setVariable(`.${name}`, rawFunction(fn));
    for (const [name, fn] of Object.entries(filters)) environment.setVariable(`|${name}`, rawFunction(fn));
    for (const [name, fn] of Object.entries(tests)) environment.setVariable(`is ${name}`, rawFunction(fn));
    for (const [name, fn] of Object.entries(operators)) environment.setVariable(name, rawFunction(fn));
    environment.setVariable('[]', rawFunction(item));
    environment.setVariable('for', rawFunction(iterated));
    environment.setVariable(
      '{{}}',
      rawFunction(([value]) => (value.type === 'StringValue' ? value : toJinja(str(value)))),
    );
    for (const [name, value] of Object.entries(variables)) {
      environment.setVariable(name, toJinja(value));
      yield;
    }
    return yield* run(program, environment, charactersOf(variables), source.includes('loop'));
  }
  return Object.assign((variables: Readonly<Record<string, unknown>>) => atOnce(work(variables)), { work });
}

/** Renders with variables, at once or as work with pauses. */
export interface CompiledJinja {
  (variables: Readonly<Record<string, unknown>>): string;
  work(variables: Readonly<Record<string, unknown>>): Work<string>;
}

/** Blanks in a row that a template may have: the interpreter's lexer takes a time quadratic in them. */
const MAX_BLANKS = 2000;

/** @throws Error for more blanks in a row than any template has */
function blanksBounded(source: string): string {
  for (let at = 0, blanks = 0; at < source.length; at++) {
    blanks = source.charCodeAt(at) <= 0x20 || /\s/.test(source[at]) ? blanks + 1 : 0;
    if (blanks > MAX_BLANKS) throw new Error(`more than ${MAX_BLANKS} blanks and line ends in a row`);
  }
  return source;
}

/** Characters of all strings, keys included. */
function charactersOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  return Object.entries(value).reduce((sum, [key, part]) => sum + (Array.isArray(value) ? 0 : key.length) + charactersOf(part), 0);
}

function range(bounds: number[]): number[] {
  const [start, stop, step = 1] = bounds.length === 1 ? [0, bounds[0]] : bounds;
  if (step === 0) throw new Error('range() step must not be zero');
  const count = Math.max(0, Math.ceil((stop - start) / step));
  if (count > maxRange) throw new Error(`range() of ${count} numbers; the limit is ${maxRange}`);
  return Array.from({ length: count }, (_, i) => start + i * step);
}

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && typeof (value as Node).type === 'string';
const identifier = (value: string): Node => ({ type: 'Identifier', value });
const call = (name: string, args: unknown[]): Node => ({ type: 'CallExpression', callee: identifier(name), args });

/**
 * Replaces, bottom up, what the interpreter cannot evaluate:
 * `x.method(a)`, `x | filter(a)`, `x is test` and `x ~ y` of the tables in python.ts become calls of functions whose names no template can write;
 * tuples become lists, except where they name loop variables; dictionaries with whole numbers as keys get strings, and `x[0]` looks those up;
 * what is written, `{{ x }}`, is written as Python writes it.
 */
function rewrite(node: Node): Node {
  for (const [field, value] of Object.entries(node)) {
    if (field === 'loopvar' || field === 'assignee') continue;
    node[field] = rewriteField(value);
  }
  mark(node);
  for (const field of blocks)
    if (Array.isArray(node[field])) node[field] = node[field].map((one: Node) => (statements.has(one.type) ? one : call('{{}}', [one])));
  if (node.type === 'For') {
    const of = node.iterable as Node;
    if (of.type === 'SelectExpression') of.lhs = call('for', [of.lhs]);
    else node.iterable = call('for', [of]);
  }
  if (node.type === 'TupleLiteral') return { type: 'ArrayLiteral', value: node.value };
  if (node.type === 'MemberExpression' && node.computed && !['StringLiteral', 'SliceExpression'].includes((node.property as Node).type))
    return call('[]', [node.object, node.property]);
  if (node.type === 'BinaryExpression' && Object.hasOwn(operators, operatorOf(node)))
    return call(operatorOf(node), [node.left, node.right]);
  if (node.type === 'FilterExpression') {
    const filter = node.filter as Node;
    const name = filterName(node);
    if (Object.hasOwn(filters, name)) return call(`|${name}`, [node.operand, ...((filter.args as unknown[] | undefined) ?? [])]);
  }
  if (node.type === 'TestExpression') {
    const name = (node.test as Node).value as string;
    if (Object.hasOwn(tests, name)) return { ...node, operand: call(`is ${name}`, [node.operand]), test: identifier('true') };
  }
  if (node.type === 'CallExpression') {
    const callee = node.callee as Node;
    const name = methodName(node);
    if (Object.hasOwn(methods, name)) return call(`.${name}`, [callee.object, ...(node.args as unknown[])]);
  }
  return node;
}

const operatorOf = (node: Node): string => (node.operator as { value: string }).value;
const filterName = ({ filter }: Node): string =>
  ((filter as Node).type === 'CallExpression' ? ((filter as Node).callee as Node) : (filter as Node)).value as string;

function methodName({ callee }: Node): string {
  const { type, computed, property } = callee as Node;
  return type === 'MemberExpression' && !computed ? ((property as Node).value as string) : '';
}

/** The fields of statements that hold what is written. */
const blocks = ['body', 'alternate', 'defaultBlock'];

/** What stands in a block and is no expression to be written; text between tags is a StringLiteral. */
const statements = new Set('If For Set Macro CallStatement FilterStatement Break Continue Comment StringLiteral'.split(' '));

/** Filters and methods that write a list or a dictionary with all it holds. */
const writers = new Set(['tojson', 'string', 'join', 'format', 'urlencode']);

/** Marks what `jinja-run.ts` must know of: what loops walk, and what is written as text. */
function mark(node: Node): void {
  const set = (flag: 'iterated' | 'expanded', nodes: unknown): void => {
    for (const one of [nodes].flat()) if (isNode(one)) one[flag] = true;
  };
  if (node.type === 'For')
    set('iterated', (node.iterable as Node).type === 'SelectExpression' ? (node.iterable as Node).lhs : node.iterable);
  for (const field of blocks) set('expanded', node[field]);
  if (node.type === 'FilterExpression' && writers.has(filterName(node))) set('expanded', node.operand);
  if (node.type === 'BinaryExpression' && operatorOf(node) === '~') set('expanded', [node.left, node.right]);
  if (node.type === 'CallExpression' && writers.has(methodName(node))) set('expanded', node.args);
}

function rewriteField(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(rewriteField);
  if (value instanceof Map) return new Map([...value].map(([key, item]) => [rewriteKey(key as Node), rewriteField(item)]));
  return isNode(value) ? rewrite(value) : value;
}

function rewriteKey(key: Node): Node {
  return key.type === 'IntegerLiteral' ? { type: 'StringLiteral', value: String(key.value) } : rewrite(key);
}
