/** Work that is done now and then while something keeps changing, also in a tab that is hidden. */

/** Everything that has been put off is done when the page is hidden or left. */
const flushes = new Set<() => void>();
const flushAll = (): void => flushes.forEach((flush) => flush());
if (typeof document === 'object') {
  addEventListener('pagehide', flushAll);
  document.addEventListener('visibilitychange', () => document.visibilityState === 'hidden' && flushAll());
}

export interface Throttle {
  /** Asks for the work: it is done at once if it was not done lately, else later. */
  ask(): void;
  /** Does the work now, if it was asked for. */
  flush(): void;
  /** Flushes, for the last time. */
  end(): void;
}

/**
 * Does work at most once in so many milliseconds. Browsers slow down the timers of hidden tabs and draw no frames there, so every ask() looks at the clock: work that
 * is asked for by what a network brings needs no timer.
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
