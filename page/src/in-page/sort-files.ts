/** Tells the files of a model from its projector. */
import { PageError } from '../backend.ts';
import type { ModelFiles } from './engine.ts';

/** Bytes of a header that have the key `general.architecture`, which converters write first. */
const HEADER = 4096;

/** True for a projector: by its architecture, or by its name if the header begins with other keys. */
async function isProjector(file: File): Promise<boolean> {
  const header = new TextDecoder('latin1').decode(await file.slice(0, HEADER).arrayBuffer());
  // A key, the type of its value (8, a string), the length, and the text.
  const architecture = /general\.architecture\x08\0\0\0.\0{7}(\w+)/s.exec(header)?.[1];
  return architecture === undefined ? /mmproj/i.test(file.name) : architecture.startsWith('clip');
}

/**
 * @param known the model that is loaded, which a projector alone is for
 * @throws PageError for several projectors, and for one without a model
 */
export async function sortFiles(
  files: readonly File[],
  known: ModelFiles | undefined,
): Promise<{ readonly model: ModelFiles; readonly projector: File | undefined }> {
  const areProjectors = await Promise.all(files.map(isProjector));
  const projectors = files.filter((_, i) => areProjectors[i]);
  const models = files.filter((_, i) => !areProjectors[i]);
  const names = projectors.map(({ name }) => name).join(' and ');
  if (projectors.length > 1) throw new PageError(`${names} are projectors; expected one, together with its model.`);
  const model = models.length > 0 ? models : known;
  if (model === undefined) throw new PageError(`${names} is a projector. Choose it together with its model, or after the model.`);
  return { model, projector: projectors[0] };
}
