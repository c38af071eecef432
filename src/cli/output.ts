/** Outputs of commands: the report of what was written, and refusals as errors of the command line. */
import { QuantletError } from '../errors.ts';
import * as files from '../tools/new-file.ts';

/** Reports what a command did: on stdout, or on stderr if the output itself goes to stdout. */
export const tell = (text: string): void => void (files.writesToStdout() ? process.stderr : process.stdout).write(text);

/** Throws a library's error; one about an argument becomes ERR_USAGE. */
export const asUsage = (error: unknown): never => {
  if (!(error instanceof QuantletError) || error.code !== 'ERR_INVALID_ARGUMENT') throw error;
  throw new QuantletError('ERR_USAGE', error.message, { cause: error });
};

/** @throws ERR_USAGE if the output is one of the inputs; ERR_IO */
export const mustBeNoInput = (output: string, inputs: readonly string[]): Promise<void> =>
  files.mustBeNoInput(output, inputs).catch(asUsage);

/** @throws ERR_USAGE if the output is one of the inputs; ERR_IO if it cannot be written */
export const checkOutput = (output: string, inputs?: readonly string[]): Promise<void> => files.checkOutput(output, inputs).catch(asUsage);
