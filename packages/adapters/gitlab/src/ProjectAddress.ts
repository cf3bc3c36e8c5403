/** The project that an address of git names. Addresses are texts of strangers. */
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"

/** Characters of an address. */
const MAX_ADDRESS = 2_000
/** A group has at most 20 levels below the first. */
const MAX_PARTS = 22

/** Refuses names with another meaning as a path, an argument or a URL. */
const isPart = (part: string): boolean => /^[A-Za-z0-9_.][A-Za-z0-9_.-]*$/u.test(part) && part !== "." && part !== ".."

/** The host and path of the forms that git has for addresses on other machines. */
const partsOf = (address: string): { readonly host: string; readonly path: string } | null => {
  const short = address.includes("://") ? undefined : /^(?:[\w.-]+@)?(?<host>[\w.-]+):(?<path>.+)$/u.exec(address)?.groups
  if (short !== undefined) return { host: short["host"] ?? "", path: `/${short["path"] ?? ""}` }
  if (!URL.canParse(address)) return null
  const { hash, host, hostname, password, pathname, protocol, search } = new URL(address)
  if (hash !== "" || search !== "" || password !== "") return null
  if (protocol === "https:" || protocol === "http:") return { host, path: pathname }
  return protocol === "ssh:" || protocol === "git:" ? { host: hostname, path: pathname } : null
}

/** The full path of the project; `null`: the address names none there. `url`: GitLab's web address. */
export const pathOf = (address: string, url: string): RepoName | null => {
  if (address === "" || address.length > MAX_ADDRESS || /[\p{Cc}\p{Zl}\p{Zp}\s\\]/u.test(address)) return null
  const [parts, own] = [partsOf(address), new URL(url)]
  if (parts === null || ![own.host.toLowerCase(), own.hostname.toLowerCase()].includes(parts.host.toLowerCase())) return null
  // Addresses of SSH lack the path of the web pages.
  const prefix = own.pathname.replace(/(?<!\/)\/+$/u, "")
  const isPrefixed = prefix !== "" && parts.path.startsWith(`${prefix}/`)
  if (prefix !== "" && !isPrefixed && /^https?:/iu.test(address)) return null
  const path = isPrefixed ? parts.path.slice(prefix.length) : parts.path
  const names = path.replace(/^\/+/u, "").replace(/(?<!\/)\/+$/u, "").replace(/\.git$/u, "").split("/")
  return names.length >= 2 && names.length <= MAX_PARTS && names.every(isPart) ? names.join("/") : null
}
