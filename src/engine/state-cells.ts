/**
 * The cells in which a slot keeps states of recurrent layers. A state says what all tokens up to a position have left behind, and cannot be taken back token
 * by token: so besides the state of the last token, some of earlier ones are kept (checkpoints). They cost nothing to make: a step is told to leave its
 * state in another cell, and to go on from there (graph/recurrent.ts runs).
 */

/** So many tokens go on from the state in cell `from` (-1: from none) and leave theirs in cell `to`. */
export interface Run {
  readonly n: number;
  readonly from: number;
  readonly to: number;
}

export interface StateCells {
  /** The most first tokens, at most `length`, behind which there is a state; none at all is one. */
  reach(length: number): number;
  /** The cell of the state behind so many tokens, as reach() gave them; -1 for none. */
  cellOf(length: number): number;
  /**
   * Runs for the tokens at positions `from` to before `to`, behind a state that there is. What they write holds nothing until commit().
   * @param keep whether the state at `from` must outlive them: they may have to be taken back
   */
  plan(from: number, to: number, keep: boolean): Run[];
  /** The runs planned last were computed. */
  commit(): void;
  /** Forgets states behind more tokens than these. */
  truncate(length: number): void;
  /** A prompt of so many tokens begins: a checkpoint before its end is kept for the next turn, however long the text behind it gets. */
  begin(promptLength: number): void;
  /** Has the first cell hold the state behind so many tokens, and returns it: for restored sequences. */
  restore(length: number): number;
}

export interface StateCellsOptions {
  /** The slot's first cell. */
  readonly first: number;
  /** Cells for the last token's state: 2 where tokens are taken back that were computed together (drafts), else 1. */
  readonly working: number;
  /** Cells for checkpoints. */
  readonly checkpoints: number;
  /** Tokens from one checkpoint to the next. */
  readonly step: number;
}

const NOTHING = -1;

export function createStateCells({ first, working, checkpoints, step }: StateCellsOptions): StateCells {
  /** How many tokens the state of each cell is behind; and what they will be behind when the runs planned last were computed. */
  const lengths = new Array<number>(working + checkpoints).fill(NOTHING);
  let planned: number[] | undefined;
  let prompt = 0;

  const most = (of: readonly number[], limit: number): number => of.reduce((best, n) => (n <= limit && n > best ? n : best), 0);
  const reach = (length: number): number => most(lengths, length);
  const indexOf = (length: number): number => (length === 0 ? NOTHING : lengths.indexOf(length));

  /**
   * The cell for a checkpoint behind `length` tokens: one that holds nothing, else that whose state leaves the smallest gap in proportion to how far back
   * the gap begins, so that checkpoints lie the closer the nearer they are to the end.
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
