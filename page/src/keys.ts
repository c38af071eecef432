/** Keys that do something. */

type Key = Pick<KeyboardEvent, 'isComposing' | 'keyCode' | 'key'>;

/** Whether a key belongs to an input method: it ends or leaves a composition. Safari says so by the code 229 alone, after the composition has ended. */
export const isComposing = ({ isComposing, keyCode }: Pick<Key, 'isComposing' | 'keyCode'>): boolean => isComposing || keyCode === 229;

/** Enter without Shift, which breaks a line. */
export const isEnter = (event: KeyboardEvent): boolean => event.key === 'Enter' && !event.shiftKey && !isComposing(event);

export const isEscape = (event: KeyboardEvent): boolean => event.key === 'Escape' && !isComposing(event);
