/** `slipway hosts`: the source hosts of the service in the settings. */
import { HostConnections } from "@slipway/domain/environment/ports/HostConnections"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import * as GitLabOAuth from "@slipway/gitlab/GitLabOAuth"
import { Console, DateTime, Effect, Option, Schema } from "effect"
import { Argument, Command } from "effect/cli"
import * as CheckHost from "../../service/hosts/CheckHost.ts"
import * as Settings from "../../settings/Settings.ts"
import * as SourceHosts from "../../settings/SourceHosts.ts"
import { columns, json, MARKS, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"

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

/** Whether its tokens are in the database. */
const isApplication = (host: SourceHosts.Host): boolean => host.kind === "gitlab" && host.oauth !== null

/** The names of repositories that belong to the host. */
const owned = ({ kind, repositories }: SourceHosts.Host): string =>
  repositories?.join(", ") ?? (kind === "local" ? "those of slipway repos list" : "all others")

const list = Command.make("list", { json }, ({ json }) =>
  Effect.gen(function*() {
    const { sourceHosts } = yield* Settings.load
    const all = sourceHosts.list.map((host) => ({
      name: host.name,
      kind: host.kind,
      address: SourceHosts.addressOf(host) ?? "",
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
    const { sourceHosts } = yield* Settings.load
    const hosts = Option.isNone(name) ? sourceHosts.list : [yield* named(sourceHosts, name.value)]
    const checked = (connections: HostConnections["Service"] | null) =>
      Effect.forEach(hosts, (host) =>
        Effect.map(CheckHost.check(host, sourceHosts.file !== null, connections), ({ detail, state }) => ({
          name: host.name,
          state,
          detail
        })), { concurrency: "unbounded" })
    const found = yield* hosts.some(isApplication) ? administration(Effect.flatMap(HostConnections, checked)) : checked(null)
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

/** The host has no OAuth application in the list. */
class NoApplication extends Schema.TaggedError<NoApplication>()("NoApplication", { name: Schema.String }) {
  override get message() {
    return `${this.name} has no oauth in the list of source hosts: only a GitLab with an OAuth application is signed in to`
  }
}

const host = Argument.String("name").pipe(Argument.withDescription("Name of the host: see slipway hosts list"))

/** The application of a host. */
const applicationOf = Effect.fnUntraced(function*(name: string) {
  const found = yield* named((yield* Settings.load).sourceHosts, name)
  if (found.kind !== "gitlab" || found.oauth === null) return yield* new NoApplication({ name: found.name })
  return { name: found.name, application: { url: found.url, ...found.oauth } }
})

const signIn = Command.make("sign-in", { host }, ({ host }) =>
  Effect.gen(function*() {
    const { application, name } = yield* applicationOf(host)
    const begun = yield* GitLabOAuth.begin(application)
    yield* Console.log(
      visible(`Open ${begun.fullAddress ?? begun.address} as the account of the service, and enter the code ${begun.userCode}. Waiting…`)
    )
    const connection = yield* GitLabOAuth.wait(application, begun)
    yield* administration(
      HostConnections.use((connections) => Effect.flatMap(DateTime.now, (now) => connections.set(name, connection, now)))
    )
    yield* Console.log(`The service is connected to ${name}. See: slipway hosts check ${name}`)
  })).pipe(
    Command.withDescription("Connect the service to a GitLab as an OAuth application. A person approves it in a browser."),
    Command.withExamples([{ command: "slipway hosts sign-in gitlab.example.com", description: "Prints an address and a code" }])
  )

const signOut = Command.make("sign-out", { host, json }, ({ host, json }) =>
  Effect.gen(function*() {
    const { name } = yield* applicationOf(host)
    const removed = yield* administration(
      HostConnections.use((connections) => Effect.flatMap(DateTime.now, (now) => connections.remove(name, now)))
    )
    yield* print(json, { name, removed }, () =>
      removed
        ? `The tokens of ${name} are deleted. Its account can still revoke them at ${name}.`
        : `The service was not connected to ${name}.`)
  })).pipe(
    Command.withDescription("Delete the tokens of an OAuth application"),
    Command.withExamples([{ command: "slipway hosts sign-out gitlab.example.com", description: "Sandboxes of its repositories fail then" }])
  )

export const hosts = Command.make("hosts").pipe(
  Command.withDescription("Source hosts of the service: list, check, sign in to. Their list is a file (docs/operating/source-hosts.md)."),
  Command.withSubcommands([list, check, signIn, signOut])
)
