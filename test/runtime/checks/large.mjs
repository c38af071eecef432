// A model of more than 4 GiB in Chromium: downloaded and kept, from the browser's files, and by
// ranges only. Node gives the expected ids.
import { mkdtempSync, readFileSync, rmSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { app, root, run, work } from '../lib/consumer.mjs';
import { launchProfile } from '../lib/drivers.mjs';
import { residentBelow } from '../lib/resident.mjs';
import { site } from '../lib/site.mjs';

const GB = 1e9;
const NEEDED = { memory: 7 * GB, disk: 9 * GB };
const PROMPT = 'Once upon a time';
const N_PREDICT = 2;

const available = () => 1024 * Number(/^MemAvailable:\s+(\d+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))[1]);

const row = {
  name: 'Chromium, a model of more than 4 GiB',
  async run() {
    const folder = mkdtempSync(join(work, 'large-'));
    const clean = () => rmSync(folder, { recursive: true, force: true });
    process.once('exit', clean); // in case there is no time for the clean-up at the end
    let server, browser, timer;
    try {
      const [memory, disk] = [available(), statfsSync(folder)];
      const free = disk.bavail * disk.bsize;
      if (memory < NEEDED.memory || free < NEEDED.disk)
        throw new Error(
          `it takes ${NEEDED.memory / GB} GB of memory and ${NEEDED.disk / GB} GB of disk in ${work}; there are ${(memory / GB).toFixed(1)} and ${(free / GB).toFixed(1)}`,
        );
      const file = join(folder, 'large.gguf');
      await run(process.execPath, ['--import', 'tsx', join(root, 'test/runtime/lib/large-model.ts'), file], { cwd: root });
      const cli = join(app, 'node_modules/quantlet/dist/cli.js');
      const { stdout } = await run(process.execPath, [
        ...[cli, 'run', '-m', file, '-p', PROMPT, '-n', N_PREDICT, '-c', 256, '--temp', 0, '--ignore-eos', '--no-warmup', '--json'].map(
          String,
        ),
      ]);
      const want = JSON.parse(stdout).ids;
      server = await site({ '/large/': folder });
      browser = await launchProfile(join(folder, 'profile'));
      let peak = 0;
      timer = setInterval(() => (peak = Math.max(peak, residentBelow(folder))), 500);
      const source = '/large/large.gguf';
      const asked = () => server.requests.filter(({ path }) => path === source).length;
      const faults = [];
      const seen = [];
      // By ranges only one token is generated, because weights that do not fit in memory are
      // downloaded again in every step.
      for (const [what, options, maxTokens, requests] of [
        ['downloaded and kept', {}, N_PREDICT, (n) => n === 1],
        ["out of the browser's files, 3.5 GB of weights in memory", { weightsMemory: 3.5 * GB }, N_PREDICT, (n) => n === 0],
        ['by ranges, 3.5 GB of weights in memory', { weightsMemory: 3.5 * GB, cache: false }, 1, (n) => n > 1],
      ]) {
        const [before, from] = [asked(), Date.now()];
        peak = 0;
        const page = await browser.open(`${server.origin}/page?coi=1`);
        const { ids, build, weights } = await page.call('greedyIds', { source, prompt: PROMPT, maxTokens, options });
        await page.close();
        if (ids.join() !== want.slice(0, maxTokens).join()) faults.push(`${what}: ids ${ids}, in Node ${want}`);
        if (!requests(asked() - before)) faults.push(`${what}: ${asked() - before} requests`);
        if (options.weightsMemory ? weights > options.weightsMemory : weights < 2 ** 32)
          faults.push(`${what}: ${weights} bytes of weights in memory`);
        seen.push(`${what}: ${build}, ${((Date.now() - from) / 1000).toFixed(0)} s, ${(peak / GB).toFixed(1)} GB at most`);
      }
      return {
        faults,
        version: browser.version,
        relaxed: 'yes',
        threads: 'yes',
        checked: `${(statSync(file).size / GB).toFixed(2)} GB ${seen.join('; ')}`,
      };
    } finally {
      clearInterval(timer);
      await browser?.close();
      await server?.close();
      clean();
    }
  },
};

export const large = [row];
