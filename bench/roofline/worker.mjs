/**
 * One thread of bench/roofline.ts: a memory of its own with the ceilings' and the package's
 * kernels. Plain JavaScript, so that it runs as a worker everywhere.
 */
import { parentPort, workerData } from 'node:worker_threads';

const { ith, dram, words, modules } = workerData;
/** Addresses: small things first, then the weights. */
const ACT = 2 ** 21;
const INPUT = 2 ** 23;
const DST = 2 ** 24;
const WEIGHTS = 2 ** 25;
const COLUMNS_MAX = 64;
const WARM_AT_MOST_MS = 2000;
const memory = new WebAssembly.Memory({ initial: Math.ceil((WEIGHTS + dram) / 65536) + 1, maximum: 65536 });
const ceilings = new WebAssembly.Instance(modules.ceilings, { env: { memory } }).exports;
const k = new WebAssembly.Instance(modules.kernels, { env: { memory } }).exports;

/**
 * 0x2c2c as f16 is 0.066, a usual scale, and as f32 2.4e-12. Sums stay normal numbers (subnormal
 * ones would be slower).
 */
new Uint8Array(memory.buffer, WEIGHTS).fill(0x2c);
const floats = new Float32Array(memory.buffer);
for (let i = 0; i < 2 ** 20; i++) floats[INPUT / 4 + i] = Math.sin(i);

/** The work to time, as a function that repeats it `times` times. */
function prepare({ what, bytes, type, rows, ne00, columns, chunk }) {
  if (what === 'read' || what === 'read_streams') return (times) => ceilings[what](WEIGHTS, WEIGHTS + bytes, times);
  if (what === 'peak_add' || what === 'peak_less') return (times) => ceilings[what](INPUT, DST, times);
  if (what !== 'mul_mat') return (times) => ceilings[what](INPUT, WEIGHTS, DST, times);
  const scratch = (k.heap_base() + 63) & ~63;
  if (scratch + k.mul_mat_packed_scratch() > ACT) throw new Error('the scratch does not fit below the activations');
  const actType = k.packed_act_type(type);
  const isFloat = actType === 0;
  const stride = isFloat ? 4 * ne00 : k.act_row_size(actType, ne00);
  if (columns > COLUMNS_MAX || ACT + columns * stride > INPUT) throw new Error('the activations do not fit');
  for (let c = 0; c < columns; c++) {
    if (isFloat) floats.copyWithin((ACT + c * stride) / 4, INPUT / 4, INPUT / 4 + ne00);
    else k.quantize_act(actType, INPUT + 4 * c, 0, ne00, ACT, stride, c, columns);
  }
  return (times) => {
    for (; times > 0; times--) {
      for (let row = 0; row < rows; row += chunk)
        k.mul_mat_packed(type, WEIGHTS, ne00, row, Math.min(row + chunk, rows), ACT, stride, columns, DST - 4 * row, 4 * chunk, scratch);
    }
  };
}

/** Waits until all nth threads of a measurement are here, so that they start together. */
function meet(nth) {
  const phase = Atomics.load(words, 1);
  if (Atomics.add(words, 0, 1) === nth - 1) {
    Atomics.store(words, 0, 0);
    Atomics.add(words, 1, 1);
    Atomics.notify(words, 1);
  } else while (Atomics.load(words, 1) === phase) Atomics.wait(words, 1, phase, 100);
}

const prepared = new Map();

parentPort.on('message', ({ job, nth, ms }) => {
  let known = prepared.get(job.name);
  if (!known) {
    const run = prepare(job);
    // V8 starts with unoptimised code and replaces a function between two calls, when a background
    // thread has compiled it. So make short calls until none was clearly faster than all before for
    // warmMs.
    let best = Infinity;
    let since = performance.now();
    for (const end = since + WARM_AT_MOST_MS; performance.now() < Math.min(since + job.warmMs, end);) {
      const start = performance.now();
      run(1);
      const now = performance.now();
      if (now - start < 0.8 * best) [best, since] = [now - start, now];
    }
    let times = 1;
    for (;;) {
      const start = performance.now();
      run(times);
      if (performance.now() - start > 2 || times > 1e7) break;
      times *= 2;
    }
    prepared.set(job.name, (known = { run, times }));
  }
  // Fills the caches with this job's data instead of the last one's. Products get new activations.
  if (job.what === 'mul_mat') prepare(job);
  known.run(1);
  meet(nth);
  const start = performance.now();
  let done = 0;
  do {
    known.run(known.times);
    done += known.times;
  } while (performance.now() - start < ms);
  parentPort.postMessage({ ith, perSecond: (done * 1000) / (performance.now() - start) });
});
