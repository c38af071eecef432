/** Conversations as trees: paths, versions, files, and writing while a page is hidden. */
import { describe, expect, it } from 'vitest';
import { failureOf } from '../../page/src/backend.ts';
import { fitText, roomFor } from '../../page/src/fit.ts';
import { isComposing, isEnter, isEscape } from '../../page/src/keys.ts';
import { DEFAULT_SETTINGS, optionsOf, outOfBounds } from '../../page/src/settings.ts';
import { throttle } from '../../page/src/throttle.ts';
import { readTree } from '../../page/src/transfer.ts';
import { chained, childrenOf, leafBelow, pathTo, titleOfMessages, type Message } from '../../page/src/tree.ts';

const user = (content: string) => ({ role: 'user' as const, content });
const answer = (content: string) => ({ role: 'assistant' as const, content });
const shown = (messages: readonly Message[], leaf: string | null): string[] => {
  const byId = new Map(messages.map((message) => [message.id, message]));
  return pathTo((id) => byId.get(id)?.parent, leaf).map((id) => byId.get(id)!.content);
};

describe('a tree', () => {
  const first = chained([user('a'), answer('b'), user('c'), answer('d')], null, 1);
  const edited = chained([user('a2'), answer('b2')], null, 10);
  const again = chained([answer('d2')], first[2].id, 20);
  const all = [...again, ...first, ...edited];

  it('has versions in order of creation, each with its continuation', () => {
    const children = childrenOf(all);
    expect(children.get(null)).toEqual([first[0].id, edited[0].id]);
    expect(children.get(first[2].id)).toEqual([first[3].id, again[0].id]);
    expect(shown(all, leafBelow(children, first[0].id))).toEqual(['a', 'b', 'c', 'd2']);
    expect(shown(all, leafBelow(children, null))).toEqual(['a2', 'b2']);
    expect(leafBelow(children, again[0].id)).toBe(again[0].id);
    expect(leafBelow(new Map(), null)).toBeNull();
  });

  it('has a title from the beginning of the shown path', () => {
    const byId = new Map(all.map((message) => [message.id, message]));
    const path = pathTo((id) => byId.get(id)?.parent, edited[1].id).map((id) => byId.get(id)!);
    expect(titleOfMessages(path)).toBe('a2');
  });

  it('paths end at missing messages and at cycles', () => {
    expect(pathTo((id) => ({ a: 'b', b: 'a' })[id], 'a')).toHaveLength(2);
    expect(pathTo((id) => ({ a: 'gone' })[id], 'a')).toEqual(['a']);
  });
});

describe('a file', () => {
  const read = (messages: Record<string, unknown>[], leaf = '') => {
    const tree = readTree(messages, 5);
    return { ...tree, path: shown(tree.messages, tree.leafOf(leaf)) };
  };

  it('of version 1 is a list', () => {
    const { messages, path } = read([{ role: 'user', content: 'a' }, { role: 'assistant', content: 'b' }, { content: 'c' }]);
    expect(path).toEqual(['a', 'b', 'c']);
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user']);
  });

  it('has all versions, and shows the current one', () => {
    const messages = [
      { id: '1', parent: null, content: 'a' },
      { id: '2', parent: '1', content: 'b', role: 'assistant' },
      { id: '3', parent: null, content: 'a2' },
      { id: '4', parent: '1', content: 'b2', role: 'assistant', state: 'failed', failure: { message: 'no', code: 'X' }, leftOut: 3 },
    ];
    expect(read(messages, '2').path).toEqual(['a', 'b']);
    expect(read(messages, '3').path).toEqual(['a2']);
    const { messages: made } = read(messages);
    expect(made[3]).toMatchObject({ state: 'failed', failure: { message: 'no', code: 'X' }, leftOut: 3, parent: made[0].id });
    expect(new Set(made.map(({ id }) => id)).size).toBe(4);
  });

  it('that was edited by hand loses no message', () => {
    const { messages, path } = read([
      { id: '1', parent: '1', content: 'a' },
      { id: '2', parent: 'nobody', content: 'b' },
      { id: '3', parent: 7, content: 'c', calls: 'none', attachments: [1], state: 'streaming', role: 'assistant' },
    ]);
    expect(path).toEqual(['a', 'b', 'c']);
    expect(messages[2]).toMatchObject({ state: 'stopped', attachments: [{ name: '', text: '' }] });
  });
});

describe('a context that is full', () => {
  it.each([
    ['one two three', 6, 'three'],
    ['one two three', 9, 'two three'],
    ['日本語日本語', 2, '本語'],
    ['inseparable', 3, 'inseparable'],
  ])('%s: the end of a text', async (prompt, room, left) => {
    expect((await fitText(prompt, room, ({ length }) => length)).prompt).toBe(left);
  });

  it('leaves room for an answer', () => {
    expect([roomFor(100), roomFor(100, 10), roomFor(100, 90)]).toEqual([75, 90, 75]);
  });
});

describe('keys', () => {
  const key = (name: string, more = {}) => ({ key: name, shiftKey: false, isComposing: false, keyCode: 13, ...more }) as KeyboardEvent;
  it('of an input method send nothing', () => {
    expect(isEnter(key('Enter'))).toBe(true);
    expect(isEnter(key('Enter', { shiftKey: true }))).toBe(false);
    for (const composing of [{ isComposing: true }, { keyCode: 229 }]) {
      expect(isComposing(key('a', composing))).toBe(true);
      expect(isEnter(key('Enter', composing))).toBe(false);
      expect(isEscape(key('Escape', composing))).toBe(false);
    }
  });
});

it('work is deferred by the clock, without timers while data arrives', () => {
  let time = 0;
  const done: number[] = [];
  const { ask, flush, end } = throttle(
    100,
    () => done.push(time),
    () => time,
  );
  for (time = 0; time <= 250; time += 10) ask();
  expect(done).toEqual([0, 100, 200]);
  flush();
  flush();
  expect(done).toHaveLength(4);
  end();
});

describe('settings', () => {
  it.each([
    ['maxTokens', -7, /“New tokens at most” in the settings is -7; expected an integer of at least 1/],
    ['maxTokens', 1.5, /expected an integer/],
    ['topP', 2, /“Top p” .* at least 0 and at most 1/],
    ['temperature', NaN, /expected a number/],
    ['topK', -2, /at least -1/],
  ])('%s of %d is not asked for', (name, value, message) => {
    expect(() => optionsOf({ ...DEFAULT_SETTINGS, numbers: { [name]: value } })).toThrow(message);
  });

  it('bounds are included', () => {
    const bounds = { least: 0, most: 2, integer: true };
    expect([-1, 0, 2, 3, 1.5].map((value) => outOfBounds(value, bounds) === undefined)).toEqual([false, true, true, false, false]);
  });
});

it('names at the beginning of a sentence are not capitalised', () => {
  for (const name of ['pic.png is no text', 'blk.0.weight is missing', 'camelCase is odd', 'a-b.txt: gone'])
    expect(failureOf(new Error(name)).message).toBe(`${name}.`);
  expect(failureOf(new Error('the file pic.png is no text')).message).toBe('The file pic.png is no text.');
});
