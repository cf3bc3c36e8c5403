/** The MCP servers of a sandbox's agent (docs/decisions/23): which it gets, and calls that need a person. */
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import {
  type McpAsk,
  McpGateway,
  McpNotConnected,
  type McpRemoteTarget,
  type McpSession,
  type McpTarget
} from "@slipway/domain/mcp/ports/McpGateway"
import { McpServerStore } from "@slipway/domain/mcp/ports/McpServerStore"
import { permissionOf, runsCommand, serversOf } from "@slipway/domain/mcp/rules/McpServers"
import { type McpCommandSettings, McpVariables } from "@slipway/domain/mcp/schema/McpServer"
import { McpConnections } from "@slipway/domain/mcp/usecases/McpConnections"
import type { AgentEvent, AgentMcp } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import { isSettled, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import * as ToolCall from "@slipway/domain/sandbox/rules/ToolCall"
import { sameRepo } from "@slipway/domain/source/schema/Naming"
import { Duration, Effect, Option, Redacted, Result, Schema } from "effect"
import { type LeasedSandbox, untilAvailable } from "../shared/LeasedSandbox.ts"
import * as McpFiles from "./McpFiles.ts"

/** The servers of one agent process. */
interface OpenMcp {
  /** `null`: no server answers, or the sandbox has none. */
  readonly session: McpSession | null
  /** For the runtime; `undefined`: none. */
  readonly given: AgentMcp | undefined
  /** The agent's instructions about missing servers, Markdown; `null`: nothing. */
  readonly told: string | null
}

/** Servers that are looked at side by side. Those that do not answer take seconds each. */
const AT_ONCE = 64

const NONE: OpenMcp = { session: null, given: undefined, told: null }

/** Needed for the ways to servers. */
interface Ways {
  readonly sandbox: Sandbox
  /** The box as agents have it; `null`: no server is a command. */
  readonly box: Box | null
  /** The folder of a repository in the box. */
  readonly folderOf: (repo: string) => string
  /** `null`: this worker cannot use connections by OAuth. */
  readonly connections: McpConnections["Service"] | null
  readonly learn: (secret: string) => void
}

const noConnections = new McpNotConnected({ detail: "This worker cannot use connections by OAuth." })

/** Arguments: the folder, then the program with its own. */
const START = `cd "$1" || exit; shift; exec "$@"`

/** A command in the folder of its repository, as the agent's own commands run. */
const commandTarget = (
  { box, folderOf, sandbox: { toolApprovalMode } }: Ways,
  { credential, name, repo }: McpFiles.NamedServer,
  settings: McpCommandSettings
): McpTarget => ({
  name,
  permissionOf: (tool) => permissionOf(settings, tool, toolApprovalMode),
  start: box === null ? Effect.fail(NO_BOX) : Effect.mapError(
    box.spawn({
      command: "/bin/sh",
      args: ["-c", START, "slipway-mcp", folderOf(repo), settings.command, ...settings.arguments],
      env: valuesOf(credential)
    }),
    ({ detail }) => new McpNotConnected({ detail })
  )
})

const NO_BOX = new McpNotConnected({ detail: "There is no box for commands." })

const targetOf = (ways: Ways) => (server: McpFiles.NamedServer): McpTarget => {
  const { connections, learn, sandbox: { grantId, toolApprovalMode } } = ways
  const { credential, name, repo, settings } = server
  if (runsCommand(settings)) return commandTarget(ways, server, settings)
  const { authentication, url } = settings
  const token: McpRemoteTarget["token"] = (refused) =>
    connections === null
      ? Effect.fail(noConnections)
      : Effect.tap(connections.token({ grantId, repo, name }, refused), (token) => Effect.sync(() => learn(Redacted.value(token))))
  return {
    name,
    url,
    header: credential === null || authentication.type !== "header" ? null : { name: authentication.name, value: credential },
    ...(authentication.type === "oauth" ? { token } : {}),
    permissionOf: (tool) => permissionOf(settings, tool, toolApprovalMode)
  }
}

/** The values of a command's variables. */
const valuesOf = (credential: McpFiles.NamedServer["credential"]): McpVariables =>
  credential === null ? {} : decodeVariables(Redacted.value(credential))
const decodeVariables = Schema.decodeSync(Schema.fromJsonString(McpVariables))

/** Hides what owners gave to servers from logs and reasons. */
const learnSecrets = (servers: ReadonlyArray<McpFiles.NamedServer>, learn: (secret: string) => void) => {
  for (const { credential, settings } of servers) {
    if (credential === null) continue
    if (runsCommand(settings)) {
      for (const value of Object.values(valuesOf(credential))) learn(value)
      continue
    }
    const value = Redacted.value(credential)
    learn(value)
    learn(value.replace(/^(?:basic|bearer|token) +/iu, ""))
  }
}

interface Found {
  readonly servers: ReadonlyArray<McpFiles.NamedServer>
  /** Names of servers that are missing, for `problem`. */
  readonly gone: ReadonlyArray<string>
  /** `null`: they were removed. */
  readonly problem: string | null
  /** Names of all servers that owners set for the sandbox's repositories. */
  readonly taken: ReadonlySet<string>
}

/** The servers of owners that were chosen or are on by default, and the chosen ones that are gone. */
const find = Effect.fnUntraced(function*(sandbox: Sandbox): Effect.fn.Return<Found> {
  const store = Option.getOrUndefined(yield* Effect.serviceOption(McpServerStore))
  const chosen = sandbox.mcpServers ?? null
  if (store === undefined || chosen?.length === 0) return { servers: [], gone: [], problem: null, taken: new Set() }
  const repos = sandbox.repos.map(({ fullName }) => fullName)
  const records = yield* untilAvailable(store.list(sandbox.grantId, null))
  const wanted = serversOf(records, repos, chosen)
  const taken = new Set(records.flatMap(({ name, repo }) => repos.some((one) => sameRepo(one, repo)) ? [name] : []))
  const gone = (chosen ?? []).filter((name) => !wanted.some((server) => server.name === name))
  if (wanted.length === 0) return { servers: [], gone, problem: null, taken }
  const revealed = yield* untilAvailable(store.reveal(sandbox.grantId, repos)).pipe(
    Effect.map((all) => ({ servers: serversOf(all, repos, chosen), gone, problem: null, taken })),
    Effect.catchTag(
      "SecretsUnusable",
      ({ problem }) =>
        Effect.as(Effect.logError("credentials of MCP servers cannot be read", { problem }), {
          servers: [],
          gone: [...gone, ...wanted.map(({ name }) => name)],
          taken,
          problem: "The service cannot read its credential. Its log says what an administrator can do."
        })
    )
  )
  return revealed
})

interface Looked {
  readonly name: string
  /** The repository whose file names it. */
  readonly repo?: string
  readonly ms: number
  /** `null`: it answers. */
  readonly problem: string | null
}

const report = ({ ms, name, problem, repo }: Looked): SystemCommand => ({
  _tag: "ReportBoot",
  data: { stage: "mcp", ms, server: name, ...(repo === undefined ? {} : { repo }), ...(problem === null ? {} : { error: problem }) }
})

const toldOf = (looked: ReadonlyArray<Looked>): string | null => {
  const missing = looked.filter(({ problem }) => problem !== null)
  if (missing.length === 0) return null
  const lines = missing.map(({ name, problem, repo }) => {
    const server = repo === undefined ? name : `${name} of ${repo}`
    return `The MCP server ${server} is missing: ${problem}`
  })
  return `# MCP servers\n\n${lines.join("\n")}\n`
}

/** Needed for servers that are commands. */
interface InBox<E, R> extends Pick<Ways, "folderOf"> {
  /** The box as agents have it, and their plain variables, once the setup is known. */
  readonly ready: Effect.Effect<{ readonly box: Box; readonly env: Readonly<Record<string, string>> }, E, R>
}

/** Servers of owners, and those of repositories' files. */
const findAll = Effect.fnUntraced(function*<E, R>(sandbox: Sandbox, ready: InBox<E, R>["ready"]) {
  const { gone, problem, servers, taken } = yield* find(sandbox)
  const missing: ReadonlyArray<Looked> = gone.map((name) => ({ name, ms: 0, problem: problem ?? "It was removed." }))
  const withFile = yield* McpFiles.repositoriesOf(sandbox)
  if (withFile.length === 0) return { owned: servers, servers, missing }
  const files = yield* McpFiles.read(sandbox, withFile, taken, (yield* ready).env)
  return {
    owned: servers,
    servers: [...servers, ...files.servers],
    missing: [...missing, ...files.refused.map((refused): Looked => ({ ...refused, ms: 0 }))]
  }
})

/**
 * Looks at the servers, reports each to the sandbox's log, and opens the way to those that answer. A later start of an agent reports only
 * servers that do not answer.
 */
export const open = Effect.fn("AgentMcp.open")(function*<E, R>(leased: LeasedSandbox, { folderOf, ready }: InBox<E, R>) {
  const { sandbox } = yield* leased.view
  const { missing, owned, servers } = yield* findAll(sandbox, ready)
  if (servers.length === 0 && missing.length === 0) return NONE
  const gateway = Option.getOrUndefined(yield* Effect.serviceOption(McpGateway))
  const redaction = yield* Redaction
  const connections = Option.getOrNull(yield* Effect.serviceOption(McpConnections))
  const learn = (secret: string) => redaction.learn(secret)
  learnSecrets(owned, learn)
  const box = servers.some(({ settings }) => runsCommand(settings)) ? (yield* ready).box : null
  const session = gateway === undefined || servers.length === 0
    ? null
    : yield* gateway.open({
      sandboxId: leased.id,
      servers: servers.map(targetOf({ box, folderOf, sandbox, connections, learn }))
    })
  const looked = yield* Effect.forEach(servers, ({ name }) =>
    Effect.gen(function*() {
      const look = session === null ? Effect.succeed("This worker has no way to MCP servers.") : session.look(name)
      const [took, problem] = yield* Effect.timed(look)
      // The reason of a command may have lines that it wrote.
      return { name, ms: Math.round(Duration.toMillis(took)), problem: problem === null ? null : redaction.redact(problem) }
    }), { concurrency: AT_ONCE })
  const all: ReadonlyArray<Looked> = [...looked, ...missing]
  const now = (yield* leased.view).sandbox
  const due = now.status === "creating" ? all : all.filter(({ problem }) => problem !== null)
  if (due.length > 0 && !isSettled(now.status)) yield* leased.write(due.map(report))
  const answering = looked.filter(({ problem }) => problem === null).map(({ name }) => name)
  const opened: OpenMcp = {
    session: answering.length === 0 ? null : session,
    given: session === null || answering.length === 0
      ? undefined
      : { access: session.access, servers: servers.flatMap(({ name }) => answering.includes(name) ? [name] : []) },
    told: toldOf(all)
  }
  return opened
})

/** The ids of approvals that the gateway waits for; others are the agent's. */
export const isAsked = (approvalId: string): boolean => approvalId.startsWith("mcp:")

/** Asks people about calls for as long as it runs. Calls that cannot be shown whole are denied. */
export const attend = (session: McpSession | null, onEvent: (event: AgentEvent) => Effect.Effect<void>) =>
  session === null ? Effect.never : session.attend((ask: McpAsk) => {
    const preview = ToolCall.preview({ kind: "mcp", mcp: ask })
    if (Result.isFailure(preview)) return session.decide(ask.id, "deny", preview.failure)
    return onEvent({
      _tag: "ApprovalRequested",
      approvalId: ask.id,
      tool: ToolCall.shownTitle(`${ask.server}: ${ask.tool}`),
      kind: "mcp",
      preview: preview.success
    })
  })
