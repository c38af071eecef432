import { DatabaseSync } from 'node:sqlite';
import { getLoadablePath } from 'sqlite-vec';

/** Results of each of the two searches that are merged. */
const CANDIDATES = 50;
/** Constant of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009). */
const RANK_OFFSET = 60;

/**
 * Chunks in an SQLite file: their texts, their vectors (sqlite-vec), and an index of their words
 * (FTS5, which ranks by BM25).
 */
export function openStore(path, dimensions) {
  const db = new DatabaseSync(path, { allowExtension: true });
  db.loadExtension(getLoadablePath());
  db.exec(`
    create table if not exists chunks (id integer primary key, file text not null, text text not null);
    create index if not exists chunks_of_file on chunks (file);
    create virtual table if not exists vectors using vec0 (embedding float[${dimensions}]);
    create virtual table if not exists words using fts5 (text, tokenize = 'porter unicode61');
  `);
  const idsOf = db.prepare('select id from chunks where file = ?');
  const removals = ['chunks where id', 'vectors where rowid', 'words where rowid'].map((from) => db.prepare(`delete from ${from} = ?`));
  const addChunk = db.prepare('insert into chunks (file, text) values (?, ?)');
  const addVector = db.prepare('insert into vectors (rowid, embedding) values (?, ?)');
  const addWords = db.prepare('insert into words (rowid, text) values (?, ?)');
  const nearest = db.prepare('select rowid as id from vectors where embedding match ? and k = ? order by distance');
  const ranked = db.prepare('select rowid as id from words where words match ? order by bm25(words) limit ?');
  const chunk = db.prepare('select file, text from chunks where id = ?');

  return {
    /** Replaces the chunks of a file, all or nothing. */
    replace(file, texts, vectors) {
      db.exec('begin');
      try {
        for (const { id } of idsOf.all(file)) for (const removal of removals) removal.run(BigInt(id));
        texts.forEach((text, i) => {
          const id = BigInt(addChunk.run(file, text).lastInsertRowid);
          addVector.run(id, vectors[i]);
          addWords.run(id, text);
        });
        db.exec('commit');
      } catch (error) {
        db.exec('rollback');
        throw error;
      }
    },
    /** The best chunks for a query by meaning and by words, merged by their ranks. */
    find(query, vector, most) {
      const scores = new Map();
      const add = (rows) => rows.forEach(({ id }, rank) => scores.set(id, (scores.get(id) ?? 0) + 1 / (RANK_OFFSET + rank + 1)));
      add(nearest.all(vector, CANDIDATES));
      const words = query.match(/[\p{L}\p{N}]+/gu) ?? [];
      // Quotes make each word a plain one: AND, NEAR and others are operators of FTS5.
      if (words.length > 0) add(ranked.all(words.map((word) => `"${word}"`).join(' OR '), CANDIDATES));
      return [...scores]
        .sort(([, a], [, b]) => b - a)
        .slice(0, most)
        .map(([id, score]) => ({ score, ...chunk.get(id) }));
    },
    close: () => db.close(),
  };
}
