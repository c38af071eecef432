/**
 * Self-test of kernels with turbo, in a process of its own because V8 may end it. Usage:
 * `node turbo.js KERNELS BUILD FLAGS...`. Prints the names of kernels whose bits differ. Flags are
 * set at run time, like in compileTurbo(), because V8 derives other flags from those that it is
 * started with.
 */
import { readFileSync } from 'node:fs';
import { EXPECTED } from '../turbo/bits.ts';
import { compileTurbo } from '../turbo/compile.ts';
import { selfTest } from '../turbo/self-test.ts';
import { isRelaxed, isThreaded, type Build } from '../wasm/load.ts';
import { withSharedMemory } from '../wasm/shared-memory.ts';

const [path, name, ...flags] = process.argv.slice(2);
const build = name as Build;
const got = selfTest(compileTurbo(withSharedMemory(readFileSync(path), isThreaded(build)), flags), build);
const want = EXPECTED[isRelaxed(build) ? 'relaxed' : 'simd'];
process.stdout.write(JSON.stringify({ differ: Object.keys({ ...want, ...got }).filter((kernel) => got[kernel] !== want[kernel]) }));
