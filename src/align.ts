/** The offset or address itself if it is a multiple of the alignment, else the next multiple. */
export const alignUp = (offset: number, alignment: number): number => Math.ceil(offset / alignment) * alignment;
