import { existsSync, readdirSync, readFileSync } from 'node:fs';

const root = new URL('../../', import.meta.url);

/** The maker's data beside the checkout, where it exists. */
export const vocabDir = new URL('../shared/vocab/', root);
export const hasShared = existsSync(vocabDir);

/** Every vocabulary with vectors: inputs, and the ids llama.cpp gives without bos and eos. */
export interface Vectors { name: string; file: URL; inputs: string[]; outputs: number[][] }

export function sharedVectors(): Vectors[] {
  if (!hasShared) return [];
  return readdirSync(vocabDir).filter((f) => f.endsWith('.gguf')).map((f) => {
    const inputs = readFileSync(new URL(`${f}.inp`, vocabDir), 'utf8').split('\n__ggml_vocab_test__\n');
    const outputs = readFileSync(new URL(`${f}.out`, vocabDir), 'utf8').split('\n').map((line) => (line.match(/\d+/g) ?? []).map(Number));
    inputs.pop(); // the separator ends the last input too
    return { name: f.replace(/^ggml-vocab-|\.gguf$/g, ''), file: new URL(f, vocabDir), inputs, outputs };
  });
}

/** The metadata of a GGUF file. */
export function readMetadata(file: URL): Map<string, unknown> {
  const bytes = readFileSync(file);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 24;
  const u64 = (): number => { at += 8; return Number(view.getBigUint64(at - 8, true)); };
  const u32 = (): number => { at += 4; return view.getUint32(at - 4, true); };
  const string = (): string => { const n = u64(); at += n; return bytes.toString('utf8', at - n, at); };
  const value = (type: number): unknown => {
    switch (type) {
      case 0: case 7: { at++; const v = view.getUint8(at - 1); return type === 7 ? v !== 0 : v; }
      case 1: at++; return view.getInt8(at - 1);
      case 2: at += 2; return view.getUint16(at - 2, true);
      case 4: return u32();
      case 5: at += 4; return view.getInt32(at - 4, true);
      case 6: at += 4; return view.getFloat32(at - 4, true);
      case 8: return string();
      case 9: { const inner = u32(); return Array.from({ length: u64() }, () => value(inner)); }
      case 10: return u64();
      default: throw new Error(`GGUF value type ${type}`);
    }
  };
  const metadata = new Map<string, unknown>();
  for (let n = Number(view.getBigUint64(16, true)); n > 0; n--) { const key = string(); metadata.set(key, value(u32())); }
  return metadata;
}

export const shippedModel = new URL('models/tiny-stories-q4_0.gguf', root);
