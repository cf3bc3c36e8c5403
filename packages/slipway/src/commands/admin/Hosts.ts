/** `slipway hosts`: the source hosts of the service in the settings. */
import { Effect, Option, Schema } from "effect"
import { Argument, Command } from "effect/cli"
import * as CheckHost from "../../service/hosts/CheckHost.ts"
import * as RunningServices from "../../service/RunningServices.ts"
import * as Settings from "../../settings/Settings.ts"
import type * as SourceHosts from "../../settings/SourceHosts.ts"
import { columns, json, MARKS, print } from "../terminal/Output.ts"

/** No host of the list has that name. */
export class UnknownHost extends Schema.TaggedError<UnknownHost>()("UnknownHost", {
  name: Schema.String,
  names: Schema.Array(Schema.String)
}) {
  override get message() {
    return `no source host is named ${this.name}. There are: ${this.names.join(", ")}`
  }
}

/** A host does not answer, or refuses the credentials. */
class HostsFailed extends Schema.TaggedError<HostsFailed>()("HostsFailed", { names: Schema.Array(Schema.String) }) {
  override get message() {
    return `cannot be used: ${this.names.join(", ")}`
  }
}

/** The host of that name, in any case of letters. */
export const named = ({ list }: SourceHosts.SourceHosts, name: string) => {
  const found = list.find((host) => host.name.toLowerCase() === name.toLowerCase())
  return found === undefined
    ? Effect.fail(new UnknownHost({ name, names: list.map(({ name }) => name) }))
    : Effect.succeed(found)
}

const settings = Effect.flatMap(Settings.load, RunningServices.find)

/** The names of repositories that belong to the host. */
const owned = ({ kind, repositories }: SourceHosts.Host): string =>
  repositories?.join(", ") ?? (kind === "local" ? "those of slipway repos list" : "all others")

const addressOf = (host: SourceHosts.Host): string => host.kind === "local" ? "" : host.kind === "github" ? host.apiUrl : host.url

const list = Command.make("list", { json }, ({ json }) =>
  Effect.gen(function*() {
    const { sourceHosts } = yield* settings
    const all = sourceHosts.list.map((host) => ({
      name: host.name,
      kind: host.kind,
      address: addressOf(host),
      repositories: owned(host),
      webhooks: host.kind !== "local" && host.webhookSecret !== null
    }))
    yield* print(json, all, () =>
      columns([
        ["NAME", "KIND", "ADDRESS", "REPOSITORIES", "WEBHOOKS"],
        ...all.map(({ address, kind, name, repositories, webhooks }) => [name, kind, address, repositories, webhooks ? "yes" : "no"])
      ]))
  })).pipe(
    Command.withDescription("List the source hosts in the order in which they own names of repositories"),
    Command.withExamples([{ command: "slipway hosts list --json", description: "For a script" }])
  )

const check = Command.make("check", {
  name: Argument.String("name").pipe(Argument.withDescription("Name of a host; default: all"), Argument.optional),
  json
}, ({ json, name }) =>
  Effect.gen(function*() {
    const { sourceHosts } = yield* settings
    const hosts = Option.isNone(name) ? sourceHosts.list : [yield* named(sourceHosts, name.value)]
    const found = yield* Effect.forEach(
      hosts,
      (host) => Effect.map(CheckHost.check(host, sourceHosts.file !== null), ({ detail, state }) => ({ name: host.name, state, detail })),
      { concurrency: "unbounded" }
    )
    yield* print(json, found, () => columns(found.map(({ detail, name, state }) => [MARKS[state], name, detail])))
    const failed = found.filter(({ state }) => state === "missing").map(({ name }) => name)
    if (failed.length > 0) return yield* new HostsFailed({ names: failed })
  })).pipe(
    Command.withDescription(
      "Ask each source host whether it accepts the credentials of the service.\n\n" +
        "✓ works, ! is a warning, ✗ is an error: then the command exits with 1."
    ),
    Command.withExamples([
      { command: "slipway hosts check", description: "All of them" },
      { command: "slipway hosts check gitlab.example.com", description: "One" }
    ])
  )

export const hosts = Command.make("hosts").pipe(
  Command.withDescription("Source hosts of the service: list, check. Their list is a file (docs/operating/source-hosts.md)."),
  Command.withSubcommands([list, check])
)
