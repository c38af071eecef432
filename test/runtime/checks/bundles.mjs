export const bundles = [];
