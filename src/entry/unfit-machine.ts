/** Machines that Node runs on and quantlet does not. No page is opened on one. */
import { QuantletError } from '../errors.ts';

/**
 * Refuses a machine on which nothing runs. Weights are read where they lie, in WebAssembly's byte order; a memory of up to 4 GiB has no room in an address space
 * of 32 bits.
 * @param bytes a 1 of 16 bits, in the machine's order
 * @throws ERR_NO_SIMD
 */
export function refuseUnfit(arch: string = process.arch, bytes: Uint8Array = new Uint8Array(Uint16Array.of(1).buffer)): void {
  const found =
    bytes[0] !== 1
      ? 'a big-endian machine'
      : /^(arm|ia32|mips|mipsel|ppc|riscv32|s390|x86)$/.test(arch)
        ? `a 32-bit program (${arch})`
        : '';
  if (found) throw new QuantletError('ERR_NO_SIMD', `this is ${found}; quantlet needs a little-endian machine and a 64-bit runtime`);
}
