/** `slipway mcp`: MCP servers of agents, with their credentials and the permissions of their tools. Credentials are never shown. */
import type { McpServerRecord } from "@slipway/domain/mcp/ports/McpServerStore"
import { McpServerName } from "@slipway/domain/mcp/schema/McpServer"
import { McpServers } from "@slipway/domain/mcp/usecases/McpServers"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { DateTime, Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { columns, json, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"
import { grantOf } from "./Partners.ts"
import { valueOf } from "./Secrets.ts"

const grant = Flag.String("grant").pipe(Flag.withDescription("Grant id or name"))
const repo = Flag.String("repo").pipe(Flag.withDescription("Repository, as owner/name"), Flag.withSchema(RepoName))
const name = Argument.String("name").pipe(
  Argument.withDescription("Name of the server: small letters, digits and hyphens"),
  Argument.withSchema(McpServerName)
)

const shown = ({ createdAt, hasCredential, name, repo, setAt, settings }: McpServerRecord) => ({
  repo,
  name,
  ...settings,
  hasCredential,
  createdAt: DateTime.formatIso(createdAt),
  setAt: DateTime.formatIso(setAt)
})

const add = Command.make(
  "add",
  {
    name,
    url: Argument.String("url").pipe(Argument.withDescription("Its address (Streamable HTTP)")),
    grant,
    repo,
    header: Flag.String("header").pipe(
      Flag.withDescription("Header with a credential, such as Authorization. Its value is read from standard input or a hidden prompt."),
      Flag.optional
    ),
    off: Flag.Boolean("off").pipe(Flag.withDescription("Only for sandboxes that choose it"), Flag.withDefault(false)),
    json
  },
  ({ grant: idOrName, header, json, name, off, repo, url }) =>
    Effect.flatMap(
      Option.match(header, { onNone: () => Effect.succeed(null), onSome: (header) => valueOf(header) }),
      (credential) =>
        administration(Effect.gen(function*() {
          const servers = yield* McpServers
          const { id: grantId, name: grant } = yield* grantOf(idOrName)
          const known = (yield* servers.list(grantId, repo)).find((server) => server.name === name)
          const settings = {
            url,
            authentication: Option.match(header, {
              onNone: () => ({ type: "none" as const }),
              onSome: (name) => ({ type: "header" as const, name })
            }),
            onByDefault: !off,
            tools: known?.settings.tools ?? {}
          }
          const record = yield* servers.set({ grantId, repo, name }, settings, credential)
          yield* print(json, shown(record), () => `Agents of ${repo} in grant ${grant} that start from now on have the MCP server ${name}.`)
        }))
    )
).pipe(
  Command.withDescription("Add an MCP server, or replace its settings. Permissions of its tools stay."),
  Command.withExamples([
    { command: "slipway mcp add docs https://mcp.example.com/mcp --grant acme --repo acme/shop", description: "Without a credential" },
    {
      command: "slipway mcp add wiki https://wiki.example.com/mcp --grant acme --repo acme/shop --header Authorization < wiki.token",
      description: "The file has the whole value: Bearer …"
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
          ["REPOSITORY", "NAME", "ADDRESS", "CREDENTIAL", "DEFAULT"],
          ...all.map(({ hasCredential, name, repo, settings }) => [
            repo,
            name,
            settings.url,
            hasCredential ? "stored" : "none",
            settings.onByDefault ? "on" : "off"
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

export const mcp = Command.make("mcp").pipe(
  Command.withDescription("MCP servers of agents: list, add, remove, tools"),
  Command.withSubcommands([list, add, remove, tools])
)
