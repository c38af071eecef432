/** What screen readers are told beside what is on the page. */
import { signal } from '@preact/signals';

export const status = signal('');
export const say = (text: string): void => void (status.value = text);
