/** Owns reading what a program file has to be loaded. */
import { readFileSync } from 'node:fs';

const PT_LOAD = 1;

/** Sum of the loaded parts (text and data) of a 64-bit little-endian ELF file, in KiB. */
export function readLoadKib(path: string): number {
  const elf = readFileSync(path);
  const at = Number(elf.readBigUInt64LE(32));
  const [size, count] = [elf.readUInt16LE(54), elf.readUInt16LE(56)];
  let bytes = 0;
  for (let number = 0; number < count; number += 1) {
    const header = at + number * size;
    if (elf.readUInt32LE(header) === PT_LOAD) bytes += Number(elf.readBigUInt64LE(header + 32));
  }
  return bytes / 1024;
}
