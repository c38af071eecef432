/** Messages of the page's conversations. */
import type { Message } from '../../page/src/tree.ts';

export const message = (role: Message['role'], content: string, more: Partial<Message> = {}): Message => ({
  id: '',
  parent: null,
  at: 0,
  role,
  content,
  ...more,
});
