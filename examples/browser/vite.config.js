// Relative addresses: the built page runs from any folder of a static host.
export default { base: './' };
