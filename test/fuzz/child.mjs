// The process of one campaign by one build (run.mjs): its task comes as an argument, its result goes back as a message.
import { register } from 'tsx/esm/api';

// TypeScript by this call and not by a flag: every worker that a campaign starts would load tsx too, which took most of its time.
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
