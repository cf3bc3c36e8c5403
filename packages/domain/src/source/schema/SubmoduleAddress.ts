/** The addresses of submodules, as repositories write them into `.gitmodules`. They are texts of strangers. */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { RepoName } from "./RepoRef.ts"

/** Characters of an address. */
const MAX_ADDRESS = 2_000

const isText = (address: string): boolean => address !== "" && address.length <= MAX_ADDRESS && !/[\p{Cc}\p{Zl}\p{Zp}\s\\]/u.test(address)

const isRelative = (address: string): boolean => address.startsWith("./") || address.startsWith("../")

/** The path, seen from the folder; `null`: it leads out of the root, or says `..` in between. */
const below = (folder: string, relative: string): string | null => {
  const names = folder.split("/").filter((name) => name !== "")
  let rest = relative
  for (;;) {
    if (rest.startsWith("./")) rest = rest.slice(2)
    else if (rest.startsWith("../")) {
      if (names.pop() === undefined) return null
      rest = rest.slice(3)
    } else break
  }
  const added = rest.split("/").filter((name) => name !== "")
  return added.length === 0 || added.some((name) => name === "." || name === "..") ? null : `/${[...names, ...added].join("/")}`
}

/**
 * The absolute address of a submodule, resolved against that of the repository which names it, as git does. `null`: no address, or an
 * address outside the host of that repository.
 */
export const absoluteAddress = (repository: string, address: string): string | null => {
  if (!isText(address)) return null
  if (!isRelative(address)) return address
  if (repository.startsWith("/")) return below(repository, address)
  if (!URL.canParse(repository)) return null
  const { origin, pathname } = new URL(repository)
  const path = below(pathname, address)
  return path === null ? null : `${origin}${path}`
}

const isRepoName = Schema.decodeUnknownOption(RepoName)

/** `owner/name` of a path on a host of repositories; `null`: the path has another form. */
export const nameIn = (path: string): RepoName | null => {
  let end = path.length
  while (path[end - 1] === "/") end--
  return Option.getOrNull(isRepoName(path.slice(0, end).replace(/^\/+/u, "").replace(/\.git$/u, "")))
}

/** The host and path of the forms that git has for addresses on other machines. `git@host:path` is one of them. */
const partsOf = (address: string): { readonly host: string; readonly path: string } | null => {
  const short = address.includes("://") ? undefined : /^(?:[\w.-]+@)?(?<host>[\w.-]+):(?<path>.+)$/u.exec(address)?.groups
  if (short !== undefined) return { host: short["host"] ?? "", path: short["path"] ?? "" }
  if (!URL.canParse(address)) return null
  const { hash, host, hostname, password, pathname, protocol, search } = new URL(address)
  if (hash !== "" || search !== "" || password !== "") return null
  if (protocol === "https:" || protocol === "http:") return { host, path: pathname }
  return protocol === "ssh:" || protocol === "git:" ? { host: hostname, path: pathname } : null
}

/**
 * The repository that an absolute address names on a host; `null`: it names none there. `host`: name and port, such as `github.com`.
 * Only the name counts: Slipway asks the host for its own address of that repository.
 */
export const repositoryAt = (address: string, host: string): RepoName | null => {
  const parts = isText(address) ? partsOf(address) : null
  return parts === null || parts.host.toLowerCase() !== host.toLowerCase() ? null : nameIn(parts.path)
}

/** The account that a repository belongs to, in lower case. */
export const accountOf = (repo: RepoName): string => repo.slice(0, repo.indexOf("/")).toLowerCase()
