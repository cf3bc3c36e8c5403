/** The settings of a runner, for the runner itself and for the code that makes its machine. */
import type { Identity } from "./Identity.ts"

/** Where the runner of a machine listens. `path`: a unix socket of the worker's own machine, at most 107 bytes. */
export type Address = { readonly host: string; readonly port: number } | { readonly path: string }

export interface Way {
  /** The name that the worker knows it by. */
  readonly name: string
  /** On 127.0.0.1. */
  readonly port: number
}

export interface SandboxUser {
  readonly uid: number
  readonly gid: number
  /**
   * The first of 10,000 unused group ids. Each process gets one, and its children inherit it. With this setting, all processes of this
   * user that the runner sees belong to the sandbox and end with its session.
   */
  readonly marks?: number | undefined
}

export interface Settings {
  /** Port 0 takes any free one. What is at the path of a socket is removed. */
  readonly listen: Address
  /** An absolute path: where processes start, and below which files are read. */
  readonly tree: string
  /** The absolute path of the sandbox's home, in a folder that no process of the box may write to. `undefined`: no home. */
  readonly home?: string | undefined
  /** Absolute paths of folders that the user has as well. */
  readonly folders?: ReadonlyArray<string> | undefined
  /** An absolute path: a folder of the runner's own, that it keeps over restarts and that no process of the box may write to. */
  readonly state: string
  readonly identity: Identity
  /** The user of the box's processes. `undefined`: the runner's own user, so they can read its key. */
  readonly user?: SandboxUser | undefined
  readonly ways: ReadonlyArray<Way>
  /** After so long without a word of the worker its processes end. 30 seconds, as long as a lease. */
  readonly silenceMillis: number
  /** How often the runner says that it is there. 5 seconds. */
  readonly beatMillis: number
}
