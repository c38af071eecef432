/** Repositories of the Hugging Face hub, or of a server with the same interface. */
import { QuantletError } from '../errors.ts';

/** A repository, at a revision. */
export interface Repo {
  /** OWNER/REPO */
  readonly name: string;
  readonly revision: string;
}

/**
 * The wanted model of a repository: the file of this name, or one of this quant (undefined: Q4_K_M,
 * else Q8_0, else the first).
 */
export type Wanted = { readonly file: string } | { readonly quant: string | undefined };

/** A file as the hub lists it. */
export interface HubFile {
  readonly path: string;
  readonly size: number;
  /** Lower-case hex. */
  readonly sha256?: string | undefined;
}

/** Settings for requests to the hub. */
export interface Hub {
  /** Address without a trailing slash. */
  readonly endpoint: string;
  readonly token: string | undefined;
  /** Sent with every request. */
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal | undefined;
  /** As in openHttp. */
  readonly retryMs?: number | undefined;
  /**
   * Lists of repositories that were asked for, so that a model and its projector share one. Undefined:
   * each call asks again.
   */
  readonly lists?: Map<string, Promise<readonly HubFile[]>> | undefined;
  /** Names, in messages, of the settings of the caller: options, flags or environment variables. */
  readonly names: { readonly token?: string; readonly offline?: string };
}

export const HUB = 'https://huggingface.co';
export const withoutSlash = (address: string): string => address.replace(/\/+$/, '');

export const failed = (message: string, cause?: unknown): QuantletError => new QuantletError('ERR_DOWNLOAD', message, { cause });
