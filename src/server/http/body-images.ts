/** Images and sounds in the JSON of a request. The limit of texts does not count them. */
import { isRecord } from '../../chat/json.ts';
import { isImageText } from './json-body.ts';

/** Characters of the images and sounds that stand where the protocols have them. */
export function imageChars({ messages, input, prompt, images }: Readonly<Record<string, unknown>>): number {
  let sum = 0;
  const add = (value: unknown): void => {
    if (typeof value === 'string' && isImageText(value)) sum += value.length;
  };
  const addAll = (list: unknown): void => {
    if (Array.isArray(list)) for (const one of list as unknown[]) add(one);
  };
  const addParts = (parts: unknown): void => {
    if (!Array.isArray(parts)) return;
    for (const part of parts as unknown[]) {
      if (!isRecord(part)) continue;
      const { image_url: url, input_audio: sound, source, content } = part;
      add(isRecord(url) ? url.url : url);
      if (isRecord(sound)) add(sound.data);
      if (isRecord(source)) add(source.type === 'url' ? source.url : source.data);
      // A tool's result in Anthropic's messages has parts of its own.
      if (part.type === 'tool_result') addParts(content);
    }
  };
  for (const list of [messages, input])
    if (Array.isArray(list))
      for (const message of list as unknown[])
        if (isRecord(message)) {
          addParts(message.content);
          addParts(message.output);
          addAll(message.images);
        }
  if (isRecord(prompt)) addAll(prompt.multimodal_data);
  addAll(images);
  return sum;
}
