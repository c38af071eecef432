// Usage: node embed.mjs MODEL QUERY TEXT... Sorts texts by similarity to the query.
import { loadModel } from 'quantlet';

const [path, query, ...texts] = process.argv.slice(2);
const model = await loadModel(path);
const [q, ...vectors] = await model.embed([query, ...texts]);
// The vectors have length one, so the cosine of their angle is their dot product.
const cosine = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const found = vectors.map((v, i) => ({ text: texts[i], cosine: cosine(q, v) })).sort((a, b) => b.cosine - a.cosine);
for (const { text, cosine } of found) console.log(cosine.toFixed(3), text);
await model.dispose();
