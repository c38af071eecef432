/** Conversations as JSON files: exports and imports whole trees. */
import { PageError, type AnswerEnd, type Failure } from './backend.ts';
import { add, list, read } from './conversations.ts';
import type { Info } from './database.ts';
import { DEFAULT_SETTINGS, type Settings } from './settings.ts';
import { childrenOf, leafBelow, newId, titleOfMessages, pathTo, type Attachment, type Message } from './tree.ts';

const FORMAT = 'quantlet-conversations';
/** Version 1 had a list of messages, each the child of the one before. Version 2 had no pictures. */
const VERSION = 3;

/** Exports one conversation, or all if no id is given. */
export async function exportJson(id?: string): Promise<Blob> {
  const ids = id === undefined ? list.value.map((info) => info.id) : [id];
  const conversations = [];
  for (const one of ids) {
    const found = await read(one);
    if (!found) continue;
    const { id: _, ...info } = found.info;
    conversations.push({ ...info, messages: [...found.messages].sort((a, b) => a.at - b.at) });
  }
  return new Blob([JSON.stringify({ format: FORMAT, version: VERSION, conversations }, null, 1)], { type: 'application/json' });
}

type Unknown<T> = { readonly [K in keyof T]?: unknown };
const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
const records = (value: unknown): Record<string, unknown>[] => (Array.isArray(value) ? value.map(record) : []);
const number = (value: unknown, standard: number): number => (Number.isFinite(value) ? (value as number) : standard);

function readEnd(given: Unknown<AnswerEnd>): AnswerEnd {
  const timing = (name: 'promptMs' | 'predictedMs') => (Number.isFinite(given[name]) ? { [name]: given[name] as number } : {});
  return {
    finishReason: text(given.finishReason),
    promptTokens: number(given.promptTokens, 0),
    cachedTokens: number(given.cachedTokens, 0),
    tokens: number(given.tokens, 0),
    ...timing('promptMs'),
    ...timing('predictedMs'),
  };
}

const readFailure = (given: Unknown<Failure>): Failure => ({
  message: text(given.message),
  ...(given.code ? { code: text(given.code) } : {}),
});

/** Reads a text file, or a picture: only as PNG or JPEG, because browsers load URLs of pictures. */
function readAttachment(given: Record<string, unknown>): Attachment {
  const [name, image] = [text(given.name), text(given.image)];
  if (!/^data:image\/(png|jpeg);base64,/.test(image)) return { name, text: text(given.text) };
  return { name, image, ...(given.note ? { note: text(given.note) } : {}) };
}

/** Reads a message of a file that may contain anything. Its parent is determined later. */
function readMessage(given: Unknown<Message>, at: number): Omit<Message, 'parent'> {
  const role = given.role === 'assistant' || given.role === 'tool' ? given.role : 'user';
  const calls = records(given.calls).map((call) => ({ id: text(call.id), name: text(call.name), arguments: text(call.arguments) }));
  const attachments = records(given.attachments).map(readAttachment);
  const state = (['done', 'stopped', 'length', 'failed'] as const).find((one) => one === given.state);
  // An answer that was being written during the export ended there.
  const stopped = given.state === 'streaming' ? 'stopped' : undefined;
  return {
    id: newId(),
    at: number(given.at, at),
    role,
    content: text(given.content),
    ...(given.reasoning ? { reasoning: text(given.reasoning) } : {}),
    ...(calls.length > 0 ? { calls } : {}),
    ...(attachments.length > 0 ? { attachments } : {}),
    ...(given.callId ? { callId: text(given.callId) } : {}),
    ...(role === 'assistant' ? { state: state ?? stopped ?? 'done' } : {}),
    ...(state === 'failed' && given.failure ? { failure: readFailure(record(given.failure)) } : {}),
    ...(given.model ? { model: text(given.model) } : {}),
    ...(given.end ? { end: readEnd(record(given.end)) } : {}),
    ...(Number.isFinite(given.leftOut) ? { leftOut: given.leftOut as number } : {}),
  };
}

/**
 * Builds the tree of a file's messages. A message without a known parent becomes the child of the
 * message before it in the file. This also reads the lists of version 1, and loses nothing of a
 * file edited by hand.
 */
export function readTree(
  given: readonly Record<string, unknown>[],
  created: number,
): { messages: Message[]; leafOf(id: string): string | null } {
  const ids = new Map<string, string>();
  const messages: Message[] = [];
  const made = given.map((one, i) => readMessage(one, created + i));
  given.forEach((one, i) => {
    const named = typeof one.parent === 'string' ? ids.get(one.parent) : undefined;
    const before = made[i - 1]?.id ?? null;
    messages.push({ ...made[i], parent: one.parent === null ? null : (named ?? before) });
    if (typeof one.id === 'string') ids.set(one.id, made[i].id);
  });
  const children = childrenOf(messages);
  return { messages, leafOf: (id) => leafBelow(children, ids.get(id) ?? null) };
}

/** Reads settings of a file, except those of a wrong type. */
function readSettings(given: Record<string, unknown>): Settings {
  const settings = Object.entries(DEFAULT_SETTINGS).map(([name, standard]) => [
    name,
    typeof given[name] === typeof standard ? given[name] : standard,
  ]);
  const numbers = Object.entries(record(given.numbers)).filter(([, value]) => typeof value === 'number');
  const model = typeof given.model === 'string' ? { model: given.model } : {};
  return { ...(Object.fromEntries(settings) as Settings), ...model, numbers: Object.fromEntries(numbers) };
}

function readConversation(given: Record<string, unknown>): { info: Info; messages: readonly Message[] } {
  const created = number(given.created, Date.now());
  const { messages, leafOf } = readTree(records(given.messages), created);
  const leaf = leafOf(text(given.leaf));
  const byId = new Map(messages.map((message) => [message.id, message]));
  const begins = titleOfMessages(pathTo((id) => byId.get(id)?.parent, leaf).map((id) => byId.get(id)!));
  const title = text(given.title);
  return {
    info: {
      id: newId(),
      title: title || begins,
      named: typeof given.named === 'boolean' ? given.named : title !== '' && title !== begins,
      created,
      updated: number(given.updated, Date.now()),
      settings: readSettings(record(given.settings)),
      leaf,
    },
    messages,
  };
}

/**
 * Adds the conversations of a file to the list.
 * @returns their number
 * @throws PageError if the file is not an export of this page
 */
export async function importJson(file: Blob): Promise<number> {
  let content: Record<string, unknown>;
  try {
    content = record(JSON.parse(await file.text()));
  } catch (error) {
    throw new PageError(`The file is not JSON: ${(error as Error).message}. Expected one that this page exported.`);
  }
  if (content.format !== FORMAT || !Array.isArray(content.conversations))
    throw new PageError(`The file has no conversations of this page; expected JSON with "format": "${FORMAT}".`);
  if (typeof content.version === 'number' && content.version > VERSION)
    throw new PageError(
      `The file is of version ${content.version}, this page reads versions up to ${VERSION}. Load the page of a newer quantlet.`,
    );
  const conversations = content.conversations.map((given) => readConversation(record(given)));
  await add(conversations);
  return conversations.length;
}
