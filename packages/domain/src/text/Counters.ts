/** Arithmetic of counters. */

/** Adds without leaving the range of {@link Counter}: our own counters saturate instead of overflowing. */
export const saturatingAdd = (a: number, b: number): number => Math.min(a + b, Number.MAX_SAFE_INTEGER)
