/** Conversations: in memory as signals, kept in IndexedDB, out of and into JSON files. */
import { signal, type Signal } from '@preact/signals';
import { openDB, type DBSchema, type IDBPDatabase } from 'idb';
import { PageError, type AnswerEnd, type Call, type Failure } from './backend.ts';
import { DEFAULT_SETTINGS, type Settings } from './settings.ts';

/** How an answer stands: `stopped` by its reader, `length`: cut where the limit of tokens or the context ended. */
export type MessageState = 'streaming' | 'done' | 'stopped' | 'length' | 'failed';

export interface Attachment {
  readonly name: string;
  readonly text: string;
}

export interface Message {
  readonly id: string;
  readonly role: 'user' | 'assistant' | 'tool';
  readonly content: string;
  readonly reasoning?: string;
  readonly attachments?: readonly Attachment[];
  readonly calls?: readonly Call[];
  /** Of a tool's message: the call that it is the result of. */
  readonly callId?: string;
  readonly state?: MessageState;
  readonly failure?: Failure;
  readonly model?: string | undefined;
  readonly end?: AnswerEnd;
}

export interface Info {
  readonly id: string;
  readonly title: string;
  readonly created: number;
  readonly updated: number;
  readonly settings: Settings;
}

/** An open conversation. It goes on being written to when another is looked at. */
export interface Conversation {
  readonly info: Signal<Info>;
  readonly messages: Signal<readonly Signal<Message>[]>;
  /** Stops the answer that is being written. */
  readonly running: Signal<AbortController | undefined>;
}

interface Schema extends DBSchema {
  /** What lists need, apart from the messages, which may be long. */
  conversations: { key: string; value: Info };
  messages: { key: string; value: { id: string; messages: readonly Message[] } };
}

/** The list, the newest first. */
export const list = signal<readonly Info[]>([]);
export const current = signal<Conversation | undefined>(undefined);
/** Why conversations are not kept; undefined where they are. */
export const notKept = signal<string | undefined>(undefined);

const open = new Map<string, Conversation>();
const changes = typeof BroadcastChannel === 'function' ? new BroadcastChannel('quantlet conversations') : undefined;
let database: IDBPDatabase<Schema> | undefined;

export const newId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(36).padStart(2, '0')).join('');
const byDate = (a: Info, b: Info): number => b.updated - a.updated;

/** Opens the database, or goes on without one: private windows may have none. */
export async function openStore(): Promise<void> {
  try {
    database = await openDB<Schema>('quantlet', 1, {
      upgrade(db) {
        db.createObjectStore('conversations', { keyPath: 'id' });
        db.createObjectStore('messages', { keyPath: 'id' });
      },
    });
    await readList();
    changes?.addEventListener('message', () => void readList());
  } catch (error) {
    notKept.value = `Conversations are not kept: this browser gives the page no storage (${(error as Error).message}).`;
  }
}

async function readList(): Promise<void> {
  if (database) list.value = (await database.getAll('conversations')).sort(byDate);
}

const defaults = (): Settings => {
  try {
    return { ...DEFAULT_SETTINGS, ...(JSON.parse(localStorage.getItem('settings') ?? '{}') as Partial<Settings>) };
  } catch {
    return DEFAULT_SETTINGS;
  }
};

/** A new conversation with the settings that were last used. It is kept from its first message on. */
export function create(settings: Partial<Settings> = {}): Conversation {
  const now = Date.now();
  const info = signal<Info>({ id: newId(), title: '', created: now, updated: now, settings: { ...defaults(), ...settings } });
  const conversation: Conversation = { info, messages: signal([]), running: signal(undefined) };
  open.set(info.value.id, conversation);
  return conversation;
}

export async function load(id: string): Promise<Conversation | undefined> {
  const known = open.get(id);
  if (known) return known;
  const info = await database?.get('conversations', id);
  if (!info) return undefined;
  const kept = (await database?.get('messages', id))?.messages ?? [];
  const conversation: Conversation = {
    info: signal({ ...info, settings: { ...DEFAULT_SETTINGS, ...info.settings } }),
    // What was being written when the page was closed ended there.
    messages: signal(kept.map((message) => signal(message.state === 'streaming' ? { ...message, state: 'stopped' as const } : message))),
    running: signal(undefined),
  };
  open.set(id, conversation);
  return conversation;
}

const waiting = new Map<string, ReturnType<typeof setTimeout>>();

/** Keeps a conversation, soon: while an answer comes in it changes at every frame. */
export function save(conversation: Conversation): void {
  const { id } = conversation.info.value;
  if (conversation.messages.value.length === 0 || waiting.has(id)) return;
  waiting.set(
    id,
    setTimeout(() => void saveNow(conversation), 500),
  );
}

export async function saveNow(conversation: Conversation): Promise<void> {
  const { id } = conversation.info.value;
  clearTimeout(waiting.get(id));
  waiting.delete(id);
  if (open.get(id) !== conversation || conversation.messages.value.length === 0) return;
  const info = conversation.info.value;
  list.value = [info, ...list.value.filter((other) => other.id !== id)].sort(byDate);
  if (!database) return;
  try {
    const writing = database.transaction(['conversations', 'messages'], 'readwrite');
    await Promise.all([
      writing.objectStore('conversations').put(info),
      writing.objectStore('messages').put({ id, messages: conversation.messages.value.map((message) => message.value) }),
      writing.done,
    ]);
    changes?.postMessage('changed');
    notKept.value = undefined;
  } catch (error) {
    notKept.value = `This conversation could not be kept: ${(error as Error).message}`;
  }
}

export function setSettings(conversation: Conversation, settings: Partial<Settings>): void {
  const { value } = conversation.info;
  conversation.info.value = { ...value, settings: { ...value.settings, ...settings } };
  try {
    localStorage.setItem('settings', JSON.stringify(conversation.info.value.settings));
  } catch {
    // Without storage new conversations begin with the defaults.
  }
  save(conversation);
}

export async function rename(id: string, title: string): Promise<void> {
  const conversation = await load(id);
  if (!conversation) return;
  conversation.info.value = { ...conversation.info.value, title };
  await saveNow(conversation);
}

export async function remove(id: string): Promise<void> {
  open.get(id)?.running.value?.abort();
  open.delete(id);
  list.value = list.value.filter((info) => info.id !== id);
  if (!database) return;
  const writing = database.transaction(['conversations', 'messages'], 'readwrite');
  await Promise.all([writing.objectStore('conversations').delete(id), writing.objectStore('messages').delete(id), writing.done]);
  changes?.postMessage('changed');
}

const FORMAT = 'quantlet-conversations';

/** Conversations as a JSON file; all where no id is given. */
export async function exportJson(id?: string): Promise<Blob> {
  const ids = id === undefined ? list.value.map((info) => info.id) : [id];
  const conversations = [];
  for (const one of ids) {
    const conversation = await load(one);
    if (!conversation) continue;
    const { id: _, ...info } = conversation.info.value;
    conversations.push({ ...info, messages: conversation.messages.value.map((message) => message.value) });
  }
  return new Blob([JSON.stringify({ format: FORMAT, version: 1, conversations }, null, 1)], { type: 'application/json' });
}

type Unknown<T> = { readonly [K in keyof T]?: unknown };
const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};

/** A message of a file, which may hold anything. */
function readMessage(given: Unknown<Message>): Message {
  const role = given.role === 'assistant' || given.role === 'tool' ? given.role : 'user';
  const calls = Array.isArray(given.calls)
    ? given.calls.map(record).map((call) => ({ id: text(call.id), name: text(call.name), arguments: text(call.arguments) }))
    : [];
  const attachments = Array.isArray(given.attachments)
    ? given.attachments.map(record).map((file) => ({ name: text(file.name), text: text(file.text) }))
    : [];
  const state = (['done', 'stopped', 'length'] as const).find((one) => one === given.state);
  return {
    id: newId(),
    role,
    content: text(given.content),
    ...(given.reasoning ? { reasoning: text(given.reasoning) } : {}),
    ...(calls.length > 0 ? { calls } : {}),
    ...(attachments.length > 0 ? { attachments } : {}),
    ...(given.callId ? { callId: text(given.callId) } : {}),
    ...(role === 'assistant' ? { state: state ?? 'done' } : {}),
    ...(given.model ? { model: text(given.model) } : {}),
  };
}

/** Settings of a file: those that are of the kind they should be. */
function readSettings(given: Record<string, unknown>): Settings {
  const settings = Object.entries(DEFAULT_SETTINGS).map(([name, standard]) => [
    name,
    typeof given[name] === typeof standard ? given[name] : standard,
  ]);
  const numbers = Object.entries(record(given.numbers)).filter(([, value]) => typeof value === 'number');
  return { ...(Object.fromEntries(settings) as Settings), numbers: Object.fromEntries(numbers) };
}

/** Adds the conversations of a file to the list. @returns how many @throws PageError where the file is none of ours */
export async function importJson(file: Blob): Promise<number> {
  let content: Record<string, unknown>;
  try {
    content = record(JSON.parse(await file.text()));
  } catch (error) {
    throw new PageError(`The file is not JSON: ${(error as Error).message}. Expected one that this page exported.`);
  }
  if (content.format !== FORMAT || !Array.isArray(content.conversations))
    throw new PageError(`The file holds no conversations of this page; expected JSON with "format": "${FORMAT}".`);
  for (const given of content.conversations.map(record)) {
    const conversation = create(readSettings(record(given.settings)));
    const date = (value: unknown): number => (Number.isFinite(value) ? (value as number) : Date.now());
    conversation.info.value = {
      ...conversation.info.value,
      title: text(given.title),
      created: date(given.created),
      updated: date(given.updated),
    };
    const messages: unknown[] = Array.isArray(given.messages) ? given.messages : [];
    conversation.messages.value = messages.map((message) => signal(readMessage(record(message))));
    await saveNow(conversation);
  }
  return content.conversations.length;
}
