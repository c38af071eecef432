// examples/react, built by Vite, in Chromium and Firefox: useChat over the model in the page.
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { model, project, run, tool } from '../lib/consumer.mjs';
import { launchFirefox, launchTabs } from '../lib/drivers.mjs';
import { serve } from '../lib/server.mjs';
import { modelUrl } from '../lib/site.mjs';

let built;
/** The built page, in a folder with the model. */
async function build() {
  const folder = project('react');
  await run(process.execPath, [tool('vite/bin/vite.js'), 'build', '--logLevel', 'error'], { cwd: folder });
  copyFileSync(model, join(folder, 'dist', modelUrl.split('/').at(-1)));
  return join(folder, 'dist');
}

/** Uses the page as a visitor does. Returns what was wrong. */
async function use(page, origin, conditions) {
  const faults = [];
  page.on('pageerror', (error) => faults.push(`the page threw ${error.message}`));
  const see = (what, look, ...args) =>
    page.waitForFunction(look, {}, ...args).catch((cause) => {
      throw new Error(`there was no ${what}`, { cause });
    });
  const status = (wanted) => see(`status ${wanted}`, (name) => document.querySelector('main')?.dataset.status === name, wanted);
  const open = async (source) => {
    await page.goto(`${origin}/?coi=1&model=${encodeURIComponent(source)}`);
    await status('ready');
  };
  /** Clicks in the page itself, as soon as it can, because a short answer may end first. */
  const stop = () =>
    see('button to stop an answer', () => {
      const button = document.querySelector('form button');
      const loading = document.querySelector('progress');
      const { status } = document.querySelector('main').dataset;
      if (button.textContent !== 'Stop' || (!loading && status !== 'streaming')) return false;
      button.click();
      return true;
    });
  const say = async (text) => {
    await page.type('input', text);
    await page.keyboard.press('Enter');
  };
  const last = () => page.$$eval('article.assistant', (all) => all.at(-1)?.textContent ?? '');

  await open(`${origin}/none.gguf`);
  await say('Hello');
  await see('error with a button', () => document.querySelector('[role=alert] button')?.textContent === 'Try again');

  conditions.set('slow=100');
  await open(origin + modelUrl);
  await say('Once upon a time');
  await see('progress of the download', () => Number(document.querySelector('progress')?.value) > 0);
  await stop();
  await status('ready');
  if ((await last()) !== '') faults.push(`a message that was stopped while the model was loaded has the answer ${await last()}`);
  conditions.set('');
  await say('Once upon a time');
  await status('streaming');
  await see('end of the progress', () => !document.querySelector('progress'));
  await status('ready');
  const answer = await last();
  if (!/\w+ \w+.*\d+\.\d tokens\/s$/s.test(answer)) faults.push(`the answer is ${JSON.stringify(answer.slice(-200))}`);

  await say('And then?');
  await stop();
  await status('ready');
  if (/tokens\/s$/.test(await last())) faults.push('an answer that was stopped has a speed, as if it were complete');
  const told = await page.$$eval('article', (all) => all.map(({ className }) => className).join(' '));
  return { faults, told };
}

const inBrowser = (name, launch) => ({
  name: `examples/react (Vite): ${name}`,
  async run() {
    built ??= build();
    const folder = await built;
    const server = await serve({ '/': folder, '/model/': folder });
    const browser = await launch();
    try {
      const page = await browser.fresh();
      const { faults, told } = await use(page, server.origin, { set: (query) => (server.state.conditions = query) });
      const threads = await page.evaluate(() => crossOriginIsolated);
      if (!threads) faults.push('the page is not isolated');
      return {
        faults,
        version: browser.version,
        relaxed: 'yes',
        threads: threads ? 'yes' : 'no',
        checked: `error, progress, stop, answers; ${told.split(' ').length} messages`,
      };
    } finally {
      await browser.close();
      await server.close();
    }
  },
});

export const react = [inBrowser('Chromium', launchTabs), inBrowser('Firefox', launchFirefox)];
