// A visitor's hands and eyes on the page for people.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { here, work } from './consumer.mjs';
import { STEP_MS, until } from './wait.mjs';

/** Read when it is asked for: the matrix installs its packages first. */
let axeText;
const axe = () => (axeText ??= readFileSync(createRequire(join(here, 'package.json')).resolve('axe-core/axe.min.js'), 'utf8'));
export const shots = join(work, 'screenshots');

/**
 * What Firefox reports now and then, without an address, of a request that a service worker was answering when its document was left (pages are reloaded
 * here). Whatever a page shows is checked for itself.
 */
const LEFT_BEHIND = /^Failed to load ‘’\. A ServiceWorker intercepted the request/;

/** A visitor's hands and eyes on a page. */
export function visitor(page, name, faults, origin) {
  const fault = (what) => faults.push(`${name}: ${what}`);
  page.on('pageerror', (error) => {
    if (!LEFT_BEHIND.test(error.message)) fault(error.message);
  });
  page.on('request', (request) => {
    const url = request.url();
    if (!/^(data|blob|about):/.test(url) && !url.startsWith(origin)) fault(`a request to ${url}`);
  });
  const see = (what, look, ...given) => until(`${name}: ${what}`, () => page.evaluate(look, ...given), 30_000);
  /** An element that stands still, in sight and enabled, is clicked; a picture tells why there was none. */
  const click = async (selector) => {
    try {
      await page.locator(selector).setTimeout(STEP_MS).click();
    } catch (error) {
      await page.screenshot({ path: join(shots, `${name}-fault.png`) });
      throw new Error(`${name}: a click on ${selector}: ${error.message}`, { cause: error });
    }
  };
  const press = (label) => click(`::-p-aria([name="${label}"][role="button"])`);
  const type = async (selector, text) => {
    await click(selector);
    await page.$eval(selector, (field) => field.select());
    await page.keyboard.type(text);
  };
  const busy = () => document.querySelector('[aria-busy=true]') !== null;
  return {
    page,
    fault,
    see,
    click,
    press,
    type,
    /** A further tab of the same visitor, at the same address. */
    async tab(url = page.url()) {
      const other = await page.browserContext().newPage();
      await other.setViewport(page.viewport());
      const hands = visitor(other, `${name}-tab`, faults, origin);
      await other.goto(url);
      return hands;
    },
    many: (n) => see(`${n} messages`, (n) => document.querySelectorAll('.message').length === n, n),
    /** The last answer has ended, with these words in it. */
    answered: (text) =>
      see(
        `an answer with "${text}"`,
        (text) => {
          const last = [...document.querySelectorAll('.message.assistant')].at(-1);
          return last?.getAttribute('aria-busy') === 'false' && last.textContent.includes(text);
        },
        text,
      ),
    /** Gives a file to an input, which a visitor would choose in a window of the system. */
    give: (selector, name, text) =>
      page.$eval(
        selector,
        (input, name, text) => {
          const files = new DataTransfer();
          files.items.add(new File([text], name));
          input.files = files.files;
          input.dispatchEvent(new Event('change', { bubbles: true }));
        },
        name,
        text,
      ),
    /** From now on files that the page gives out are caught, instead of lying among the downloads. */
    catchExports: () =>
      page.evaluate(() => {
        const { createObjectURL } = URL;
        URL.createObjectURL = (blob) => ((globalThis.exported = blob), createObjectURL.call(URL, blob));
        HTMLAnchorElement.prototype.click = () => {};
      }),
    /** The text of the file that was caught. */
    async exported() {
      await see('an exported file', () => globalThis.exported !== undefined);
      return page.evaluate(async () => {
        const text = await globalThis.exported.text();
        globalThis.exported = undefined;
        return text;
      });
    },
    idle: () => see('no answer under way', () => document.querySelector('[aria-busy=true]') === null),
    busy: () => see('an answer under way', busy),
    async say(text) {
      await type('.composer textarea', text);
      await page.keyboard.press('Enter');
    },
    /** The text of the last answer. */
    last: () => page.evaluate(() => [...document.querySelectorAll('.message.assistant')].at(-1)?.textContent ?? ''),
    /** Whoever looks where the action was sees it: it is on the screen, and nothing lies over it. */
    async inSight(selector, what) {
      const seen = await page.$eval(selector, (element) => {
        const { left, top, width, height } = element.getBoundingClientRect();
        return element.contains(document.elementFromPoint(left + width / 2, top + height / 2));
      });
      if (!seen) fault(`${what} is out of sight`);
    },
    /** A picture, what axe finds, and whether anything sticks out. */
    async look(state) {
      await page.screenshot({ path: join(shots, `${name}-${state}.png`) });
      if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(`${axe()}; undefined`);
      const violations = await page.evaluate(async () =>
        (await globalThis.axe.run(document)).violations.map(
          ({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.target} ${node.any[0]?.message ?? ''}`).join(', ')}`,
        ),
      );
      for (const violation of violations) fault(`${state}: axe ${violation.slice(0, 400)}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) fault(`${state}: the page is ${wide} pixels wider than its window`);
    },
  };
}
