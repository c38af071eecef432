/** Messages of an answer in progress, from its events. */
import type { ModelChatEvent } from '../chat/generation.ts';
import type { ChatMessage, ChatToolCall } from '../chat/messages.ts';

export class AnswerLog {
  #content = '';
  #calls: ChatToolCall[] = [];
  #results: ChatMessage[] = [];
  #rounds: ChatMessage[] = [];

  push(event: ModelChatEvent): void {
    if (event.type === 'toolResult') {
      const { call, text, parts } = event;
      this.#results.push({ role: 'tool', tool_call_id: call.id, name: call.name, content: parts ?? text });
      return;
    }
    this.#endRound();
    if (event.type === 'content') this.#content += event.delta;
    if (event.type !== 'toolCall') return;
    const { id, name, arguments: text } = event.call;
    this.#calls.push({ id, type: 'function', function: { name, arguments: text } });
  }

  /** Moves the text, its calls and their results to the finished rounds, once all results are there. */
  #endRound(): void {
    if (this.#results.length === 0) return;
    this.#rounds.push({ role: 'assistant', content: this.#content, tool_calls: this.#calls }, ...this.#results);
    this.#content = '';
    this.#calls = [];
    this.#results = [];
  }

  /** Returns the calls so far whose results are there, and forgets them. */
  takeRounds(): ChatMessage[] {
    if (this.#results.length === this.#calls.length) this.#endRound();
    const rounds = this.#rounds;
    this.#rounds = [];
    return rounds;
  }

  /** Text of the answer after the last results. */
  get text(): string {
    return this.#results.length > 0 ? '' : this.#content;
  }
}
