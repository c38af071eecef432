// Writes the tiny random models, the same bytes every time:
//   node make.mjs [NAME...]
import { writeFileSync } from 'node:fs';
import { write } from './gguf.mjs';
import { adapters, contexts, models } from './models.mjs';

const wanted = process.argv.slice(2);
let total = 0;
for (const [name, make] of [
  ...Object.entries({ ...models, ...contexts }),
  ...Object.entries(adapters).map(([name, { make }]) => [name, make]),
]) {
  if (wanted.length && !wanted.includes(name)) continue;
  const bytes = write(make());
  writeFileSync(new URL(`${name}.gguf`, import.meta.url), bytes);
  total += bytes.length;
  console.log(`${name}.gguf ${bytes.length}`);
}
console.log(`${total} bytes`);
