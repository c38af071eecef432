/** Numbers and sizes as people read them. */
const digits = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat();
/** Formats a measurement with three significant digits. */
export const significant = (value: number): string => digits.format(value);
export const count = (value: number): string => whole.format(value);
export const bytes = (value: number): string =>
  value < 1e6 ? `${significant(value / 1e3)} KB` : value < 1e9 ? `${significant(value / 1e6)} MB` : `${significant(value / 1e9)} GB`;
