// The demo page as a visitor uses it: from a plain static host, with the model that ships, keyboard only where it matters.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { work } from '../lib/consumer.mjs';
import { launchChromium } from '../lib/drivers.mjs';
import { serve } from '../lib/server.mjs';

export async function visit(folder) {
  const server = await serve({ '/demo/': folder });
  const chromium = await launchChromium();
  const shots = join(work, 'screenshots');
  mkdirSync(shots, { recursive: true });
  const faults = [];
  try {
    for (const [name, scheme, viewport] of [['light', 'light', { width: 1280, height: 900 }], ['dark', 'dark', { width: 1280, height: 900 }], ['phone', 'light', { width: 375, height: 812 }]]) {
      const context = await chromium.newContext({ colorScheme: scheme, viewport, deviceScaleFactor: 1 });
      const page = await context.newPage();
      page.on('pageerror', (e) => faults.push(`${name}: ${e.message}`));
      page.on('console', (m) => m.type() === 'error' && faults.push(`${name}: console: ${m.text()} ${m.location().url}`));
      await page.goto(`${server.origin}/demo/`);
      await page.waitForFunction(() => crossOriginIsolated && document.readyState === 'complete');
      await page.screenshot({ path: join(shots, `${name}-start.png`), fullPage: true });
      await page.getByRole('button', { name: /ships/ }).click();
      await page.waitForFunction(() => !document.querySelector('#write').disabled);
      await page.getByText('Sampling').click();
      await page.getByLabel('Temperature').fill('0');
      await page.locator('#write-form').getByLabel('New tokens').fill('120');
      await page.getByLabel('Prompt', { exact: true }).press('Control+Enter');
      await page.waitForFunction(() => document.querySelector('#speed').textContent.includes('prompt of'));
      const text = await page.locator('#output').textContent();
      if (!/^Once upon a time, there was/.test(text)) faults.push(`${name}: it wrote ${JSON.stringify(text.slice(0, 100))}`);
      const threads = await page.locator('#fact-threads').textContent();
      if (!(Number(threads) >= 1)) faults.push(`${name}: threads shown: ${threads}`);
      await page.screenshot({ path: join(shots, `${name}-write.png`), fullPage: true });
      // Stop in the middle, then the model goes on being usable.
      await page.locator('#write-form').getByLabel('New tokens').fill('100000');
      await page.getByRole('button', { name: 'Write', exact: true }).click();
      await page.getByRole('button', { name: 'Stop' }).first().click({ timeout: 2000 }).catch(() => {});
      await page.waitForFunction(() => !document.querySelector('#write').disabled);
      await page.getByRole('tab', { name: 'Write' }).focus();
      await page.keyboard.press('ArrowRight');
      await page.getByLabel('Prompt tokens').fill('64');
      await page.locator('#panel-bench').getByLabel('New tokens').fill('16');
      await page.getByLabel('Repetitions').fill('1');
      await page.getByRole('button', { name: 'Run' }).click();
      await page.waitForFunction(() => document.querySelector('#bench-status').textContent.startsWith('Done'));
      await page.screenshot({ path: join(shots, `${name}-bench.png`), fullPage: true });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) faults.push(`${name}: the page is ${wide} pixels wider than its window`);
      // Every control has a name for those who do not see it.
      const nameless = await page.evaluate(() => [...document.querySelectorAll('button, input, textarea, progress')].filter((e) => !e.textContent.trim() && !e.labels?.length && !e.ariaLabel).map((e) => e.outerHTML));
      faults.push(...nameless.map((e) => `${name}: no label: ${e}`));
      await context.close();
    }
    return { faults, relaxed: 'yes', threads: 'yes', checked: 'light, dark, phone: write, stop, bench; isolates itself' };
  } finally {
    await chromium.close();
    await server.close();
  }
}
