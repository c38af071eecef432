// A visitor who only uses the keyboard.

export const COMPOSER = '.composer textarea';

/** Runs in the page. Finds an element that can have the focus by its accessible name. */
function findTarget(name, within) {
  const nameOf = (element) => {
    const [label] = element.labels ?? [];
    return element.getAttribute('aria-label') ?? (label?.querySelector('span') ?? label)?.textContent.trim() ?? element.textContent.trim();
  };
  const at = document.activeElement;
  const candidates = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')].filter(
    (element) =>
      element.closest(within) && !element.disabled && element.tabIndex >= 0 && element.checkVisibility({ visibilityProperty: true }),
  );
  const named = candidates.filter((element) => nameOf(element) === name);
  const matching = named.length > 0 ? named : candidates.filter((element) => nameOf(element).startsWith(name));
  // "Edit" means that of the last message, the nearest to the composer.
  const target = matching.find((element) => element === at) ?? matching.at(-1);
  if (!target) return undefined;
  const before = at === document.body || !!(at.compareDocumentPosition(target) & Node.DOCUMENT_POSITION_FOLLOWING);
  const style = getComputedStyle(target.closest('.composer-row') ?? target.closest('label.button, label.icon-button') ?? target);
  const visible = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none';
  return { reached: target === at, forward: before, visible, tag: target.tagName, type: target.type };
}

/**
 * Keys of a visitor. Each action finds its target by the accessible name and goes there by Tab or
 * Shift+Tab.
 */
export function keyboardOf({ page, fault, see }) {
  const { keyboard } = page;
  const chord = async (...keys) => {
    for (const key of keys.slice(0, -1)) await keyboard.down(key);
    await keyboard.press(keys.at(-1));
    for (const key of keys.slice(0, -1).reverse()) await keyboard.up(key);
  };
  const focused = (what, selector) => see(`the focus on ${what}`, (selector) => document.activeElement?.matches(selector), selector);
  /**
   * Goes to the target with this name. (Never past an end of the page: without a screen Firefox
   * does not give the focus back.)
   */
  const tabTo = async (name, within = 'body') => {
    await see(`"${name}" among what Tab reaches`, findTarget, name, within);
    for (let i = 0; i < 120; i++) {
      const target = await page.evaluate(findTarget, name, within);
      if (target.reached) {
        if (!target.visible) fault(`nobody sees that "${name}" has the focus`);
        return target;
      }
      await (target.forward ? keyboard.press('Tab') : chord('Shift', 'Tab'));
    }
    throw new Error(`no Tab leads to "${name}"`);
  };
  return {
    press: (key) => keyboard.press(key),
    write: (text) => keyboard.type(text),
    chord,
    focused,
    tabTo,
    /** Goes there and uses it. */
    async use(name, within) {
      const { tag } = await tabTo(name, within);
      await keyboard.press(tag === 'BUTTON' ? ' ' : 'Enter');
    },
    newChat: () => chord('Control', 'Shift', 'O'),
    atComposer: (after) => focused(`the message after ${after}`, COMPOSER),
    typed: (text) => see(`"${text}" where people write`, (text) => document.querySelector('.composer textarea')?.value === text, text),
  };
}
