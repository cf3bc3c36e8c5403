/** The description of a new pull request, and the line in commits that names the sandbox's creator. */
import * as Context from "effect/Context"
import type { SandboxId } from "../../ids/SandboxId.ts"
import { visible } from "../../text/EscapeInvisible.ts"

/** The public address of the service, without a slash at its end; `null`: pull requests have no link to their sandbox. A setting. */
export const PublicAddress = Context.Reference<string | null>("@slipway/domain/PublicAddress", { defaultValue: () => null })

/** Characters of the agent's last message in a description. */
export const MAX_TOLD = 8_000

/** Columns of a line of the message: code blocks do not wrap. */
const COLUMNS = 100

/** Escape sequences of terminals: CSI, OSC, and those of one character. */
// oxlint-disable-next-line no-control-regex -- control characters are what is removed
const TERMINAL = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/gu

/**
 * The agent's text without effect at a host. Mentions, references to issues and addresses get a space, because a description can become
 * the message of a squashed commit, where no markup protects: there `fixes #1` would close the issue, and `@name` notify a person.
 */
export const withoutEffect = (text: string): string =>
  visible(text.replaceAll(TERMINAL, "").replaceAll(/\r\n?/gu, "\n"))
    .replaceAll(/(?<![A-Za-z0-9_])@(?=[A-Za-z0-9])/gu, "@ ")
    .replaceAll(/#(?=\d)/gu, "# ")
    .replaceAll(/\b(GH)-(?=\d)/giu, "$1- ")
    .replaceAll("://", ":// ")

const wrapped = (line: string): string => {
  const chars = Array.from(line)
  const lines: Array<string> = []
  let begin = 0
  while (chars.length - begin > COLUMNS) {
    const space = chars.lastIndexOf(" ", begin + COLUMNS)
    const end = space > begin ? space : begin + COLUMNS
    lines.push(chars.slice(begin, end).join("").trimEnd())
    begin = space > begin ? end + 1 : end
  }
  return [...lines, chars.slice(begin).join("")].join("\n")
}

/** A block of code that its content cannot end: its fence is longer than any run of backticks in it. */
const block = (text: string): string => {
  const longest = Math.max(0, ...Array.from(text.matchAll(/`+/gu), ([run]) => run.length))
  const fence = "`".repeat(Math.max(3, longest + 1))
  return `${fence}text\n${text}\n${fence}`
}

/** Cut to {@link MAX_TOLD}, without half a character at its end. */
const cut = (text: string): string => text.length <= MAX_TOLD ? text : `${text.slice(0, MAX_TOLD).toWellFormed().trimEnd()}\n…`

/** Cuts before the text is escaped, so that the work is bounded, and after it, because names of characters are longer. */
const told = (message: string): string => cut(withoutEffect(cut(message.trim()).toWellFormed())).split("\n").map(wrapped).join("\n").trim()

/** Commits that a description names: those of a snapshot, with its ellipsis. */
const MAX_COMMITS = 21
/** Characters of a commit's subject. */
const MAX_SUBJECT = 200

/** One line for each subject, bounded before and after it is escaped. */
const listed = (commits: ReadonlyArray<string>): string =>
  commits.slice(0, MAX_COMMITS).flatMap((subject) => {
    const plain = withoutEffect(subject.slice(0, MAX_SUBJECT).toWellFormed()).replaceAll(/\s+/gu, " ").trim()
    return plain === "" ? [] : [wrapped(`- ${plain.slice(0, MAX_SUBJECT).toWellFormed()}`)]
  }).join("\n")

/**
 * The description. `message`: the last message of the agent; empty: none. `commits`: subjects of its commits, oldest first. Both are
 * untrusted.
 */
export const pullRequestBody = ({ address, commits = [], message, sandboxId }: {
  readonly sandboxId: SandboxId
  readonly address: string | null
  readonly message: string
  readonly commits?: ReadonlyArray<string>
}): string => {
  const sandbox = address === null ? sandboxId : `[${sandboxId}](${address}/sandboxes/${sandboxId})`
  const part = (heading: string, text: string) => text === "" ? [] : [`${heading}:`, block(text)]
  const parts = [...part("The agent's last message", told(message)), ...part("Its commits", listed(commits))]
  return [`Opened by Slipway from sandbox ${sandbox}.`, ...parts].join("\n\n") + (parts.length === 0 ? "" : "\n")
}

/** Characters of a name in a commit. */
const MAX_NAME = 100
/** One address of printable ASCII without the characters that end it. */
const ADDRESS = /^[!-;=?-~]{1,254}$/u

/**
 * The trailer that names a person as author. `null`: no address is known. `host`: the name of the source host, whose address without
 * mail serves where the person has none.
 */
export const coAuthorTrailer = (
  { email, githubLogin, name }: { readonly name: string; readonly email: string | null; readonly githubLogin: string | null },
  host: string
): string | null => {
  const address = email ?? (githubLogin !== null && host === "github.com" ? `${githubLogin}@users.noreply.github.com` : null)
  if (address === null || !ADDRESS.test(address)) return null
  const plain = name.slice(0, 4 * MAX_NAME).toWellFormed().replaceAll(/[\p{C}\p{Zl}\p{Zp}<>\s]+/gu, " ").trim()
  const shown = Array.from(plain).slice(0, MAX_NAME).join("").trim()
  return `Co-authored-by: ${shown === "" ? address : shown} <${address}>`
}
