/**
 * Ways for a sandbox's user to folders behind others that this user cannot pass through, such as `/root`: the launcher,
 * still root and in a mount namespace of its own, mounts what lies behind where everybody can pass.
 */
import { existsSync, mkdirSync, statSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"

const FOLDER = "/run/slipway/relay"

export interface PathRelay {
  /** The mounts that the launcher makes. Usually empty. */
  readonly mounts: ReadonlyArray<readonly [source: string, target: string]>
  /** How the sandbox's user reaches `path`. */
  through(path: string): string
}

export const none: PathRelay = { mounts: [], through: (path) => path }

/**
 * The entry directly below the last folder on the way to `path` that other users cannot pass through; `undefined`: there is no such folder.
 */
const behindBarrier = (path: string): string | undefined => {
  for (let behind = path, parent = dirname(path); parent !== behind; behind = parent, parent = dirname(parent)) {
    try {
      if ((statSync(parent).mode & 0o001) === 0) return behind
    } catch {
      return undefined
    }
  }
  return undefined
}

const makeTarget = (source: string, name: string): string => {
  mkdirSync(FOLDER, { recursive: true, mode: 0o755 })
  if (statSync(source).isDirectory()) {
    const target = join(FOLDER, `${name}.folder`)
    mkdirSync(target, { recursive: true })
    return target
  }
  const target = join(FOLDER, `${name}.file`)
  writeFileSync(target, "")
  return target
}

export const to = (paths: ReadonlyArray<string>): PathRelay => {
  const sources = [...new Set(paths.flatMap((path) => behindBarrier(path) ?? []))].filter((source) => existsSync(source))
  if (sources.length === 0) return none
  const mounts = sources.map((source, i) => [source, makeTarget(source, `${i}`)] as const)
  return {
    mounts,
    through: (path) => {
      const behind = behindBarrier(path)
      const target = mounts.find(([source]) => source === behind)?.[1]
      return behind === undefined || target === undefined ? path : target + path.slice(behind.length)
    }
  }
}
