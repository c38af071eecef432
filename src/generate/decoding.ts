/**
 * State of one running generation: a slot, the text so far, and the tokens that the next step
 * computes.
 */
import type { ModelInternals } from '../run/model-internals.ts';
import { isImage } from '../run/image-tokens.ts';
import { isSame, type Slot } from '../run/slots.ts';
import { QuantletError } from '../errors.ts';
import type { ConstraintReader } from '../sample/begun-calls.ts';
import type { Relaxation } from '../grammar/schema/relaxed.ts';
import type { Sampler } from '../sample/sampler.ts';
import { createDetokenizer } from '../tokenize/stream.ts';
import type { Request } from './checked.ts';
import { Drafts } from './draft/drafts.ts';
import { GeneratedText } from './text.ts';
import { Stopwatch, type Timings } from './timings.ts';
import { ContextWindow } from './window.ts';

/**
 * Decodes in steps. A step computes the prompt, later the newest token, followed by a draft if
 * there is one. From each row of logits the sampler chooses a token, as long as the token before it
 * equals the drafted one.
 */
export class Decoding {
  readonly slot: Slot;
  readonly text: GeneratedText;
  readonly window: ContextWindow;

  private readonly model: ModelInternals;
  private readonly request: Request;
  private readonly sampler: Sampler;
  private readonly grammar: ConstraintReader | undefined;
  private readonly drafts: Drafts;
  private readonly stopwatch: Stopwatch;
  /**
   * Tokens that the text follows: the prompt, or a decoder's start token if an encoder reads the
   * prompt.
   */
  private readonly prompt: readonly number[];
  /** Tokens that an encoder has to read first. */
  private readonly source: readonly number[];
  /** Tokens of the prompt that the slot had already. */
  private readonly nReused: number;
  /**
   * Mask of the first token. It is computed during the prompt, in case the grammar refuses the
   * sampler's own choice.
   */
  private readonly firstMask: Promise<void> | undefined;

  /** Tokens of the next step. Logits are wanted from index `firstOutput` on. */
  private readonly tokens: number[];
  private firstOutput: number;
  /**
   * Logits whose token the grammar refused: the next token is chosen from them, with the grammar's
   * mask.
   */
  private refused: Float32Array | undefined;
  /** An error of the sampler or of a step, kept until the caller has seen the tokens before it. */
  private failed: { readonly error: unknown } | undefined;

  constructor(model: ModelInternals, request: Request, slot: Slot, sampler: Sampler, grammar: ConstraintReader | undefined) {
    const { options, promptIds, maxTokens, shifts, start, keep, stop } = request;
    this.model = model;
    this.request = request;
    this.slot = slot;
    this.sampler = sampler;
    this.grammar = grammar;
    this.prompt = start === undefined ? promptIds : [start];
    const nKept = start === undefined ? keep : this.prompt.length;
    this.window = new ContextWindow(slot, this.prompt.length, model.engine.contextLength, nKept);
    this.text = new GeneratedText({
      ...options,
      maxTokens,
      stop,
      sampler,
      tokenizer: model.tokenizer,
      detokenizer: createDetokenizer(model.tokenizer, { special: options.special }),
      isFull: (n) => !shifts && this.window.isFull(n),
      isFinished: () => grammar?.isFinished() ?? false,
    });
    this.drafts = new Drafts(() => model.speculation.start(options.speculation, slot, options.signal), this.prompt);
    this.source = start === undefined || maxTokens === 0 || isSame(slot.encoded, promptIds) ? [] : promptIds;
    if (this.source.length > 0) slot.encode([]);
    this.nReused = maxTokens > 0 ? slot.begin(this.prompt) : slot.reusable(this.prompt);
    this.tokens = this.prompt.slice(this.nReused);
    this.firstOutput = this.tokens.length - 1;
    this.stopwatch = new Stopwatch(model.engine.neurons);
    if (maxTokens > 0) {
      this.firstMask = grammar?.prepare();
      this.firstMask?.catch(() => {}); // thrown where the mask is awaited
      for (const id of this.prompt) if (!isImage(id)) sampler.accept(id, false);
    }
  }

  /** Keywords of the schema that are held only in part. */
  get relaxed(): readonly Relaxation[] {
    return this.grammar?.relaxed ?? [];
  }

  timings(): Timings {
    const promptTokens = this.source.length + this.prompt.length - this.nReused;
    return this.stopwatch.timings(promptTokens, this.text.ids.length, this.drafts.counts());
  }

  /** Lets the encoder read the prompt, if the model has one. */
  async readSource(): Promise<void> {
    if (this.text.finishReason === undefined) this.tellPrompt(0, this.nReused);
    if (this.source.length > 0) await this.model.scheduler.encode(this.slot, this.source, this.request.options.signal);
  }

  /** @param encoded tokens that the encoder has read, and the slot's computed ones */
  private tellPrompt(encoded: number, computed: number): void {
    const { source, prompt, nReused: cached } = this;
    const done = encoded + Math.min(prompt.length, Math.max(cached, computed));
    this.request.options.onProgress?.({ phase: 'prompt', done, total: source.length + prompt.length, cached });
  }

  /** Encodes the images of the prompt that the slot does not have. */
  async readImages(): Promise<void> {
    const { images } = this.model;
    if (!images || this.text.finishReason !== undefined) return;
    const { slot, request } = this;
    await images.encode([...slot.tokens.slice(slot.computed), ...this.tokens], request.options.signal, request.options.onProgress);
  }

  /**
   * Adds at least one token to the text, unless the text is over.
   * @returns false if the text is over and all of it was seen
   */
  async step(): Promise<boolean> {
    if (this.failed) throw this.failed.error;
    const { text } = this;
    if (text.finishReason === undefined) {
      if (this.refused) await this.chooseMasked(this.refused);
      else await this.computeStep();
    }
    return text.unseen.length > 0 || text.finishReason === undefined;
  }

  /** @throws ERR_CONTEXT_FULL if the context ended the text and the caller wants to hear of it */
  refuseShortText(): void {
    const { options, maxTokens } = this.request;
    const { ids, finishReason } = this.text;
    if (finishReason !== 'length' || options.onContextFull !== 'error' || maxTokens === Infinity || ids.length >= maxTokens) return;
    throw new QuantletError(
      'ERR_CONTEXT_FULL',
      `the context of ${this.model.engine.contextLength} tokens is full after ${ids.length} of ${maxTokens} new tokens; load the model with a larger contextLength or ask for fewer`,
    );
  }

  /**
   * Chooses with the grammar's mask. Computing the mask may take a while, and other generations
   * continue meanwhile.
   */
  private async chooseMasked(logits: Float32Array): Promise<void> {
    await (this.text.ids.length === 0 ? this.firstMask : this.grammar?.prepare());
    this.request.options.signal?.throwIfAborted();
    this.refused = undefined;
    this.append(this.sampler.sampleMasked(logits), logits);
  }

  private async computeStep(): Promise<void> {
    const { tokens, drafts, text, slot, window, request } = this;
    const { ids } = text;
    let isPrompt = ids.length === 0;
    if (!isPrompt) {
      tokens.length = this.firstOutput = 0;
      tokens.push(ids[ids.length - 1]);
      if (window.isFull(ids.length)) {
        this.shift();
        isPrompt = true;
      }
    }
    const { contextLength, maxOutputs } = this.model.engine;
    const onStep = ids.length === 0 ? (): void => this.tellPrompt(this.source.length, slot.computed) : undefined;
    const asked = drafts.propose(ids, tokens, (n) => Math.min(request.maxTokens - ids.length, contextLength + 1 - n, maxOutputs) - 1);
    if (asked) await asked;
    try {
      await this.model.scheduler.submit(slot, tokens, this.firstOutput, this.choose, request.options.signal, onStep);
    } catch (error) {
      this.fail(error);
    }
    if (isPrompt && text.finishReason === undefined && !this.failed) {
      const begun = drafts.begin();
      if (begun) await begun;
    }
  }

  /** Drops the middle of the sequence; the step computes what follows the gap again. */
  private shift(): void {
    const { tokens, slot, text } = this;
    const left = this.window.shift(tokens[0]);
    tokens.length = 0;
    for (let i = slot.begin(left); i < left.length; i++) tokens.push(left[i]);
    this.firstOutput = tokens.length - 1;
    this.drafts.shift(left, text.ids.length);
  }

  /**
   * Chooses the token after tokens[index]. Returns true if it equals the drafted token: the next
   * logits then belong to the text, too.
   */
  private readonly choose = (logits: Float32Array, index: number): boolean => {
    try {
      const id = this.sampler.sampleFreely(logits);
      if (id < 0) {
        this.refused = logits.slice();
        return false;
      }
      const n = this.text.ids.length;
      const continues = this.append(id, logits);
      const isDrafted = this.tokens[index + 1] === id;
      if (isDrafted && this.text.ids.length > n) this.drafts.accept(index - this.firstOutput);
      return continues && isDrafted;
    } catch (error) {
      this.fail(error);
      return false;
    }
  };

  private append(id: number, logits: Float32Array): boolean {
    this.stopwatch.promptRead();
    return this.text.append(id, logits);
  }

  /** Keeps an error until the tokens before it are seen; throws it if all were seen. */
  private fail(error: unknown): void {
    if (this.text.unseen.length === 0) throw error;
    this.failed = { error };
  }
}
