/** The bytes of a model, as Workers import a file whose name ends in .bin. loadModel takes them. */
declare const bytes: ArrayBuffer;
export default bytes;
