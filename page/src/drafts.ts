/**
 * Text and files that people have entered but not sent, for each conversation and for each message
 * that is being edited.
 */
import { putDraftFiles, readDraftFiles } from './database.ts';
import type { Attachment } from './tree.ts';

const texts = new Map<string, string>();
const files = new Map<string, readonly Attachment[]>();
const nameOf = (key: string): string => `draft ${key}`;

/** Accesses the browser's storage; undefined without storage. */
export function inStorage<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch {
    return undefined;
  }
}

/**
 * The text of a draft: this tab's own, which survives a reload, or else the text last typed in any
 * tab.
 */
export function readDraft(key: string): string {
  const own = texts.get(key) ?? inStorage(() => sessionStorage.getItem(nameOf(key)));
  return own ?? inStorage(() => localStorage.getItem(nameOf(key))) ?? '';
}

/** Stores the text of a draft at once, so that nothing is lost if the page is left. */
export function writeDraft(key: string, text: string): void {
  const before = readDraft(key);
  texts.set(key, text);
  inStorage(() => sessionStorage.setItem(nameOf(key), text));
  if (text !== '') inStorage(() => localStorage.setItem(nameOf(key), text));
  // Removes the shared draft only if it is this tab's text: another tab may have replaced it.
  else if (inStorage(() => localStorage.getItem(nameOf(key))) === before) inStorage(() => localStorage.removeItem(nameOf(key)));
}

export async function readFiles(key: string): Promise<readonly Attachment[]> {
  return files.get(key) ?? (await readDraftFiles(key).catch(() => []));
}

export function writeFiles(key: string, attachments: readonly Attachment[]): void {
  files.set(key, attachments);
  void putDraftFiles(key, attachments).catch(() => {}); // then they last until the page is left
}

/** True if the page was left while the message was being edited. */
export const hasDraft = (key: string): boolean => readDraft(key) !== '';
