// All of quantlet for pages in one file, kernels and worker included: `npm run build` makes dist/quantlet.js of it. The page itself needs no bundler.
export * from 'quantlet';
