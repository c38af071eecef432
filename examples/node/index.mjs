// Usage: node index.mjs "Once upon a time"
import { fileURLToPath } from 'node:url';
import { loadModel } from 'quantlet';

// Default: the model in the package. The path of any GGUF file works.
const path = fileURLToPath(import.meta.resolve('quantlet/models/tiny-stories-q4_0.gguf'));
const model = await loadModel(process.env.MODEL ?? path);
const prompt = process.argv[2] ?? 'Once upon a time';

process.stdout.write(prompt);
for await (const { text } of model.generate(prompt, { maxTokens: 60, temperature: 0 })) process.stdout.write(text);
process.stdout.write('\n');
await model.dispose();
