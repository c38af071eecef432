/**
 * Cells in which a slot keeps states of recurrent layers. A state sums up all tokens up to a
 * position, and single tokens cannot be taken out of it. So a slot keeps the state after the last
 * token and some after earlier ones (checkpoints). Checkpoints cost nothing to make: a step leaves
 * its state in another cell and continues from there (the runs of graph/recurrent.ts).
 */

/**
 * `n` tokens that continue from the state in cell `from` (-1: from zeros) and leave theirs in cell
 * `to`.
 */
export interface Run {
  readonly n: number;
  readonly from: number;
  readonly to: number;
}

export interface StateCells {
  /**
   * Largest number of tokens, at most `length`, after which there is a state; 0 tokens need none.
   */
  reach(length: number): number;
  /** Cell of the state after `length` tokens, a result of reach(); -1 for 0 tokens. */
  cellOf(length: number): number;
  /**
   * Runs for the tokens at positions [from, to), after a state that exists. The cells that they
   * write hold nothing until commit().
   * @param keep true if the state at `from` must outlive them, because they may be taken back
   */
  plan(from: number, to: number, keep: boolean): Run[];
  /** Records that the runs planned last were computed. */
  commit(): void;
  /** Drops states after more than `length` tokens. */
  truncate(length: number): void;
  /**
   * Begins a prompt of this many tokens. Its last checkpoint is kept for the next turn, however
   * long the following text gets.
   */
  begin(promptLength: number): void;
  /**
   * Records that the first cell holds the state after `length` tokens, and returns this cell: for
   * restored sequences.
   */
  restore(length: number): number;
}

export interface StateCellsOptions {
  /** The slot's first cell. */
  readonly first: number;
  /**
   * Cells for the last token's state: 2 if tokens that are computed together can be taken back
   * (drafts), else 1.
   */
  readonly working: number;
  /** Cells for checkpoints. */
  readonly checkpoints: number;
  /** Tokens from one checkpoint to the next. */
  readonly step: number;
}

const NOTHING = -1;

export function createStateCells({ first, working, checkpoints, step }: StateCellsOptions): StateCells {
  /**
   * For each cell, the number of tokens that its state has read, or NOTHING. `planned` is the same
   * after the runs planned last, until commit() takes it over.
   */
  const lengths = new Array<number>(working + checkpoints).fill(NOTHING);
  let planned: number[] | undefined;
  let prompt = 0;

  const most = (of: readonly number[], limit: number): number => of.reduce((best, n) => (n <= limit && n > best ? n : best), 0);
  const reach = (length: number): number => most(lengths, length);
  const indexOf = (length: number): number => (length === 0 ? NOTHING : lengths.indexOf(length));

  /**
   * Cell for a checkpoint after `length` tokens: an empty one, else the checkpoint whose removal
   * leaves the smallest gap, relative to the distance from the gap's beginning to `length`. So
   * checkpoints are closer to each other near the end.
   */
  const place = (of: readonly number[], length: number, reserved: number): number => {
    const anchor = most(of.slice(working), prompt - 1);
    let best = NOTHING;
    let least = Infinity;
    for (let cell = working; cell < of.length; cell++) {
      const at = of[cell];
      if (cell === reserved || (at === anchor && at > 0)) continue;
      if (at === NOTHING) return cell;
      const before = most(of, at - 1);
      const behind = of.reduce((next, n) => (n > at && n < next ? n : next), length);
      const gap = (behind - before) / (length - before);
      if (gap < least) [best, least] = [cell, gap];
    }
    return best;
  };

  return {
    reach,
    cellOf: (length) => (length === 0 ? NOTHING : first + indexOf(length)),
    plan(from, to, keep) {
      const runs: Run[] = [];
      const source = indexOf(from);
      const live = source < 0 || source >= working ? 0 : keep ? (source + 1) % working : source;
      const after = lengths.slice();
      for (let at = from, cell = source; at < to;) {
        const border = (Math.floor(at / step) + 1) * step;
        const end = Math.min(to, border);
        const checkpoint = end === border ? place(after, end, keep ? source : NOTHING) : NOTHING;
        const target = checkpoint === NOTHING ? live : checkpoint;
        runs.push({ n: end - at, from: cell === NOTHING ? NOTHING : first + cell, to: first + target });
        after[target] = end;
        lengths[target] = NOTHING;
        cell = target;
        at = end;
      }
      planned = after;
      return runs;
    },
    commit() {
      planned?.forEach((n, cell) => (lengths[cell] = n));
      planned = undefined;
    },
    truncate(length) {
      lengths.forEach((n, i) => n > length && (lengths[i] = NOTHING));
      planned = undefined;
    },
    begin: (promptLength) => void (prompt = promptLength),
    restore(length) {
      lengths[0] = length;
      return first;
    },
  };
}
