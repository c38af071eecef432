// Faults between a page and its model, in Chromium: a load works, or gives a coded error.
import { statSync } from 'node:fs';
import { golden, model } from '../lib/consumer.mjs';
import { launchChromium, launchTabs } from '../lib/drivers.mjs';
import { modelUrl, site } from '../lib/site.mjs';
import { until } from '../lib/wait.mjs';

const size = statSync(model).size;
const source = modelUrl;
const expect = (name, got, want) => {
  if (JSON.stringify(got) !== JSON.stringify(want))
    throw new Error(`${name}: got ${JSON.stringify(got)}, expected ${JSON.stringify(want)}`);
};
const single = (result) =>
  expect('load', { fault: result.fault, threads: result.build?.endsWith('-threads') }, { fault: '', threads: false });
const works = (result) => expect('load', { code: result.code, message: result.message, fault: result.fault }, { fault: '' });
const fails = (result, code) => expect('load', result.code ?? result, code);

/** name -> async ({ page, open, server, load, quota }). Each page has a new profile. */
const CASES = {
  'not found': async ({ load, server }) => ((server.state.conditions = 'status=404'), fails(await load(), 'ERR_DOWNLOAD')),
  'server error that stays': async ({ load, server }) => ((server.state.conditions = 'status=503'), fails(await load(), 'ERR_DOWNLOAD')),
  'a web page in place of the model': async ({ load }) => fails(await load({ source: '/page' }), 'ERR_GGUF_MAGIC'),
  'no URL': async ({ load }) => fails(await load({ source: 'http://[' }), 'ERR_SOURCE'),
  'another origin that does not allow it': async ({ load, server }) => {
    server.state.conditions = 'nocors=1';
    fails(await load({ source: server.origin.replace('127.0.0.1', 'localhost') + source }), 'ERR_DOWNLOAD');
  },
  'another origin that allows it': async ({ load, server }) =>
    works(await load({ source: server.origin.replace('127.0.0.1', 'localhost') + source })),
  'no ranges': async ({ load, server }) => ((server.state.conditions = 'norange=1'), works(await load())),
  'no length': async ({ load, server }) => ((server.state.conditions = 'norange=1&nolength=1'), works(await load())),
  'compressed answer': async ({ load, server }) => ((server.state.conditions = 'gzip=1'), works(await load())),
  'connection breaks once': async ({ load, server }) => {
    server.state.conditions = 'cut=500000&once=1';
    works(await load());
    const ranges = server.requests.filter((r) => r.path === source).map((r) => r.range);
    if (ranges.length !== 2 || !/^bytes=[1-9]/.test(ranges[1]))
      throw new Error(`ranges asked for: ${ranges}, expected all and then the rest`);
  },
  'every answer is cut': async ({ load, server }) => ((server.state.conditions = 'cut=400000'), works(await load())),
  'truncated, no ranges': async ({ load, server }) => (
    (server.state.conditions = 'cut=400000&norange=1'),
    fails(await load(), 'ERR_DOWNLOAD')
  ),
  'kept: the second load asks nobody': async ({ load, server, page }) => {
    works(await load());
    expect('kept', (await page.call('kept')).gguf, [size]);
    server.requests.length = 0;
    works(await load());
    expect('requests', server.requests.filter((r) => r.path === source).length, 0);
    works(await load({ options: { cache: 'reload' } }));
    expect('requests of a reload', server.requests.filter((r) => r.path === source).length, 1);
  },
  'cache: false keeps nothing': async ({ load, page }) => {
    works(await load({ options: { cache: false } }));
    expect('kept', await page.call('kept'), {});
  },
  'quota full': async ({ load, page, quota }) => {
    await quota(600_000);
    works(await load());
    expect('kept', (await page.call('kept')).gguf, undefined);
  },
  'quota full: the model unused longest makes room': async ({ load, page, quota }) => {
    works(await load({ source: `${source}?one` }));
    await quota(size + 1_000_000);
    works(await load({ source: `${source}?two` }));
    expect('kept', (await page.call('kept')).gguf, [size]);
  },
  'abort in the middle, then again': async ({ load, server }) => {
    server.state.conditions = 'slow=100';
    // So little is missing that a load closed normally would still fetch it. An aborted one must
    // not.
    expect('abort', (await load({ abortAt: 700_000 })).message, 'the test wants no more');
    server.state.conditions = '';
    works(await load());
    // The received bytes are kept, and nothing came after the abort.
    const { range } = server.requests.filter((r) => r.path === source).at(-1);
    const at = Number(/^bytes=(\d+)-$/.exec(range)?.[1]);
    if (!(at > 0 && at < size - 400_000))
      throw new Error(`the second load asked for ${range}, expected the rest from where the first was aborted`);
  },
  'tab closed in the middle, resumed in the next': async ({ open, server }) => {
    server.state.conditions = 'slow=500';
    const first = await open();
    void first.call('tryLoad', { source, golden }).catch(() => {});
    await until('the download to begin', async () => (await first.call('loadedSoFar')) > 200_000);
    await first.close();
    server.state.conditions = '';
    const second = await open();
    // The browser releases a closed tab's file lock a moment later. Until then a load works, but is
    // not kept.
    await until('the file to be free', async () => {
      const before = server.requests.length;
      works(await second.call('tryLoad', { source, golden }));
      return server.requests.slice(before).some((r) => r.path === source && /^bytes=[1-9]/.test(r.range));
    });
    expect('kept', (await second.call('kept')).gguf, [size]);
  },
  'the file changed since a broken download': async ({ load, server, page }) => {
    server.state.conditions = 'slow=20&etag=old';
    expect('abort', (await load({ abortAt: 300_000 })).message, 'the test wants no more');
    server.state.conditions = 'etag=new';
    works(await load());
    expect('kept', (await page.call('kept')).gguf, [size]);
    expect('last request', server.requests.filter((r) => r.path === source).at(-1).range, 'bytes=0-');
  },
  'second load while one runs': async ({ page, server }) => {
    server.state.conditions = 'slow=10';
    for (const result of await page.call('tryTwice', { source, golden })) works(result);
    expect('kept', (await page.call('kept')).gguf, [size]);
  },
  'two tabs': async ({ open, server }) => {
    server.state.conditions = 'slow=10';
    const tabs = [await open(), await open()];
    for (const result of await Promise.all(tabs.map((tab) => tab.call('tryLoad', { source, golden })))) works(result);
    expect('kept', (await tabs[0].call('kept')).gguf, [size]);
    server.requests.length = 0;
    for (const result of await Promise.all(tabs.map((tab) => tab.call('tryLoad', { source, golden })))) works(result);
    expect('requests', server.requests.filter((r) => r.path === source).length, 0);
  },
  'quantlet/hub keeps a model of a URL, and one of a hub': async ({ page, server }) => {
    const asked = () => server.requests.filter(({ path }) => path.endsWith('.gguf')).length;
    const endpoint = `${server.origin}/hub`;
    const file = 'tiny-Q4_0.gguf';
    for (const [trip, address, name] of [
      [{ source }, `${server.origin}${source}`, `${server.origin}${source}`],
      [
        { source: 'hf:tester/tiny-GGUF:Q4_0', endpoint },
        `${endpoint}/tester/tiny-GGUF/resolve/main/${file}`,
        `hf:tester/tiny-GGUF/${file}`,
      ],
    ]) {
      server.requests.length = 0;
      const { loaded, ...got } = await page.call('hubTrip', { ...trip, golden });
      works(loaded);
      const last = { phase: 'download', loaded: size, total: size, file: address.split('/').at(-1) };
      expect('trip', got, { address, model: { source: name, size, complete: true }, last, again: 0, freed: size, left: 0 });
      expect('requests of the model', asked(), 1);
    }
    expect('nothing to remove', await page.call('hubRemove', source), 0);
  },
  'a policy that forbids connections to the model': async ({ open }) => {
    const page = await open('csp=' + encodeURIComponent("connect-src 'none'"));
    fails(await page.call('tryLoad', { source, golden }), 'ERR_DOWNLOAD');
  },
  'a policy without wasm-unsafe-eval': async ({ open }) => {
    const page = await open('coi=1&csp=' + encodeURIComponent("script-src 'self'; worker-src 'self' blob:"));
    fails(await page.call('tryLoad', { source, golden }), 'ERR_BUILD_UNAVAILABLE');
  },
  'createWorker of a file that is not there': async ({ page }) => {
    single(await page.call('tryLoad', { source, golden, worker: '/worker/nowhere.js' }));
  },
  'worker blocked by the policy: computes in the page, kept through the Cache API': async ({ open, server }) => {
    const page = await open('coi=1&csp=' + encodeURIComponent("worker-src 'none'"));
    single(await page.call('tryLoad', { source, golden }));
    server.requests.length = 0;
    works(await page.call('tryLoad', { source, golden }));
    expect('requests', server.requests.filter((r) => r.path === source).length, 0);
  },
};

/**
 * Timers of a hidden tab are slowed down to one a second, and the tab may be frozen. Computing must
 * not wait for timers.
 */
const HIDDEN = { 'with threads': 'coi=1', 'with one worker': '', 'without workers': `csp=${encodeURIComponent("worker-src 'none'")}` };
const hidden = {
  name: 'Chromium, tab hidden and frozen',
  async run() {
    const chromium = await launchTabs();
    const server = await site();
    try {
      const found = [];
      const builds = [];
      for (const [how, query] of Object.entries(HIDDEN)) {
        const tab = await chromium.open(`${server.origin}/page?${query}`);
        const front = await chromium.open(`${server.origin}/page`);
        const befell = (what) => until(`the tab to be told: ${what}`, async () => (await tab.call('lifecycle')).at(-1) === what);
        await befell('hidden');
        const report = ({ build, fault, message }) => (fault === '' ? builds.push(build) : found.push(`${how}: ${message ?? fault}`));
        report(await tab.call('tryLoad', { source, golden }));

        server.state.conditions = 'slow=200';
        const loading = tab.call('tryLoad', { source, golden, options: { cache: false } });
        await until('the download to begin', async () => (await tab.call('loadedSoFar')) > 200_000);
        const cdp = await tab.page.createCDPSession();
        await cdp.send('Page.setWebLifecycleState', { state: 'frozen' });
        await befell('freeze');
        server.state.conditions = '';
        await cdp.send('Page.setWebLifecycleState', { state: 'active' });
        await befell('resume');
        report(await loading);
        await front.close();
        await tab.close();
      }
      return {
        faults: found,
        version: chromium.version,
        relaxed: 'yes',
        threads: 'yes',
        checked: `model ${builds.length} times: ${builds.join(', ')}`,
      };
    } finally {
      await chromium.close();
      await server.close();
    }
  },
};

export const faults = [
  hidden,
  {
    name: 'Chromium, downloads that go wrong',
    async run() {
      const found = [];
      const only = process.env.CASE;
      const left = Object.entries(CASES).filter(([name]) => !only || name.includes(only));
      const chromium = await launchChromium();
      const one = async (name, test) => {
        const server = await site();
        const context = await chromium.newContext();
        const open = async (query = 'coi=1') => {
          const page = await context.newPage();
          await page.goto(`${server.origin}/page?${query}`);
          await page.waitForFunction(() => document.title === 'ready');
          return { raw: page, call: (f, a) => page.evaluate(([n, v]) => globalThis[n](v), [f, a]), close: () => page.close() };
        };
        try {
          const page = await open();
          const session = await context.newCDPSession(page.raw);
          await test({
            page,
            open,
            server,
            load: (request = {}) => page.call('tryLoad', { source, golden, ...request }),
            quota: (quotaSize) => session.send('Storage.overrideQuotaForOrigin', { origin: server.origin, quotaSize }),
          });
        } catch (error) {
          found.push(`${name}: ${error.message}`);
        } finally {
          await context.close();
          await server.close();
        }
      };
      try {
        // Most of the time is waiting (slow servers, pauses before retries), so a few cases run
        // concurrently.
        await Promise.all(
          Array.from({ length: 4 }, async () => {
            for (let next; (next = left.shift());) await one(...next);
          }),
        );
        return { faults: found, version: chromium.version, checked: `${Object.keys(CASES).length} cases` };
      } finally {
        await chromium.close();
      }
    },
  },
];
