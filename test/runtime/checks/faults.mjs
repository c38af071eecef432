// What goes wrong between a page and its model: a coded error or it works, in Chromium.
import { statSync } from 'node:fs';
import { golden, model } from '../lib/consumer.mjs';
import { launchChromium } from '../lib/drivers.mjs';
import { modelUrl, site } from '../lib/site.mjs';

const size = statSync(model).size;
const source = modelUrl;
const until = async (what, done, ms = 20_000) => {
  for (const end = Date.now() + ms; !(await done()); await new Promise((r) => setTimeout(r, 20))) if (Date.now() > end) throw new Error(`waited ${ms} ms for ${what}`);
};
const expect = (name, got, want) => {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${name}: got ${JSON.stringify(got)}, expected ${JSON.stringify(want)}`);
};
const works = (result) => expect('load', { code: result.code, message: result.message, fault: result.fault }, { fault: '' });
const fails = (result, code) => expect('load', result.code ?? result, code);

/** name -> async ({ page, open, server, context }); a page is one of a fresh profile. */
const CASES = {
  'not found': async ({ load, server }) => ((server.state.conditions = 'status=404'), fails(await load(), 'ERR_DOWNLOAD')),
  'server error that stays': async ({ load, server }) => ((server.state.conditions = 'status=503'), fails(await load(), 'ERR_DOWNLOAD')),
  'a web page in place of the model': async ({ load }) => fails(await load({ source: '/page' }), 'ERR_GGUF_MAGIC'),
  'no URL': async ({ load }) => fails(await load({ source: 'http://[' }), 'ERR_SOURCE'),
  'another origin that does not allow it': async ({ load, server }) => {
    server.state.conditions = 'nocors=1';
    fails(await load({ source: server.origin.replace('127.0.0.1', 'localhost') + source }), 'ERR_DOWNLOAD');
  },
  'another origin that allows it': async ({ load, server }) => works(await load({ source: server.origin.replace('127.0.0.1', 'localhost') + source })),
  'no ranges': async ({ load, server }) => ((server.state.conditions = 'norange=1'), works(await load())),
  'no length': async ({ load, server }) => ((server.state.conditions = 'norange=1&nolength=1'), works(await load())),
  'compressed answer': async ({ load, server }) => ((server.state.conditions = 'gzip=1'), works(await load())),
  'connection breaks once': async ({ load, server }) => {
    server.state.conditions = 'cut=500000&once=1';
    works(await load());
    const ranges = server.requests.filter((r) => r.path === source).map((r) => r.range);
    if (ranges.length !== 2 || !/^bytes=[1-9]/.test(ranges[1])) throw new Error(`ranges asked for: ${ranges}, expected all and then the rest`);
  },
  'every answer is cut': async ({ load, server }) => ((server.state.conditions = 'cut=400000'), works(await load())),
  'truncated, no ranges': async ({ load, server }) => ((server.state.conditions = 'cut=400000&norange=1'), fails(await load(), 'ERR_DOWNLOAD')),
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
    server.state.conditions = 'slow=20';
    expect('abort', (await load({ abortAt: 300_000 })).message, 'the test wants no more');
    server.state.conditions = '';
    works(await load());
    if (!/^bytes=[1-9]/.test(server.requests.filter((r) => r.path === source).at(-1).range)) throw new Error(`the second load asked for ${server.requests.filter((r) => r.path === source).at(-1).range}, expected the rest only`);
  },
  'tab closed in the middle, resumed in the next': async ({ open, server }) => {
    server.state.conditions = 'slow=50';
    const first = await open();
    void first.call('tryLoad', { source, golden }).catch(() => {});
    await until('the download to begin', async () => (await first.call('loadedSoFar')) > 200_000);
    await first.close();
    server.state.conditions = '';
    const second = await open();
    // The browser gives a closed tab's file lock back a moment later; until then a load works without being kept.
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
  'tab frozen in the background': async ({ page, cdp }) => {
    const loading = page.call('tryLoad', { source, golden });
    await new Promise((r) => setTimeout(r, 150));
    await cdp('Page.setWebLifecycleState', { state: 'frozen' });
    await new Promise((r) => setTimeout(r, 1000));
    await cdp('Page.setWebLifecycleState', { state: 'active' });
    works(await loading);
  },
  'no worker: kept through the Cache API': async ({ open, server }) => {
    const page = await open('csp=' + encodeURIComponent("worker-src 'none'"));
    works(await page.call('tryLoad', { source, golden }));
    server.requests.length = 0;
    works(await page.call('tryLoad', { source, golden }));
    expect('requests', server.requests.filter((r) => r.path === source).length, 0);
  },
};

export const faults = [{
  name: 'Chromium, downloads that go wrong',
  async run() {
    const found = [];
    const only = process.env.CASE;
    const left = Object.entries(CASES).filter(([name]) => !only || name.includes(only));
    const chromium = await launchChromium();
    const one = async (name, test) => {
      const server = await site();
      const context = await chromium.browser.newContext();
      const open = async (query = 'coi=1') => {
        const page = await context.newPage();
        await page.goto(`${server.origin}/page?${query}`);
        await page.waitForFunction(() => document.title === 'ready');
        return { raw: page, call: (f, a) => page.evaluate(([n, v]) => globalThis[n](v), [f, a]), close: () => page.close() };
      };
      try {
        const page = await open();
        const session = await context.newCDPSession(page.raw);
        const cdp = (method, params) => session.send(method, params);
        await test({
          page, open, server, cdp,
          load: (request = {}) => page.call('tryLoad', { source, golden, ...request }),
          quota: (quotaSize) => cdp('Storage.overrideQuotaForOrigin', { origin: server.origin, quotaSize }),
        });
      } catch (error) {
        found.push(`${name}: ${error.message}`);
      } finally {
        await context.close();
        await server.close();
      }
    };
    try {
      // Most of the time is waiting (slow servers, pauses before retries), so a few cases run side by side.
      await Promise.all(Array.from({ length: 4 }, async () => {
        for (let next; (next = left.shift()); ) await one(...next);
      }));
      return { faults: found, version: chromium.version, checked: `${Object.keys(CASES).length} cases` };
    } finally {
      await chromium.close();
    }
  },
}];
