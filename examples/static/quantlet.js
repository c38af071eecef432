// quantlet for pages in one file, with kernels and worker: `npm run build` bundles it to
// dist/quantlet.js. The page itself needs no bundler.
export * from 'quantlet';
