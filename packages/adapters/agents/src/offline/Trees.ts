/** Edits files of the repositories only. */
import { closeSync, constants, fstatSync, mkdirSync, openSync, readFileSync, realpathSync, unlinkSync, writeFileSync } from "node:fs"
import { dirname, isAbsolute, resolve, sep } from "node:path"

export interface Repository {
  /** `owner/name`. */
  readonly name: string
  /** Absolute. */
  readonly folder: string
}

/** A sentence that says why an edit is refused. */
class Refused extends Error {}

const isWithin = (folder: string, path: string) => path.startsWith(folder + sep)

/** The nearest existing ancestor of `path`, with its links resolved. */
const existing = (path: string): string => {
  try {
    return realpathSync(path)
  } catch {
    return existing(dirname(path))
  }
}

/** The repository `name`, in any case. The first one if `name` is null. */
export const find = (repositories: ReadonlyArray<Repository>, name: string | null): Repository | undefined =>
  name === null
    ? repositories[0]
    : repositories.find((repository) => repository.name.toLowerCase() === name.toLowerCase())

export const pick = (repositories: ReadonlyArray<Repository>, name: string | null): Repository => {
  const found = find(repositories, name)
  if (found === undefined) {
    throw new Refused(name === null ? "This sandbox has no repository." : `This sandbox has no repository ${name}.`)
  }
  return found
}

/** The absolute path of `path` in the repository. Refuses paths that leave it, by `..` or through a linked folder. */
const locate = ({ folder }: Repository, path: string): string => {
  const root = realpathSync(folder)
  const target = resolve(root, path)
  const parent = existing(dirname(target))
  if (isAbsolute(path) || !isWithin(root, target) || (parent !== root && !isWithin(root, parent))) {
    throw new Refused(`${path} is outside the repository.`)
  }
  return target
}

/** Opens without following a link, even a new one. */
const put = (target: string, content: string, mode: "append" | "replace") => {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_TRUNC, O_WRONLY } = constants
  const file = openSync(target, O_WRONLY | O_CREAT | O_NOFOLLOW | (mode === "append" ? O_APPEND : O_TRUNC), 0o666)
  try {
    writeFileSync(file, content)
  } finally {
    closeSync(file)
  }
}

/** Larger files are not shown before they are changed. */
const MAX_READ = 1024 * 1024

/** The content of a file, without following a link; `null`: missing, or not displayable. */
export const read = (repository: Repository, path: string): string | null => {
  try {
    const file = openSync(locate(repository, path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    try {
      const { size } = fstatSync(file)
      return size > MAX_READ ? null : readFileSync(file, "utf8")
    } finally {
      closeSync(file)
    }
  } catch {
    return null
  }
}

/** Makes or replaces a file, and the folders it needs. Refuses links. */
export const write = (repository: Repository, path: string, content: string): void => {
  const target = locate(repository, path)
  mkdirSync(dirname(target), { recursive: true })
  put(target, content, "replace")
}

/** Appends to a file, and makes it if it is missing. */
export const append = (repository: Repository, path: string, content: string): void => put(locate(repository, path), content, "append")

/** Deletes one file, never a folder. */
export const remove = (repository: Repository, path: string): void => unlinkSync(locate(repository, path))
