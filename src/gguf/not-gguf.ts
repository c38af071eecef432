/** Detection, by first bytes, of files that users pass by mistake for a GGUF file. */

const OLD_GGML = "an old GGML file, from before GGUF: convert it with llama.cpp's scripts";
const CONVERT = "convert it to GGUF with llama.cpp's convert_hf_to_gguf.py, or get a .gguf file of the model";

/** First bytes and their meaning; ? stands for any byte. */
const MISTAKES: readonly (readonly [pattern: string, meaning: string])[] = [
  ['FUGG', 'a GGUF file with its bytes in the wrong order'],
  ['lmgg', OLD_GGML],
  ['fmgg', OLD_GGML],
  ['tjgg', OLD_GGML],
  ['version https://git-lfs', 'a Git LFS pointer: run git lfs pull to get the model itself'],
  ['<', 'a web page or XML, maybe an error answer in place of the download'],
  ['PK\x03\x04', `a zip archive, maybe a PyTorch checkpoint: ${CONVERT}`],
  ['\x80?', `a Python pickle, maybe a PyTorch checkpoint: ${CONVERT}`],
  ['????\0\0\0\0{"', `a safetensors file: ${CONVERT}`],
  ['\x89HDF\r\n', `an HDF5 file, maybe a Keras model: ${CONVERT}`],
  ['????TFL3', 'a TensorFlow Lite model, which quantlet does not read: get a .gguf file of the model'],
  ['\x08?\x12', 'an ONNX model, which quantlet does not read: get a .gguf file of the model'],
  ['\x1f\x8b', 'a gzip archive: unpack it first'],
  ['\x28\xb5\x2f\xfd', 'a Zstandard archive: unpack it first'],
  ['7z\xbc\xaf', 'a 7z archive: unpack it first'],
  ['{', 'JSON, maybe a configuration, or an error answer in place of the download'],
];

/** Meaning of a file's first bytes (32 are enough); undefined if unknown. */
export function notGGUF(start: Uint8Array): string | undefined {
  const fits = (pattern: string): boolean =>
    pattern.length <= start.length && [...pattern].every((c, i) => c === '?' || start[i] === c.charCodeAt(0));
  const known = MISTAKES.find(([pattern]) => fits(pattern));
  if (known) return known[1];
  const isText = start.length >= 8 && start.every((b) => (b >= 32 && b < 127) || (b >= 9 && b <= 13));
  return isText ? 'a text file' : undefined;
}
