/** The architectures that run. A new one is a file of its own and a name in this list. */
import { QuantletError } from '../errors.ts';
import type { Architecture } from './architecture.ts';
import { bert, jinaBertV2, jinaBertV3, nomicBert } from './bert.ts';
import { bitnet } from './bitnet.ts';
import { gemma2, gemma3 } from './gemma.ts';
import { granite } from './granite.ts';
import { llama, smollm3 } from './llama.ts';
import { phi3 } from './phi3.ts';
import { qwen2, qwen3 } from './qwen.ts';
import { stablelm } from './stablelm.ts';
import { starcoder2 } from './starcoder2.ts';

export const ARCHITECTURES: readonly Architecture[] = [
  llama,
  smollm3,
  qwen2,
  qwen3,
  gemma2,
  gemma3,
  phi3,
  granite,
  starcoder2,
  stablelm,
  bitnet,
  bert,
  nomicBert,
  jinaBertV2,
  jinaBertV3,
];

/** @throws ERR_UNSUPPORTED_ARCH naming those that run */
export function findArchitecture(name: string): Architecture {
  const found = ARCHITECTURES.find((a) => a.name === name);
  if (!found)
    throw new QuantletError(
      'ERR_UNSUPPORTED_ARCH',
      `the model's architecture is "${name}"; quantlet runs ${ARCHITECTURES.map((a) => a.name).join(', ')}`,
    );
  return found;
}
