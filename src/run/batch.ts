/** Tokens of one step, in the order of the plan's inputs. */
import { RUN_WORDS } from '../graph/layout.ts';
import { FAR } from '../graph/attention-ops.ts';
import type { Slot } from './slots.ts';
import type { Run } from './state-cells.ts';

/** Place of a token of a sequence with images. */
export interface TokenPlace {
  /** Positions in time, height and width; all the same for text and sounds, and without M-RoPE. */
  readonly pos: number;
  readonly height: number;
  readonly width: number;
  /** The fourth position: 0 for text and images. */
  readonly extra: number;
  /** Embedding of a token of an image or a sound. */
  readonly row?: Float32Array;
}

export class Batch {
  readonly ids: Int32Array;
  readonly pos: Int32Array;
  /** Cell of the cache that each token is stored to. */
  readonly cells: Int32Array;
  /** First cell of each token's sequence. */
  readonly first: Int32Array;
  /** Number of cells of its sequence that each token sees. */
  readonly visible: Int32Array;
  /** Number of cells of the encoded prompt that each token sees, if the model has an encoder. */
  readonly encoded: Int32Array;
  /** Indices of the tokens whose logits are wanted. */
  readonly outputs: Int32Array;
  /** Indices of the other tokens. */
  readonly others: Int32Array;
  /**
   * Recurrent states that the tokens continue from: RUN_WORDS numbers a run (graph/layout.ts).
   */
  readonly runs: Int32Array;
  /** Positions of M-RoPE besides `pos`. */
  readonly height: Int32Array;
  readonly width: Int32Array;
  readonly extra: Int32Array;
  /** `pos` + FAR (graph/attention-ops.ts). */
  readonly far: Int32Array;
  /** Number of cells of its sequence up to each token, itself included. */
  readonly causal: Int32Array;
  /** 0, 1, 2 ... */
  readonly order: Int32Array;
  /** Embeddings of the tokens of images, and zeros for others; a row for each token. */
  readonly rows: Float32Array;
  /** 1 for tokens of text, 0 for those of images. */
  readonly isText: Float32Array;
  /** Number of first rows that images may be in; and the same in the last step that was written. */
  usedRows = 0;
  writtenRows = 0;
  /** True if the tokens are prompts for the encoder. */
  encodes = false;
  nTokens = 0;
  nOutputs = 0;
  nRuns = 0;

  /**
   * @param size most tokens of a step, `maxOutputs` most logits, `imageWidth` numbers of an image
   * token's embedding
   */
  constructor(size: number, maxOutputs: number, imageWidth = 0) {
    const array = (): Int32Array => new Int32Array(size);
    this.ids = array();
    this.pos = array();
    this.cells = array();
    this.first = array();
    this.visible = array();
    this.encoded = array();
    this.others = array();
    this.outputs = new Int32Array(maxOutputs);
    this.runs = new Int32Array(RUN_WORDS * size);
    this.height = array();
    this.width = array();
    this.extra = array();
    this.far = array();
    this.causal = array();
    this.order = array().map((_, i) => i);
    this.rows = new Float32Array(size * imageWidth);
    this.isText = new Float32Array(size).fill(1);
  }

  /** True if one token more has room; one whose logits are wanted needs an output too. */
  hasRoom(isOutput: boolean): boolean {
    return this.nTokens < this.ids.length && (!isOutput || this.nOutputs < this.outputs.length);
  }

  clear(encodes: boolean): void {
    this.encodes = encodes;
    this.nTokens = this.nOutputs = this.nRuns = 0;
    this.rows.fill(0, 0, (this.usedRows * this.rows.length) / this.ids.length);
    this.usedRows = 0;
    this.isText.fill(1);
  }

  /**
   * Adds the token in cell `pos` of a slot's sequence, which sees the first `visible` tokens of it.
   * @param place of a token after or in an image
   */
  push(slot: Pick<Slot, 'firstCell' | 'encoded'>, id: number, pos: number, visible: number, isOutput: boolean, place?: TokenPlace): void {
    const at = this.nTokens++;
    if (isOutput) this.outputs[this.nOutputs++] = at;
    else this.others[at - this.nOutputs] = at;
    this.ids[at] = Math.max(id, 0);
    this.pos[at] = place?.pos ?? pos;
    this.height[at] = place?.height ?? pos;
    this.width[at] = place?.width ?? pos;
    this.extra[at] = place?.extra ?? 0;
    this.far[at] = pos + FAR;
    this.causal[at] = pos + 1;
    this.first[at] = slot.firstCell;
    this.cells[at] = slot.firstCell + pos;
    this.visible[at] = visible;
    this.encoded[at] = slot.encoded.length;
    if (!place?.row) return;
    this.isText[at] = 0;
    this.rows.set(place.row, at * place.row.length);
    this.usedRows = at + 1;
  }

  pushRuns(runs: readonly Run[]): void {
    for (const { n, from, to } of runs) this.runs.set([n, from, to], RUN_WORDS * this.nRuns++);
  }
}
