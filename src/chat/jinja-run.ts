/** Templates run with a budget and with pauses: they come from files of strangers, and conversations from clients. */
import { Environment, Interpreter } from '@huggingface/jinja';
import type { Work } from '../slices.ts';
import { expandedSize, isDict, isList, toJinja, type JinjaValue } from './python.ts';

/** A node of the syntax tree. `iterated`: a loop walks its value; `expanded`: its value is written as text, with all that lists and dictionaries hold. */
export type Node = { type: string; iterated?: boolean; expanded?: boolean; [field: string]: unknown };

/** A template that does more than its conversation can need. */
export class TemplateBudget extends Error {}

/**
 * Steps of one rendering, beside those that the length of its conversation allows. Templates in use take 25 to 140 for a message, one that
 * looks through all earlier messages for each takes 550 at 200 messages; a million took 0.2 to 1 s (Node 20).
 */
const STEPS = 5_000_000;
/** What a loop does for an item before it does anything with it. */
const STEPS_OF_ITEM = 4;
/** Characters of a string value that count as one step: what looks at a value once takes at most about so long. */
const CHARACTERS = 32;
/** Steps allowed for each character of the conversation: every string of it may be looked at 64 times. */
const STEPS_OF_CHARACTER = 2;

/** The interpreter's own way to say `break` and `continue`. */
const [BreakControl, ContinueControl] = ['Break', 'Continue'].map((type) => {
  try {
    new Interpreter().evaluate({ type } as never, new Environment());
  } catch (error) {
    return (error as Error).constructor;
  }
  throw new Error(`the interpreter of templates has no ${type}`);
});

/**
 * Renders a program. Its loops and conditions, where they are statements, run here, so that there may be a pause after every message.
 * @param namesLoop whether it names Jinja's variable `loop`: making it for every item takes four times as long as an empty loop does without
 */
export function* run(program: Node, environment: Environment, characters: number, namesLoop: boolean): Work<string> {
  const most = STEPS + STEPS_OF_CHARACTER * characters;
  let left = most;
  const spend = (steps: number): void => {
    left -= steps;
    if (left < 0) throw new TemplateBudget(`it takes more than ${most} steps for a conversation of ${characters} characters`);
  };
  const interpreter = new Interpreter(environment);
  const evaluate = interpreter.evaluate.bind(interpreter);
  interpreter.evaluate = (...[statement, scope]: Parameters<Interpreter['evaluate']>) => {
    spend(1);
    const value = evaluate(statement, scope);
    const node = statement as unknown as Node | undefined;
    if (value.type === 'StringValue') spend(value.value.length / CHARACTERS);
    else if (isList(value) || isDict(value)) {
      if (node?.iterated) spend(STEPS_OF_ITEM * sizeOf(value));
      spend(node?.expanded ? expandedSize(value, left) : sizeOf(value) / CHARACTERS);
    }
    return value;
  };
  const of = (node: unknown, scope: Environment): JinjaValue => interpreter.evaluate(node as never, scope) as JinjaValue;

  function* block(statements: unknown, scope: Environment): Work<string> {
    let text = '';
    for (const node of statements as Node[]) {
      if (node.type === 'If') text += yield* block(truth(of(node.test, scope)) ? node.body : node.alternate, scope);
      else if (node.type === 'For') text += yield* loop(node, scope);
      else {
        const value = of(node, scope);
        if (value.type !== 'NullValue' && value.type !== 'UndefinedValue') text += value.toString();
      }
    }
    return text;
  }

  function* loop(node: Node, outer: Environment): Work<string> {
    const scope = new Environment(outer);
    const iterable = node.iterable as Node;
    const select = iterable.type === 'SelectExpression' ? iterable : undefined;
    const all = itemsOf(of(select ? select.lhs : iterable, scope));
    let items = all;
    if (select) {
      items = [];
      for (const item of all) {
        const inner = new Environment(scope);
        bind(node.loopvar as Node, item, inner);
        if (truth(of(select.test, inner))) items.push(item);
      }
    }
    let text = '';
    let entered = false;
    for (const [i, item] of items.entries()) {
      yield;
      if (namesLoop) scope.setVariable('loop', loopValue(items, i));
      bind(node.loopvar as Node, item, scope);
      try {
        text += yield* block(node.body, scope);
      } catch (error) {
        if (error instanceof ContinueControl) continue;
        if (error instanceof BreakControl) break;
        throw error;
      }
      entered = true;
    }
    return entered ? text : text + (yield* block(node.defaultBlock, scope));
  }

  return yield* block(program.body, environment);
}

const truth = (value: JinjaValue): boolean => value.__bool__().value;
const sizeOf = (value: JinjaValue): number =>
  isList(value) ? (value.value as unknown[]).length : (value.value as Map<string, unknown>).size;

function itemsOf(value: JinjaValue): JinjaValue[] {
  if (isList(value)) return [...(value.value as JinjaValue[])];
  if (isDict(value)) return [...(value.value as Map<string, JinjaValue>).keys()].map(toJinja);
  throw new Error(`a loop needs a list or a dictionary, not ${value.type}`);
}

function bind(names: Node, item: JinjaValue, scope: Environment): void {
  if (names.type !== 'TupleLiteral') return void scope.setVariable(names.value as string, item);
  if (!isList(item)) throw new Error(`${item.type} cannot be taken apart`);
  const parts = item.value as JinjaValue[];
  const wanted = names.value as Node[];
  if (parts.length !== wanted.length) throw new Error(`${parts.length} values cannot be taken apart as ${wanted.length}`);
  for (const [i, name] of wanted.entries()) scope.setVariable(name.value as string, parts[i]);
}

function loopValue(items: readonly JinjaValue[], i: number): JinjaValue {
  const { length } = items;
  const value = toJinja({
    index: i + 1,
    index0: i,
    revindex: length - i,
    revindex0: length - i - 1,
    first: i === 0,
    last: i === length - 1,
    length,
  });
  const fields = value.value as Map<string, JinjaValue>;
  const nothing = toJinja(undefined);
  return (fields.set('previtem', items[i - 1] ?? nothing).set('nextitem', items[i + 1] ?? nothing), value);
}
