// What the page is made of besides models: elements, numbers in words, messages, tabs.
export const $ = (id) => document.getElementById(id);
export const number = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
export const megabytes = (bytes) => `${number.format(bytes / 1e6)} MB`;
const three = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
/** Three digits say what a measurement knows. */
export const significant = (value) => three.format(value);

/** Said to screen readers, at the end of what they are reading. */
export const quietly = (text) => ($('status').textContent = text);

export function fail(error) {
  if (error?.name === 'AbortError') return;
  const text = error?.code ? `${error.message[0].toUpperCase()}${error.message.slice(1)}.` : String(error?.message ?? error);
  $('error').replaceChildren(text, ...(error?.code ? [' ', Object.assign(document.createElement('code'), { textContent: error.code })] : []));
  $('error').hidden = false;
}

/** Tabs as the ARIA practices have them: arrows, Home and End move, one of them is in the order of Tab. */
export function startTabs() {
  const tabs = [...document.querySelectorAll('[role=tab]')];
  const choose = (tab) => {
    for (const other of tabs) {
      const chosen = other === tab;
      other.setAttribute('aria-selected', String(chosen));
      other.tabIndex = chosen ? 0 : -1;
      $(other.getAttribute('aria-controls')).hidden = !chosen;
    }
  };
  for (const [i, tab] of tabs.entries()) {
    tab.addEventListener('click', () => choose(tab));
    tab.addEventListener('keydown', (event) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = tabs[(to + tabs.length) % tabs.length];
      choose(next);
      next.focus();
    });
  }
}
