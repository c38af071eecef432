/** The slots of a model as servers show, keep and clear them. */
import type { ModelInternals } from '../engine/model-internals.ts';
import type { GGUFValue } from '../gguf/types.ts';

export interface SlotState {
  readonly id: number;
  /** Tokens whose keys and values it holds. */
  readonly tokens: number;
  /** A sequence is being computed in it. */
  readonly processing: boolean;
}

/** Each action waits until its slot is free. @throws ERR_INVALID_ARGUMENT for a slot that there is not, or signal.reason */
export interface ModelSlots {
  list(): readonly SlotState[];
  /** The slot's sequence as Model.saveState() gives it, and how many tokens it has. @throws ERR_STATE where it has none */
  save(id: number, signal?: AbortSignal): Promise<{ readonly tokens: number; readonly state: Uint8Array }>;
  /** Puts a saved sequence into the slot; returns how many tokens it has. @throws ERR_STATE, ERR_CONTEXT_FULL */
  restore(id: number, state: Uint8Array, signal?: AbortSignal): Promise<number>;
  /** Forgets what the slot holds; returns how many tokens that were. */
  erase(id: number, signal?: AbortSignal): Promise<number>;
}

/** Pages load it when a sequence is first saved or taken back. */
const sequences = async () => import('./saved-sequence.ts');

/** @internal */
export function slotActions(model: ModelInternals, metadata: ReadonlyMap<string, GGUFValue>): ModelSlots {
  const { all, isActive } = model.slots;
  return {
    list: () => all.map((slot) => ({ id: slot.index, tokens: slot.tokens.length, processing: isActive(slot) })),
    async save(slot, signal) {
      model.assertUsable();
      return (await sequences()).saveState(model, metadata, { slot, signal });
    },
    async restore(slot, state, signal) {
      model.assertUsable();
      return (await (await sequences()).loadState(model, metadata, state, { slot, signal })).length;
    },
    async erase(slot, signal) {
      model.assertUsable();
      return (await sequences()).eraseSlot(model, slot, signal);
    },
  };
}
