/** One small fault of an adapter, which the contract suites of its port must notice. */
export interface Plant {
  /** The fault as a user would describe it: "tells of a hint twice". */
  readonly does: string
  /** The module that is changed, from the root of the repository. */
  readonly file: string
  /** Stands exactly once in the module. */
  readonly find: string
  readonly replace: string
}

/** The faults of one port. */
export interface Plants {
  readonly port: string
  /** Folders whose modules are loaded anew beside those of the fault, the subject and the adapters in memory. */
  readonly anew?: ReadonlyArray<string>
  /**
   * A module that exports `suites`, which makes the suites of the port on the adapter; or test files, which need no more than Vitest, of
   * rules that belong to no port. From the root of the repository.
   */
  readonly subject: string | ReadonlyArray<string>
  readonly plants: ReadonlyArray<Plant>
}

/** Faults of one module: what it does wrong, what is found, what is put in its place. */
export const plantsIn = (
  file: string,
  faults: ReadonlyArray<readonly [does: string, find: string, replace: string]>
): ReadonlyArray<Plant> => faults.map(([does, find, replace]) => ({ does, file, find, replace }))
