/** List of the supported architectures. A new one is a file and an entry in this list. */
import { QuantletError } from '../errors.ts';
import { nearest } from '../nearest.ts';
import type { Architecture } from './architecture.ts';
import { apertus } from './apertus.ts';
import { bert, jinaBertV2, jinaBertV3, nomicBert, nomicBertMoe } from './bert.ts';
import { bitnet } from './bitnet.ts';
import { cohere2, commandR } from './cohere.ts';
import { deepseek2 } from './deepseek2.ts';
import { exaone4 } from './exaone.ts';
import { gemma2, gemma3, gemmaEmbedding } from './gemma.ts';
import { gemma3n } from './gemma3n.ts';
import { gemma4 } from './gemma4.ts';
import { glm4 } from './glm.ts';
import { gptOss } from './gpt-oss.ts';
import { granite, graniteHybrid, graniteMoe } from './granite.ts';
import { hunyuanDense } from './hunyuan.ts';
import { bamboo, ernie4_5, internlm2, llama, phi3, smollm3 } from './llama.ts';
import { mistral3 } from './mistral.ts';
import { euroBert, modernBert, neoBert } from './modern-bert.ts';
import { nemotronH, nemotronHMoe } from './nemotron.ts';
import { olmo, olmo2, olmoe } from './olmo.ts';
import { falcon } from './falcon.ts';
import { falconH1 } from './falcon-h1.ts';
import { lfm2, lfm2moe } from './lfm2.ts';
import { mamba, mamba2 } from './mamba.ts';
import { opt } from './opt.ts';
import { qwen35, qwen35moe, qwen3next } from './qwen35.ts';
import { qwen2, qwen2moe, qwen2vl, qwen3, qwen3moe, qwen3vl } from './qwen.ts';
import { seedOss } from './seed-oss.ts';
import { smallthinker } from './smallthinker.ts';
import { stablelm } from './stablelm.ts';
import { starcoder2 } from './starcoder2.ts';
import { t5, t5encoder } from './t5.ts';

export const ARCHITECTURES: readonly Architecture[] = [
  llama,
  bamboo,
  smollm3,
  mistral3,
  ernie4_5,
  internlm2,
  seedOss,
  qwen2,
  qwen3,
  qwen2vl,
  qwen3vl,
  qwen2moe,
  qwen3moe,
  gptOss,
  deepseek2,
  gemma2,
  gemma3,
  gemma3n,
  gemma4,
  phi3,
  olmo,
  olmo2,
  olmoe,
  exaone4,
  glm4,
  hunyuanDense,
  commandR,
  cohere2,
  apertus,
  granite,
  graniteMoe,
  smallthinker,
  starcoder2,
  stablelm,
  bitnet,
  lfm2,
  lfm2moe,
  mamba,
  mamba2,
  qwen35,
  qwen35moe,
  qwen3next,
  graniteHybrid,
  falconH1,
  falcon,
  opt,
  nemotronH,
  nemotronHMoe,
  t5,
  bert,
  nomicBert,
  nomicBertMoe,
  jinaBertV2,
  jinaBertV3,
  modernBert,
  neoBert,
  euroBert,
  gemmaEmbedding,
  t5encoder,
];

/**
 * The supported architecture with the nearest name in the same family ("qwen" of "qwen3moe",
 * "granite" of "granitehybrid").
 */
function nearestTo(name: string): string | undefined {
  const family = (of: string): string => /^[a-z]*/.exec(of)![0];
  const mine = family(name);
  const related = ARCHITECTURES.map((a) => a.name).filter(
    (other) => mine.startsWith(family(other)) || (mine && family(other).startsWith(mine)),
  );
  return nearest(name, related, Infinity)[0];
}

/** @throws ERR_UNSUPPORTED_ARCH naming the nearest supported architecture, and all others */
export function findArchitecture(name: string): Architecture {
  const found = ARCHITECTURES.find((a) => a.name === name);
  if (!found) {
    const near = nearestTo(name);
    throw new QuantletError(
      'ERR_UNSUPPORTED_ARCH',
      `the model's architecture is "${name}", which quantlet does not run; ${near ? `the nearest that it runs is ${near}, all are` : 'it runs'} ${ARCHITECTURES.map((a) => a.name).join(', ')}`,
    );
  }
  return found;
}
