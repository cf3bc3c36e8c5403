/** Chance that a seed repeats: the same faults in the same order, though never at the same moments of the processes. */
export interface Random {
  /** From 0 up to, but not with, 1. */
  readonly next: () => number
  readonly below: (end: number) => number
  readonly pick: <A>(of: ReadonlyArray<A>) => A
}

/** Mulberry32 (public domain, Tommy Ettinger): 32 bits of state are enough to spread faults. */
export const make = (seed: number): Random => {
  let state = seed >>> 0
  const next = () => {
    state = state + 0x6d2b79f5 >>> 0
    let mixed = Math.imul(state ^ state >>> 15, state | 1)
    mixed ^= mixed + Math.imul(mixed ^ mixed >>> 7, mixed | 61)
    return ((mixed ^ mixed >>> 14) >>> 0) / 2 ** 32
  }
  return {
    next,
    below: (end) => Math.floor(next() * end),
    pick: (of) => of[Math.floor(next() * of.length)]!
  }
}
