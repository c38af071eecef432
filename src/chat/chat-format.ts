/** A family's notation of reasoning and tool calls. */
import type { CallNotation } from '../grammar/calls/notation.ts';
import type { CallReader, ParsedCall } from './call-text.ts';

/** A marker that opens calls, and the reader of what follows it. */
export interface CallSyntax {
  readonly start: string;
  readonly read: CallReader;
}

/** Notation of reasoning and tool calls of a family of models. */
export interface ChatFormat {
  readonly name: string;
  /** Marker pairs around reasoning. */
  readonly reasoning: readonly { readonly start: string; readonly end: string }[];
  /**
   * Reasoning may also come after content (channels). Otherwise it comes only at the start of an
   * answer, so that content may mention `<think>`.
   */
  readonly reasoningAnywhere: boolean;
  /**
   * Calls may follow unfinished reasoning, because these models leave out its end marker before
   * calls. In other formats, such text is part of the reasoning.
   */
  readonly callsEndReasoning: boolean;
  readonly calls: readonly CallSyntax[];
  /**
   * The notations that the model itself writes, the usual one first.
   * @internal
   */
  readonly notations: readonly CallNotation[];
  /** A call without a marker, at the start of an answer. */
  readonly bare: CallReader | undefined;
  /** Markers to remove: they are neither content nor the start of another part. */
  readonly drop: readonly string[];
  /**
   * Markers for the end of a turn and the start of an answer, for templates that may omit the
   * latter: Gemma 4's do so after results of a message that also had content.
   */
  readonly turn?: { readonly end: string; readonly start: string };
  /** Calls as text, for the history of templates that cannot write them. */
  readonly write: (calls: readonly ParsedCall[]) => string;
}
