/**
 * Conversations in IndexedDB. Every function is one transaction that reads the stored state, never
 * the copy of one tab.
 */
import { openDB, type DBSchema, type IDBPDatabase, type IDBPTransaction } from 'idb';
import type { Settings } from './settings.ts';
import { chained, titleOfMessages, type Attachment, type Message, type NewMessage } from './tree.ts';

export interface Info {
  readonly id: string;
  readonly title: string;
  /** The user gave the title, so it does not follow the first message. */
  readonly named?: boolean;
  readonly created: number;
  readonly updated: number;
  readonly settings: Settings;
  /** The end of the path that was shown last. */
  readonly leaf?: string | null;
}

/** Changes to an Info. Settings that are not given stay. */
export type InfoChange = Partial<Omit<Info, 'id' | 'created' | 'settings'>> & { readonly settings?: Partial<Settings> };

type Stored = Message & { readonly conversation: string };

interface Schema extends DBSchema {
  /** The fields that lists show. Messages are stored separately, because they can be long. */
  conversations: { key: string; value: Info };
  nodes: { key: string; value: Stored; indexes: { conversation: string } };
  /** Files attached to messages that have not been sent. */
  drafts: { key: string; value: { id: string; attachments: readonly Attachment[] } };
}

let database: IDBPDatabase<Schema> | undefined;

/** Upgrades version 1, which had all messages of a conversation in one record. */
async function migrate(db: IDBPDatabase, all: IDBPTransaction<unknown, string[], 'versionchange'>): Promise<void> {
  interface Old {
    readonly id: string;
    readonly messages: readonly NewMessage[];
  }
  for (const { id, messages } of (await all.objectStore('messages').getAll()) as Old[]) {
    const info = (await all.objectStore('conversations').get(id)) as Info | undefined;
    if (!info) continue;
    const chain = chained(messages, null, info.created);
    for (const message of chain) await all.objectStore('nodes').put({ ...message, conversation: id });
    await all.objectStore('conversations').put({ ...info, leaf: chain.at(-1)?.id ?? null, named: info.title !== titleOfMessages(chain) });
  }
  db.deleteObjectStore('messages');
}

/**
 * @param onBlocked called if another tab has an older version of the page open, which must be
 * closed first
 * @param onLost called if the database can no longer be used
 */
export async function openDatabase(onBlocked: () => void, onLost: (why: string) => void): Promise<void> {
  database = await openDB<Schema>('quantlet', 2, {
    async upgrade(db, before, _, transaction) {
      if (before < 1) db.createObjectStore('conversations', { keyPath: 'id' });
      db.createObjectStore('nodes', { keyPath: 'id' }).createIndex('conversation', 'conversation');
      db.createObjectStore('drafts', { keyPath: 'id' });
      if (before === 1)
        await migrate(db as unknown as IDBPDatabase, transaction as unknown as IDBPTransaction<unknown, string[], 'versionchange'>);
    },
    blocked: onBlocked,
    blocking() {
      database?.close();
      database = undefined;
      onLost('a newer version of this page is open in another tab; load this one again');
    },
    terminated() {
      database = undefined;
      onLost('the browser closed its storage; load the page again');
    },
  });
}

export const isOpen = (): boolean => database !== undefined;

const writing = (db: IDBPDatabase<Schema>) => db.transaction(['conversations', 'nodes'], 'readwrite');
type Writing = ReturnType<typeof writing>;

/**
 * Runs a transaction; returns undefined if there is no database. If the work throws, the whole
 * transaction is aborted.
 */
async function write<T>(work: (all: Writing) => Promise<T>): Promise<T | undefined> {
  if (!database) return undefined;
  const all = writing(database);
  const done = all.done;
  done.catch(() => {}); // the await below reports it, unless the work throws first
  try {
    const result = await work(all);
    await done;
    return result;
  } catch (error) {
    try {
      all.abort();
    } catch {
      // The transaction has already ended.
    }
    throw error;
  }
}

export const readList = async (): Promise<Info[]> => (await database?.getAll('conversations')) ?? [];
export const readInfo = async (id: string): Promise<Info | undefined> => database?.get('conversations', id);

export async function readMessages(id: string): Promise<Message[]> {
  const stored = (await database?.getAllFromIndex('nodes', 'conversation', id)) ?? [];
  return stored.map(({ conversation: _, ...message }) => message);
}

const withChange = (info: Info, { settings, ...change }: InfoChange): Info => ({
  ...info,
  ...change,
  settings: { ...info.settings, ...settings },
});

const putAll = async (all: Writing, conversation: string, messages: Iterable<Message>): Promise<void> => {
  await Promise.all([...messages].map((message) => all.objectStore('nodes').put({ ...message, conversation })));
};

/** Stores a conversation with all its messages: a new one, or one with a failed write. */
export const putConversation = (info: Info, messages: Iterable<Message>): Promise<void> =>
  write(async (all) => {
    await all.objectStore('conversations').put(info);
    await putAll(all, info.id, messages);
  }) as Promise<void>;

export const changeInfo = (id: string, change: InfoChange): Promise<void> =>
  write(async (all) => {
    const info = await all.objectStore('conversations').get(id);
    if (info) await all.objectStore('conversations').put(withChange(info, change));
  }) as Promise<void>;

/**
 * Messages added to the conversation below `after`, in the order of the path; undefined if the
 * stored end is on another branch.
 */
async function grownBelow(all: Writing, after: string | null, leaf: string | null): Promise<Message[] | undefined> {
  const grown: Message[] = [];
  for (let id = leaf; id !== after;) {
    const stored = id === null ? undefined : await all.objectStore('nodes').get(id);
    if (!stored) return undefined;
    const { conversation: _, ...message } = stored;
    grown.unshift(message);
    id = message.parent;
  }
  return grown;
}

export interface Appended {
  readonly added: readonly Message[];
  /** Messages of another tab that come before the added ones. */
  readonly missed: readonly Message[];
}

/**
 * Appends a chain of messages. With `atEnd` the chain goes after messages that another tab has
 * appended meanwhile. Otherwise it keeps its parent, as another version.
 * @param whole the conversation as this tab knows it, in case it is not stored
 */
export async function append(
  info: Info,
  added: readonly Message[],
  { change, atEnd, whole }: { change: InfoChange; atEnd: boolean; whole: () => Iterable<Message> },
): Promise<Appended> {
  const appended = await write(async (all): Promise<Appended> => {
    const stored = await all.objectStore('conversations').get(info.id);
    const [first, ...others] = added;
    const missed = (stored && atEnd && (await grownBelow(all, first.parent, stored.leaf ?? null))) || [];
    const moved = [{ ...first, parent: missed.at(-1)?.id ?? first.parent }, ...others];
    if (!stored) await putAll(all, info.id, whole());
    await putAll(all, info.id, moved);
    // If another tab was first, the title comes from that tab's message.
    const { title, ...rest } = change;
    const named = title !== undefined && !(stored?.title && missed.length > 0) ? { title } : {};
    await all.objectStore('conversations').put({ ...withChange(stored ?? info, { ...rest, ...named }), leaf: moved.at(-1)!.id });
    return { added: moved, missed };
  });
  return appended ?? { added, missed: [] };
}

/**
 * Stores a message in its current state. A conversation that was deleted meanwhile stays deleted.
 */
export const putMessage = (conversation: string, message: Message, updated?: number): Promise<void> =>
  write(async (all) => {
    const info = await all.objectStore('conversations').get(conversation);
    if (!info) return;
    await all.objectStore('nodes').put({ ...message, conversation });
    if (updated !== undefined) await all.objectStore('conversations').put({ ...info, updated });
  }) as Promise<void>;

/**
 * Marks an answer as stopped because the tab that wrote it is gone.
 * @returns the stored answer
 */
export const stopMessage = (id: string): Promise<Message | undefined> =>
  write(async (all) => {
    const stored = await all.objectStore('nodes').get(id);
    if (!stored) return undefined;
    const stopped: Stored = stored.state === 'streaming' ? { ...stored, state: 'stopped' } : stored;
    await all.objectStore('nodes').put(stopped);
    const { conversation: _, ...message } = stopped;
    return message;
  });

/**
 * Removes a message without successors.
 * @returns false if the message has successors and stays
 */
export async function removeMessage(conversation: string, { id, parent }: Message): Promise<boolean> {
  const removed = await write(async (all) => {
    const nodes = await all.objectStore('nodes').index('conversation').getAll(conversation);
    if (nodes.some((node) => node.parent === id)) return false;
    await all.objectStore('nodes').delete(id);
    const info = await all.objectStore('conversations').get(conversation);
    if (info?.leaf === id) await all.objectStore('conversations').put({ ...info, leaf: parent });
    return true;
  });
  return removed ?? true;
}

export const removeConversation = (id: string): Promise<void> =>
  write(async (all) => {
    await all.objectStore('conversations').delete(id);
    for (const key of await all.objectStore('nodes').index('conversation').getAllKeys(id)) await all.objectStore('nodes').delete(key);
  }) as Promise<void>;

export const readDraftFiles = async (id: string): Promise<readonly Attachment[]> => (await database?.get('drafts', id))?.attachments ?? [];

export async function putDraftFiles(id: string, attachments: readonly Attachment[]): Promise<void> {
  if (attachments.length > 0) await database?.put('drafts', { id, attachments });
  else await database?.delete('drafts', id);
}
