/** How a byte-pair vocabulary wants text cut into words before merging, and what follows from its name. */
export interface PreTokenizer {
  readonly name: string;
  /** The model's default for add_bos where the file says nothing. */
  readonly addBos?: boolean;
  /** The file's add_bos is overruled. */
  readonly alwaysBos?: boolean;
  /** Spaces are written as U+2581. */
  readonly escapeSpaces?: boolean;
}

export function preTokenizer(_name: unknown, _warnings: string[]): PreTokenizer {
  return { name: 'default' };
}
