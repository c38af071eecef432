// Three drivers of real browsers with one interface: open(url) gives a page, and page.call(name,
// argument) awaits a global function of it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { STEP_MS, freePort, until } from './wait.mjs';

const need = (path, name) => {
  if (!existsSync(path)) throw new Error(`${path} is missing: apt-get install ${name}`);
  return path;
};

const chromiumOptions = () => ({
  executablePath: need('/usr/bin/chromium', 'chromium'),
  args: ['--no-sandbox', '--disable-dev-shm-usage'],
  timeout: STEP_MS,
});

async function openIn(context, url, { before } = {}) {
  const page = await context.newPage();
  const errors = [];
  page.on('pageerror', (e) => errors.push(e.message));
  if (before) await page.addInitScript(before);
  await page.goto(url);
  await page
    .waitForFunction(() => document.title === 'ready')
    .catch((e) => {
      throw new Error(`${url} did not get ready: ${errors.join('; ') || e.message}`);
    });
  return {
    page,
    errors,
    call: (name, argument) => page.evaluate(([n, a]) => globalThis[n](a), [name, argument]),
    close: () => page.close(),
  };
}

/**
 * Chromium with a profile in a folder. Other profiles keep what pages store in memory and give them
 * little of it.
 */
export async function launchProfile(folder) {
  const { chromium } = await import('playwright-core');
  const context = await chromium.launchPersistentContext(folder, chromiumOptions());
  context.setDefaultTimeout(STEP_MS);
  return { version: context.browser()?.version() ?? '', open: (url) => openIn(context, url), close: () => context.close() };
}

export async function launchChromium(options = {}) {
  const { chromium } = await import('playwright-core');
  const browser = await chromium.launch({ ...chromiumOptions(), ...options });
  const newContext = async (of) => {
    const context = await browser.newContext(of);
    context.setDefaultTimeout(STEP_MS);
    return context;
  };
  const context = await newContext();
  return {
    version: browser.version(),
    context,
    newContext,
    open: (url, options) => openIn(context, url, options),
    close: () => browser.close(),
  };
}

/**
 * Chromium whose tabs hide each other and are then slowed down, as for a user. Playwright keeps all
 * of them in front.
 */
export const launchTabs = () =>
  launchPuppeteer({
    executablePath: need('/usr/bin/chromium', 'chromium'),
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
    ignoreDefaultArgs: [
      '--disable-background-timer-throttling',
      '--disable-backgrounding-occluded-windows',
      '--disable-renderer-backgrounding',
    ],
  });

export const launchFirefox = () => launchPuppeteer({ browser: 'firefox', executablePath: need('/usr/bin/firefox-esr', 'firefox-esr') });

async function launchPuppeteer(options) {
  const { default: puppeteer } = await import('puppeteer-core');
  const browser = await puppeteer.launch({ headless: true, timeout: STEP_MS, protocolTimeout: STEP_MS, ...options });
  return {
    version: (await browser.version()).replace(/^.*\//, ''),
    async open(url) {
      const page = await browser.newPage();
      page.setDefaultTimeout(STEP_MS);
      await page.goto(url);
      await page.waitForFunction('document.title === "ready"');
      return { page, call: (name, argument) => page.evaluate((n, a) => globalThis[n](a), name, argument), close: () => page.close() };
    },
    /** A blank tab that shares nothing with others. */
    async fresh() {
      const page = await (await browser.createBrowserContext()).newPage();
      page.setDefaultTimeout(STEP_MS);
      return page;
    },
    close: () => browser.close(),
  };
}

/** WebKitGTK's MiniBrowser by W3C WebDriver over HTTP, on a display of its own. */
export async function launchWebKit() {
  const driver = need('/usr/bin/WebKitWebDriver', 'webkit2gtk-driver');
  need('/usr/bin/Xvfb', 'xvfb');
  const port = await freePort();
  // Xvfb chooses a free display and prints it, since the last one's may not be free yet.
  const children = [spawn('Xvfb', ['-displayfd', '3', '-screen', '0', '1280x800x24'], { stdio: ['ignore', 'ignore', 'ignore', 'pipe'] })];
  const display = `:${String((await once(children[0].stdio[3], 'data'))[0]).trim()}`;
  children.push(
    spawn(driver, [`--port=${port}`], {
      stdio: 'ignore',
      env: { ...process.env, DISPLAY: display, WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: '1', WEBKIT_DISABLE_COMPOSITING_MODE: '1' },
    }),
  );
  const stop = () => children.forEach((c) => c.kill('SIGKILL'));
  process.on('exit', stop);
  const request = async (method, path, body) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      signal: AbortSignal.timeout(STEP_MS + 10_000),
      ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    const { value } = await response.json();
    if (!response.ok) throw new Error(`WebDriver ${method} ${path}: ${value?.error}: ${value?.message}`);
    return value;
  };
  try {
    await until('WebKitWebDriver to answer', () => request('GET', '/status'));
    const { sessionId, capabilities } = await request('POST', '/session', {
      capabilities: { alwaysMatch: { timeouts: { script: STEP_MS, pageLoad: STEP_MS } } },
    });
    const session = `/session/${sessionId}`;
    return {
      version: capabilities.browserVersion,
      async open(url) {
        await request('POST', `${session}/url`, { url });
        await until(`${url} to get ready in WebKit`, async () => (await request('GET', `${session}/title`)) === 'ready');
        return {
          async call(name, argument) {
            const script =
              'const done = arguments[2]; Promise.resolve(globalThis[arguments[0]](JSON.parse(arguments[1]))).then((v) => done(JSON.stringify({ v })), (e) => done(JSON.stringify({ e: `${e.code ?? e.name}: ${e.message}` })))';
            const { v, e } = JSON.parse(
              await request('POST', `${session}/execute/async`, { script, args: [name, JSON.stringify(argument)] }),
            );
            if (e) throw new Error(e);
            return v;
          },
          close: async () => {},
        };
      },
      async close() {
        await request('DELETE', session).catch(() => {});
        stop();
      },
    };
  } catch (error) {
    stop();
    throw error;
  }
}
