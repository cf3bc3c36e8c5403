/** The most that one sandbox may use of its machine. */
export interface Limits {
  readonly memoryBytes: number
  /** Processes and threads. */
  readonly processes: number
  /** Processors, e.g. 1.5. */
  readonly cpus: number
  /** Bytes of working trees, home and scratch folder together, and of deleted files that are open. See `SizedFolders`, `DiskUse`. */
  readonly diskBytes: number
  /** Files and folders, counted as above. */
  readonly diskFiles: number
  /** Bytes of a single file. */
  readonly fileBytes: number
  /** Bytes of `/tmp`, and as many of `/dev/shm`, per process tree. They count as memory. */
  readonly memoryFilesBytes: number
  readonly openFiles: number
}

const GiB = 2 ** 30

export const defaults: Limits = {
  memoryBytes: 4 * GiB,
  processes: 1024,
  cpus: 2,
  diskBytes: 10 * GiB,
  diskFiles: 1_000_000,
  fileBytes: 2 * GiB,
  memoryFilesBytes: GiB / 2,
  openFiles: 16_384
}
