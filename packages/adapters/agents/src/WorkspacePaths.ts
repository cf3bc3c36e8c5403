/** Paths as an agent names them, as the sandbox shows them. */

export interface WorkspacePaths {
  /** `text` with what lies in the workspace named relative to it. */
  shorten(text: string): string
  /** Relative to the workspace where they are in it. Without the workspace itself, which is where a command runs, not what it is about. */
  inside(paths: ReadonlyArray<string>): ReadonlyArray<string>
  /** The folder of a command, relative to the workspace where it is in it. `undefined`: the workspace itself, or nothing was said. */
  folder(cwd: string | null | undefined): string | undefined
}

export const of = (workspace: string): WorkspacePaths => {
  const prefix = `${workspace}/`
  const inside = (paths: ReadonlyArray<string>) =>
    paths
      .filter((path) => path !== workspace && path !== prefix)
      .map((path) => (path.startsWith(prefix) ? path.slice(prefix.length) : path))
  return {
    // Also where an agent that takes the whole disk for its project leaves out the first slash.
    shorten: (text) => text.replaceAll(prefix, "").replaceAll(prefix.slice(1), ""),
    inside,
    folder: (cwd) => cwd === null || cwd === undefined || cwd === "" ? undefined : inside([cwd])[0]
  }
}
