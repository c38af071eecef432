/** The architectures that run. A new one is a file of its own and a name in this list. */
import { QuantletError } from '../errors.ts';
import type { Architecture } from './architecture.ts';
import { apertus } from './apertus.ts';
import { bert, jinaBertV2, jinaBertV3, nomicBert } from './bert.ts';
import { bitnet } from './bitnet.ts';
import { cohere2, commandR } from './cohere.ts';
import { exaone4 } from './exaone.ts';
import { gemma2, gemma3, gemmaEmbedding } from './gemma.ts';
import { glm4 } from './glm.ts';
import { granite, graniteHybrid } from './granite.ts';
import { hunyuanDense } from './hunyuan.ts';
import { ernie4_5, internlm2, llama, phi3, smollm3 } from './llama.ts';
import { mistral3 } from './mistral.ts';
import { euroBert, modernBert, neoBert } from './modern-bert.ts';
import { olmo2 } from './olmo.ts';
import { falconH1 } from './falcon-h1.ts';
import { lfm2 } from './lfm2.ts';
import { mamba, mamba2 } from './mamba.ts';
import { qwen35 } from './qwen35.ts';
import { qwen2, qwen2vl, qwen3, qwen3vl } from './qwen.ts';
import { seedOss } from './seed-oss.ts';
import { stablelm } from './stablelm.ts';
import { starcoder2 } from './starcoder2.ts';

export const ARCHITECTURES: readonly Architecture[] = [
  llama,
  smollm3,
  mistral3,
  ernie4_5,
  internlm2,
  seedOss,
  qwen2,
  qwen3,
  qwen2vl,
  qwen3vl,
  gemma2,
  gemma3,
  phi3,
  olmo2,
  exaone4,
  glm4,
  hunyuanDense,
  commandR,
  cohere2,
  apertus,
  granite,
  starcoder2,
  stablelm,
  bitnet,
  lfm2,
  mamba,
  mamba2,
  qwen35,
  graniteHybrid,
  falconH1,
  bert,
  nomicBert,
  jinaBertV2,
  jinaBertV3,
  modernBert,
  neoBert,
  euroBert,
  gemmaEmbedding,
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
