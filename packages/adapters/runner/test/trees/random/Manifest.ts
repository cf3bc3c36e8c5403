/** The content of a tree, as read from the disk without git. Paths have a character for each byte: names need not be text. */
import { createHash } from "node:crypto"
import { type Dirent, lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs"

export interface Held {
  readonly mode: "100644" | "100755" | "120000"
  /** The id of git's blob. */
  readonly blob: string
}

export type Manifest = ReadonlyMap<string, Held>

export const blobOf = (bytes: Uint8Array): string => createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex")

export const pathOf = (root: string, path: string): Buffer =>
  path === "" ? Buffer.from(root) : Buffer.concat([Buffer.from(`${root}/`), Buffer.from(path, "latin1")])

/** Folders without files are in no tree of git. Pipes are neither. */
export const read = (root: string): Manifest => {
  const found = new Map<string, Held>()
  const walk = (folder: string) => {
    const entries: Array<Dirent<Buffer>> = readdirSync(pathOf(root, folder), { withFileTypes: true, encoding: "buffer" })
    for (const entry of entries) {
      const name = entry.name.toString("latin1")
      if (name === ".git") continue
      const path = folder === "" ? name : `${folder}/${name}`
      const at = pathOf(root, path)
      if (entry.isDirectory()) walk(path)
      else if (entry.isSymbolicLink()) found.set(path, { mode: "120000", blob: blobOf(readlinkSync(at, { encoding: "buffer" })) })
      else if (entry.isFile()) {
        found.set(path, { mode: lstatSync(at).mode & 0o100 ? "100755" : "100644", blob: blobOf(readFileSync(at)) })
      }
    }
  }
  walk("")
  return found
}

export const kindOf = (root: string, path: string): "folder" | "other" => lstatSync(pathOf(root, path)).isDirectory() ? "folder" : "other"

/** The base's `.gitignore`: `*.log`, `!keep.log`, `dist/`. */
export const IGNORE = "*.log\n!keep.log\ndist/\n"
export const isIgnored = (path: string): boolean => {
  const names = path.split("/")
  const name = names.at(-1) ?? ""
  return names.slice(0, -1).some((folder) => folder === "dist" || folder.endsWith(".log") && folder !== "keep.log") ||
    name.endsWith(".log") && name !== "keep.log"
}

export const isEnvironment = (path: string): boolean => path.split("/").some((name) => name === ".env" || name.startsWith(".env."))

const filtered = (manifest: Manifest, keep: (path: string) => boolean): Manifest =>
  new Map(Array.from(manifest).filter(([path]) => keep(path)))

/** The files shown as changed: all of the base's, and new files that are not ignored. */
export const shown = (disk: Manifest, base: Manifest): Manifest => filtered(disk, (path) => base.has(path) || !isIgnored(path))

/** The files of a checkpoint. The agent's commits have no ignored file here. */
export const saved = shown

/** The files of a publication. */
export const published = (disk: Manifest, base: Manifest): Manifest =>
  filtered(shown(disk, base), (path) => base.has(path) || !isEnvironment(path))

const isSame = (a: Held | undefined, b: Held | undefined): boolean => a?.mode === b?.mode && a?.blob === b?.blob

export const differences = (a: Manifest, b: Manifest): ReadonlyArray<string> =>
  Array.from(new Set([...a.keys(), ...b.keys()])).filter((path) => !isSame(a.get(path), b.get(path))).sort()

/** For messages. */
export const print = (manifest: Manifest): ReadonlyArray<string> =>
  Array.from(manifest, ([path, { blob, mode }]) => `${mode} ${blob.slice(0, 12)} ${JSON.stringify(path)}`).sort()
