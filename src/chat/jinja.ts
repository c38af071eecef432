/** Chat templates compiled and rendered: @huggingface/jinja with what templates in use need beside it. */
import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja';
import { filters, item, methods, toJinja, type JinjaValue } from './python.ts';

type Program = ReturnType<typeof parse>;
type Node = { type: string; [field: string]: unknown };

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
 * @throws Error of the lexer or parser; the returned function throws {@link TemplateRefusal} for `raise_exception`
 */
export function compileJinja(source: string, now: () => Date = () => new Date()): (variables: Readonly<Record<string, unknown>>) => string {
  const program = rewrite(parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true })) as unknown as Node) as unknown as Program;
  return (variables) => {
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
    environment.setVariable('[]', rawFunction(item));
    for (const [name, value] of Object.entries(variables)) environment.setVariable(name, toJinja(value));
    return (new Interpreter(environment).run(program) as unknown as { value: string }).value;
  };
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
 * `x.method(a)` and `x | filter(a)` of the tables in python.ts become calls of functions whose names no template can write;
 * tuples become lists, except where they name loop variables; dictionaries with whole numbers as keys get strings, and `x[0]` looks those up.
 */
function rewrite(node: Node): Node {
  for (const [field, value] of Object.entries(node)) {
    if (field === 'loopvar' || field === 'assignee') continue;
    node[field] = rewriteField(value);
  }
  if (node.type === 'TupleLiteral') return { type: 'ArrayLiteral', value: node.value };
  if (node.type === 'MemberExpression' && node.computed && (node.property as Node).type === 'IntegerLiteral') return call('[]', [node.object, node.property]);
  if (node.type === 'FilterExpression') {
    const filter = node.filter as Node;
    const name = (filter.type === 'CallExpression' ? (filter.callee as Node) : filter).value as string;
    if (Object.hasOwn(filters, name)) return call(`|${name}`, [node.operand, ...((filter.args as unknown[] | undefined) ?? [])]);
  }
  if (node.type === 'CallExpression') {
    const callee = node.callee as Node;
    const name = callee.type === 'MemberExpression' && !callee.computed ? ((callee.property as Node).value as string) : '';
    if (Object.hasOwn(methods, name)) return call(`.${name}`, [callee.object, ...(node.args as unknown[])]);
  }
  return node;
}

function rewriteField(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(rewriteField);
  if (value instanceof Map) return new Map([...value].map(([key, item]) => [rewriteKey(key as Node), rewriteField(item)]));
  return isNode(value) ? rewrite(value) : value;
}

function rewriteKey(key: Node): Node {
  return key.type === 'IntegerLiteral' ? { type: 'StringLiteral', value: String(key.value) } : rewrite(key);
}
