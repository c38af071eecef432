/**
 * Vitest's processes, with a record of how they ended. Vitest only says "Worker exited
 * unexpectedly", without the file or the reason.
 */
import { ForksPoolWorker, type PoolRunnerInitializer } from 'vitest/node';

/** Exit code or signal of the last process that ran a test file. */
export const endOf = new Map<string, string>();

class TellingFork extends ForksPoolWorker {
  private files: readonly string[] = [];

  override send(message: Parameters<ForksPoolWorker['send']>[0]): void {
    if (message.type === 'run') this.files = message.context.files.map(({ filepath }) => filepath);
    super.send(message);
  }

  override async start(): Promise<void> {
    await super.start();
    this.on('exit', (code: number | null, signal?: NodeJS.Signals) => {
      for (const file of this.files) endOf.set(file, signal ? `by ${signal}` : `with exit code ${code}`);
    });
  }
}

export const tellingForks: PoolRunnerInitializer = { name: 'telling-forks', createPoolWorker: (options) => new TellingFork(options) };
