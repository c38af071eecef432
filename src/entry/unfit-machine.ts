/**
 * Machines on which Node runs but quantlet does not. (Browsers are not checked: none runs on such a
 * machine.)
 */
import { QuantletError } from '../errors.ts';

/**
 * Refuses a machine on which quantlet cannot run. WebAssembly is little-endian, and weights are
 * used as they lie in the file. A 32-bit address space has no room for a memory of up to 4 GiB.
 * @param bytes a 16-bit 1 in the machine's byte order
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
