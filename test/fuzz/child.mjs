// The process of one campaign on one build (run.mjs). Its task is an argument; its result is sent
// as a message.
import { register } from 'tsx/esm/api';

// TypeScript is enabled by this call instead of a flag. Workers inherit flags, and loading tsx in
// each would take most of their time.
register();

const { name, ...options } = JSON.parse(process.argv[2]);
const { detectFeatures, pickBuild } = await import('../../src/wasm/load.ts');

async function run() {
  try {
    pickBuild(detectFeatures(), options.build);
  } catch ({ message }) {
    return { skipped: message };
  }
  return (await import(`./${name}.ts`)).campaign(options);
}

process.send(await run());
process.disconnect();
