/** Files and batches, as sent to OpenAI's clients and as stored. */

/** Byte store. Names consist of letters, digits, `_`, `-` and `.`, and do not begin with `.`. */
export interface BatchStore {
  list(): Promise<readonly string[]>;
  /** The bytes under a name; empty if the name does not exist. */
  read(name: string): AsyncIterable<Uint8Array>;
  size(name: string): Promise<number>;
  /** Replaces the bytes under a name, completely or not at all. */
  put(name: string, bytes: Uint8Array): Promise<void>;
  append(name: string, bytes: Uint8Array): Promise<void>;
  truncate(name: string, size: number): Promise<void>;
  remove(name: string): Promise<void>;
}

/** A file in OpenAI's format. */
export interface FileObject {
  readonly id: string;
  readonly object: 'file';
  readonly bytes: number;
  readonly created_at: number;
  readonly expires_at: number;
  readonly filename: string;
  readonly purpose: 'batch' | 'batch_output';
  readonly status: 'processed';
}

export type BatchStatus = 'validating' | 'failed' | 'in_progress' | 'finalizing' | 'completed' | 'expired' | 'cancelling' | 'cancelled';

/** A batch in OpenAI's format. Times are seconds since 1970. */
export interface BatchObject {
  readonly id: string;
  readonly object: 'batch';
  readonly endpoint: string;
  readonly input_file_id: string;
  readonly completion_window: string;
  readonly created_at: number;
  readonly expires_at: number;
  readonly metadata: object;
  status: BatchStatus;
  errors: { object: 'list'; data: { code: string; line: number | null; message: string; param: null }[] } | null;
  output_file_id: string | null;
  error_file_id: string | null;
  in_progress_at: number | null;
  finalizing_at: number | null;
  completed_at: number | null;
  failed_at: number | null;
  expired_at: number | null;
  cancelling_at: number | null;
  cancelled_at: number | null;
  request_counts: { total: number; completed: number; failed: number };
}

/** Stored fields of an object that clients do not see. */
export interface Owned {
  /** Hash of the key whose clients may see the object; '' without keys. */
  readonly owner: string;
}
export type StoredFile = Owned & { readonly file: FileObject };
export type StoredBatch = Owned & {
  readonly batch: BatchObject;
  /** Seconds to keep its output files. */
  readonly keepOutput: number;
};

/** Seconds since 1970. */
export const seconds = (): number => Math.floor(Date.now() / 1000);
export const hasEnded = ({ status }: BatchObject): boolean => ['failed', 'completed', 'expired', 'cancelled'].includes(status);
/** Ids of the files that a batch writes. */
export const outputOf = ({ id }: BatchObject): string => id.replace('batch_', 'file-out-');
export const errorsOf = ({ id }: BatchObject): string => id.replace('batch_', 'file-err-');
