/** `slipway mcp`: MCP servers of agents, with their credentials and the permissions of their tools. Credentials are never shown. */
import type { McpServerRecord } from "@slipway/domain/mcp/ports/McpServerStore"
import { runsCommand } from "@slipway/domain/mcp/rules/McpServers"
import { type McpAuthentication, McpServerName, McpVariables } from "@slipway/domain/mcp/schema/McpServer"
import { CONNECTING, McpConnections } from "@slipway/domain/mcp/usecases/McpConnections"
import { McpServers, variablesOf } from "@slipway/domain/mcp/usecases/McpServers"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Console, DateTime, Effect, Option, Redacted, Result, Schema, Stdio } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { openBrowser } from "../terminal/OpenBrowser.ts"
import { columns, json, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"
import * as BrowserReturn from "./BrowserReturn.ts"
import { grantOf } from "./Partners.ts"
import { valueOf } from "./Secrets.ts"

const grant = Flag.String("grant").pipe(Flag.withDescription("Grant id or name"))
const repo = Flag.String("repo").pipe(Flag.withDescription("Repository, as owner/name"), Flag.withSchema(RepoName))
const name = Argument.String("name").pipe(
  Argument.withDescription("Name of the server: small letters, digits and hyphens"),
  Argument.withSchema(McpServerName)
)

/** Only a command finishes what a command began. */
const OPERATOR = "operator"

const shown = ({ connection, createdAt, hasCredential, name, repo, setAt, settings }: McpServerRecord) => ({
  repo,
  name,
  ...settings,
  hasCredential,
  connection: connection === null ? null : { ...connection, connectedAt: DateTime.formatIso(connection.connectedAt) },
  createdAt: DateTime.formatIso(createdAt),
  setAt: DateTime.formatIso(setAt)
})

/** The service identifies itself with it. */
const stateOf = ({ connection, hasCredential, settings }: McpServerRecord): string =>
  runsCommand(settings) || settings.authentication.type !== "oauth"
    ? hasCredential ? "stored" : "none"
    : connection === null
    ? "not connected"
    : connection.problem === null
    ? "connected"
    : "connect again"

/** The address, or the command as a person types it. */
const placeOf = ({ settings }: McpServerRecord): string =>
  runsCommand(settings) ? [settings.command, ...settings.arguments].map(quoted).join(" ") : settings.url

/** As an argument of a shell. */
const quoted = (argument: string): string =>
  /^[A-Za-z0-9@%+=:,./_-]+$/u.test(argument) ? argument : `'${argument.replaceAll("'", String.raw`'\''`)}'`

/** Flags that do not fit together. */
class Misfit extends Schema.TaggedError<Misfit>()("Misfit", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

interface Authentication {
  readonly header: Option.Option<string>
  readonly oauth: boolean
  readonly clientId: Option.Option<string>
  readonly clientSecret: boolean
  readonly scope: Option.Option<string>
}

/** The settings that the flags mean. */
const authenticationOf = ({ clientId, clientSecret, header, oauth, scope }: Authentication): Result.Result<McpAuthentication, Misfit> => {
  if (oauth && Option.isSome(header)) return Result.fail(new Misfit({ detail: "--oauth and --header exclude each other" }))
  if (!oauth && (Option.isSome(clientId) || Option.isSome(scope))) {
    return Result.fail(new Misfit({ detail: "--client-id and --scope need --oauth" }))
  }
  if (clientSecret && Option.isNone(clientId)) return Result.fail(new Misfit({ detail: "--client-secret needs --client-id" }))
  if (!oauth) {
    return Result.succeed(Option.match(header, { onNone: () => ({ type: "none" }), onSome: (name) => ({ type: "header", name }) }))
  }
  return Result.succeed({
    type: "oauth",
    ...Option.match(clientId, { onNone: () => ({}), onSome: (clientId) => ({ clientId }) }),
    ...Option.match(scope, { onNone: () => ({}), onSome: (scope) => ({ scope }) })
  })
}

/** The values of these variables: asked for one by one, or lines NAME=VALUE of standard input. */
const valuesOf = Effect.fnUntraced(function*(names: ReadonlyArray<string>) {
  const { stdinIsTerminal } = yield* Stdio.Stdio
  if (yield* stdinIsTerminal) {
    const values: Record<string, string> = {}
    for (const name of names) values[name] = Redacted.value(yield* valueOf(name))
    return variablesOf(values)
  }
  const lines = Redacted.value(yield* valueOf("the variables")).split(/\r?\n/u).filter((line) => line.trim() !== "")
  const values: Record<string, string> = {}
  for (const line of lines) {
    const [, name, value] = /^([^=]+)=(.*)$/u.exec(line) ?? []
    if (name === undefined || value === undefined || !names.includes(name) || Object.hasOwn(values, name)) {
      return yield* new Misfit({ detail: "standard input has one line NAME=VALUE for each --env, and no other" })
    }
    values[name] = value
  }
  return variablesOf(values)
})

/** The settings and the credential of a command. */
const commandOf = Effect.fnUntraced(function*(argv: ReadonlyArray<string>, names: ReadonlyArray<string>, given: Authentication) {
  if (given.oauth || given.clientSecret || [given.header, given.clientId, given.scope].some(Option.isSome)) {
    return yield* new Misfit({ detail: "--header, --oauth, --client-id, --client-secret and --scope are for servers with an address" })
  }
  // The text may be a value given by mistake, so it is not repeated.
  if (names.some((name) => !Schema.is(McpVariables)({ [name]: "" }))) {
    return yield* new Misfit({ detail: "--env has the name of a variable; its value is read from standard input or a hidden prompt" })
  }
  const [command = "", ...args] = argv
  return {
    settings: { command, arguments: args, variables: names },
    credential: names.length === 0 ? null : yield* valuesOf(names)
  }
})

/** The settings and the credential of a server with an address. */
const remoteOf = Effect.fnUntraced(function*(url: string, given: Authentication) {
  const authentication = yield* Effect.fromResult(authenticationOf(given))
  const credential = authentication.type === "header"
    ? yield* valueOf(authentication.name)
    : given.clientSecret
    ? yield* valueOf("the client secret")
    : null
  return { settings: { url, authentication }, credential }
})

/** An address is the only argument; a command follows `--`. Any other text is the program of a command. */
const serverOf = Effect.fnUntraced(function*(words: ReadonlyArray<string>, names: ReadonlyArray<string>, given: Authentication) {
  const [first = ""] = words
  if (!/^[a-z][a-z0-9+.-]*:\/\//iu.test(first)) return yield* commandOf(words, names, given)
  if (words.length > 1) return yield* new Misfit({ detail: "an address stands alone" })
  if (names.length > 0) return yield* new Misfit({ detail: "--env is for commands" })
  return yield* remoteOf(first, given)
})

const add = Command.make(
  "add",
  {
    name,
    words: Argument.String("url or command").pipe(
      Argument.withDescription("Its address (Streamable HTTP), or -- and a command that runs in the sandbox's box"),
      Argument.atLeast(1)
    ),
    grant,
    repo,
    env: Flag.String("env").pipe(
      Flag.withDescription(
        "Name of a variable of the command; repeatable. Values are read from standard input, as lines NAME=VALUE, or hidden prompts. " +
          "Agents can read them."
      ),
      Flag.atLeast(0)
    ),
    header: Flag.String("header").pipe(
      Flag.withDescription("Header with a credential, such as Authorization. Its value is read from standard input or a hidden prompt."),
      Flag.optional
    ),
    oauth: Flag.Boolean("oauth").pipe(
      Flag.withDescription("The server uses OAuth: slipway mcp connect connects it"),
      Flag.withDefault(false)
    ),
    clientId: Flag.String("client-id").pipe(
      Flag.withDescription("With --oauth: a client that you registered at the authorization server"),
      Flag.optional
    ),
    clientSecret: Flag.Boolean("client-secret").pipe(
      Flag.withDescription("With --client-id: read its secret from standard input or a hidden prompt"),
      Flag.withDefault(false)
    ),
    scope: Flag.String("scope").pipe(
      Flag.withDescription("With --oauth: scopes, separated by spaces. Default: those that the server names"),
      Flag.optional
    ),
    off: Flag.Boolean("off").pipe(Flag.withDescription("Only for sandboxes that choose it"), Flag.withDefault(false)),
    json
  },
  ({ env, grant: idOrName, json, name, off, repo, words, ...given }) =>
    Effect.flatMap(serverOf(words, env, given), ({ credential, settings }) =>
      administration(Effect.gen(function*() {
        const servers = yield* McpServers
        const { id: grantId, name: grant } = yield* grantOf(idOrName)
        const known = (yield* servers.list(grantId, repo)).find((server) => server.name === name)
        const all = { ...settings, onByDefault: !off, tools: known?.settings.tools ?? {} }
        const record = yield* servers.set({ grantId, repo, name }, all, credential)
        yield* print(json, shown(record), () =>
          given.oauth && record.connection === null
            ? `The MCP server ${name} is set. Connect it: slipway mcp connect ${name} --grant ${grant} --repo ${repo}`
            : `Agents of ${repo} in grant ${grant} that start from now on have the MCP server ${name}` +
              (runsCommand(record.settings) ? `, the command ${placeOf(record)} in their box.` : "."))
      })))
).pipe(
  Command.withDescription("Add an MCP server, or replace its settings. Permissions of its tools stay."),
  Command.withExamples([
    { command: "slipway mcp add docs https://mcp.example.com/mcp --grant acme --repo acme/shop", description: "Without a credential" },
    {
      command: "slipway mcp add wiki https://wiki.example.com/mcp --grant acme --repo acme/shop --header Authorization < wiki.token",
      description: "The file has the whole value: Bearer …"
    },
    { command: "slipway mcp add notes https://notes.example.com/mcp --grant acme --repo acme/shop --oauth", description: "With OAuth" },
    {
      command: "slipway mcp add shop --grant acme --repo acme/shop -- node tools/mcp.js --read-only",
      description: "A command in the sandbox's box, which starts in the repository"
    },
    {
      command: "slipway mcp add shop --grant acme --repo acme/shop --env SHOP_KEY -- node tools/mcp.js < shop.env",
      description: "With a variable: the file has SHOP_KEY=…"
    }
  ])
)

const list = Command.make(
  "list",
  { grant, repo: Flag.optional(repo), json },
  ({ grant: idOrName, json, repo }) =>
    administration(Effect.gen(function*() {
      const servers = yield* McpServers
      const { id: grantId } = yield* grantOf(idOrName)
      const all = yield* servers.list(grantId, Option.getOrNull(repo))
      yield* print(json, all.map(shown), () =>
        all.length === 0 ? "No MCP servers. Add one with: slipway mcp add" : columns([
          ["REPOSITORY", "NAME", "ADDRESS OR COMMAND", "CREDENTIAL", "DEFAULT"],
          ...all.map((server) => [
            server.repo,
            server.name,
            placeOf(server),
            stateOf(server),
            server.settings.onByDefault ? "on" : "off"
          ])
        ]))
    }))
).pipe(
  Command.withDescription("List the MCP servers of a grant, or of one repository in it, without their credentials"),
  Command.withExamples([{ command: "slipway mcp list --grant acme --repo acme/shop", description: "Of one repository" }])
)

const remove = Command.make(
  "remove",
  { name, grant, repo, json },
  ({ grant: idOrName, json, name, repo }) =>
    administration(Effect.gen(function*() {
      const servers = yield* McpServers
      const { id: grantId } = yield* grantOf(idOrName)
      yield* servers.remove({ grantId, repo, name })
      yield* print(json, { repo, name }, () => `The MCP server ${name} of ${repo} is removed, with its credential.`)
    }))
).pipe(
  Command.withDescription("Remove an MCP server and its credential, for good"),
  Command.withExamples([{ command: "slipway mcp remove wiki --grant acme --repo acme/shop", description: "Agents lose its tools" }])
)

const tools = Command.make(
  "tools",
  {
    name,
    tool: Argument.String("tool").pipe(Argument.withDescription("Name of a tool; omitted: list the permissions"), Argument.optional),
    permission: Argument.Literals("permission", ["allow", "ask", "deny", "default"]).pipe(
      Argument.withDescription("default: as the sandbox's approvals say"),
      Argument.optional
    ),
    grant,
    repo,
    json
  },
  ({ grant: idOrName, json, name, permission, repo, tool }) =>
    administration(Effect.gen(function*() {
      const servers = yield* McpServers
      const { id: grantId } = yield* grantOf(idOrName)
      const key = { grantId, repo, name }
      const record = Option.isNone(tool) || Option.isNone(permission)
        ? yield* servers.find(key)
        : yield* servers.permit(key, tool.value, permission.value === "default" ? null : permission.value)
      const all = Object.entries(record.settings.tools).toSorted(([a], [b]) => a < b ? -1 : 1)
      const wanted = Option.match(tool, { onNone: () => all, onSome: (tool) => all.filter(([name]) => name === tool) })
      yield* print(json, Object.fromEntries(wanted), () =>
        wanted.length === 0
          ? "As the sandbox's approvals say: ask with prompt, else allow."
          : columns([["TOOL", "PERMISSION"], ...wanted.map(([tool, permission]) => [tool, permission])]))
    }))
).pipe(
  Command.withDescription("Show or set what agents may do with the tools of an MCP server"),
  Command.withExamples([
    { command: "slipway mcp tools wiki --grant acme --repo acme/shop", description: "Permissions that were set" },
    { command: "slipway mcp tools wiki delete_page deny --grant acme --repo acme/shop", description: "No agent may call it" }
  ])
)

const connect = Command.make(
  "connect",
  {
    name,
    grant,
    repo,
    port: Flag.Int("port").pipe(
      Flag.withDescription("Port on this machine that your browser comes back to. Default: a free one"),
      Flag.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 65_535 }))),
      Flag.withDefault(0)
    ),
    json
  },
  ({ grant: idOrName, json, name, port, repo }) =>
    administration(Effect.scoped(Effect.gen(function*() {
      const connections = yield* McpConnections
      const { id: grantId } = yield* grantOf(idOrName)
      const { answer, redirectUri } = yield* BrowserReturn.listen(port)
      const address = yield* connections.begin({ grantId, repo, name }, redirectUri, OPERATOR)
      const isOpen = yield* openBrowser(address)
      // Standard output is for the result.
      yield* Console.error(
        `${isOpen ? "Your browser opens this address" : "Open this address in a browser on this machine"}:\n\n  ${address}\n\n` +
          `It comes back to port ${new URL(redirectUri).port} of this machine. From another one, forward that port first: ssh -L.`
      )
      const came = yield* answer.pipe(Effect.timeoutOrElse({
        duration: CONNECTING,
        orElse: () => new Misfit({ detail: "no browser came back within 10 minutes, and nothing changed" })
      }))
      const record = yield* connections.finish(grantId, came.query, OPERATOR).pipe(
        Effect.tapError(({ message }) => came.say(message)),
        Effect.tap(() => came.say("Connected. You can close this page."))
      )
      yield* print(json, shown(record), () => `The MCP server ${name} of ${repo} is connected. Agents that start from now on have it.`)
    })))
).pipe(
  Command.withDescription("Connect an MCP server by OAuth, in a browser on this machine"),
  Command.withExamples([
    {
      command: "slipway mcp connect notes --grant acme --repo acme/shop",
      description: "Agree in the browser; the service keeps the tokens"
    }
  ])
)

export const mcp = Command.make("mcp").pipe(
  Command.withDescription("MCP servers of agents: list, add, connect, remove, tools"),
  Command.withSubcommands([list, add, connect, remove, tools])
)
