/** What the process of one host is told and answers. Times are milliseconds. */

/** How boxes are made: by hosts of this machine, or by a program that makes machines with runners. */
export type Way = "none" | "bubblewrap" | "gvisor" | "docker" | "machines"

/** Whose machines they are. */
export const INSTALLATION = "bench"

export interface SideOptions {
  /** Whose code makes the boxes. */
  readonly checkout: string
  readonly way: Way
  /** Of this process alone. Made when missing. */
  readonly folder: string
  /** Of `docker`. */
  readonly image: string
  readonly socket: string
  /** Of `machines`. */
  readonly program: string
}

export interface Amounts {
  readonly boots: number
  readonly spawns: number
  readonly lines: number
  /** Of standard output. */
  readonly bytes: number
  readonly homes: number
}

/** From the order for a box to its being there, and to the first bytes of a program that was started in it then. */
export interface Boot {
  readonly provision: number
  readonly boot: number
  /** What the program that makes machines took of it. */
  readonly machine: number
}

export interface Round {
  /** Of sandboxes that are new. */
  readonly first: ReadonlyArray<Boot>
  /** Of the same ones, from rest. */
  readonly again: ReadonlyArray<Boot>
  /** To a program's first byte, in a box that is there. */
  readonly spawns: ReadonlyArray<number>
  /** From writing a line to having all of it back. */
  readonly lines: ReadonlyArray<number>
  /** MB a second. */
  readonly throughput: number
  readonly homes: ReadonlyArray<number>
}
