/**
 * Lets timers, input and output run first. Uses setImmediate if available, since a message channel
 * would keep a Node process alive.
 */
export const yieldToEventLoop: () => Promise<void> = (() => {
  if (typeof setImmediate === 'function')
    return () =>
      new Promise((resolve) => {
        try {
          setImmediate(resolve);
        } catch {
          setTimeout(resolve, 0); // Next's edge sandbox has a setImmediate that throws
        }
      });
  if (typeof MessageChannel === 'function') {
    const { port1, port2 } = new MessageChannel();
    const waiting: (() => void)[] = [];
    const next = (): void => waiting.shift()?.();
    return () =>
      new Promise((resolve) => {
        // Again each time, so that the port stays reachable: workerd collects a port that no code
        // can reach, with its handler, and nobody is woken any more.
        port1.onmessage = next;
        waiting.push(resolve);
        port2.postMessage(0);
      });
  }
  return () => new Promise((resolve) => void setTimeout(resolve, 0));
})();
