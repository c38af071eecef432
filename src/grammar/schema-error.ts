/** Errors of JSON schemas. */
import { QuantletError } from '../errors.ts';

/** Message about a schema that nothing satisfies. */
export const NO_VALUE = 'no value satisfies this schema';

/** @param name of the schema, if there are several */
export function schemaError(pointer: string, message: string, name = ''): QuantletError {
  return new QuantletError('ERR_GRAMMAR', `${name === '' ? '' : `${name}, `}schema ${pointer === '' ? '#' : `#${pointer}`}: ${message}`);
}
