/** Shows an answer on stdout as it comes, with its reasoning marked, and its speed. */
import type { ModelChatEvent } from '../chat/generation.ts';
import type { ChatEvent } from '../chat/parser.ts';
import { QuantletError } from '../errors.ts';
import type { Timings } from '../generate/generate.ts';
import type { Model } from '../model.ts';
import { forTerminal } from './command.ts';
import type { Values } from './flags.ts';

export interface AnswerStyle {
  /** True: reasoning is dimmed. */
  readonly color: boolean;
  /** False: reasoning is left out. */
  readonly reasoning: boolean;
}

const COLOR = ['on', 'off', 'auto'] as const;
const DIM = '\x1b[2m';
const PLAIN = '\x1b[0m';

/** @throws ERR_USAGE for words other than on, off and auto */
export function styleOf({ color = 'auto', reasoningFormat }: Values<'color' | 'reasoningFormat'>): AnswerStyle {
  if (!COLOR.includes(color as (typeof COLOR)[number]))
    throw new QuantletError('ERR_USAGE', `--color is "${color}"; expected ${COLOR.join(', ')}`);
  // https://no-color.org: any non-empty value turns colours off.
  const auto = process.stdout.isTTY === true && !process.env.NO_COLOR && process.env.TERM !== 'dumb';
  return { color: color === 'on' || (color === 'auto' && auto), reasoning: reasoningFormat !== 'hidden' };
}

/**
 * Prints an answer as it comes.
 * @param onEvent receives each event before it is shown
 */
export async function showAnswer<E extends ChatEvent | ModelChatEvent>(
  answer: AsyncIterable<E>,
  style: AnswerStyle,
  onEvent = (_event: E): void => {},
): Promise<void> {
  const { stdout } = process;
  let reasoning = false;
  let begun = false;
  const paint = (code: string): void => void (style.color && stdout.write(code));
  try {
    for await (const event of answer) {
      onEvent(event);
      if (event.type === 'toolCall') {
        // The text about a call begins on a line of its own.
        if (reasoning) paint(PLAIN);
        if (reasoning || begun) stdout.write('\n');
        reasoning = false;
        begun = false;
      }
      if ((event.type !== 'content' && event.type !== 'reasoning') || (event.type === 'reasoning' && !style.reasoning)) continue;
      if (event.type === 'reasoning') {
        if (!reasoning) {
          paint(DIM);
          stdout.write('[reasoning]\n');
        }
        reasoning = true;
        stdout.write(forTerminal(event.delta));
        continue;
      }
      if (reasoning) {
        stdout.write('\n[answer]');
        paint(PLAIN);
        stdout.write('\n');
      }
      reasoning = false;
      const text: string = begun ? event.delta : event.delta.trimStart();
      begun ||= text !== '';
      stdout.write(forTerminal(text));
    }
  } finally {
    if (reasoning) paint(PLAIN);
  }
}

/**
 * Ends the line of an answer. The reason for an early end follows it on a terminal, else it goes to
 * stderr, so that pipes and files get only the answer.
 */
export function endAnswer(why?: string): void {
  const { stdout, stderr } = process;
  if (why !== undefined && !stdout.isTTY) stderr.write(`[${why}]\n`);
  stdout.write(why !== undefined && stdout.isTTY ? ` [${why}]\n` : '\n');
}

export const CONTEXT_FULL = 'cut: the context is full';
/** The model called tools again after the most rounds of model.chat(). */
export const CALLS_LEFT = 'cut: too many rounds of calls';

/** Interval of the progress display, and its first delay, so that short prompts show none. */
const EVERY_MS = 250;
const FIRST_MS = 1000;

/** On a terminal, counts the computed tokens of a long prompt until end() is called. */
export function readingPrompt(model: Model): { end(): void } {
  const { stderr } = process;
  if (!stderr.isTTY) return { end() {} };
  const began = performance.now();
  let shown = false;
  const timer = setInterval(() => {
    if (performance.now() - began < FIRST_MS) return;
    shown = true;
    stderr.write(`\r\x1b[Kreading: ${model.internals.slots.all[0].tokens.length} tokens`);
  }, EVERY_MS);
  timer.unref();
  return {
    end() {
      clearInterval(timer);
      if (shown) stderr.write('\r\x1b[K');
      shown = false;
    },
  };
}

export const perSecond = (n: number, ms: number): number => (ms > 0 ? (n * 1000) / ms : 0);

/**
 * Tokens per second of the generation, without the first token, which comes from the prompt's last
 * step.
 */
const generationSpeed = ({ predictedTokens: n, predictedMs }: Timings): string =>
  n < 2 ? '' : `, ${perSecond(n - 1, predictedMs).toFixed(1)} tokens/s`;

/** Tokens per second of prompt and generation, for people. */
export const speeds = (t: Timings): string =>
  `prompt ${t.promptTokens} tokens, ${perSecond(t.promptTokens, t.promptMs).toFixed(1)} tokens/s | generation ${t.predictedTokens} ${t.predictedTokens === 1 ? 'token' : 'tokens'}${generationSpeed(t)}` +
  (t.draft ? ` | ${t.draft.accepted} of ${t.draft.tokens} drafted tokens accepted` : '') +
  (t.neuronBytes === undefined ? '' : ` | ${(t.neuronBytes / Math.max(1, t.predictedTokens) / 1e6).toFixed(2)} MB of neurons read a token`);
