/** GET /slots and POST /slots/{id}: list, save, restore and erase sequences in the cache. */
import type { ModelSlots } from '../../generate/slot-actions.ts';
import type { Context } from '../context.ts';
import { invalid, type Body } from './fields.ts';
import { HttpError } from '../http/http-error.ts';

const notHere = (message: string): HttpError => new HttpError(501, message, { code: 'not_supported' });

function slotsOf({ backend }: Context): ModelSlots {
  if (!backend.slots) throw notHere('This model has no slots: it makes vectors.');
  return backend.slots;
}

/** GET /slots. Does not show the text of a sequence, which may be another client's. */
export function listSlots(context: Context): Response {
  if (context.options.slots === false) throw notHere('This server does not show its slots (--no-slots).');
  const { backend, query } = context;
  const list = slotsOf(context).list();
  if (query.get('fail_on_no_slot') && list.every(({ processing }) => processing))
    throw new HttpError(503, 'No slot is free.', { code: 'unavailable' });
  return Response.json(
    list.map(({ id, tokens, processing }) => ({
      id,
      n_ctx: backend.contextLength,
      speculative: backend.speculative ?? false,
      is_processing: processing,
      n_prompt_tokens: tokens,
    })),
  );
}

/** GET /slots without a loaded model. */
export function noSlots({ options }: Context): Response {
  if (options.slots === false) throw notHere('This server does not show its slots (--no-slots).');
  return Response.json([]);
}

/** POST /slots/{id}?action=save|restore|erase. Waits until the slot is free. */
export async function slotAction(context: Context, body: Body): Promise<Response> {
  const { options, query, rest, signal } = context;
  const { slotStore } = options;
  if (!slotStore) throw notHere('This server saves no slots; start it with --slot-save-path (slotStore).');
  const slots = slotsOf(context);
  const id = /^\d{1,6}$/.test(rest) ? Number(rest) : -1;
  const n = slots.list().length;
  if (id < 0 || id >= n)
    throw new HttpError(400, `There is no slot ${JSON.stringify(rest.slice(0, 40))}; expected 0 to ${n - 1}.`, { code: 'invalid_value' });
  const action = query.get('action');
  if (action === 'erase') return Response.json({ id_slot: id, n_erased: await slots.erase(id, signal) });
  if (action !== 'save' && action !== 'restore')
    throw new HttpError(400, `action is ${JSON.stringify(action?.slice(0, 40) ?? null)}; expected save, restore or erase.`, {
      code: 'invalid_value',
    });
  const { filename } = body;
  if (typeof filename !== 'string' || !/^[\w-][\w.-]{0,127}$/.test(filename))
    throw invalid('filename', 'a name of at most 128 letters, digits, "_", "-" and ".", which does not begin with "."', filename);
  // A state may be as large as the cache, so only one is in memory at a time.
  const leave = await context.states.enter(signal);
  const begin = performance.now();
  const ms = (): number => Math.round(1000 * (performance.now() - begin)) / 1000;
  try {
    if (action === 'save') {
      const { tokens, state } = await slots.save(id, signal);
      await slotStore.write(filename, state);
      return Response.json({ id_slot: id, filename, n_saved: tokens, n_written: state.byteLength, timings: { save_ms: ms() } });
    }
    const state = await slotStore.read(filename);
    if (!state) throw new HttpError(404, `There is no saved slot ${JSON.stringify(filename)}.`, { param: 'filename', code: 'not_found' });
    const tokens = await slots.restore(id, state, signal);
    return Response.json({ id_slot: id, filename, n_restored: tokens, n_read: state.byteLength, timings: { restore_ms: ms() } });
  } finally {
    leave();
  }
}
