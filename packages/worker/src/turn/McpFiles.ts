/** The MCP servers of repositories' own `.mcp.json`, where an owner switched that on (docs/decisions/23). */
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { RevealedMcpServer } from "@slipway/domain/mcp/ports/McpServerStore"
import { MAX_MCP_FILE_BYTES, MCP_FILE, readMcpFile } from "@slipway/domain/mcp/rules/McpFile"
import { variablesOf } from "@slipway/domain/mcp/usecases/McpServers"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { RepositorySettings } from "@slipway/domain/source/ports/RepositorySettings"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { Effect, Option, Result } from "effect"
import { untilAvailable } from "../shared/LeasedSandbox.ts"

/** A server as an agent gets it, of an owner or of a file. */
export type NamedServer = Pick<RevealedMcpServer, "credential" | "name" | "repo" | "settings">

/** A server, or a whole file, that agents do not have. */
interface Refused {
  readonly repo: RepoName
  readonly name: string
  readonly problem: string
}

/** The sandbox's repositories whose file counts, in order. A creation that chose its servers has none of a file. */
export const repositoriesOf = Effect.fnUntraced(function*({ grantId, mcpServers, repos }: Sandbox) {
  const settings = Option.getOrNull(yield* Effect.serviceOption(RepositorySettings))
  if (settings === null || (mcpServers ?? null) !== null) return []
  const names = repos.map(({ fullName }) => fullName)
  return yield* Effect.filter(names, (repo) => Effect.map(untilAvailable(settings.of({ grantId, repo })), ({ mcpFile }) => mcpFile))
})

/**
 * Reads the files in the commits that the trees started from, so nothing that an agent wrote counts. `taken`: names of servers that owners
 * set, on by default or not. `env`: the agent's plain variables.
 */
export const read = Effect.fn("McpFiles.read")(function*(
  { id }: Pick<Sandbox, "id">,
  repos: ReadonlyArray<RepoName>,
  taken: ReadonlySet<string>,
  env: Readonly<Record<string, string>>
) {
  const trees = yield* WorkingTrees
  const servers = new Map<string, NamedServer>()
  const refused: Array<Refused> = []
  for (const repo of repos) {
    const files = yield* trees.readBase({ sandboxId: id, repo }, [MCP_FILE], { maximumBytes: MAX_MCP_FILE_BYTES }).pipe(
      Effect.catchTag("FileNotFound", () => Effect.succeed(new Map<string, never>()))
    )
    const found = files.get(MCP_FILE)
    if (found === undefined) continue
    const file = found.content === null
      ? Result.fail(`It has more than ${MAX_MCP_FILE_BYTES} bytes.`)
      : readMcpFile(new TextDecoder().decode(found.content), env)
    if (Result.isFailure(file)) {
      refused.push({ repo, name: MCP_FILE, problem: `The file cannot be used: ${file.failure}` })
      continue
    }
    for (const { name, settings, variables } of file.success.servers) {
      if (!taken.has(name) && !servers.has(name)) servers.set(name, { repo, name, settings, credential: variablesOf(variables) })
    }
    refused.push(...file.success.refused.map(({ name, reason }) => ({ repo, name: visible(name), problem: visible(reason) })))
  }
  return { servers: [...servers.values()], refused }
})
