/**
 * Grids for quantisers. A grid has the digits of each entry (the level of each of its elements),
 * the entry of each code, and for a code without an entry the list of nearby entries. The tables of
 * a type are made when it is first quantised, after the static data.
 *
 * Source: ggml-quants.c, iq2xs_init_impl and iq3xs_init_impl.
 */
import { IQ1S_BITS, IQ2S_BITS, IQ2XS_BITS, IQ2XXS_BITS, IQ3S_BITS, IQ3XXS_BITS, expand_grid } from '../type/block/iq_grid_bits';
import { IQ1_M, IQ1_S, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS } from '../type/ids';

@unmanaged
export class Grid {
  /** u64 (eight digits) or u32 (four) for each entry; the first digit is the lowest byte. */
  entries: usize;
  /**
   * i32 for each code: the index of its entry, or minus the address of a list of neighbours. A list
   * is u16: the number of neighbours, then their indices.
   */
  map: usize;
}

/** Grid[6]. */
const GRIDS = memory.data(6 * 8, 8);
const PAGE: usize = 65536;
/** End of the tables made so far. */
let end: usize = 0;

/** Code of eight digits of two bits. */
@inline
export function code8(digits: u64): u32 {
  digits = (digits | (digits >> 6)) & 0x000f000f000f000f;
  digits = (digits | (digits >> 12)) & 0x000000ff000000ff;
  return <u32>(digits | (digits >> 24)) & 0xffff;
}

/** Code of four digits of three bits. */
@inline
export function code4(digits: u32): u32 {
  digits = (digits | (digits >> 5)) & 0x003f003f;
  return (digits | (digits >> 10)) & 0x0fff;
}

@inline
function entry_at(p: usize, eight: bool): u64 {
  return eight ? load<u64>(p) : <u64>load<u32>(p);
}

@inline
function code_of(digits: u64, eight: bool): u32 {
  return eight ? code8(digits) : code4(<u32>digits);
}

/** Grows the memory up to `to` if necessary. Returns false if that fails. */
function reach(to: usize): bool {
  const pages = <i32>((to + (PAGE - 1)) / PAGE) - memory.size();
  return pages <= 0 || memory.grow(pages) >= 0;
}

/**
 * Work of write_neighbours: the squared distance of each entry as u8, and a u32 counter for each
 * possible distance.
 */
const DISTANCES = memory.data(2048, 16);
const MOST_DISTANCE: usize = 4 * 7 * 7;
const COUNTS = memory.data(4 * (4 * 7 * 7 + 1), 16);

/**
 * Writes the list of the entries whose distance to `digits` is among the `nwant` smallest distances
 * that occur, ordered by distance and then index. Returns the end of the list.
 */
function write_neighbours(entries: usize, n: u32, eight: bool, nwant: i32, digits: u64, list: usize): usize {
  memory.fill(COUNTS, 0, 4 * (MOST_DISTANCE + 1));
  const bytes: usize = eight ? 8 : 4;
  const from = i16x8.extend_low_i8x16_u(i64x2.splat(digits));
  for (let j: usize = 0; j < n; j++) {
    const away = i16x8.sub(i16x8.extend_low_i8x16_u(i64x2(entry_at(entries + bytes * j, eight), 0)), from);
    const squares = i32x4.dot_i16x8_s(away, away);
    const halves = i32x4.add(squares, i32x4.shuffle(squares, squares, 2, 3, 0, 1));
    const distance = <usize>(i32x4.extract_lane(halves, 0) + i32x4.extract_lane(halves, 1));
    store<u8>(DISTANCES + j, <u8>distance);
    store<u32>(COUNTS + 4 * distance, load<u32>(COUNTS + 4 * distance) + 1);
  }
  // Turns the counts into the start of each distance's indices.
  let count: u32 = 0;
  let limit: usize = 0;
  for (let left = nwant; left > 0 && limit <= MOST_DISTANCE; limit++) {
    const here = load<u32>(COUNTS + 4 * limit);
    if (here == 0) continue;
    store<u32>(COUNTS + 4 * limit, count);
    count += here;
    left--;
  }
  store<u16>(list, <u16>count);
  for (let j: usize = 0; j < n; j++) {
    const p = COUNTS + 4 * <usize>load<u8>(DISTANCES + j);
    if (p >= COUNTS + 4 * limit) continue;
    const at = load<u32>(p);
    store<u16>(list + 2 * at, <u16>j, 2);
    store<u32>(p, at + 1);
  }
  return list + 2 + 2 * <usize>count;
}

/** Makes the tables of a grid. Returns false if memory runs out. */
function make(grid: Grid, bits: usize, n: u32, eight: bool, nwant: i32): bool {
  const bytes: usize = eight ? 8 : 4;
  const entries = (end + 15) & ~15;
  const map = entries + bytes * n;
  const map_bytes: usize = eight ? 4 * 0xaaab : 4 * 0x1000;
  let list = map + map_bytes;
  if (!reach(list)) return false;
  expand_grid(bits, entries, eight ? 8 : 4, eight ? 3 : 8, 0x0706050403020100);
  memory.fill(map, 0, map_bytes);
  for (let j: u32 = 0; j < n; j++) store<i32>(map + 4 * <usize>code_of(entry_at(entries + bytes * j, eight), eight), j + 1);
  const base: u32 = eight ? 3 : 8;
  const codes: u32 = eight ? 6561 : 4096;
  for (let number: u32 = 0; number < codes; number++) {
    let digits: u64 = 0;
    for (let shift: u64 = 0, rest = number; rest != 0; rest /= base, shift += 8) digits |= <u64>(rest % base) << shift;
    const p = map + 4 * <usize>code_of(digits, eight);
    const index = load<i32>(p);
    if (index > 0) store<i32>(p, index - 1);
    else {
      if (!reach(list + 2 + 2 * n)) return false;
      store<i32>(p, -<i32>list);
      list = write_neighbours(entries, n, eight, nwant, digits, list);
    }
  }
  grid.entries = entries;
  grid.map = map;
  end = list;
  return true;
}

/** True if rows of this type are quantised by a grid. */
export function in_grid(type: u32): bool {
  return type == IQ2_XXS || type == IQ2_XS || type == IQ2_S || type == IQ1_S || type == IQ1_M || type == IQ3_XXS || type == IQ3_S;
}

/** The grid of a type. It has no entries before prepare() was called for the type. */
export function grid_of(type: u32): Grid {
  // prettier-ignore
  switch (type) {
    case IQ2_XXS: return changetype<Grid>(GRIDS);
    case IQ2_XS: return changetype<Grid>(GRIDS + 8);
    case IQ2_S: return changetype<Grid>(GRIDS + 16);
    case IQ1_S: case IQ1_M: return changetype<Grid>(GRIDS + 24);
    case IQ3_XXS: return changetype<Grid>(GRIDS + 32);
    case IQ3_S: return changetype<Grid>(GRIDS + 40);
    default: unreachable();
  }
  return changetype<Grid>(0);
}

/**
 * Makes the tables of a type if they are missing. Returns the end of all tables, or 0 if memory ran
 * out.
 */
export function prepare(type: u32): usize {
  if (end == 0) end = __heap_base;
  if (!in_grid(type)) return end;
  const grid = grid_of(type);
  if (grid.entries != 0) return end;
  let made: bool = false;
  // prettier-ignore
  switch (type) {
    case IQ2_XXS: made = make(grid, IQ2XXS_BITS, 256, true, 2); break;
    case IQ2_XS: made = make(grid, IQ2XS_BITS, 512, true, 2); break;
    case IQ2_S: made = make(grid, IQ2S_BITS, 1024, true, 1); break;
    case IQ1_S: case IQ1_M: made = make(grid, IQ1S_BITS, 2048, true, 3); break;
    case IQ3_XXS: made = make(grid, IQ3XXS_BITS, 256, false, 2); break;
    case IQ3_S: made = make(grid, IQ3S_BITS, 512, false, 3); break;
    default: unreachable();
  }
  return made ? end : 0;
}
