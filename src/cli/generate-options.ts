/** Flags of run and chat for generating text, as options of generate() and chat(). */
import { parseExactJson } from '../chat/exact-json.ts';
import { QuantletError } from '../errors.ts';
import type { GenerateOptions } from '../generate/generate.ts';
import { SAMPLER_NAMES, type SamplerName, type SamplerOptions } from '../sample/options.ts';
import { SAMPLER_LETTERS, samplerOfLetter, samplerOfWord } from '../sample/names.ts';
import { readText, unescape } from './command.ts';
import type { SAMPLING_FLAGS } from './flags.ts';
import { lastOf, samplerValues, TEXT_FLAGS, type FlagKey, type Values } from './flags.ts';

export const GENERATE_FLAGS = [...TEXT_FLAGS, 'stop'] as const satisfies readonly FlagKey[];
type SamplerFlags = Values<(typeof SAMPLING_FLAGS)[number] | 'samplers' | 'samplerSeq'>;
type GenerateFlags = Values<(typeof GENERATE_FLAGS)[number]>;

/** Options of generate() and chat() from the flags that both commands share. */
export async function generateOptions(values: GenerateFlags): Promise<GenerateOptions> {
  const { predict = -1, stop, ignoreEos } = values;
  if (predict < -2)
    throw new QuantletError('ERR_USAGE', `maxTokens is ${predict}; expected a whole number of at least 0, or -1 for no limit`);
  return {
    ...samplerOptions(values),
    ...(await constraintOf(values)),
    maxTokens: predict === -2 ? -1 : predict,
    ...(stop ? { stop } : {}),
    ...(ignoreEos ? { ignoreEos } : {}),
  };
}

/** @throws ERR_USAGE */
export function checkKeep(keep: number): void {
  if (keep < -1) throw new QuantletError('ERR_USAGE', `--keep is ${keep}; expected a number of tokens, or -1 for the whole prompt`);
}

/** Options of the sampler; flags that were not given keep the defaults. */
export function samplerOptions(values: SamplerFlags): SamplerOptions {
  const { logitBias, drySequenceBreaker } = values;
  return {
    ...samplerValues(values),
    ...(logitBias ? { logitBias: new Map(logitBias.map(logitBiasOf)) } : {}),
    ...(drySequenceBreaker ? { drySequenceBreakers: drySequenceBreaker.filter((text) => text !== 'none').map(unescape) } : {}),
    ...samplersOf(values),
  };
}

/**
 * Parses `15043+1`: a token id and the signed number to add to its logit.
 * @throws ERR_USAGE
 */
function logitBiasOf(text: string): [id: number, bias: number] {
  const [, id, sign, size] = /^(\d+)([+-])(\d+(?:\.\d+)?|inf)$/.exec(text) ?? [];
  if (id === undefined || (sign === '+' && size === 'inf'))
    throw new QuantletError('ERR_USAGE', `--logit-bias is "${text}"; expected ID+BIAS, ID-BIAS or ID-inf, like 15043+1`);
  return [Number(id), Number(`${sign}${size.replace('inf', 'Infinity')}`)];
}

function samplersOf(values: SamplerFlags): { samplers?: readonly SamplerName[] } {
  const last = lastOf(values, 'samplers', 'samplerSeq');
  if (last === undefined) return {};
  const [flag, text] = last === 'samplers' ? ['--samplers', values.samplers!] : ['--sampler-seq', values.samplerSeq!];
  const samplers = text.split(last === 'samplers' ? ';' : '').map((word) => {
    const name = (last === 'samplers' ? samplerOfWord : samplerOfLetter)(word);
    if (name === undefined)
      throw new QuantletError(
        'ERR_USAGE',
        `${flag} has "${word}"; expected ${last === 'samplers' ? `some of ${SAMPLER_NAMES.join(';')}` : `letters of ${SAMPLER_LETTERS}`}`,
      );
    return name;
  });
  return { samplers };
}

/**
 * The grammar or JSON schema given by the flags.
 * @throws ERR_USAGE if the schema is not JSON
 */
async function constraintOf(values: GenerateFlags): Promise<Pick<GenerateOptions, 'grammar' | 'responseFormat'>> {
  const { grammar, grammarFile, jsonSchema, jsonSchemaFile } = values;
  if ([grammar, grammarFile, jsonSchema, jsonSchemaFile].filter((given) => given !== undefined).length > 1)
    throw new QuantletError('ERR_USAGE', '--grammar, --grammar-file, --json-schema and --json-schema-file exclude each other; give one');
  if (grammarFile !== undefined) return { grammar: await readText(grammarFile, 'the grammar') };
  if (grammar !== undefined) return { grammar };
  const text = jsonSchemaFile === undefined ? jsonSchema : await readText(jsonSchemaFile, 'the JSON schema');
  if (text === undefined) return {};
  const schema = jsonOf(jsonSchemaFile === undefined ? '--json-schema' : '--json-schema-file', text);
  return { responseFormat: JSON.stringify(schema) === '{}' ? { type: 'json_object' } : { type: 'json_schema', schema } };
}

/** @throws ERR_USAGE if the text is not a JSON object */
export function jsonOf(flag: string, text: string): object {
  let value: unknown;
  try {
    value = parseExactJson(text);
  } catch (cause) {
    const file = flag === '--json-schema' && /\.json$/i.test(text) ? '; --json-schema-file (-jf) reads it from a file' : '';
    throw new QuantletError('ERR_USAGE', `${flag} is not JSON: ${(cause as Error).message}${file}`, { cause });
  }
  if (typeof value === 'object' && value !== null) return value;
  throw new QuantletError('ERR_USAGE', `${flag} is the JSON ${JSON.stringify(value)}; expected an object`);
}
