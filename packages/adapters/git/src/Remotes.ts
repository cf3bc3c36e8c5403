/** The options of a git process that talks to a remote, and explanations of its failures for people. */
import { ifAbsent } from "@slipway/domain/files/rules/SystemError"
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import { hostWords } from "@slipway/domain/source/rules/HostWords"
import { Effect } from "effect"
import { readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import type { GitFailed, GitOptions } from "./Git.ts"
import * as LocalRefs from "./LocalRefs.ts"

/** Configuration of this process does not reach the one git starts at the other end of a local path: it needs its own. */
const atLocalEnd = (program: string, ...config: ReadonlyArray<string>): string =>
  ["git", ...["safe.directory=*", "core.fsmonitor=false", "gc.auto=0", ...config].flatMap((entry) => ["-c", entry]), program].join(" ")

/** Reading runs no hook, and need not read the files of commits. What was published can be had although its branch was deleted since. */
const UPLOAD_PACK = atLocalEnd(
  "upload-pack",
  "core.hooksPath=/dev/null",
  "uploadpack.allowFilter=true",
  "uploadpack.allowAnySHA1InWant=true"
)

const orAbsent = <A>(read: () => A, absent: A): A => {
  try {
    return read()
  } catch (cause) {
    return ifAbsent(absent)(cause)
  }
}

/** The owner of a repository that may have hooks. */
const ownerOfHooks = (folder: string): { readonly uid: number; readonly gid: number } | undefined => {
  const inside = join(folder, ".git")
  const gitDir = orAbsent(() => statSync(inside).isDirectory(), false) ? inside : folder
  const hooks = orAbsent(() => readdirSync(join(gitDir, "hooks")), []).filter((name) => !name.endsWith(".sample"))
  const isConfigured = /hookspath|include/iu.test(orAbsent(() => readFileSync(join(gitDir, "config"), "utf8"), ""))
  return hooks.length > 0 || isConfigured ? orAbsent(() => statSync(gitDir), undefined) : undefined
}

/**
 * The repository is the operator's, so its hooks and limits apply. They run as the user of the service; where that is root, as the
 * owner of the repository, since an owner may not become root by a hook.
 */
const receivePack = (folder: string): string => {
  const command = atLocalEnd("receive-pack", "receive.autogc=false")
  if (process.getuid?.() !== 0) return command
  const owner = ownerOfHooks(folder)
  return owner === undefined || owner.uid === 0
    ? command
    : `setpriv --reuid=${owner.uid} --regid=${owner.gid} --clear-groups ${command}`
}

const isLoopback = (host: string): boolean => host === "localhost" || host === "[::1]" || /^127(?:\.\d{1,3}){3}$/u.test(host)

export interface Transport {
  readonly url: string
  readonly options: Pick<GitOptions, "authorization" | "config" | "isLocal">
  /** For `fetch` and `ls-remote`. */
  readonly fetchArguments: ReadonlyArray<string>
  /** As the other side is now. */
  pushArguments(): ReadonlyArray<string>
  /** The repository's folder, where it is on this machine. */
  readonly folder?: string
}

/**
 * Allows the one protocol the remote's URL names: `https`, `http` to this machine, or a local path. `undefined` for
 * any other, and for URLs that carry a user.
 */
export const transport = (remote: Remote): Transport | undefined => {
  if (remote.url.startsWith("/") || remote.url.startsWith("file:///")) {
    const folder = remote.url.startsWith("/") ? remote.url : fileURLToPath(remote.url)
    return {
      url: remote.url,
      options: { config: ["protocol.file.allow=always"], isLocal: true },
      fetchArguments: [`--upload-pack=${UPLOAD_PACK}`],
      pushArguments: () => [`--receive-pack=${receivePack(folder)}`],
      ...remote.url.startsWith("/") ? { folder: remote.url } : {}
    }
  }
  if (!URL.canParse(remote.url)) return undefined
  const { hostname, origin, password, protocol, username } = new URL(remote.url)
  if (username !== "" || password !== "" || protocol !== "https:" && !(protocol === "http:" && isLoopback(hostname))) return undefined
  return {
    url: remote.url,
    options: {
      config: [`protocol.${protocol.slice(0, -1)}.allow=always`],
      ...(remote.authorization === null ? {} : { authorization: { origin, value: remote.authorization } })
    },
    fetchArguments: [],
    pushArguments: () => []
  }
}

/** The commits that these branches of the remote point to, where its files here say it; `undefined`: it has to be asked. */
export const knownTips = ({ folder }: Transport, branches: ReadonlyArray<string>): Effect.Effect<ReadonlyMap<string, string> | undefined> =>
  folder === undefined ? Effect.undefined : Effect.promise(() => LocalRefs.tips(folder, branches))

export interface Explanation {
  readonly detail: string
  readonly retryable: boolean
}

/** First match wins. The texts are git's under `LC_ALL=C`. */
const EXPLANATIONS: ReadonlyArray<readonly [pattern: RegExp, detail: string, retryable: boolean]> = [
  [/\(stale info\)/u, "The branch changed while it was pushed.", true],
  [/not our ref|unadvertised object|find remote ref|invalid refspec/u, "The commit does not exist in the repository.", false],
  [/\[remote rejected\]|\[rejected\]|pre-receive hook declined|protected branch/u, "The source host refused the push.", false],
  [/Authentication failed|could not read Username|Authorization failed|returned error: 40[13]|access .*denied|denied to/iu,
    "The source host refused access to the repository.", false],
  [/returned error: 30\d|redirect/iu, "The repository has moved; use its present name.", false],
  [/returned error: 404|repository not found|repository '.*' not found|does not appear to be a git repository/iu,
    "The repository was not found.", false],
  [/dubious ownership/u, "The repository belongs to another user of this machine.", false],
  [/fsck error|bad object|mismatched algorithms|(?:filename|mode) in tree entry|too-short tree/u,
    "The repository holds objects that git refuses to take.", false],
  [/No space left on device/u, "There is no space left on this machine.", true]
]

/** The words of the remote: its lines that git passes on, and its reasons for refusing a ref. */
const wordsIn = (stderr: string): string => {
  const lines = stderr.split(/[\r\n]+/u)
  const said = lines.flatMap((line) => line.startsWith("remote:") ? [line.slice("remote:".length).trim()] : [])
  const refused = lines.flatMap((line) => {
    const reason = line.startsWith(" ! [remote rejected]") && line.endsWith(")") ? line.slice(line.lastIndexOf("(") + 1, -1) : ""
    return reason === "" ? [] : [`(${reason})`]
  })
  return hostWords([...said, ...refused].join(" "))
}

/** The explanation of a failed exchange with a remote. Unknown failures count as temporary: networks fail more often than requests. */
export const explain = (failure: GitFailed): Explanation => {
  const words = wordsIn(failure.stderr)
  const inItsWords = (detail: string) => words === "" ? detail : `${detail.replace(/\.$/u, "")}: ${words}`
  if (failure.reason === "timeout") return { detail: inItsWords("The source host did not answer in time."), retryable: true }
  const known = EXPLANATIONS.find(([pattern]) => pattern.test(failure.stderr))
  return known === undefined
    ? { detail: inItsWords("The connection to the source host failed."), retryable: true }
    : { detail: inItsWords(known[1]), retryable: known[2] }
}

/** A remote we do not talk to by design. */
export const unsupported: Explanation = { detail: "The address of the repository is of a kind that is not supported.", retryable: false }
