// A visitor's actions and observations on the page for people.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { here, work } from './consumer.mjs';
import { STEP_MS, until } from './wait.mjs';

/** Read on first use: the matrix must install its packages first. */
let axeText;
const axe = () => (axeText ??= readFileSync(createRequire(join(here, 'package.json')).resolve('axe-core/axe.min.js'), 'utf8'));
export const shots = join(work, 'screenshots');

/**
 * An error without an address that Firefox sometimes reports for a request that a service worker
 * was answering when its document was left (pages are reloaded here). The content of pages is
 * checked separately.
 */
const LEFT_BEHIND = /^Failed to load ‘’\. A ServiceWorker intercepted the request/;

/** A visitor's actions and observations on a page. */
export function visitor(page, name, faults, origin) {
  const fault = (what) => faults.push(`${name}: ${what}`);
  page.on('pageerror', (error) => {
    if (!LEFT_BEHIND.test(error.message)) fault(error.message);
  });
  page.on('request', (request) => {
    const url = request.url();
    if (!/^(data|blob|about):/.test(url) && !url.startsWith(origin)) fault(`a request to ${url}`);
  });
  /** Runs an action, and leaves a picture of the page if it fails. */
  const pictured = async (act, words = ({ message }) => message) => {
    try {
      return await act();
    } catch (error) {
      await page.screenshot({ path: join(shots, `${name}-fault.png`) });
      throw new Error(words(error), { cause: error });
    }
  };
  const see = (what, look, ...given) => pictured(() => until(`${name}: ${what}`, () => page.evaluate(look, ...given), 30_000));
  /** Clicks an element that stands still, is visible and enabled. */
  const click = (selector) =>
    pictured(
      () => page.locator(selector).setTimeout(STEP_MS).click(),
      ({ message }) => `${name}: a click on ${selector}: ${message}`,
    );
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
    /** Another tab of the same visitor at the same address. */
    async tab(url = page.url()) {
      const other = await page.browserContext().newPage();
      await other.setViewport(page.viewport());
      const hands = visitor(other, `${name}-tab`, faults, origin);
      await other.goto(url);
      return hands;
    },
    many: (n) => see(`${n} messages`, (n) => document.querySelectorAll('.message').length === n, n),
    /** Waits until the last answer has ended and contains this text. */
    answered: (text) =>
      see(
        `an answer with "${text}"`,
        (text) => {
          const last = [...document.querySelectorAll('.message.assistant')].at(-1);
          return last?.getAttribute('aria-busy') === 'false' && last.textContent.includes(text);
        },
        text,
      ),
    /** Gives a file to an input; a visitor would choose it in the system's dialog. */
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
    /** Catches files that the page exports from now on, instead of downloading them. */
    catchExports: () =>
      page.evaluate(() => {
        const { createObjectURL } = URL;
        URL.createObjectURL = (blob) => ((globalThis.exported = blob), createObjectURL.call(URL, blob));
        HTMLAnchorElement.prototype.click = () => {};
      }),
    /** Text of the caught file. */
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
    /** Text of the last answer. */
    last: () => page.evaluate(() => [...document.querySelectorAll('.message.assistant')].at(-1)?.textContent ?? ''),
    /** Checks that the element is visible: on the screen, with nothing over it. */
    async inSight(selector, what) {
      const seen = await page.$eval(selector, (element) => {
        const { left, top, width, height } = element.getBoundingClientRect();
        return element.contains(document.elementFromPoint(left + width / 2, top + height / 2));
      });
      if (!seen) fault(`${what} is out of sight`);
    },
    /** Takes a picture, runs axe, and checks that nothing overflows, once nothing slides any more. */
    async look(state) {
      await see('the page at rest', () =>
        document.getAnimations().every((a) => a.playState !== 'running' || a.effect?.getComputedTiming().endTime === Infinity),
      );
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
