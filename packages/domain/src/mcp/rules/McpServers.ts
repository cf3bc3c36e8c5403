/** Which MCP servers a sandbox has, and what its agent may do with their tools (docs/decisions/23). Pure. */
import type { ToolApprovalMode } from "../../models/schema/ToolApprovalMode.ts"
import { sameRepo } from "../../source/schema/Naming.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import type { McpCommandSettings, McpPermission, McpServerName, McpServerSettings } from "../schema/McpServer.ts"

/** The permission of one tool of a server. Tools without a permission of their own ask exactly where edits and commands ask. */
export const permissionOf = (
  { tools }: Pick<McpServerSettings, "tools">,
  tool: string,
  mode: ToolApprovalMode
): McpPermission => (Object.hasOwn(tools, tool) ? tools[tool] : undefined) ?? (mode === "prompt" ? "ask" : "allow")

/** Whether the server is a command in the sandbox's box. */
export const runsCommand = (settings: McpServerSettings): settings is McpCommandSettings => "command" in settings

interface Named {
  readonly repo: RepoName
  readonly name: McpServerName
  readonly settings: Pick<McpServerSettings, "onByDefault">
}

/**
 * The servers of a sandbox. `chosen`: the names that its creation chose; `null`: those that are on by default. Of two servers with one
 * name, that of the earlier repository counts.
 */
export const serversOf = <S extends Named>(
  all: ReadonlyArray<S>,
  repos: ReadonlyArray<RepoName>,
  chosen: ReadonlyArray<McpServerName> | null
): ReadonlyArray<S> => {
  const found = new Map<string, S>()
  for (const repo of repos) {
    for (const server of all) {
      if (!sameRepo(server.repo, repo) || found.has(server.name)) continue
      if (chosen === null ? server.settings.onByDefault : chosen.includes(server.name)) found.set(server.name, server)
    }
  }
  return [...found.values()]
}

/** The chosen names that none of the repositories has. */
export const unknownNames = (
  all: ReadonlyArray<Pick<Named, "name" | "repo">>,
  repos: ReadonlyArray<RepoName>,
  chosen: ReadonlyArray<McpServerName>
): ReadonlyArray<McpServerName> =>
  chosen.filter((name) => !all.some((server) => server.name === name && repos.some((repo) => sameRepo(server.repo, repo))))

/** Whether the stored credential stays when settings are set. `missing`: the settings need one, and none is there or given. */
export type CredentialChange = "none" | "keep" | "replace" | "missing"

/**
 * A stored credential is kept only for the address and the header or client that it was given for. The client of a server with OAuth may
 * have no secret.
 */
export const credentialChange = (
  before: { readonly settings: McpServerSettings; readonly hasCredential: boolean } | null,
  after: McpServerSettings,
  isGiven: boolean
): CredentialChange => {
  if (runsCommand(after)) return variablesChange(before, after, isGiven)
  const { authentication, url } = after
  if (authentication.type === "none" || (authentication.type === "oauth" && authentication.clientId === undefined)) return "none"
  if (isGiven) return "replace"
  const was = before !== null && before.hasCredential && !runsCommand(before.settings) && before.settings.url === url
    ? before.settings.authentication
    : null
  if (authentication.type === "oauth") return was?.type === "oauth" && was.clientId === authentication.clientId ? "keep" : "none"
  return was?.type === "header" && was.name.toLowerCase() === authentication.name.toLowerCase() ? "keep" : "missing"
}

/** The values of a command's variables are one credential: they stay while the command has variables of the same names. */
const variablesChange = (
  before: { readonly settings: McpServerSettings; readonly hasCredential: boolean } | null,
  { variables }: McpCommandSettings,
  isGiven: boolean
): CredentialChange => {
  if (variables.length === 0) return "none"
  if (isGiven) return "replace"
  if (before === null || !before.hasCredential || !runsCommand(before.settings)) return "missing"
  const had = new Set(before.settings.variables)
  return had.size === variables.length && variables.every((name) => had.has(name)) ? "keep" : "missing"
}

/** Whether a connection by OAuth counts after new settings: only for the same address, client, secret and scopes. */
export const keepsConnection = (before: McpServerSettings, after: McpServerSettings, change: CredentialChange): boolean => {
  if (runsCommand(before) || runsCommand(after)) return false
  const [was, is] = [before.authentication, after.authentication]
  return was.type === "oauth" && is.type === "oauth" && change !== "replace" && before.url === after.url && was.clientId === is.clientId &&
    was.scope === is.scope
}
