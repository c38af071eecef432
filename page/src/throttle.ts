/** Repeats work at intervals while something keeps changing, also in hidden tabs. */

/** Postponed work, which is done when the page is hidden or left. */
const flushes = new Set<() => void>();
const flushAll = (): void => flushes.forEach((flush) => flush());
if (typeof document === 'object') {
  addEventListener('pagehide', flushAll);
  document.addEventListener('visibilitychange', () => document.visibilityState === 'hidden' && flushAll());
}

export interface Throttle {
  /** Requests the work: it runs at once if the last run is long enough ago, else later. */
  ask(): void;
  /** Runs requested work now. */
  flush(): void;
  /** Flushes for the last time. */
  end(): void;
}

/**
 * Runs work at most once per `ms` milliseconds. Browsers delay the timers of hidden tabs and draw
 * no frames there. So every ask() checks the clock, and work requested by network events needs no
 * timer.
 */
export function throttle(ms: number, work: () => void, now = () => performance.now()): Throttle {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let asked = false;
  let done = -Infinity;
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (!asked) return;
    asked = false;
    done = now();
    work();
  };
  flushes.add(flush);
  return {
    ask() {
      asked = true;
      const left = done + ms - now();
      if (left <= 0) flush();
      else timer ??= setTimeout(flush, left);
    },
    flush,
    end() {
      flush();
      flushes.delete(flush);
    },
  };
}
