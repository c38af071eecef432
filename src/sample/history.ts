/** The last n tokens, in a ring, and the number of occurrences of each id. */
export interface History {
  /** tokens in the history, at most n */
  readonly length: number;
  /** the token i places before the newest one (0 is the newest) */
  back(i: number): number;
  /** occurrences of this id in the history */
  count(id: number): number;
  /** true if the token i places back is the newest of its id; used to visit each id once */
  isNewest(i: number): boolean;
  push(id: number): void;
  reset(): void;
}

/**
 * @param n tokens to keep, -1: all. The buffer starts small and doubles up to n, because n may come
 * from a client and is rarely reached.
 */
export function createHistory(n: number, nVocab: number): History {
  const most = n === -1 ? Infinity : n;
  let ring = new Int32Array(Math.min(most, 256));
  const counts = new Int32Array(nVocab);
  const newest = new Float64Array(nVocab); // serial number of each id's newest token
  let pushed = 0;

  const length = (): number => Math.min(pushed, ring.length);
  const back = (i: number): number => ring[(pushed - 1 - i) % ring.length];

  return {
    get length() {
      return length();
    },
    back,
    count: (id) => counts[id],
    isNewest: (i) => newest[back(i)] === pushed - i,
    push(id) {
      if (ring.length === 0 || id < 0 || id >= nVocab) return;
      if (pushed >= ring.length) {
        if (ring.length < most) {
          const larger = new Int32Array(Math.min(most, ring.length * 2));
          larger.set(ring);
          ring = larger;
        } else {
          counts[ring[pushed % ring.length]]--;
        }
      }
      ring[pushed % ring.length] = id;
      counts[id]++;
      newest[id] = ++pushed;
    },
    reset() {
      counts.fill(0);
      newest.fill(0);
      pushed = 0;
    },
  };
}
