/** What people have typed or attached and not sent, for each conversation and each message that is being edited. */
import { putDraftFiles, readDraftFiles } from './database.ts';
import type { Attachment } from './tree.ts';

const texts = new Map<string, string>();
const files = new Map<string, readonly Attachment[]>();
const nameOf = (key: string): string => `draft ${key}`;

/** Reads or writes what the browser keeps; without storage nothing. */
function stored<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch {
    return undefined;
  }
}

/** The text of a draft: this tab's own, which it has also after it was loaded again, or else the one that was typed last in any tab. */
export function readDraft(key: string): string {
  const own = texts.get(key) ?? stored(() => sessionStorage.getItem(nameOf(key)));
  return own ?? stored(() => localStorage.getItem(nameOf(key))) ?? '';
}

/** Keeps the text of a draft, before the page can be left. */
export function writeDraft(key: string, text: string): void {
  const before = readDraft(key);
  texts.set(key, text);
  stored(() => sessionStorage.setItem(nameOf(key), text));
  if (text !== '') stored(() => localStorage.setItem(nameOf(key), text));
  // The draft of another tab is that tab's.
  else if (stored(() => localStorage.getItem(nameOf(key))) === before) stored(() => localStorage.removeItem(nameOf(key)));
}

export async function readFiles(key: string): Promise<readonly Attachment[]> {
  return files.get(key) ?? (await readDraftFiles(key).catch(() => []));
}

export function writeFiles(key: string, attachments: readonly Attachment[]): void {
  files.set(key, attachments);
  void putDraftFiles(key, attachments).catch(() => {}); // they last as long as the page then
}

/** Whether a message was being edited when the page was left. */
export const hasDraft = (key: string): boolean => readDraft(key) !== '';
