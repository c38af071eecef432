// The page for people in Chromium and Firefox, as a visitor uses it: the page that servers serve,
// over scripted answers, and the page that runs the model itself, from a static host. Every state
// is checked by axe-core and kept as a picture.
import { cpSync, mkdirSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { app, here, model, root, run, start, tool } from '../lib/consumer.mjs';
import { launchFirefox, launchTabs } from '../lib/drivers.mjs';
import { serve } from '../lib/server.mjs';
import { shots, visitor } from '../lib/page-visitor.mjs';
import { useKeys, useModelKeys } from '../lib/page-keys.mjs';
import { useBounds, useDrafts, useFull, useMigration, useVersions } from '../lib/page-keeps.mjs';
import { useInPagePictures, usePictures, withCamera } from '../lib/page-pictures.mjs';
import { useReturn, useTabs } from '../lib/page-tabs.mjs';
import { visionFolder, visionModel, visionProjector } from '../lib/vision.mjs';
import { hub, useAway, useFiles, useFormulas, useHub, useLong, useUpdates } from '../lib/page-visits.mjs';

const WIDE = { width: 1280, height: 860 };
const PHONE = { width: 390, height: 780, isMobile: true, hasTouch: true };
const VISITORS = {
  light: { viewport: WIDE, scheme: 'light' },
  dark: { viewport: WIDE, scheme: 'dark' },
  phone: { viewport: PHONE, scheme: 'light' },
  'phone-dark': { viewport: PHONE, scheme: 'dark' },
};

const TOOLS = '{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}';

/** Everything that can happen in a conversation with a server. */
export async function useServed({ page, fault, see, click, press, type, idle, busy, say, last, look }) {
  const expectLast = async (what, pattern) => {
    const text = await last();
    if (!pattern.test(text)) fault(`${what}: the answer is ${JSON.stringify(text.slice(0, 200))}, expected ${pattern}`);
  };
  await see('the name of the model', () => document.querySelector('.model-name')?.textContent === 'scripted');
  await look('empty');

  await say('table');
  await see('a table of four rows', () => document.querySelectorAll('tbody tr').length === 4);
  await idle();
  await expectLast('speed', /[\d.]+ tokens\/s · .*context [\d,]+ of 32,768/);
  await look('table');
  await say('code');
  await idle();
  if (!(await page.$('.code .hljs-keyword'))) fault('code is not coloured');
  await look('code');

  await say('formulas');
  await idle();
  const formulas = await page.$$eval('.message.assistant math', (all) => all.map((math) => math.getBoundingClientRect().height));
  if (formulas.length !== 2 || formulas.some((height) => height < 8)) fault(`formulas: ${JSON.stringify(formulas)}`);
  if ((await page.$('.message.assistant .tex')) || !/neither \$5 nor \$6/.test(await last())) fault(`formulas: ${await last()}`);
  await look('formulas');

  await say('think');
  await see(
    'open thoughts',
    () => document.querySelector('.reasoning')?.open && document.querySelector('.reasoning').textContent.length > 60,
  );
  await look('reasoning');
  await idle();
  if (await page.$eval('.reasoning', (details) => details.open)) fault('thoughts stay open after the answer');
  await expectLast('reasoning', /I thought about it: yes\./);

  await press('Settings');
  await page.evaluate(() => document.querySelectorAll('dialog details').forEach((details) => (details.open = true)));
  await page.$$eval('dialog textarea', (areas) =>
    areas.find((area) => area.placeholder.includes('get_weather')).setAttribute('data-test', 'tools'),
  );
  await type('[data-test=tools]', '{nothing');
  await see('an error in the settings', () => document.querySelector('dialog [role=alert]')?.textContent.includes('not JSON'));
  await look('settings-error');
  await type('[data-test=tools]', TOOLS);
  await see('no error in the settings', () => !document.querySelector('dialog [role=alert]'));
  await look('settings');
  await press('Close');
  await say('weather');
  await see('a call', () => document.querySelector('.call')?.textContent.includes('get_weather'));
  await idle();
  await look('tool-call');
  await type('.results textarea', '21 degrees');
  await press('Go on with the result');
  await idle();
  await expectLast('a tool’s result', /It is 21 degrees in Berlin\./);

  await say('fail');
  await see('the failure', () => document.querySelector('.message [role=alert]')?.textContent.includes('Try again'));
  await look('error');
  await press('Try again');
  await idle();
  await expectLast('after a failure', /You said: fail/);

  await say('evil');
  await idle();
  await look('evil');
  const evil = await page.evaluate(() => {
    const answer = [...document.querySelectorAll('.message.assistant')].at(-1);
    return {
      elements: [...answer.querySelectorAll('img, script, iframe, style, b, .markdown svg')].map((element) => element.outerHTML),
      links: [...answer.querySelectorAll('a')].map((link) => link.href),
      title: document.title,
    };
  });
  if (evil.elements.length > 0 || evil.links.some((link) => !/^(https?:.*|)$/.test(link)) || /^evil/.test(evil.title))
    fault(`what the model writes got into the page: ${JSON.stringify(evil)}`);

  await say('long');
  await busy();
  await see('some sentences', () => [...document.querySelectorAll('.message.assistant')].at(-1).textContent.length > 600);
  await look('streaming');
  await page.keyboard.press('Escape');
  await idle();
  await expectLast('stopped', /Stopped/);
  await look('stopped');
  await press('Continue');
  await idle();
  await expectLast('gone on with', /Here it went on\./);

  // A message is edited: what followed it is removed.
  const said = await page.$$eval('.message', (messages) => messages.length);
  await page.$$eval('.message.user', (messages) => messages.at(-1).querySelector('[aria-label=Edit]').click());
  await type('.editor textarea', 'all');
  await press('Send');
  await see('the end of a long answer', () =>
    [...document.querySelectorAll('.message.assistant')].at(-1).textContent.includes('Sentence 120'),
  );
  await idle();
  if ((await page.$$eval('.message', (messages) => messages.length)) !== said)
    fault('editing has left messages behind, or taken some away');
  await look('long');
  if (!(await page.$eval('.log', (log) => log.scrollHeight - log.scrollTop - log.clientHeight < 50)))
    fault('the end of a long answer is out of sight');

  await page.reload();
  await see('the conversation after loading the page again', () => document.querySelectorAll('.message').length > 10);
  const narrow = await page.evaluate(() => innerWidth < 800);
  // A title has room next to the rest of its row: two thirds of the bar, or of the list.
  const share = (selector, of) => page.$eval(selector, (element, of) => element.clientWidth / element.closest(of).clientWidth, of);
  if (narrow && (await share('.bar h1', '.bar')) < 0.65) fault('the title is crushed');
  if (narrow) await press('Conversations');
  if (narrow && (await share('.conversations a span', '.sidebar')) < 0.65) fault('the titles of the list are crushed');
  await look('list');
  await click('.conversations .menu summary');
  await press('Rename');
  await type('.conversations input', 'planets and more');
  await page.keyboard.press('Enter');
  await see('the new name', () => document.querySelector('.conversations a')?.textContent.includes('planets and more'));
  await click('.conversations .menu summary');
  await press('Delete');
  await look('delete');
  await press('Delete');
  await see('no conversation', () => document.querySelectorAll('.conversations li').length === 0);
}

/** The page that runs the model: loads the shipped one, generates, stops, measures. */
async function useInPage(hands, origin) {
  const { page, fault, see, click, press, type, say, last, inSight, look } = hands;
  await see('isolation', () => crossOriginIsolated && document.querySelector('.welcome') !== null);
  await look('start');
  await press('Choose a model');
  await look('models');
  await type('dialog input[type=url]', `${origin}/nowhere.gguf`);
  await page.keyboard.press('Enter');
  await see('the error of a download', () => document.querySelector('dialog [role=alert]')?.textContent.includes('ERR_DOWNLOAD'));
  await inSight('dialog [role=alert]', 'the error of a download');
  await look('load-error');
  await type('dialog input[type=url]', `${origin}/slow/model.gguf?slow=500`);
  await page.keyboard.press('Enter');
  await see('progress', () => document.querySelector('dialog progress')?.value > 0);
  await inSight('dialog progress', 'the progress of a download');
  await look('loading');
  await press('Stop');
  await see('no progress', () => !document.querySelector('progress'));
  await press('Load tiny stories');
  await see(
    'the model',
    () => document.querySelector('.model-button').textContent.includes('tiny stories') && !document.querySelector('dialog[open]'),
  );
  await look('ready');

  await press('Settings');
  await type('dialog input[placeholder="0.8"]', '0');
  await type('dialog input[placeholder="no limit"]', '120');
  await page.keyboard.press('Tab');
  await press('Close');
  await say('Once upon a time');
  await see('its speed', () => /tokens\/s/.test([...document.querySelectorAll('.message.assistant')].at(-1)?.textContent));
  const text = await last();
  if (!/^, there was/.test(text)) fault(`it wrote ${JSON.stringify(text.slice(0, 100))}`);
  if (!/120 tokens · [\d.,]+ tokens\/s/.test(text)) fault(`its speed is not shown: ${JSON.stringify(text.slice(-100))}`);
  await look('text');
  await useFormulas(hands);

  await click('.model-button');
  await click('#tab-device');
  await see('what is kept', () => /of .* that the browser allows/.test(document.querySelector('#panel-device').textContent));
  await look('device');
  await click('#tab-bench');
  await see('the fields of the bench', () => document.querySelectorAll('#panel-bench input').length === 3);
  for (const [i, value] of ['32', '16', '1'].entries()) {
    await page.$$eval('#panel-bench input', (inputs, i) => inputs[i].setAttribute('data-test', 'now'), i);
    await type('[data-test=now]', value);
    await page.$eval('[data-test=now]', (input) => input.removeAttribute('data-test'));
  }
  await press('Run');
  await see('the end of the bench', () => document.querySelector('#panel-bench [role=status]').textContent.startsWith('Done'));
  await look('bench');
  await press('Close');
}

/** Without its host the page still opens, with its model. */
async function useOffline({ page, fault, see, press, say, last, look }, origin, closeHost) {
  await page.reload(); // requests made before the service worker started are cached by now
  await see('the page', () => document.querySelector('.welcome, .message') !== null);
  await see('what the page is made of in the cache', async () => {
    const names = (await caches.keys()).filter((name) => name.startsWith('quantlet page'));
    const kept = (await Promise.all(names.map(async (name) => (await caches.open(name)).keys()))).flat();
    return ['.css', '.js', '/'].every((end) => kept.some(({ url }) => new URL(url).pathname.endsWith(end)));
  });
  // Engine and kernels come with the first model, and those of older pages are removed from the
  // cache.
  const model = () => document.querySelector('.model-button').textContent.includes('tiny stories');
  await page.goto(`${origin}/`);
  await press('Try the small one, 1.6 MB');
  await see('the model, from its host', model);
  await closeHost();
  await page.goto(`${origin}/`);
  await see('the page without its host', () => document.querySelector('.welcome') !== null);
  await press('Try the small one, 1.6 MB');
  await see('the model, without its host', model);
  await say('The dog');
  await see('its speed', () => /tokens\/s/.test([...document.querySelectorAll('.message.assistant')].at(-1)?.textContent));
  if ((await last()).length < 50) fault('without its host the page writes nothing');
  await look('offline');
}

/**
 * A visit by each kind of visitor.
 * @param tour actions on the page
 * @param more further actions of the last visitor; returns a note about them
 */
async function visit(launch, name, origin, tour, more, visitors = name.endsWith('Chromium') ? VISITORS : { light: VISITORS.light }) {
  const faults = [];
  mkdirSync(shots, { recursive: true });
  const browser = await launch();
  let measured;
  try {
    const kinds = Object.entries(visitors);
    for (const [kind, { viewport, scheme }] of kinds) {
      const page = await browser.fresh();
      await page.setViewport(viewport);
      if (name.endsWith('Chromium')) await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
      const named = `${name.replaceAll(/\W+/g, '-').toLowerCase()}-${kind}`;
      const again = async (viewport) => {
        const other = await browser.fresh();
        await other.setViewport(viewport);
        return visitor(other, `${named}-fresh`, faults, origin);
      };
      const hands = { ...visitor(page, named, faults, origin), again };
      await page.goto(`${origin}/`);
      await tour(hands);
      if (kind === kinds.at(-1)[0]) measured = await more?.(hands);
      await page.close();
    }
    return {
      faults,
      version: browser.version,
      checked: `${kinds.map(([kind]) => kind).join(', ')}; axe-core on ${readdirSync(shots).length} pictures so far${measured ? `; ${measured}` : ''}`,
    };
  } finally {
    await browser.close();
  }
}

/** A visit with only one window. */
const visitOnce = (launch, name, origin, tour) => visit(launch, name, origin, tour, undefined, { light: VISITORS.light });

const BROWSERS = { Chromium: launchTabs, Firefox: launchFirefox };

/**
 * Runs `use` with a server of scripted answers that can stop and start again at its address.
 * `more`: further arguments.
 */
function withServer(use, ...more) {
  return withServerOf(model, use, ...more);
}

async function withServerOf(model, use, ...more) {
  cpSync(join(here, 'lib/scripted-server.mjs'), join(app, 'scripted-server.mjs'));
  const serveAt = (port) => start(process.execPath, [join(app, 'scripted-server.mjs'), model, port, ...more], /port (\d+)/);
  let server = await serveAt('0');
  const port = server.found[1];
  try {
    return await use({
      origin: `http://127.0.0.1:${port}`,
      stopServer: () => server.stop(),
      startServer: async () => (server = await serveAt(port)),
    });
  } finally {
    await server.stop();
  }
}

const served = Object.entries(BROWSERS).map(([browser, launch]) => ({
  name: `the page of quantlet serve, ${browser}`,
  run: () =>
    withServer(({ origin, stopServer }) => {
      const tour = async (hands) => {
        await useServed(hands);
        await useFiles(hands);
      };
      return visit(launch, `served ${browser}`, origin, tour, async (hands) => {
        const measured = await useLong(hands);
        await useAway(hands, origin, stopServer);
        return measured;
      });
    }),
}));

const keeps = Object.entries(BROWSERS).map(([browser, launch]) => ({
  name: `what the page keeps, ${browser}`,
  run: () =>
    withServer((server) => {
      const tour = async (hands) => {
        await useVersions(hands);
        await useFormulas(hands);
        await useFull(hands);
      };
      return visit(launch, `kept ${browser}`, server.origin, tour, async ({ again }) => {
        const hands = await again(WIDE);
        await hands.page.goto(`${server.origin}/`);
        await useDrafts(hands);
        await useTabs(hands);
        await useReturn(hands, server);
        await useBounds(hands);
        await useMigration(hands, `${server.origin}/health`);
      });
    }),
}));

const keys = Object.entries(BROWSERS).map(([browser, launch]) => ({
  name: `the page by keyboard, ${browser}`,
  run: () => withServer(({ origin }) => visitOnce(launch, `keys ${browser}`, origin, useKeys), 'two'),
}));

const pictures = Object.entries(BROWSERS).map(([browser, launch]) => ({
  name: `pictures on the page of quantlet serve, ${browser}`,
  run() {
    const files = [visionModel, visionProjector].map((name) => join(visionFolder, name));
    const tour = async (hands) => {
      await withCamera(hands);
      await hands.page.reload();
      await usePictures(hands);
    };
    return withServerOf(files[0], ({ origin }) => visit(launch, `pictures ${browser}`, origin, tour), files[1]);
  },
}));

/**
 * Gzipped bytes of a first visit, without the engine and kernels, which come with the first model.
 */
const FIRST_LOAD = 200_000;

/**
 * The example as in a clone, with the package as users get it: the consumer project's node_modules
 * is one folder up.
 */
async function buildExample() {
  const clone = join(app, 'clone');
  for (const path of ['page', 'examples/browser', 'src', 'tsconfig.json'])
    cpSync(join(root, path), join(clone, path), { recursive: true, filter: (path) => !/node_modules|[\\/]dist$/.test(path) });
  const folder = join(clone, 'examples/browser');
  await run(process.execPath, [tool('vite/bin/vite.js'), 'build', '--logLevel', 'error'], { cwd: folder });
  return join(folder, 'dist');
}
let built;

const inPage = Object.entries(BROWSERS).map(([browser, launch]) => ({
  name: `examples/browser (Vite), ${browser}`,
  async run() {
    const folder = await (built ??= buildExample());
    const slow = join(folder, 'slow');
    mkdirSync(slow, { recursive: true });
    for (const name of ['model.gguf', 'tiny-Q4_0.gguf']) cpSync(model, join(slow, name));
    const mounts = { '/': folder, '/slow/': slow, '/hub/tester/tiny-GGUF/resolve/main/': slow };
    const server = await serve(mounts, hub(statSync(model).size));
    const tour = async (hands) => {
      await useInPage(hands, server.origin);
      await useHub(hands, server.origin);
    };
    try {
      const result = await visit(launch, `in-page ${browser}`, server.origin, tour, async (hands) => {
        const other = await hands.again(WIDE);
        await other.page.goto(`${server.origin}/`);
        await useModelKeys(other, server.origin);
        await useUpdates(hands, join(folder, 'index.html'));
        await useOffline(hands, server.origin, server.close);
      });
      const html = readFileSync(join(folder, 'index.html'), 'utf8');
      const first = ['index.html', ...[...html.matchAll(/(?:src|href)="\.\/([^"]+\.(?:js|css))"/g)].map(([, file]) => file)];
      const size = first.reduce((sum, file) => sum + gzipSync(readFileSync(join(folder, file)), { level: 9 }).length, 0);
      if (size > FIRST_LOAD) result.faults.push(`the first load is ${size} bytes gzipped, the budget ${FIRST_LOAD}`);
      return { ...result, relaxed: 'yes', threads: 'yes', checked: `${result.checked}; ${(size / 1000).toFixed(0)} KB gzipped first` };
    } finally {
      await server.close().catch(() => {});
    }
  },
}));

const inPagePictures = Object.entries(BROWSERS).map(([browser, launch]) => ({
  name: `pictures in examples/browser, ${browser}`,
  async run() {
    const folder = await (built ??= buildExample());
    const server = await serve({ '/': folder, '/vision/': visionFolder });
    const files = [visionModel, visionProjector].map((name) => `${server.origin}/vision/${name}`);
    const assets = join(folder, 'assets');
    // The name of a PNG chunk tells code for pictures.
    const code = readdirSync(assets).filter((name) => name.endsWith('.js') && readFileSync(join(assets, name), 'utf8').includes('IDAT'));
    const tour = (hands) =>
      useInPagePictures(hands, files, () => server.requests.some(({ path }) => code.includes(path.split('/').at(-1))));
    try {
      return await visitOnce(launch, `in-page pictures ${browser}`, server.origin, tour);
    } finally {
      await server.close();
    }
  },
}));

export const pages = [...served, ...pictures, ...keeps, ...keys, ...inPage, ...inPagePictures];
