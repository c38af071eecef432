export const edges = [];
