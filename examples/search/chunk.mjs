/**
 * Splits a text into chunks of at most `most` tokens, at the ends of paragraphs if possible, else
 * of sentences, else of words. The last sentence of a chunk begins the next one too, if it takes
 * less than a quarter of it.
 * @param count the number of tokens of a text
 */
export function chunksOf(text, count, most) {
  const chunks = [];
  let chunk = '';
  /** False while the chunk has only the sentence that it repeats. */
  let isNew = false;
  const end = () => {
    if (isNew) chunks.push(chunk.trim());
    isNew = false;
    const kept = chunk.trimEnd();
    const last = sentencesOf(kept).at(-1) ?? '';
    chunk = last !== kept && count(last) < most / 4 ? last + chunk.slice(kept.length) : '';
  };
  for (const paragraph of text.split(/\n\s*\n/)) {
    if (isNew && count(`${chunk}\n\n${paragraph}`) > most) end();
    for (const piece of piecesOf(paragraph, count, most)) {
      if (isNew && count(chunk + piece) > most) end();
      if (count(chunk + piece) > most) chunk = '';
      chunk += piece;
      isNew ||= piece.trim() !== '';
    }
    chunk += '\n\n';
  }
  end();
  return chunks;
}

const sentencesOf = (text) =>
  Array.from(new Intl.Segmenter(undefined, { granularity: 'sentence' }).segment(text), ({ segment }) => segment);

/** The sentences of a paragraph. One that is too long comes in pieces that end at words. */
function piecesOf(paragraph, count, most) {
  return sentencesOf(paragraph).flatMap((sentence) => {
    if (count(sentence) <= most) return [sentence];
    const pieces = [''];
    for (const word of sentence.match(/\S{1,200}\s*/g) ?? []) {
      if (count(pieces.at(-1) + word) > most) pieces.push('');
      pieces.push(pieces.pop() + word);
    }
    return pieces;
  });
}
