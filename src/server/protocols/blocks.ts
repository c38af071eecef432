/**
 * An answer as consecutive blocks: text, reasoning, calls. Responses and messages consist of
 * blocks; a chat completion is one message.
 */
import { newCallId } from '../../chat/messages.ts';
import type { ChatEvent } from '../../chat/parser.ts';

export interface Block {
  readonly index: number;
  readonly type: 'content' | 'reasoning' | 'toolCall';
  /** The text so far; for a call, its arguments as JSON. */
  text: string;
  /** For calls only. `index` counts the calls of the answer. */
  readonly call?: { readonly id: string; readonly name: string; readonly index: number };
  /** The answer was cut in this block. */
  cut?: boolean;
}

/** Events of a protocol for the start, growth and end of a block. */
export interface BlockWriter<Sent> {
  open(block: Block): readonly Sent[];
  delta(block: Block, delta: string): readonly Sent[];
  close(block: Block): readonly Sent[];
}

export interface Blocks<Sent> {
  readonly all: readonly Block[];
  /** The open block, to which the next event of its type is appended. */
  readonly current: Block | undefined;
  push(event: ChatEvent): Sent[];
  /**
   * Ends the answer.
   * @param cut the answer was cut, and so is the open block
   */
  end(cut?: boolean): Sent[];
}

/** For answers that are sent at once. */
const silent: BlockWriter<never> = { open: () => [], delta: () => [], close: () => [] };

export function createBlocks<Sent = never>(writer: BlockWriter<Sent> = silent): Blocks<Sent> {
  const all: Block[] = [];
  let current: Block | undefined;
  const end = (cut = false): Sent[] => {
    if (current && cut) current.cut = true;
    const sent = current ? writer.close(current) : [];
    current = undefined;
    return [...sent];
  };
  const open = (type: Block['type'], call?: Block['call']): Sent[] => {
    const sent = end();
    current = { index: all.length, type, text: '', ...(call ? { call } : {}) };
    all.push(current);
    return [...sent, ...writer.open(current)];
  };
  const write = (delta: string): readonly Sent[] => {
    current!.text += delta;
    return writer.delta(current!, delta);
  };
  return {
    all,
    get current() {
      return current;
    },
    push(event) {
      if (event.type === 'toolCall') return end(event.call.cut);
      if (event.type !== 'toolCallDelta') return [...(current?.type === event.type ? [] : open(event.type)), ...write(event.delta)];
      const { index, id = newCallId(), name, delta } = event;
      const opened = current?.call?.index === index ? [] : open('toolCall', { id, name, index });
      return [...opened, ...(delta === '' ? [] : write(delta))];
    },
    end,
  };
}
