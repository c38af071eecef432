// The demo page as a visitor uses it: from a plain static host, with the model that ships, by keyboard where it matters.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { work } from '../lib/consumer.mjs';
import { launchChromium } from '../lib/drivers.mjs';
import { serve } from '../lib/server.mjs';

const VISITORS = {
  light: { colorScheme: 'light', viewport: { width: 1280, height: 900 } },
  dark: { colorScheme: 'dark', viewport: { width: 1280, height: 900 } },
  phone: { colorScheme: 'light', viewport: { width: 375, height: 812 }, isMobile: true, hasTouch: true },
  'phone-dark': { colorScheme: 'dark', viewport: { width: 375, height: 812 }, isMobile: true, hasTouch: true },
};

/** @param shoot takes a picture of the page as it is @param fault notes what is wrong */
async function use(page, shoot, fault) {
  const write = page.locator('#write-form'), said = (start) => page.waitForFunction((s) => document.querySelector('#status').textContent.startsWith(s), start);
  const writable = () => page.waitForFunction(() => !document.querySelector('#write').disabled);
  await shoot('start');

  await page.getByLabel('Address of a GGUF file').fill(new URL('nowhere.gguf', page.url()).href);
  await page.getByRole('button', { name: 'Load', exact: true }).click();
  await page.getByRole('alert').getByText('ERR_DOWNLOAD').waitFor();
  await shoot('error');

  await page.getByRole('button', { name: 'Use the small one' }).click();
  await writable();
  if (await page.getByRole('alert').isVisible()) fault('the error stays after a model was loaded');
  await page.getByText('Sampling').click();
  await page.getByLabel('Temperature').fill('0');
  await write.getByLabel('New tokens').fill('120');
  await page.getByLabel('Prompt', { exact: true }).press('Control+Enter');
  await said('Done');
  const text = await page.locator('#output').textContent();
  if (!/^Once upon a time, there was/.test(text)) fault(`it wrote ${JSON.stringify(text.slice(0, 100))}`);
  for (const id of ['fact-threads', 'speed-now', 'speed-tokens', 'speed-prompt']) {
    const shown = await page.locator(`#${id}`).textContent();
    if (!(Number(shown.replaceAll(',', '')) >= 1)) fault(`#${id} shows ${JSON.stringify(shown)}`);
  }
  await shoot('write');

  // Escape as soon as the first token is there; then the model goes on being usable.
  await write.getByLabel('New tokens').fill('100000');
  await page.evaluate(() => {
    const first = new MutationObserver(() => {
      if (document.querySelector('#speed-tokens').textContent !== '1') return;
      document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
      first.disconnect();
    });
    first.observe(document.querySelector('#speed-tokens'), { childList: true });
  });
  await page.getByRole('button', { name: 'Write', exact: true }).click();
  await said('Stopped after');
  await writable();

  await page.getByRole('tab', { name: 'Write' }).focus();
  await page.keyboard.press('ArrowRight');
  await page.getByLabel('Prompt tokens').fill('64');
  await page.locator('#panel-bench').getByLabel('New tokens').fill('16');
  await page.getByLabel('Repetitions').fill('1');
  await page.getByRole('button', { name: 'Run' }).click();
  await page.waitForFunction(() => document.querySelector('#bench-status').textContent.startsWith('Done'));
  await shoot('bench');
}

export async function visit(folder) {
  const server = await serve({ '/demo/': folder });
  const chromium = await launchChromium();
  const shots = join(work, 'screenshots');
  mkdirSync(shots, { recursive: true });
  const faults = [];
  try {
    for (const [name, kind] of Object.entries(VISITORS)) {
      const fault = (what) => faults.push(`${name}: ${what}`);
      const context = await chromium.newContext({ locale: 'en-US', ...kind });
      const page = await context.newPage();
      page.on('pageerror', (e) => fault(e.message));
      page.on('console', (m) => m.type() === 'error' && !m.location().url.endsWith('nowhere.gguf') && fault(`console: ${m.text()} ${m.location().url}`));
      await page.goto(`${server.origin}/demo/`);
      await page.waitForFunction(() => crossOriginIsolated && document.readyState === 'complete');
      await use(page, async (what) => {
        await page.screenshot({ path: join(shots, `${name}-${what}.png`), fullPage: true });
        const { wide, nameless } = await page.evaluate(() => ({
          wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
          nameless: [...document.querySelectorAll('button, input, textarea, progress, [role=region], [role=tabpanel]')].filter((e) => !e.textContent.trim() && !e.labels?.length && !e.ariaLabel && !e.getAttribute('aria-labelledby')).map((e) => e.outerHTML),
        }));
        if (wide > 0) fault(`${what}: the page is ${wide} pixels wider than its window`);
        for (const e of nameless) fault(`${what}: no name for those who do not see it: ${e}`);
      }, fault);
      await context.close();
    }
    return { faults, relaxed: 'yes', threads: 'yes', checked: `${Object.keys(VISITORS).join(', ')}: write, stop, bench, error; isolates itself` };
  } finally {
    await chromium.close();
    await server.close();
  }
}
