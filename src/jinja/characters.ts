/** Texts as sequences of code points, as in Python; JavaScript's strings count UTF-16 units. */

const surrogates = /[\ud800-\udbff][\udc00-\udfff]/;
/** True if the text has surrogate pairs, so that code points and UTF-16 units differ. */
export const isWide = (text: string): boolean => surrogates.test(text);
/** Length in code points. */
export function textLength(text: string): number {
  let length = text.length;
  for (let at = text.search(surrogates); at >= 0 && at < text.length; at++)
    if (isPair(text, at)) {
      length--;
      at++;
    }
  return length;
}
const isPair = (text: string, at: number): boolean => text.codePointAt(at)! > 0xffff;
/**
 * The code point at an index (counted from the end if negative), or undefined. Does not make a list
 * of all code points.
 */
export function characterAt(text: string, index: number): string | undefined {
  if (!isWide(text)) return text.at(index);
  const from = index < 0 ? index + textLength(text) : index;
  if (from < 0) return undefined;
  let at = 0;
  for (let n = 0; n < from && at < text.length; n++) at += isPair(text, at) ? 2 : 1;
  return at < text.length ? String.fromCodePoint(text.codePointAt(at)!) : undefined;
}
/** Code points by index: the string itself if it has no surrogate pairs, else an array. */
export const characters = (text: string): string | string[] => (isWide(text) ? Array.from(text) : text);
export const sliceText = (text: string, from?: number, to?: number): string => {
  const chars = characters(text);
  return typeof chars === 'string' ? chars.slice(from, to) : chars.slice(from, to).join('');
};

/** True if a text has more than `count` code points. A long text is not counted to its end. */
export const longerThan = (text: string, count: number): boolean =>
  text.length > count && (text.length > 2 * count || textLength(text) > count);

/** The first `count` code points of a text. The rest is not read. */
export function headOf(text: string, count: number): string {
  let at = 0;
  for (let n = 0; n < count && at < text.length; n++) at += text.codePointAt(at)! > 0xffff ? 2 : 1;
  return text.slice(0, at);
}
