/** The bytes of a model, as Workers import a file whose name ends in .bin. loadModel takes them. */
declare const bytes: ArrayBuffer;
// eslint-disable-next-line no-restricted-syntax -- the runtime gives a file's bytes as the default export
export default bytes;
