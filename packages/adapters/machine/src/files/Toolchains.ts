/**
 * Folders with programs that the operator keeps for repositories: every box sees them, and setup commands and agents find their
 * programs first. As installed by hand, or by mise, asdf, pyenv, nvm or SDKMAN.
 */
import type { Programs } from "@slipway/domain/sandbox/ports/SandboxHost"
import { createHash } from "node:crypto"
import { lstat, readdir, readlink, realpath, stat } from "node:fs/promises"
import { join } from "node:path"

/** The toolchains in a folder now: a version manager may change it at any time. */
interface Toolchain {
  readonly folder: string
  /** Folders with programs, in the order of a PATH. */
  readonly path: ReadonlyArray<string>
}

const isFolder = (path: string) => stat(path).then((found) => found.isDirectory(), () => false)

const namesIn = (folder: string): Promise<ReadonlyArray<string>> => readdir(folder).then((names) => names.sort(), () => [])

/**
 * Folders of a version manager: its stand-ins, its own programs, and its current versions. SDKMAN has a current version of each candidate.
 */
const places = async (folder: string) => [
  join(folder, "shims"),
  join(folder, "bin"),
  join(folder, "current", "bin"),
  ...(await namesIn(join(folder, "candidates"))).map((name) => join(folder, "candidates", name, "current", "bin"))
]

export const look = async (folder: string): Promise<Toolchain> => {
  const path: Array<string> = []
  for (const place of await places(folder)) if (await isFolder(place)) path.push(place)
  return { folder, path: path.length === 0 ? [folder] : path }
}

/** The variables that stand-ins of a version manager need to find installed programs: its folder, and for mise the trusted paths. */
const variablesOf = async ({ folder, path }: Toolchain, trusted: string | null): Promise<Readonly<Record<string, string>>> => {
  const shims = join(folder, "shims")
  if (!path.includes(shims) || !await isFolder(join(folder, "installs"))) return {}
  const [first] = await namesIn(shims)
  // Those of mise are links to it, those of asdf are scripts.
  const isMise = first !== undefined && (await lstat(join(shims, first)).catch(() => null))?.isSymbolicLink() === true
  if (!isMise) return { ASDF_DATA_DIR: folder }
  return { MISE_DATA_DIR: folder, ...(trusted === null ? {} : { MISE_TRUSTED_CONFIG_PATHS: trusted }) }
}

/** Deep enough for the names of versions: `versions/node/v24.1.0`, `candidates/java/current`. */
const DEPTH = 3
/** Far more than version managers have there; a folder with more is named by those. */
const MAX_ENTRIES = 5_000

/** `name`: tells whether it is still the same. */
const entryAt = async (path: string): Promise<{ readonly path: string; readonly isFolder: boolean; readonly name: string }> => {
  const entry = await lstat(path).catch(() => null)
  if (entry === null) return { path, isFolder: false, name: "" }
  const name = entry.isSymbolicLink() ? await readlink(path).catch(() => "") : `${entry.size} ${entry.mtimeMs}`
  return { path, isFolder: entry.isDirectory(), name }
}

/** 64 hex digits that change when a program or a version is added, replaced or removed: of the names, sizes and times in the folders. */
const identity = async (toolchains: ReadonlyArray<Toolchain>): Promise<string> => {
  const hash = createHash("sha256")
  for (const { folder, path } of toolchains) {
    hash.update(`${JSON.stringify([folder, path])}\n`)
    let count = 0
    let level: ReadonlyArray<string> = [folder]
    for (let depth = 0; depth < DEPTH; depth++) {
      const next: Array<string> = []
      for (const parent of level) {
        const paths = (await namesIn(parent)).slice(0, MAX_ENTRIES - count).map((name) => join(parent, name))
        count += paths.length
        const entries = await Promise.all(paths.map(entryAt))
        for (const { isFolder, name, path } of entries) {
          hash.update(`${JSON.stringify([path, name])}\n`)
          if (isFolder) next.push(path)
        }
      }
      level = next
    }
  }
  return hash.digest("hex")
}

/**
 * The report of a host about the toolchains in `folders`. `workspace`: the folder of all trees in boxes; `null`: that differs between
 * boxes.
 */
export const programs = async (
  folders: ReadonlyArray<string>,
  workspace: string | null
): Promise<Pick<Programs, "env" | "id" | "path">> => {
  const toolchains = await Promise.all(folders.map(look))
  return {
    id: toolchains.length === 0 ? "" : await identity(toolchains),
    path: toolchains.flatMap(({ path }) => path),
    // If two programs have the same name, the first one wins.
    env: Object.assign({}, ...(await Promise.all(toolchains.map((one) => variablesOf(one, workspace)))).reverse())
  }
}

const isIn = (path: string, folder: string) => path === folder || path.startsWith(folder.endsWith("/") ? folder : `${folder}/`)

const OTHERS_MAY_ENTER = 0o005

/** The reason why programs of it cannot run in a box, as a sentence; `null`: no reason was found. */
const problemOf = async (
  { folder, path }: Toolchain,
  names: ReadonlyArray<string>,
  { isOwnUser, seen }: { readonly isOwnUser: boolean; readonly seen: ReadonlyArray<string> }
): Promise<string | null> => {
  const closed = async (place: string) => ((await stat(place)).mode & OTHERS_MAY_ENTER) !== OTHERS_MAY_ENTER
  for (const place of isOwnUser ? [folder, ...path] : []) {
    if (await closed(place)) return `Sandboxes run as users of their own, who may not read ${place}: chmod o+rx.`
  }
  for (const name of names) {
    const target = await realpath(name).catch(() => null)
    if (target === null) return `${name} leads nowhere.`
    if (!seen.some((folder) => isIn(target, folder))) return `${name} leads to ${target}, which boxes do not see: list its folder as well.`
  }
  return names.length === 0 ? "There are no programs in it." : null
}

/** A toolchain for people: how many programs each of its folders has. */
export const describe = async (
  folder: string,
  /** Whether sandboxes have users of their own; what boxes see beside this folder, as paths without links. */
  options: { readonly isOwnUser: boolean; readonly seen: ReadonlyArray<string> }
): Promise<{ readonly detail: string; readonly problem: string | null }> => {
  const toolchain = await look(folder)
  const programs = await Promise.all(
    toolchain.path.map(async (place) => (await namesIn(place)).map((name) => join(place, name)))
  )
  return {
    detail: toolchain.path.map((place, i) => `${place} (${programs[i]?.length ?? 0})`).join(", "),
    problem: await problemOf(toolchain, programs.flat(), options)
  }
}
