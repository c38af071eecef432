/** Calls that are being read: runs a reader on the text as it arrives, and emits their parts. */
import { CallText, type CallReader, type CallSink, type ChatEvent, type ParsedCall, type Reading } from './call-text.ts';
import type { ChatTool } from './messages.ts';

/** A call whose arguments are being written. */
interface OpenCall {
  readonly name: string;
  id: string | undefined;
  /** The tool is offered, so that its arguments may be emitted before the call is complete. */
  readonly offered: boolean;
  /** True once there is enough to be a call, even if the rest is malformed. */
  begun: boolean;
  emitted: string;
  pending: string;
}

/** The beginning of an object's first value, or no value at all. */
const BEGUN = /^\s*\{\s*(?:\}|"(?:[^"\\]|\\.)*"\s*:\s*\S)/s;

/** Calls after one start marker. */
export class OpenCalls implements CallSink {
  /** Index of the next call of the answer. */
  next: number;
  readonly #text = new CallText();
  readonly #reading: Reading<boolean>;
  readonly #tools: readonly ChatTool[];
  readonly #emit: (event: ChatEvent) => void;
  #open: OpenCall | undefined;

  constructor(read: CallReader, tools: readonly ChatTool[], next: number, emit: (event: ChatEvent) => void) {
    this.#tools = tools;
    this.next = next;
    this.#emit = emit;
    this.#reading = read(this.#text, this);
  }

  /** Reads more. Returns the text after the calls, once they are over; undefined before. */
  push(added: string, final: boolean): string | undefined {
    this.#text.add(added);
    this.#text.final = final;
    const { done, value } = this.#reading.next();
    this.#flush();
    if (!done) return undefined;
    if (!value && !this.#cut()) this.#text.back();
    return this.#text.rest();
  }

  tool(name: string): ChatTool | undefined {
    return this.#tools.find((tool) => tool.function.name === name);
  }

  offers(begun: string): boolean {
    return this.#tools.some((tool) => tool.function.name.startsWith(begun));
  }

  open(name: string, id?: string): void {
    this.#open = { name, id, offered: this.tool(name) !== undefined, begun: false, emitted: '', pending: '' };
  }

  identify(id: string): void {
    if (this.#open) this.#open.id ??= id;
  }

  write(json: string): void {
    const call = this.#open;
    if (!call) return;
    call.pending += json;
    call.begun ||= call.offered && BEGUN.test(call.pending);
  }

  close(): void {
    this.#finish(false);
    this.#text.keep();
  }

  /**
   * Ends an open call that is incomplete: if its arguments have begun, or if the answer ended after
   * its name. False: no call has begun.
   */
  #cut(): boolean {
    const call = this.#open;
    if (!call?.offered || !(call.begun || this.#text.ended)) return false;
    if (this.#text.ended) this.#text.skip(this.#text.length);
    this.#finish(true);
    return true;
  }

  #finish(cut: boolean): void {
    const open = this.#open!;
    this.#flush(true);
    this.#open = undefined;
    const call: ParsedCall = { id: open.id, name: open.name, arguments: open.emitted, ...(cut ? { cut } : {}) };
    this.#emit({ type: 'toolCall', index: this.next++, call });
  }

  /** Emits arguments of an offered tool. Other calls may still turn out to be text. */
  #flush(ends = false): void {
    const call = this.#open;
    if (!call || !(ends || call.begun) || (call.pending === '' && call.emitted !== '')) return;
    const delta = call.pending;
    call.emitted += delta;
    call.pending = '';
    this.#emit({ type: 'toolCallDelta', index: this.next, id: call.id, name: call.name, delta });
  }
}
