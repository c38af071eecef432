/** Errors of JSON schemas. */
import { QuantletError } from '../errors.ts';

export function schemaError(pointer: string, message: string): QuantletError {
  return new QuantletError('ERR_GRAMMAR', `schema ${pointer === '' ? '#' : `#${pointer}`}: ${message}`);
}
