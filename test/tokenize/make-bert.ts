/**
 * Writes bert.json: words and ids of Hugging Face's tokenizers (BertNormalizer, BertPreTokenizer,
 * WordPiece), for the texts of bert-texts.ts. For developers; tests only read the file.
 *
 *   pip install tokenizers==0.23.1
 *   npx tsx test/tokenize/make-bert.ts [PYTHON]
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { escapedSpace } from '../../src/tokenize/vocab.ts';
import { BERT_OPTIONS, BERT_TEXTS, WORDPIECE } from './bert-texts.ts';
import { readMetadata, sharedVectors } from './fixtures.ts';
import type { TokenizerMetadata } from '../../src/tokenize/vocab.ts';

const PROGRAM = `
import json, sys
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
given = json.load(sys.stdin)
def normalizer(o):
    return normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=o['stripAccents'], lowercase=o['lowercase'])
def words(o):
    n, p = normalizer(o), pre_tokenizers.BertPreTokenizer()
    return [[w for w, _ in p.pre_tokenize_str(n.normalize_str(t))] for t in given['texts']]
def ids(vocabulary, texts):
    t = Tokenizer(models.WordPiece({w: i for i, w in enumerate(vocabulary)}, unk_token='[UNK]', max_input_chars_per_word=100))
    t.normalizer, t.pre_tokenizer = normalizer({'stripAccents': True, 'lowercase': True}), pre_tokenizers.BertPreTokenizer()
    return [t.encode(text).ids for text in texts]
json.dump({'words': [words(o) for o in given['options']], 'ids': [ids(v, x) for v, x in given['vocabularies']]}, sys.stdout)
`;

/** Tokens as BERT's vocab.txt spells them. */
function vocabularyOf(metadata: TokenizerMetadata): string[] {
  const types = metadata.get('tokenizer.ggml.token_type') as ArrayLike<number>;
  const tokens = metadata.get('tokenizer.ggml.tokens') as string[];
  return tokens.map((token, id) => (types[id] === 3 ? token : token.startsWith(escapedSpace) ? token.slice(1) : `##${token}`));
}

const shared = sharedVectors().find(({ name }) => name === 'bert-bge');
const vocabularies = [[vocabularyOf(WORDPIECE.metadata), BERT_TEXTS]];
if (shared) vocabularies.push([vocabularyOf(await readMetadata(shared.file)), [...shared.inputs, ...BERT_TEXTS]]);
const input = JSON.stringify({ options: BERT_OPTIONS, texts: BERT_TEXTS, vocabularies });
const output = execFileSync(process.argv[2] ?? 'python3', ['-c', PROGRAM], { input, encoding: 'utf8', maxBuffer: 1 << 26 });
const { words, ids } = JSON.parse(output) as { words: string[][][]; ids: number[][][] };
const rows = (lists: readonly unknown[]): string => lists.map((list) => JSON.stringify(list)).join(',\n');
writeFileSync(
  new URL('bert.json', import.meta.url),
  `{\n"words": [\n${words.map((of) => `[\n${rows(of)}\n]`).join(',\n')}\n],\n"ids": [\n${rows(ids[0])}\n],\n"bge": [\n${rows(ids[1] ?? [])}\n]\n}\n`,
);
