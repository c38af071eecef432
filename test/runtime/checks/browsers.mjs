// Chromium, Firefox and WebKitGTK: isolated and not, without workers, without Atomics.waitAsync,
// and with the page's own wasm and worker.
import { BUILDS, golden } from '../lib/consumer.mjs';
import { launchChromium, launchFirefox, launchWebKit } from '../lib/drivers.mjs';
import { judge } from '../lib/judge.mjs';
import { modelUrl, site, vision } from '../lib/site.mjs';

const every = [
  {},
  // Layers in several memories, as for models of more than 4 GiB.
  { links: 3 },
  { build: 'simd', links: 3 },
  ...BUILDS.flatMap((build) => (build.endsWith('-threads') ? [1, 2, 3].map((threads) => ({ build, threads })) : [{ build }])),
];

/**
 * Situations: how the page is opened, the loads that run in it, if pictures are decoded and
 * answered, and what the first (default) load must have chosen.
 */
const SITUATIONS = {
  isolated: { query: 'coi=1', runs: every, builds: BUILDS, vision, threaded: true },
  'not isolated': { query: '', runs: every, builds: BUILDS, vision, threaded: false },
  "CSP script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:": {
    query: `coi=1&csp=${encodeURIComponent("script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:")}`,
    runs: [{}],
    builds: [],
    threaded: true,
  },
  'no worker allowed': { query: `coi=1&csp=${encodeURIComponent("worker-src 'none'")}`, runs: [{}], builds: [], threaded: false },
  'no Atomics.waitAsync': { query: 'coi=1&nowait', runs: [{}], builds: [], without: ['waitAsync'], threaded: true },
  "the page's own worker": {
    query: `coi=1&csp=${encodeURIComponent("worker-src 'self'")}`,
    runs: [{ worker: '/worker/web.js?coi=1' }],
    builds: [],
    threaded: true,
  },
  "the page's own wasm": { query: '', runs: [{ wasm: '/wasm/simd.wasm' }], builds: [], threaded: false },
};

/** `isolates`: if this browser gives isolated pages shared memory (WebKitGTK 2.50 does not). */
const row = (name, launch, { situations = Object.keys(SITUATIONS), isolates = true } = {}) =>
  situations.map((situation) => ({
    name: `${name}, ${situation}`,
    async run(reference) {
      const { query, threaded, ...options } = SITUATIONS[situation];
      const server = await site();
      let browser;
      try {
        browser = await launch();
        const page = await browser.open(`${server.origin}/page?${query}`);
        const out = await page.call('quantletCheck', { golden, source: modelUrl, ...options });
        const result = judge({ ...out, kernels: Object.keys(out.kernels).length ? out.kernels : { simd: reference } }, reference);
        const chosen = out.models[0];
        if (chosen.build.endsWith('-threads') !== (threaded && isolates)) result.faults.push(`by itself it chose ${chosen.build}`);
        const { length } = Object.keys(out.kernels);
        const checked = length ? result.checked : `model ${out.models.length} times`;
        return { ...result, version: browser.version, checked: `${checked}, by itself ${chosen.build}` };
      } finally {
        await browser?.close();
        await server.close();
      }
    },
  }));

export const browsers = [
  ...row('Chromium', launchChromium),
  ...row('Firefox', launchFirefox),
  ...row('WebKitGTK', launchWebKit, {
    situations: ['isolated', 'not isolated', 'no worker allowed', "the page's own wasm"],
    isolates: false,
  }),
];
