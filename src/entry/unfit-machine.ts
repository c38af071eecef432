/** Machines that Node runs on and quantlet does not. No page is opened on one. */

/**
 * Says why nothing runs on a machine. Weights are read where they lie, in WebAssembly's byte order; a memory of up to 4 GiB has no room in an address space of
 * 32 bits.
 * @param bytes a 1 of 16 bits, in the machine's order
 */
export function unfitMachine(
  arch: string = process.arch,
  bytes: Uint8Array = new Uint8Array(Uint16Array.of(1).buffer),
): string | undefined {
  const found =
    bytes[0] !== 1
      ? 'a big-endian machine'
      : /^(arm|ia32|mips|mipsel|ppc|riscv32|s390|x86)$/.test(arch)
        ? `a 32-bit program (${arch})`
        : '';
  return found ? `this is ${found}; quantlet needs a little-endian machine and a 64-bit runtime` : undefined;
}
