/** The messages between a process and its spawner. */

/** Asks for a child. */
export interface Request {
  readonly id: number
  /** The first bytes on each connection that becomes a stream of the child, before the stream's number. They are secret. */
  readonly key: string
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  /** Paths of files in place of the streams 0 and 1. */
  readonly inputPath: string | undefined
  readonly outputPath: string | undefined
}

export type Report =
  | { readonly id: number; readonly type: "started"; readonly pid: number }
  | { readonly id: number; readonly type: "refused"; readonly code: string; readonly message: string }
  | { readonly id: number; readonly type: "exited"; readonly code: number | null; readonly signal: NodeJS.Signals | null }

/** Characters of `Request.key`. */
export const KEY_LENGTH = 32
