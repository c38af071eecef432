/**
 * Damaged PNG and JPEG files: pixels, or a coded error, within a second. Headers that promise more
 * than the file has must not cost memory.
 */
import { QuantletError } from '../../src/errors.ts';
import { decodeImage } from '../../src/vision/decode.ts';
import { MAX_PIXELS } from '../../src/vision/picture.ts';
import { pictures } from '../vision/golden.ts';
import { seeded } from '../web/server.ts';
import { runCases, type CampaignOptions, type CampaignResult } from './campaign.ts';
import { below, mutate, pick } from './mutate.ts';

/** Longest time of a file. It counts if the processor was busy with it, and not with other work. */
const LIMIT_MS = 1000;
/** Most memory of a file: twice the pixels of the largest picture. */
const LIMIT_BYTES = 2 * 3 * MAX_PIXELS;
const HEADER = 700;

const cpuMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};
/** Largest memory of this process so far, in bytes. */
const peakBytes = (): number => process.resourceUsage().maxRSS * 1024;

const files = pictures.map(([name, { data }]) => [name, new Uint8Array(Buffer.from(data, 'base64'))] as const);

export async function campaign(options: CampaignOptions): Promise<CampaignResult> {
  let slowest = 0;
  let decoded = 0;
  const result = await runCases(options, async (seed) => {
    const next = seeded(seed);
    const [name, original] = pick(next, files);
    const bytes = mutate(next, original, below(next, 2) ? Math.min(HEADER, original.length) : original.length);
    const before = { ms: performance.now(), cpu: cpuMs(), bytes: peakBytes() };
    try {
      const { width, height, rgb } = await decodeImage(bytes);
      if (rgb.length !== 3 * width * height) throw new Error(`${name}: ${rgb.length} bytes for ${width} x ${height}`);
      decoded++;
    } catch (error) {
      if (!(error instanceof QuantletError) || !error.code.startsWith('ERR_IMAGE_')) throw new Error(`${name}: ${error}`, { cause: error });
    }
    const ms = Math.min(performance.now() - before.ms, cpuMs() - before.cpu);
    slowest = Math.max(slowest, ms);
    if (ms > LIMIT_MS) throw new Error(`${name}: took ${Math.round(ms)} ms`);
    const grown = peakBytes() - before.bytes;
    if (grown > LIMIT_BYTES) throw new Error(`${name}: took ${grown} bytes of memory`);
  });
  const most = `${Math.round(slowest)} ms at most, ${Math.round(peakBytes() / 2 ** 20)} MiB in all`;
  return { ...result, measured: `${decoded} gave pixels; ${most}` };
}
