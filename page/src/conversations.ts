/**
 * Conversations in memory, as signals. The page shows them from here; database.ts stores them, and
 * changes of other tabs are merged in.
 */
import { batch, computed, signal, type ReadonlySignal, type Signal } from '@preact/signals';
import type { ReadingPart } from './backend.ts';
import * as database from './database.ts';
import type { Info, InfoChange } from './database.ts';
import { watchAll } from './elsewhere.ts';
import { DEFAULT_SETTINGS, type Settings } from './settings.ts';
import { hear, tell, writing, type News } from './tabs.ts';
import { chained, childrenOf, leafBelow, newId, pathTo, titleOfMessages, type Children, type Message, type NewMessage } from './tree.ts';
import { beginWriting, takeUnwritten } from './unwritten.ts';

type Tree = ReadonlyMap<string, Signal<Message>>;

/** An open conversation. Its answer is written even while another conversation is shown. */
export interface Conversation {
  readonly info: Signal<Info>;
  readonly tree: Signal<Tree>;
  /** The last message of the path that is shown. */
  readonly leaf: Signal<string | null>;
  /** The messages of the path that is shown. */
  readonly messages: ReadonlySignal<readonly Signal<Message>[]>;
  /** The versions of each message, by their parent. */
  readonly versions: ReadonlySignal<Children>;
  /** Stops the answer that this tab is writing. */
  readonly running: Signal<AbortController | undefined>;
  /** Progress of reading the prompt of the running answer; undefined if the model does not tell it. */
  readonly reading: Signal<ReadingPart | undefined>;
  /** The answer at the end of the path, while another tab writes it. */
  readonly elsewhere: ReadonlySignal<Message | undefined>;
}

/** All stored conversations, the newest first. */
export const list = signal<readonly Info[]>([]);
export const current = signal<Conversation | undefined>(undefined);
/** The reason why conversations are not stored; undefined if they are. */
export const notKept = signal<string | undefined>(undefined);

const open = new Map<string, Conversation>();
/** Conversations with a failed write. The next change writes the whole conversation. */
const incomplete = new Set<string>();

const values = (tree: Tree): Message[] => [...tree.values()].map((message) => message.peek());
/** True if the conversation is stored and has not been deleted in another tab. */
export const isListed = ({ info }: Conversation): boolean => list.value.some(({ id }) => id === info.value.id);
const inList = (info: Info): void => {
  list.value = [info, ...list.value.filter(({ id }) => id !== info.id)].sort((a, b) => b.updated - a.updated);
};

/**
 * Opens the database. Without one, as in some private windows, conversations last until the page is
 * left.
 */
export async function openStore(): Promise<void> {
  hear(join);
  const lost = (why: string): void => void (notKept.value = `Conversations are not kept: ${why}.`);
  let blocked = (): void => {};
  const wait = new Promise<void>((resolve) => (blocked = resolve));
  const opening = database
    .openDatabase(
      () => {
        lost('another tab has an older version of this page open; close that tab');
        blocked();
      },
      (why) => lost(why),
    )
    .then(
      () => {
        for (const id of open.keys()) incomplete.add(id); // made while an older tab blocked the database
        notKept.value = undefined;
        return writeUnwritten().then(readList);
      },
      (error: unknown) => lost(`this browser gives the page no storage (${(error as Error).message})`),
    );
  await Promise.race([opening, wait]);
  document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && void readAgain());
}

/** Writes the changes that a page was left with. */
async function writeUnwritten(): Promise<void> {
  for (const [id, changed] of takeUnwritten()) await database.changeInfo(id, changed);
}

async function readList(): Promise<void> {
  list.value = (await database.readList()).sort((a, b) => b.updated - a.updated);
}

const defaults = (): Settings => {
  try {
    return { ...DEFAULT_SETTINGS, ...(JSON.parse(localStorage.getItem('settings') ?? '{}') as Partial<Settings>) };
  } catch {
    return DEFAULT_SETTINGS;
  }
};

function conversationOf(given: Info, messages: readonly Message[] = []): Conversation {
  const info = signal<Info>({ ...given, settings: { ...DEFAULT_SETTINGS, ...given.settings } });
  const tree = signal<Tree>(new Map(messages.map((message) => [message.id, signal(message)])));
  const versions = computed(() => childrenOf(values(tree.value)));
  const shown = given.leaf && tree.value.has(given.leaf) ? given.leaf : null;
  const leaf = signal(leafBelow(versions.value, shown));
  const running = signal<AbortController | undefined>(undefined);
  const reading = signal<ReadingPart | undefined>(undefined);
  const path = computed(() => pathTo((id) => tree.value.get(id)?.peek().parent, leaf.value).map((id) => tree.value.get(id)!));
  const elsewhere = computed(() => {
    const last = path.value.at(-1)?.value;
    return last?.state === 'streaming' && !running.value ? last : undefined;
  });
  const conversation = { info, tree, leaf, messages: path, versions, running, reading, elsewhere };
  open.set(given.id, conversation);
  return conversation;
}

/**
 * Makes a conversation with the settings that were used last. It is stored with its first message.
 */
export function create(settings: Partial<Settings> = {}): Conversation {
  const now = Date.now();
  return conversationOf({ id: newId(), title: '', created: now, updated: now, settings: { ...defaults(), ...settings } });
}

export async function load(id: string): Promise<Conversation | undefined> {
  const known = open.get(id);
  if (known) return known;
  const [info, messages] = await Promise.all([database.readInfo(id), database.readMessages(id)]);
  if (!info) return undefined;
  const conversation = open.get(id) ?? conversationOf(info, messages);
  watchAll(conversation);
  return conversation;
}

/**
 * Merges messages of another tab or of the database. Answers that this tab is writing are newer
 * here and stay.
 */
function merge(conversation: Conversation, messages: readonly Message[]): void {
  const grown = new Map(conversation.tree.value);
  for (const message of messages) {
    const known = grown.get(message.id);
    if (!known) grown.set(message.id, signal(message));
    else if (!writing.has(message.id)) known.value = message;
  }
  if (grown.size > conversation.tree.value.size) conversation.tree.value = grown;
  watchAll(conversation);
}

/** Moves the shown end to the newest message below it. */
const follow = ({ leaf, versions }: Conversation): void => void (leaf.value = leafBelow(versions.value, leaf.value));

function join(news: News): void {
  if (news.type === 'list') return void readList();
  if (news.type === 'info') inList(news.info);
  if (news.type === 'removed') list.value = list.value.filter(({ id }) => id !== news.conversation);
  const conversation = open.get('conversation' in news ? news.conversation : news.type === 'info' ? news.info.id : '');
  if (!conversation) return;
  batch(() => {
    if (news.type === 'messages') {
      merge(conversation, news.messages);
      follow(conversation);
    }
    // The path that the other tab shows does not change the path shown here.
    if (news.type === 'info') conversation.info.value = news.info;
    if (news.type === 'messageRemoved') forget(conversation, news.id);
    if (news.type === 'removed') conversation.running.value?.abort();
  });
}

/** Reads everything again, because a frozen tab misses messages of other tabs. */
async function readAgain(): Promise<void> {
  await readList();
  const conversation = current.value;
  if (!conversation || incomplete.has(conversation.info.value.id)) return;
  const { id } = conversation.info.value;
  const [info, messages] = await Promise.all([database.readInfo(id), database.readMessages(id)]);
  if (!info) return;
  batch(() => {
    conversation.info.value = { ...info, settings: { ...DEFAULT_SETTINGS, ...info.settings } };
    merge(conversation, messages);
    follow(conversation);
  });
}

/**
 * Runs a write to the database. If it fails, the page says so and the next write stores the whole
 * conversation.
 */
async function keep<T>(conversation: Conversation, work: () => Promise<T>): Promise<T | undefined> {
  const info = conversation.info.value;
  try {
    if (incomplete.delete(info.id)) await database.putConversation(info, values(conversation.tree.value));
    const result = await work();
    if (database.isOpen()) notKept.value = undefined;
    return result;
  } catch (error) {
    incomplete.add(info.id);
    notKept.value = `This conversation could not be kept: ${(error as Error).message}`;
    return undefined;
  }
}

/** Changes the information about a conversation: title, settings, time, shown end. */
function change(conversation: Conversation, changed: InfoChange): Promise<void> {
  const { value } = conversation.info;
  conversation.info.value = { ...value, ...changed, settings: { ...value.settings, ...changed.settings } };
  if (!isListed(conversation)) return Promise.resolve();
  inList(conversation.info.value);
  tell({ type: 'info', info: conversation.info.value });
  const written = beginWriting(value.id, changed);
  return keep(conversation, () => database.changeInfo(value.id, changed)).then(written);
}

/** The title of a path, unless the user named the conversation. */
function titleAlong({ info, tree }: Conversation, leaf: string, added: readonly Message[] = []): InfoChange {
  if (info.value.named) return {};
  const all = new Map([...values(tree.value), ...added].map((message) => [message.id, message]));
  return { title: titleOfMessages(pathTo((id) => all.get(id)?.parent, leaf).map((id) => all.get(id)!)) };
}

/**
 * Appends messages, each as the child of the one before.
 * @param after a message: its next child, as another version of what follows it; `end`: the end of
 * the shown path, after messages that another tab has just appended there
 */
export async function append(
  conversation: Conversation,
  after: string | null | 'end',
  messages: readonly NewMessage[],
): Promise<Signal<Message>[]> {
  const { info, tree, leaf } = conversation;
  const known = values(tree.value);
  const chain = chained(messages, after === 'end' ? leaf.value : after);
  const last = chain.at(-1)!.id;
  const changed: InfoChange = { ...titleAlong(conversation, last, chain), updated: Date.now(), leaf: last };
  // Shown at once. The transaction then reveals if another tab appended first.
  batch(() => {
    merge(conversation, chain);
    leaf.value = last;
    info.value = { ...info.value, ...changed, settings: info.value.settings };
    inList(info.value);
  });
  const appended = await keep(conversation, () =>
    database.append(info.value, chain, { change: changed, atEnd: after === 'end', whole: () => known }),
  );
  if (appended && appended.missed.length > 0) follows(conversation, appended.added[0], appended.missed);
  tell({ type: 'messages', conversation: info.value.id, messages: appended?.added ?? chain });
  tell({ type: 'info', info: info.value });
  return chain.map(({ id }) => tree.value.get(id)!);
}

/** Moves a message and its descendants after the messages that another tab appended first. */
function follows(conversation: Conversation, { id, parent }: Message, missed: readonly Message[]): void {
  const { tree, info, leaf } = conversation;
  const message = tree.value.get(id)!;
  batch(() => {
    merge(conversation, missed);
    message.value = { ...message.value, parent };
    tree.value = new Map(tree.value);
    info.value = { ...info.value, ...(titleAlong(conversation, leaf.value!) as { title?: string }) };
    inList(info.value);
  });
}

/**
 * Stores a message that this tab has changed.
 * @param ended the answer is complete, so the conversation counts as used now
 */
export async function keepMessage(conversation: Conversation, message: Signal<Message>, ended = false): Promise<void> {
  const { info } = conversation;
  const updated = ended && isListed(conversation) ? Date.now() : undefined;
  if (updated !== undefined) {
    info.value = { ...info.value, updated };
    inList(info.value);
  }
  await keep(conversation, () => database.putMessage(info.value.id, message.value, updated));
  if (updated !== undefined) tell({ type: 'info', info: info.value });
}

/** Sends the current state of a message to the other tabs. */
export const tellMessage = ({ info }: Conversation, message: Signal<Message>): void =>
  tell({ type: 'messages', conversation: info.value.id, messages: [message.value] });

function forget({ tree, leaf }: Conversation, id: string): void {
  const gone = tree.value.get(id);
  if (!gone) return;
  if (leaf.value === id) leaf.value = gone.value.parent;
  tree.value = new Map([...tree.value].filter(([one]) => one !== id));
}

/** Removes an answer that ended before its first word, unless other messages follow it. */
export async function removeMessage(conversation: Conversation, message: Message): Promise<void> {
  if (conversation.versions.value.has(message.id)) return;
  const { id } = conversation.info.value;
  forget(conversation, message.id);
  if ((await keep(conversation, () => database.removeMessage(id, message))) === false) return merge(conversation, [message]);
  tell({ type: 'messageRemoved', conversation: id, id: message.id });
}

/** Shows another version of a message and the messages that follow it. */
export function choose(conversation: Conversation, id: string): void {
  const leaf = leafBelow(conversation.versions.value, id)!;
  conversation.leaf.value = leaf;
  void change(conversation, { leaf, ...titleAlong(conversation, leaf) });
}

export function setSettings(conversation: Conversation, settings: Partial<Settings>): void {
  void change(conversation, { settings });
  try {
    localStorage.setItem('settings', JSON.stringify(conversation.info.value.settings));
  } catch {
    // Without storage, new conversations begin with the defaults.
  }
}

/** Names a conversation. An empty title restores the automatic one. */
export async function rename(id: string, title: string): Promise<void> {
  const changed = { title, named: title !== '' };
  const written = beginWriting(id, changed); // before load(), during which the page may be left
  const conversation = await load(id);
  if (conversation) await change(conversation, changed);
  written();
  if (!conversation) return;
  if (title === '' && conversation.leaf.value) await change(conversation, titleAlong(conversation, conversation.leaf.value));
}

/** @returns the removed conversation, for bringBack() */
export async function remove(id: string): Promise<Conversation | undefined> {
  const conversation = await load(id);
  conversation?.running.value?.abort();
  open.delete(id);
  list.value = list.value.filter((info) => info.id !== id);
  await database.removeConversation(id);
  tell({ type: 'removed', conversation: id });
  return conversation;
}

/** Stores a removed conversation again. */
export async function bringBack(conversation: Conversation): Promise<void> {
  const info = { ...conversation.info.value, leaf: conversation.leaf.value };
  open.set(info.id, conversation);
  await keep(conversation, () => database.putConversation(info, values(conversation.tree.value)));
  inList(info);
  tell({ type: 'list' });
}

/** Adds whole conversations to the list. */
export async function add(conversations: readonly { readonly info: Info; readonly messages: readonly Message[] }[]): Promise<void> {
  for (const { info, messages } of conversations) {
    const conversation = conversationOf(info, messages);
    // Store first: a conversation in the list counts as stored, so that the page can be left.
    await keep(conversation, () => database.putConversation(info, messages));
    inList(info);
  }
  tell({ type: 'list' });
}

/** A conversation with all its messages in their current state. */
export async function read(id: string): Promise<{ info: Info; messages: readonly Message[] } | undefined> {
  const known = open.get(id);
  if (known) return { info: { ...known.info.value, leaf: known.leaf.value }, messages: values(known.tree.value) };
  const info = await database.readInfo(id);
  return info && { info, messages: await database.readMessages(id) };
}
