/** Converts an agent's paths to the sandbox's. */

export interface WorkspacePaths {
  /** `text` with paths of the workspace made relative to it. */
  shorten(text: string): string
  /** The paths relative to the workspace, if they are in it. Leaves out the workspace itself, which is only the place of a command. */
  inside(paths: ReadonlyArray<string>): ReadonlyArray<string>
  /** The folder of a command, relative to the workspace if it is in it. `undefined`: the workspace itself, or unknown. */
  folder(cwd: string | null | undefined): string | undefined
}

export const of = (workspace: string): WorkspacePaths => {
  const prefix = `${workspace}/`
  const inside = (paths: ReadonlyArray<string>) =>
    paths
      .filter((path) => path !== workspace && path !== prefix)
      .map((path) => (path.startsWith(prefix) ? path.slice(prefix.length) : path))
  return {
    // Also handles agents whose project is the whole disk, which leave out the first slash.
    shorten: (text) => text.replaceAll(prefix, "").replaceAll(prefix.slice(1), ""),
    inside,
    folder: (cwd) => cwd === null || cwd === undefined || cwd === "" ? undefined : inside([cwd])[0]
  }
}
