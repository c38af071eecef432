export const faults = [];
