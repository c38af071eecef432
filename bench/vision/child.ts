/**
 * Times quantlet's image encoder in a process of its own, for bench/vision.ts.
 *
 *   node --import tsx bench/vision/child.ts MMPROJ WIDTH SIDE THREADS ROUNDS [turbo]
 *
 * Prints the milliseconds of each round after a first one that is not timed, the peak memory of the
 * process, the memory of the engine and the build, as JSON.
 */
import { platform } from '../../src/entry/node-platform.ts';
import { openModelFiles } from '../../src/io/model-files.ts';
import { ImageEncoder } from '../../src/vision/encoder.ts';
import { visionProjector } from '../../src/vision/vision.ts';

const [mmproj, width, side, threads, rounds, turbo] = process.argv.slice(2);
const files = await openModelFiles(platform, mmproj);
const projector = visionProjector(files.gguf, {});
const options = { threads: Number(threads), build: undefined, turbo: turbo ? ('auto' as const) : false, signal: undefined };
const encoder = await ImageEncoder.load(platform, files, projector, options);
await files.close();
const image = { width: Number(side), height: Number(side), rgb: new Uint8Array(3 * Number(side) ** 2).fill(90) };
const ms: number[] = [];
let tokens = 0;
for (let i = 0; i <= Number(rounds); i++) {
  const begin = performance.now();
  tokens = (await encoder.encode(image, undefined)).length / Number(width);
  if (i > 0) ms.push(performance.now() - begin);
}
await encoder.dispose();
console.log(JSON.stringify({ ms, peakBytes: process.resourceUsage().maxRSS * 1024, tokens }));
