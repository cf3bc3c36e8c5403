/** The messages to and from the process of one host. Times are milliseconds. */

/** How boxes are made: by hosts of this machine, or by a program that makes machines with runners. */
export type Way = "none" | "bubblewrap" | "gvisor" | "docker" | "machines"

/** Whose machines they are. */
export const INSTALLATION = "bench"

export interface SideOptions {
  /** Whose code makes the boxes. */
  readonly checkout: string
  readonly way: Way
  /** A folder of this process alone. Made when missing. */
  readonly folder: string
  /** The image for `docker`. */
  readonly image: string
  readonly socket: string
  /** The program for `machines`. */
  readonly program: string
}

export interface Amounts {
  readonly boots: number
  readonly spawns: number
  readonly lines: number
  /** Bytes of standard output. */
  readonly bytes: number
  readonly homes: number
}

/** From the order for a box to its being there, and to the first bytes of a program that was started in it then. */
export interface Boot {
  readonly provision: number
  readonly boot: number
  /** The time of the program that makes machines. */
  readonly machine: number
}

export interface Round {
  /** Boots of new sandboxes. */
  readonly first: ReadonlyArray<Boot>
  /** Boots of the same sandboxes, from rest. */
  readonly again: ReadonlyArray<Boot>
  /** To a program's first byte, in a box that is there. */
  readonly spawns: ReadonlyArray<number>
  /** From writing a line to having all of it back. */
  readonly lines: ReadonlyArray<number>
  /** MB a second. */
  readonly throughput: number
  readonly homes: ReadonlyArray<number>
}
