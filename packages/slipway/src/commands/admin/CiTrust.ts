/** `slipway ci-trust`: CIs that exchange their OIDC tokens for short-lived keys. */
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { CiClaims } from "@slipway/domain/access/rules/CiTrust"
import { CiAudience, CiIssuer, type CiTrust } from "@slipway/domain/access/schema/CiTrust"
import { Scope } from "@slipway/domain/access/schema/Principal"
import { CiTrusts } from "@slipway/domain/access/usecases/CiTrusts"
import { Members } from "@slipway/domain/access/usecases/Members"
import { InvalidRequest, reader } from "@slipway/domain/text/InvalidRequest"
import { DateTime, Effect, Option, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import * as RunningServices from "../../service/RunningServices.ts"
import { settings as listening } from "../../settings/Listening.ts"
import * as Settings from "../../settings/Settings.ts"
import { columns, json, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"

const shown = (trust: CiTrust) => ({ ...trust, createdAt: DateTime.formatIso(trust.createdAt) })

const spoken = (claims: CiTrust["claims"]): string => Object.entries(claims).map(([name, value]) => `${name}=${value}`).join(" ")

/** The issuers for everybody, and the claims of each provider. */
const PROVIDERS = {
  github: {
    issuer: "https://token.actions.githubusercontent.com",
    claimsOf: (repository: string, branch: string | null) => ({
      repository,
      ...(branch === null ? {} : { ref: `refs/heads/${branch}` })
    })
  },
  gitlab: {
    issuer: "https://gitlab.com",
    claimsOf: (repository: string, branch: string | null) => ({
      project_path: repository,
      // Tags have refs of the same form.
      ...(branch === null ? {} : { ref: branch, ref_type: "branch" })
    })
  }
} as const

const readClaims = reader(CiClaims, "claim")

/** Claims as `name=value`: the name is all before the first equals sign. */
const claimsIn = (given: ReadonlyArray<string>) =>
  Object.fromEntries(given.map((text) => [text.slice(0, Math.max(0, text.indexOf("="))), text.slice(text.indexOf("=") + 1)]))

/** The address of the service, which its CIs name as the audience. */
const serviceAddress = Effect.gen(function*() {
  const settings = yield* Settings.load
  const address = settings.publicUrl ?? (yield* RunningServices.addressOf(settings))
  return address ?? (yield* new InvalidRequest({ field: "audience", reason: `Give --audience, or set ${listening.publicUrl.name}.` }))
})

const add = Command.make(
  "add",
  {
    provider: Argument.Literals("provider", ["github", "gitlab"]).pipe(Argument.withDescription("GitHub Actions or GitLab CI")),
    repository: Argument.String("repository").pipe(
      Argument.withDescription("Repository as owner/name, or path of the project"),
      Argument.withSchema(Schema.NonEmptyString)
    ),
    grant: Flag.String("grant").pipe(Flag.withDescription("Grant of the keys, by id or name"), Flag.withDefault("default")),
    branch: Flag.String("branch").pipe(Flag.withDescription("Only runs of this branch; default: of any branch and tag"), Flag.optional),
    claim: Flag.String("claim").pipe(
      Flag.withDescription("One more claim with its exact value, such as environment=production; repeatable"),
      Flag.atLeast(0)
    ),
    issuer: Flag.String("issuer").pipe(
      Flag.withDescription("Issuer of the tokens, such as https://gitlab.example.com; default: that of github.com or gitlab.com"),
      Flag.withSchema(CiIssuer),
      Flag.optional
    ),
    audience: Flag.String("audience").pipe(
      Flag.withDescription("Audience of the tokens; default: the address of the service"),
      Flag.withSchema(CiAudience),
      Flag.optional
    ),
    scopes: Flag.Literals("scope", Scope.literals).pipe(
      Flag.withDescription("A scope of the keys; repeatable; default: sandboxes"),
      Flag.atLeast(0)
    ),
    user: Flag.String("user").pipe(
      Flag.withDescription("The user for whom the keys act: id, e-mail address or GitHub login; default: the owner"),
      Flag.optional
    ),
    json
  },
  ({ audience, branch, claim, grant, issuer, json, provider, repository, scopes, user }) =>
    Effect.flatMap(
      Option.isSome(audience) ? Effect.succeed(audience.value) : serviceAddress,
      (audience) =>
        administration(Effect.gen(function*() {
          const trusts = yield* CiTrusts
          const members = yield* Members
          const { claimsOf, issuer: usual } = PROVIDERS[provider]
          const claims = yield* Effect.fromResult(
            readClaims({ ...claimsOf(repository, Option.getOrNull(branch)), ...claimsIn(claim) })
          )
          const trust = yield* trusts.add({
            grant,
            userId: Option.isNone(user) ? (yield* (yield* MemberStore).owner).userId : (yield* members.user(user.value)).id,
            issuer: Option.getOrElse(issuer, () => usual),
            audience,
            claims,
            scopes: scopes.length === 0 ? ["sandboxes"] : [...new Set(scopes)]
          })
          const any = "ref" in claims ? "" : " Runs of any branch and tag get keys: --branch names one."
          yield* print(json, shown(trust), () =>
            `CI trust ${trust.id} is added: runs of ${trust.issuer} with ${spoken(claims)} get keys of ten minutes.${any}\n` +
            `The audience of their tokens is ${audience}`)
        }))
    )
).pipe(
  Command.withDescription("Let runs of a CI exchange their OIDC token for a key of ten minutes"),
  Command.withExamples([
    { command: "slipway ci-trust add github acme/web --branch main", description: "Runs of GitHub Actions on the branch main" },
    {
      command: "slipway ci-trust add gitlab acme/web --issuer https://gitlab.example.com --claim environment=production",
      description: "Deployments of a project of your own GitLab"
    }
  ])
)

const list = Command.make("list", { json }, ({ json }) =>
  administration(Effect.gen(function*() {
    const all = yield* (yield* CiTrusts).list
    yield* print(json, all.map(shown), () =>
      all.length === 0 ? "No CI trusts. Add one with: slipway ci-trust add <provider> <repository>" : columns([
        ["ISSUER", "CLAIMS", "SCOPES", "GRANT", "USER", "ID"],
        ...all.map(({ claims, grantId, id, issuer, scopes, userId }) => [issuer, spoken(claims), scopes.join(","), grantId, userId, id])
      ]))
  }))).pipe(
    Command.withDescription("List CI trusts, oldest first"),
    Command.withExamples([{ command: "slipway ci-trust list --json", description: "For a script" }])
  )

const remove = Command.make("remove", {
  id: Argument.String("id").pipe(Argument.withDescription("Id from: slipway ci-trust list")),
  json
}, ({ id, json }) =>
  administration(Effect.gen(function*() {
    const trust = yield* (yield* CiTrusts).remove(id)
    yield* print(json, shown(trust), () => `CI trust ${trust.id} is removed: its keys work for at most ten minutes more.`)
  }))).pipe(
    Command.withDescription("Remove a CI trust: no more tokens are exchanged"),
    Command.withExamples([{ command: "slipway ci-trust remove <id>", description: "As slipway ci-trust list shows it" }])
  )

export const ciTrust = Command.make("ci-trust").pipe(
  Command.withDescription("CIs that exchange their tokens for keys: list, add, remove"),
  Command.withSubcommands([list, add, remove])
)
