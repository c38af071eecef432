/**
 * Text of a generation while it grows: tokens, their text up to a stop string, and the reason for
 * its end.
 */
import { logprobs, type Logprobs } from '../sample/logprobs.ts';
import type { Sampler } from '../sample/sampler.ts';
import type { Detokenizer } from '../tokenize/stream.ts';
import type { Tokenizer } from '../tokenize/tokenizer.ts';
import type { GenerationPart, GenerationResult } from './result.ts';
import type { StopMatcher } from './stop.ts';

/** Settings of a text. */
export interface TextRules {
  readonly tokenizer: Tokenizer;
  readonly sampler: Sampler;
  readonly detokenizer: Detokenizer;
  readonly stop: StopMatcher;
  /**
   * Alternatives per token whose log probabilities are wanted; -1 or Infinity: no log probabilities
   * at all.
   */
  readonly logprobs: number;
  readonly ignoreEos: boolean;
  /** Longest text in tokens. */
  readonly maxTokens: number;
  /** True if a text of `n` tokens cannot get another one, because the context is full. */
  readonly isFull: (n: number) => boolean;
  /** True if the grammar allows nothing more. */
  readonly isFinished: () => boolean;
}

/** The text that one generation writes. */
export class GeneratedText {
  readonly ids: number[] = [];
  readonly probabilities: Logprobs[] = [];
  /** Tokens that the caller has not seen yet. A step that verifies a draft adds several. */
  readonly unseen: GenerationPart[] = [];
  text = '';
  finishReason: GenerationResult['finishReason'] | undefined;
  /** Stop string that ended the text. */
  stopText: string | undefined;

  private readonly rules: TextRules;
  private readonly nLogprobs: number;

  constructor(rules: TextRules) {
    this.rules = rules;
    this.nLogprobs = rules.logprobs === Infinity ? -1 : rules.logprobs;
    if (rules.maxTokens === 0) this.finishReason = 'length';
  }

  /**
   * Appends a chosen token.
   * @param logits its row, for log probabilities
   * @returns false if the text is over
   */
  append(id: number, logits: Float32Array): boolean {
    const { tokenizer, sampler, detokenizer, stop, ignoreEos, maxTokens } = this.rules;
    const ends = tokenizer.isEog(id);
    if (ends && !ignoreEos) {
      this.finishReason = 'stop';
      return false;
    }
    this.ids.push(id);
    sampler.accept(id);
    const shown = stop.push(ends ? '' : detokenizer.push(id));
    this.text += shown.text;
    this.stopText = shown.stopped;
    const probability = this.nLogprobs >= 0 ? logprobs(logits, id, this.nLogprobs) : undefined;
    if (probability) this.probabilities.push(probability);
    this.unseen.push({ id, text: shown.text, ...(probability ? { logprobs: probability } : {}) });
    if (this.stopText !== undefined || this.rules.isFinished()) this.finishReason = 'stop';
    else if (this.ids.length >= maxTokens || this.rules.isFull(this.ids.length)) this.finishReason = 'length';
    return this.finishReason === undefined;
  }

  /**
   * Releases text that was withheld because it could begin a stop string. Call once, at the end.
   */
  end(): string {
    const rest = this.stopText === undefined ? this.rules.stop.end() : '';
    this.text += rest;
    return rest;
  }

  result(): Omit<GenerationResult, 'promptIds' | 'timings' | 'relaxed'> {
    return {
      ids: this.ids,
      text: this.text,
      finishReason: this.finishReason!,
      ...(this.stopText === undefined ? {} : { stopText: this.stopText }),
      ...(this.nLogprobs >= 0 ? { logprobs: this.probabilities } : {}),
    };
  }
}
