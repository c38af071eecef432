/** Tokens of one step, in the order of the plan's inputs. */
import { RUN_WORDS } from '../graph/recurrent.ts';
import type { Slot } from './slots.ts';
import type { Run } from './state-cells.ts';

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
   * Recurrent states that the tokens continue from: RUN_WORDS numbers a run (graph/recurrent.ts).
   */
  readonly runs: Int32Array;
  /** True if the tokens are prompts for the encoder. */
  encodes = false;
  nTokens = 0;
  nOutputs = 0;
  nRuns = 0;

  /** @param size most tokens of a step, `maxOutputs` most logits */
  constructor(size: number, maxOutputs: number) {
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
  }

  /** True if one token more has room; one whose logits are wanted needs an output too. */
  hasRoom(isOutput: boolean): boolean {
    return this.nTokens < this.ids.length && (!isOutput || this.nOutputs < this.outputs.length);
  }

  clear(encodes: boolean): void {
    this.encodes = encodes;
    this.nTokens = this.nOutputs = this.nRuns = 0;
  }

  /**
   * Adds the token at position `pos` of a slot's sequence, which sees the first `visible` tokens of
   * it.
   */
  push(slot: Pick<Slot, 'firstCell' | 'encoded'>, id: number, pos: number, visible: number, isOutput: boolean): void {
    const at = this.nTokens++;
    if (isOutput) this.outputs[this.nOutputs++] = at;
    else this.others[at - this.nOutputs] = at;
    this.ids[at] = id;
    this.pos[at] = pos;
    this.first[at] = slot.firstCell;
    this.cells[at] = slot.firstCell + pos;
    this.visible[at] = visible;
    this.encoded[at] = slot.encoded.length;
  }

  pushRuns(runs: readonly Run[]): void {
    for (const { n, from, to } of runs) this.runs.set([n, from, to], RUN_WORDS * this.nRuns++);
  }
}
