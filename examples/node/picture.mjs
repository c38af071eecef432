// Usage: node picture.mjs MODEL MMPROJ PICTURE "What is this?"
// A small model that sees is hf:ggml-org/SmolVLM-256M-Instruct-GGUF:Q8_0, with the projector
// hf:ggml-org/SmolVLM-256M-Instruct-GGUF/mmproj-SmolVLM-256M-Instruct-Q8_0.gguf.
import { readFile } from 'node:fs/promises';
import { loadModel } from 'quantlet';

const [path, mmproj, picture, question = 'What is this?'] = process.argv.slice(2);
if (picture === undefined) throw new Error('usage: node picture.mjs MODEL MMPROJ PICTURE [QUESTION]');
const model = await loadModel(path, { mmproj });
const content = [
  { type: 'image', image: await readFile(picture) },
  { type: 'text', text: question },
];

for await (const event of model.chat([{ role: 'user', content }], { maxTokens: 120, temperature: 0 }))
  if (event.type === 'content') process.stdout.write(event.delta);
process.stdout.write('\n');
await model.dispose();
