/** `slipway repos alias`: names of the operator for repositories of several source hosts. */
import { RepositoryAliases } from "@slipway/domain/source/ports/RepositoryAliases"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { HostPath } from "@slipway/domain/source/schema/RepositoryAlias"
import { DateTime, Effect, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import * as HostRepository from "../../service/hosts/HostRepository.ts"
import * as RunningServices from "../../service/RunningServices.ts"
import * as Settings from "../../settings/Settings.ts"
import { settings as sourceHosts } from "../../settings/SourceHosts.ts"
import { columns, json, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"
import { named } from "./Hosts.ts"

const name = Argument.String("owner/name").pipe(
  Argument.withDescription("Name that sandboxes use for it"),
  Argument.withSchema(RepoName)
)

/** Aliases belong to a list of hosts. */
class NoList extends Schema.TaggedError<NoList>()("NoList", {}) {
  override get message() {
    return `aliases are for several source hosts: write them into a file, and name it in ${sourceHosts.file.name}`
  }
}

/** The alias would name no repository. Nothing was changed. */
class NoSuchRepository extends Schema.TaggedError<NoSuchRepository>()("NoSuchRepository", { detail: Schema.String }) {
  override get message() {
    return `${this.detail} To set the alias nevertheless, add --unchecked.`
  }
}

export const alias = Command.make("alias", {
  name,
  host: Argument.String("host").pipe(Argument.withDescription("Name of the source host: see slipway hosts list")),
  path: Argument.String("path").pipe(
    Argument.withDescription("Path of the repository at the host, such as group/subgroup/project"),
    Argument.withSchema(HostPath)
  ),
  unchecked: Flag.Boolean("unchecked").pipe(
    Flag.withDescription("Do not ask the host whether it has the repository"),
    Flag.withDefault(false)
  ),
  json
}, ({ host: hostName, json, name, path, unchecked }) =>
  Effect.gen(function*() {
    const settings = yield* Effect.flatMap(Settings.load, RunningServices.find)
    if (settings.sourceHosts.file === null) return yield* new NoList()
    const host = yield* named(settings.sourceHosts, hostName)
    yield* administration(Effect.gen(function*() {
      const found = unchecked
        ? path
        : yield* Effect.mapError(HostRepository.pathAt(host, path), ({ message }) => new NoSuchRepository({ detail: `${message}.` }))
      const one = { name, host: host.name, path: found }
      yield* RepositoryAliases.use((aliases) => Effect.flatMap(DateTime.now, (now) => aliases.set(one, now)))
      yield* print(json, one, () => `${name} is ${found} at ${host.name}, for sandboxes that are created from now on.`)
    }))
  })).pipe(
    Command.withDescription(
      "Name a repository of a source host. A repository in nested groups has the last two parts of its path as its name; where two " +
        "collide, or it is outside the groups of the list, it needs an alias."
    ),
    Command.withExamples([{
      command: "slipway repos alias payments/shop gitlab.example.com platform/payments/shop",
      description: "A project in nested groups"
    }])
  )

export const unalias = Command.make("unalias", { name, json }, ({ json, name }) =>
  administration(Effect.gen(function*() {
    const removed = yield* RepositoryAliases.use((aliases) => Effect.flatMap(DateTime.now, (now) => aliases.remove(name, now)))
    yield* print(json, { name, removed }, () => removed ? `${name} is no alias any more.` : `${name} was no alias.`)
  }))).pipe(
    Command.withDescription("Remove an alias; the repository stays as it is"),
    Command.withExamples([{ command: "slipway repos unalias payments/shop", description: "It may have a name by default" }])
  )

export const aliases = Command.make("aliases", { json }, ({ json }) =>
  administration(Effect.gen(function*() {
    const all = yield* RepositoryAliases.use(({ list }) => list)
    yield* print(json, all, () =>
      all.length === 0
        ? "No aliases. Set one with: slipway repos alias <owner/name> <host> <path>"
        : columns([["NAME", "HOST", "PATH"], ...all.map(({ host, name, path }) => [name, host, path])]))
  }))).pipe(
    Command.withDescription("List the aliases of repositories"),
    Command.withExamples([{ command: "slipway repos aliases --json", description: "For a script" }])
  )
