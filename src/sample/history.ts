/** The last n tokens, oldest overwritten first, with how often each id is among them. */
export interface History {
  /** tokens held, at most n */
  readonly length: number;
  /** the token i places before the newest one (0 is the newest) */
  back(i: number): number;
  /** times this id is held */
  count(id: number): number;
  /** whether the token i places back is the newest of its id: visits each id once */
  isNewest(i: number): boolean;
  push(id: number): void;
  reset(): void;
}

/** @param n how many tokens to hold, -1: all; the buffer doubles up to that, since n may come from a client and is seldom reached */
export function createHistory(n: number, nVocab: number): History {
  const most = n === -1 ? Infinity : n;
  let ring = new Int32Array(Math.min(most, 256));
  const counts = new Int32Array(nVocab);
  const newest = new Float64Array(nVocab); // serial number of the newest token of this id
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
