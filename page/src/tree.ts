/**
 * A conversation is a tree of messages. Versions of a message are children of one parent, and the
 * page shows one path.
 */
import type { AnswerEnd, Call, Failure } from './backend.ts';

/**
 * State of an answer. `stopped`: by the user. `length`: cut off at the token limit or at the end of
 * the context.
 */
export type MessageState = 'streaming' | 'done' | 'stopped' | 'length' | 'failed';

export interface TextFile {
  readonly name: string;
  readonly text: string;
}

export interface Picture {
  readonly name: string;
  /** A PNG or JPEG file as data: URL. */
  readonly image: string;
  /** Change that was made when the picture was attached, for people. */
  readonly note?: string;
}

export type Attachment = TextFile | Picture;
export const isPicture = (file: Attachment): file is Picture => 'image' in file;
export const picturesOf = ({ attachments = [] }: Pick<Message, 'attachments'>): readonly Picture[] => attachments.filter(isPicture);

export interface Message {
  readonly id: string;
  /** The previous message; null: this one begins the conversation. */
  readonly parent: string | null;
  /** Creation time in milliseconds. Versions are shown in this order. */
  readonly at: number;
  readonly role: 'user' | 'assistant' | 'tool';
  readonly content: string;
  readonly reasoning?: string;
  readonly attachments?: readonly Attachment[];
  readonly calls?: readonly Call[];
  /** In a tool's message: the call that this is the result of. */
  readonly callId?: string;
  readonly state?: MessageState;
  readonly failure?: Failure;
  readonly model?: string | undefined;
  readonly end?: AnswerEnd;
  /**
   * Number of messages that this answer was written without, because the context had no room for
   * them.
   */
  readonly leftOut?: number;
}

/** A message that is not yet in a tree. */
export type NewMessage = Omit<Message, 'id' | 'parent' | 'at'>;

export const newId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(36).padStart(2, '0')).join('');

/** Gives messages ids and makes each the child of the one before. */
export function chained(messages: readonly NewMessage[], after: string | null, at = Date.now()): Message[] {
  let parent = after;
  return messages.map((message, i) => {
    const made: Message = { ...message, id: newId(), parent, at: at + i };
    parent = made.id;
    return made;
  });
}

export type Children = ReadonlyMap<string | null, readonly string[]>;

/** Ids of the children of each message, the oldest first. */
export function childrenOf(messages: Iterable<Message>): Children {
  const children = new Map<string | null, Message[]>();
  for (const message of messages) {
    const list = children.get(message.parent);
    if (list) list.push(message);
    else children.set(message.parent, [message]);
  }
  const older = (a: Message, b: Message): number => a.at - b.at || (a.id < b.id ? -1 : 1);
  return new Map([...children].map(([parent, list]) => [parent, list.sort(older).map(({ id }) => id)]));
}

/** The end of the newest branch below a message. */
export function leafBelow(children: Children, id: string | null): string | null {
  let leaf = id;
  for (let next = children.get(leaf)?.at(-1); next !== undefined; next = children.get(leaf)?.at(-1)) leaf = next;
  return leaf;
}

/** Ids from the beginning of the conversation to a message. */
export function pathTo(parentOf: (id: string) => string | null | undefined, leaf: string | null): string[] {
  const path = [];
  const seen = new Set<string>();
  for (let id = leaf; id !== null && !seen.has(id);) {
    const parent = parentOf(id);
    if (parent === undefined) break;
    seen.add(id);
    path.push(id);
    id = parent;
  }
  return path.reverse();
}

/** True for an answer that ended before its first word, so nothing is lost by removing it. */
export const isUnbegun = ({ role, content, reasoning, calls, state }: Message): boolean =>
  role === 'assistant' && content === '' && !reasoning && !calls && (state === 'failed' || state === 'stopped');

/** Automatic title of a conversation: the beginning of its text. */
export function titleOf(text: string): string {
  const line = text.trim().split('\n')[0].replace(/\s+/g, ' ');
  return line.length > 60 ? `${line.slice(0, 57).trimEnd()}…` : line;
}

export function titleOfMessages(messages: readonly Message[]): string {
  const first = messages.find(({ role }) => role === 'user');
  return titleOf(first?.content || first?.attachments?.[0]?.name || '');
}
