/** Use cases of owners: the MCP servers of their repositories' agents. Credentials are never returned. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { SecretsUnusable } from "../../environment/ports/SecretStore.ts"
import { RepoName } from "../../source/schema/RepoRef.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { InvalidRequest, reader } from "../../text/InvalidRequest.ts"
import {
  type McpServerKey,
  McpServerNotFound,
  type McpServerRecord,
  type McpServerRefused,
  McpServerStore
} from "../ports/McpServerStore.ts"
import { destinationOf } from "../rules/McpDestination.ts"
import { runsCommand } from "../rules/McpServers.ts"
import {
  McpCommandSettings,
  McpCredential,
  McpPermission,
  McpRemoteSettings,
  McpServerName,
  type McpServerSettings,
  McpToolName,
  McpVariables
} from "../schema/McpServer.ts"

const readKey = reader(Schema.Struct({ repo: RepoName, name: McpServerName }), "MCP server")
const readCredential = reader(Schema.Struct({ credential: McpCredential }), "credential")
const readRemote = reader(McpRemoteSettings, "settings")
const readCommand = reader(McpCommandSettings, "settings")
const readVariables = reader(Schema.Struct({ values: McpVariables }), "values")
const readTool = reader(Schema.Struct({ tool: McpToolName, permission: Schema.NullOr(McpPermission) }), "tool")

/** `host:port` of private addresses and of `http` that servers may have. Configuration of the operator. */
export const PrivateMcpDestinations = Context.Reference<ReadonlySet<string>>("@slipway/domain/PrivateMcpDestinations", {
  defaultValue: () => new Set()
})

const isObject = (given: unknown): given is object => typeof given === "object" && given !== null

/** One form at a time, so that a fault is named in the form that the caller meant. */
const readSettings = (given: unknown): Result.Result<McpServerSettings, InvalidRequest> =>
  isObject(given) && "command" in given ? readCommand(given) : readRemote(given)

/** The values of a command's variables as they are stored. */
export const variablesOf = (values: Readonly<Record<string, string>>): Redacted.Redacted => Redacted.make(JSON.stringify(values))

type Key = Readonly<Record<keyof McpServerKey, string>>

/** The values are those of exactly the variables of the command. */
const checkValues = Effect.fnUntraced(function*({ variables }: McpCommandSettings, given: Redacted.Redacted) {
  const { values } = yield* Effect.fromResult(
    readVariables({ values: Option.getOrNull(Option.liftThrowable(JSON.parse)(Redacted.value(given))) })
  )
  const names = Object.keys(values)
  if (names.length !== variables.length || !variables.every((name) => Object.hasOwn(values, name))) {
    return yield* new InvalidRequest({ field: "values", reason: "a value for each of the variables, and no other, expected" })
  }
})

/** The MCP servers of a grant's repositories. The caller has authorized the request and set `Acting`. */
export class McpServers extends Context.Service<McpServers, {
  /**
   * Adds a server or replaces its settings. Agents that start from now on have it. `credential`: `null` keeps the stored one. Of a command
   * it has the values of all of its variables: `variablesOf`.
   */
  set(
    key: Key,
    settings: unknown,
    credential: Redacted.Redacted | null
  ): Effect.Effect<McpServerRecord, InvalidRequest | McpServerRefused | SecretsUnusable | StoreUnavailable>
  /** Sets the permission of one tool; `null`: that of the sandbox's mode. */
  permit(
    key: Key,
    tool: string,
    permission: McpPermission | null
  ): Effect.Effect<McpServerRecord, InvalidRequest | McpServerNotFound | McpServerRefused | SecretsUnusable | StoreUnavailable>
  /** In order of repository and name. `repo` limits the list to one repository. */
  list(grantId: string, repo: string | null): Effect.Effect<ReadonlyArray<McpServerRecord>, StoreUnavailable>
  find(key: Key): Effect.Effect<McpServerRecord, McpServerNotFound | StoreUnavailable>
  remove(key: Key): Effect.Effect<void, McpServerNotFound | StoreUnavailable>
}>()("@slipway/domain/McpServers") {
  static readonly layer = Layer.effect(
    McpServers,
    Effect.gen(function*() {
      const store = yield* McpServerStore
      const privates = yield* PrivateMcpDestinations

      const find = Effect.fn("McpServers.find")(function*({ grantId, name, repo }: Key) {
        if (!Schema.is(RepoName)(repo)) return yield* new McpServerNotFound()
        const found = (yield* store.list(grantId, repo)).find((server) => server.name === name)
        return found ?? (yield* new McpServerNotFound())
      })
      const set = Effect.fn("McpServers.set")(function*(key: Key, given: unknown, credential: Redacted.Redacted | null) {
        const { name, repo } = yield* Effect.fromResult(readKey({ repo: key.repo, name: key.name }))
        const settings = yield* Effect.fromResult(readSettings(given))
        const to = { grantId: key.grantId, repo, name }
        if (runsCommand(settings)) {
          if (credential !== null) yield* checkValues(settings, credential)
          return yield* store.set(to, settings, credential, yield* DateTime.now)
        }
        if (credential !== null) yield* Effect.fromResult(readCredential({ credential: Redacted.value(credential) }))
        if (settings.url.startsWith("http:") && !privates.has(destinationOf(settings.url))) {
          return yield* new InvalidRequest({ field: "url", reason: "https expected" })
        }
        return yield* store.set(to, settings, credential, yield* DateTime.now)
      })

      return McpServers.of({
        set,
        find,
        permit: Effect.fn("McpServers.permit")(function*(key, tool, permission) {
          const read = yield* Effect.fromResult(readTool({ tool, permission }))
          const { name, repo, settings } = yield* find(key)
          const { [read.tool]: _before, ...others } = settings.tools
          const tools = read.permission === null ? others : { ...others, [read.tool]: read.permission }
          return yield* set({ grantId: key.grantId, repo, name }, { ...settings, tools }, null)
        }),
        list: (grantId, repo) => repo === null || Schema.is(RepoName)(repo) ? store.list(grantId, repo) : Effect.succeed([]),
        remove: Effect.fn("McpServers.remove")(function*({ grantId, name, repo }) {
          if (!Schema.is(RepoName)(repo) || !Schema.is(McpServerName)(name)) return yield* new McpServerNotFound()
          yield* store.remove({ grantId, repo, name }, yield* DateTime.now)
        })
      })
    })
  )
}
