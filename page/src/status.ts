/** Announcements for screen readers, in addition to the page's content. */
import { signal } from '@preact/signals';

export const status = signal('');
export const say = (text: string): void => void (status.value = text);
