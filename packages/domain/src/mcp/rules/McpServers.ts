/** Which MCP servers a sandbox has, and what its agent may do with their tools (docs/decisions/23). Pure. */
import type { ToolApprovalMode } from "../../models/schema/ToolApprovalMode.ts"
import { sameRepo } from "../../source/schema/Naming.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import type { McpPermission, McpServerName, McpServerSettings } from "../schema/McpServer.ts"

/** The permission of one tool of a server. Tools without a permission of their own ask exactly where edits and commands ask. */
export const permissionOf = (
  { tools }: Pick<McpServerSettings, "tools">,
  tool: string,
  mode: ToolApprovalMode
): McpPermission => (Object.hasOwn(tools, tool) ? tools[tool] : undefined) ?? (mode === "prompt" ? "ask" : "allow")

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

/** A stored credential is kept only for the address and the header that it was given for. */
export const credentialChange = (
  before: { readonly settings: McpServerSettings; readonly hasCredential: boolean } | null,
  { authentication, url }: McpServerSettings,
  isGiven: boolean
): CredentialChange => {
  if (authentication.type === "none") return "none"
  if (isGiven) return "replace"
  const was = before?.settings.authentication
  const isSame = before !== null && before.hasCredential && before.settings.url === url && was?.type === "header" &&
    was.name.toLowerCase() === authentication.name.toLowerCase()
  return isSame ? "keep" : "missing"
}
