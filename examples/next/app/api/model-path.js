import { join } from 'node:path';

/** The model that ships with the package; MODEL names another. */
export const modelPath = () => process.env.MODEL ?? join(process.cwd(), 'node_modules/quantlet/models/tiny-stories-q4_0.gguf');
