/** Queue of an engine's runs, which take place one after the other. */
import { QuantletError } from '../errors.ts';

export class Turns {
  private running = 0;
  private last: Promise<void> = Promise.resolve();

  /** Does the work after all earlier work has ended, even if that failed. */
  async take(work: () => Promise<void>): Promise<void> {
    const before = this.last;
    let done!: () => void;
    this.last = new Promise((resolve) => (done = resolve));
    this.running++;
    try {
      await before;
      await work();
    } finally {
      this.running--;
      done();
    }
  }

  /** @throws ERR_BUSY while a plan runs or waits to */
  mustBeIdle(what: string): void {
    if (this.running > 0) throw new QuantletError('ERR_BUSY', `${what}: a plan is running; await compute() first`);
  }
}
