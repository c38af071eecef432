import { join } from 'node:path';

/** Path of the model: MODEL, or the model in the package. */
export const modelPath = () => process.env.MODEL ?? join(process.cwd(), 'node_modules/quantlet/models/tiny-stories-q4_0.gguf');
