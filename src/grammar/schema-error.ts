/** Errors of JSON schemas. */
import { QuantletError } from '../errors.ts';

/** @param name of the schema, if there are several */
export function schemaError(pointer: string, message: string, name = ''): QuantletError {
  return new QuantletError('ERR_GRAMMAR', `${name === '' ? '' : `${name}, `}schema ${pointer === '' ? '#' : `#${pointer}`}: ${message}`);
}
