// Usage: node search.mjs index FILE...; node search.mjs find QUERY
import { readFileSync } from 'node:fs';
import { loadModel } from 'quantlet';
import { chunksOf } from './chunk.mjs';
import { openStore } from './store.mjs';

const { MODEL = 'hf:CompendiumLabs/bge-small-en-v1.5-gguf', INDEX = 'index.db', QUERY_PROMPT = '' } = process.env;
/** Most tokens of a chunk: long enough for a thought, and shorter than what models were trained with. */
const CHUNK_TOKENS = 200;

const [command, ...args] = process.argv.slice(2);
if (!['index', 'find'].includes(command) || args.length === 0) {
  console.error('usage: node search.mjs index FILE...\n       node search.mjs find QUERY');
  process.exit(2);
}
const model = await loadModel(MODEL);
const [{ length: dimensions }] = await model.embed(['']);
const store = openStore(INDEX, dimensions);

if (command === 'index') {
  const count = (text) => model.tokenize(text).length;
  for (const file of args) {
    const chunks = chunksOf(readFileSync(file, 'utf8'), count, Math.min(CHUNK_TOKENS, model.contextLength - 2));
    store.replace(file, chunks, await model.embed(chunks));
    console.log(`${file}: ${chunks.length} chunks`);
  }
} else {
  const query = args.join(' ');
  const [vector] = await model.embed([query], { prompt: QUERY_PROMPT });
  for (const { file, text, score } of store.find(query, vector, 5))
    console.log(`${score.toFixed(4)} ${file}\n  ${text.replaceAll('\n', '\n  ')}\n`);
}
store.close();
await model.dispose();
