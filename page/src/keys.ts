/** Tests for the keys that the page handles. */

type Key = Pick<KeyboardEvent, 'isComposing' | 'keyCode' | 'key'>;

/**
 * True if a key belongs to an input method, which uses it to end or leave a composition. Safari
 * reports this only as code 229, after the composition has ended.
 */
export const isComposing = ({ isComposing, keyCode }: Pick<Key, 'isComposing' | 'keyCode'>): boolean => isComposing || keyCode === 229;

/** Enter without Shift; Shift+Enter is a line break. */
export const isEnter = (event: KeyboardEvent): boolean => event.key === 'Enter' && !event.shiftKey && !isComposing(event);

export const isEscape = (event: KeyboardEvent): boolean => event.key === 'Escape' && !isComposing(event);
