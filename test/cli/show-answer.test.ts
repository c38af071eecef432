/** Display of an answer: reasoning is marked, dimmed if wanted, or left out. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { ChatEvent } from '../../src/chat/parser.ts';
import { showAnswer, styleOf } from '../../src/cli/show-answer.ts';

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
});

async function* events(...all: readonly ChatEvent[]): AsyncGenerator<ChatEvent> {
  yield* all;
}
const thinking = (): AsyncGenerator<ChatEvent> =>
  events(
    { type: 'reasoning', delta: 'so' },
    { type: 'reasoning', delta: ' then' },
    { type: 'content', delta: '\nYes' },
    { type: 'content', delta: '.' },
  );
const shown = async (answer: AsyncIterable<ChatEvent>, style: Parameters<typeof showAnswer>[1]): Promise<string> => {
  const written = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  await showAnswer(answer, style);
  return written.mock.calls.map(([text]) => String(text)).join('');
};

describe('reasoning', () => {
  it('is marked, so that a pipe can tell it apart', async () => {
    expect(await shown(thinking(), { color: false, reasoning: true })).toBe('[reasoning]\nso then\n[answer]\nYes.');
  });
  it('is dimmed', async () => {
    expect(await shown(thinking(), { color: true, reasoning: true })).toBe('\x1b[2m[reasoning]\nso then\n[answer]\x1b[0m\nYes.');
  });
  it('is left out', async () => {
    expect(await shown(thinking(), { color: true, reasoning: false })).toBe('Yes.');
  });
  it('that never ends leaves the terminal as it was', async () => {
    expect(await shown(events({ type: 'reasoning', delta: 'so' }), { color: true, reasoning: true })).toBe('\x1b[2m[reasoning]\nso\x1b[0m');
  });
  it('an answer without it is the answer', async () => {
    expect(await shown(events({ type: 'content', delta: ' Yes' }), { color: true, reasoning: true })).toBe('Yes');
  });
});

describe('--color', () => {
  const on = (terminal: boolean, color?: string): boolean => {
    vi.stubGlobal('process', { ...process, env: process.env, stdout: { isTTY: terminal } });
    return styleOf(color === undefined ? {} : { color }).color;
  };
  it('auto: a terminal that is not dumb, unless NO_COLOR is set', () => {
    vi.stubEnv('NO_COLOR', '');
    vi.stubEnv('TERM', 'xterm');
    expect([on(true), on(false), on(true, 'auto')]).toEqual([true, false, true]);
    vi.stubEnv('NO_COLOR', '1');
    expect(on(true)).toBe(false);
    vi.stubEnv('NO_COLOR', '');
    vi.stubEnv('TERM', 'dumb');
    expect(on(true)).toBe(false);
  });
  it('on and off go before all that', () => {
    vi.stubEnv('NO_COLOR', '1');
    expect([on(false, 'on'), on(true, 'off')]).toEqual([true, false]);
  });
});
