/**
 * JSON Schema by definition, for the keywords that src/grammar knows. It shares no code with
 * src/grammar.
 */
type Schema = boolean | { [keyword: string]: unknown };

const FORMATS: Record<string, (text: string) => boolean> = {
  date: isDate,
  time: isTime,
  'date-time': (text) => isDate(text.slice(0, 10)) && /^t$/i.test(text[10]) && isTime(text.slice(11)),
  uuid: (text) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text),
  ipv4: (text) => text.split('.').length === 4 && text.split('.').every((part) => /^(0|[1-9][0-9]{0,2})$/.test(part) && Number(part) < 256),
  email: (text) => /^([^@\s"]+|".*")@([^@\s.]+(\.[^@\s.]+)*|\[[0-9a-fA-F.:IPv]+\])$/.test(text),
};

function isDate(text: string): boolean {
  const at = new Date(`${text}T00:00:00Z`);
  return /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(at.getTime()) && at.toISOString().startsWith(text);
}

function isTime(text: string): boolean {
  const parts = /^(\d\d):(\d\d):(\d\d)(\.\d+)?(Z|([+-])(\d\d):(\d\d))$/i.exec(text);
  if (parts === null) return false;
  const [hour, minute, second] = parts.slice(1, 4).map(Number);
  const [offsetHour, offsetMinute] = parts.slice(7).map((part) => Number(part ?? 0));
  const offset = (offsetHour * 60 + offsetMinute) * (parts[6] === '-' ? -1 : 1);
  // A leap second is the last one of a day in UTC.
  const last = (((hour * 60 + minute - offset) % 1440) + 1440) % 1440 === 1439;
  return hour < 24 && minute < 60 && second < (last ? 61 : 60) && offsetHour < 24 && offsetMinute < 60;
}

const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part) ? Object.fromEntries(Object.entries(part).sort()) : part,
  );

/** @returns the fault, or undefined */
export function validate(document: Schema, value: unknown, schema: Schema = document, path = '$'): string | undefined {
  if (schema === true) return undefined;
  if (schema === false) return `${path}: nothing is allowed`;
  const sub = (part: unknown, at: Schema, where: string): string | undefined => validate(document, part, at, where);
  const list = (keyword: string): Schema[] => (schema[keyword] ?? []) as Schema[];
  const bad = (keyword: string): string => `${path}: ${keyword} ${JSON.stringify(schema[keyword])} is not kept by ${JSON.stringify(value)}`;

  if (typeof schema.$ref === 'string') {
    let target: unknown = document;
    for (const part of schema.$ref.split('/').slice(1))
      target = (target as Record<string, unknown>)[part.replaceAll('~1', '/').replaceAll('~0', '~')];
    const wrong = sub(value, target as Schema, path);
    if (wrong) return wrong;
  }
  if (value === null && schema.nullable === true) return undefined;
  if (schema.type !== undefined) {
    const actual = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
    const types = [schema.type].flat();
    if (!types.some((type) => type === actual || (type === 'integer' && Number.isInteger(value)))) return bad('type');
  }
  if ('const' in schema && canonical(schema.const) !== canonical(value)) return bad('const');
  if (schema.enum && !list('enum').some((option) => canonical(option) === canonical(value))) return bad('enum');
  for (const part of list('allOf')) {
    const wrong = sub(value, part, path);
    if (wrong) return wrong;
  }
  for (const keyword of ['anyOf', 'oneOf']) {
    if (!schema[keyword]) continue;
    const fits = list(keyword).filter((part) => sub(value, part, path) === undefined).length;
    if (fits === 0 || (keyword === 'oneOf' && fits > 1)) return bad(keyword);
  }
  const limit = (keyword: string, holds: (bound: number) => boolean): string | undefined =>
    schema[keyword] !== undefined && !holds(schema[keyword] as number) ? bad(keyword) : undefined;
  if (typeof value === 'number') {
    return (
      limit('minimum', (b) => value >= b) ??
      limit('maximum', (b) => value <= b) ??
      limit('exclusiveMinimum', (b) => value > b) ??
      limit('exclusiveMaximum', (b) => value < b)
    );
  }
  if (typeof value === 'string') {
    const length = [...value].length;
    if (schema.pattern !== undefined && !new RegExp(schema.pattern as string, 'u').test(value)) return bad('pattern');
    if (schema.format !== undefined && !FORMATS[schema.format as string](value)) return bad('format');
    return limit('minLength', (b) => length >= b) ?? limit('maxLength', (b) => length <= b);
  }
  if (Array.isArray(value)) {
    const prefix = list('prefixItems');
    for (const [i, item] of value.entries()) {
      const wrong = sub(item, i < prefix.length ? prefix[i] : ((schema.items ?? true) as Schema), `${path}[${i}]`);
      if (wrong) return wrong;
    }
    return limit('minItems', (b) => value.length >= b) ?? limit('maxItems', (b) => value.length <= b);
  }
  if (typeof value === 'object' && value !== null) {
    const properties = (schema.properties ?? {}) as Record<string, Schema>;
    for (const name of list('required') as unknown as string[]) if (!Object.hasOwn(value, name)) return bad('required');
    for (const [name, part] of Object.entries(value)) {
      const wrong = sub(
        part,
        Object.hasOwn(properties, name) ? properties[name] : ((schema.additionalProperties ?? true) as Schema),
        `${path}.${name}`,
      );
      if (wrong) return wrong;
    }
  }
  return undefined;
}
