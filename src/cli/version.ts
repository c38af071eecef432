import { createRequire } from 'node:module';

/** Version of the package. */
export const packageVersion = (): string => (createRequire(import.meta.url)('../../package.json') as { version: string }).version;
