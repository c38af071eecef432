/** Actions on a model's slots, for servers: list, save, restore, erase. */
import type { ModelInternals } from '../run/model-internals.ts';
import type { GGUFValue } from '../gguf/types.ts';

export interface SlotState {
  readonly id: number;
  /** Tokens whose keys and values are in the slot. */
  readonly tokens: number;
  /** A sequence is being computed in the slot. */
  readonly processing: boolean;
}

/**
 * Each action waits until its slot is free.
 * @throws ERR_INVALID_ARGUMENT for a slot that does not exist, or signal.reason
 */
export interface ModelSlots {
  list(): readonly SlotState[];
  /**
   * The slot's sequence as from Model.saveState(), and its number of tokens.
   * @throws ERR_STATE if the slot has none
   */
  save(id: number, signal?: AbortSignal): Promise<{ readonly tokens: number; readonly state: Uint8Array }>;
  /**
   * Loads a saved sequence into the slot. Returns its number of tokens.
   * @throws ERR_STATE, ERR_CONTEXT_FULL
   */
  restore(id: number, state: Uint8Array, signal?: AbortSignal): Promise<number>;
  /** Clears the slot. Returns the number of tokens it had. */
  erase(id: number, signal?: AbortSignal): Promise<number>;
}

/** Loaded on first use, so that pages do not download it before. */
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
