/** Names that sandboxes may reach, each with its port. Exact: no patterns, no addresses. */
import { Result } from "effect"
import { isIP } from "node:net"

/** `name:port`, lower case. */
export type AllowList = ReadonlySet<string>

const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/u

/** The destination that `text` names, or `undefined` when it is not a name and a port. */
export const destination = (text: string): { readonly host: string; readonly port: number } | undefined => {
  const [, host = "", digits = ""] = /^([^:]{1,253}):(\d{1,5})$/u.exec(text.toLowerCase()) ?? []
  const port = Number(digits)
  if (port < 1 || port > 65_535 || isIP(host) !== 0) return undefined
  const labels = host.split(".")
  // What ends in a number is an address to some resolvers: 127.1, 0x7f.1.
  if (!labels.every((label) => LABEL.test(label)) || !/[a-z]/u.test(labels.at(-1) ?? "") || /^0x/u.test(labels.at(-1) ?? "")) {
    return undefined
  }
  return { host, port }
}

/** Reads `registry.npmjs.org:443, pypi.org:443`. Fails with the first entry that names no destination. */
export const parse = (text: string): Result.Result<AllowList, string> => {
  const entries = text.split(",").map((entry) => entry.trim()).filter((entry) => entry !== "")
  const wrong = entries.find((entry) => destination(entry) === undefined)
  return wrong === undefined ? Result.succeed(new Set(entries.map((entry) => entry.toLowerCase()))) : Result.fail(wrong)
}
