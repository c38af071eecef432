/** An endpoint: its method, its function, and what the handler does before. */
import type { Context } from './context.ts';
import type { StreamProtocol } from './http/event-stream.ts';
import type { Body } from './protocols/fields.ts';

export interface Endpoint {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly run: (context: Context, body: Body) => Response | Promise<Response>;
  /** Needs no key. */
  readonly open?: boolean;
  /** Concerns all models or no model, so that no model is loaded for it. */
  readonly modelless?: boolean;
  /**
   * Reads a loaded model without loading or unloading any. This is the answer if no model is
   * loaded.
   */
  readonly nothing?: (context: Context) => Response;
  /** The body is a list, passed as `items`. */
  readonly list?: boolean;
  /** The endpoint reads the body itself, or has none. */
  readonly raw?: boolean;
  /**
   * Format of failures in the endpoint's protocol. Default: the format of the client's protocol.
   */
  readonly errorBody?: Context['errorBody'];
  /** The name of the model in a body. Default: the field `model`. */
  readonly model?: (body: Body) => string | undefined;
  /** The format of the answer's stream; undefined if the request wants no stream. */
  readonly stream?: (body: Body) => StreamProtocol | undefined;
}
