/**
 * `slipway secrets`: secrets of setups, such as the token of a private registry, and the refs that get them. Values are never shown.
 */
import {
  ALL_REPOSITORIES,
  MAX_VALUE_BYTES,
  type SecretRecord,
  SHORTEST_REDACTED,
  type TrustedRefRecord
} from "@slipway/domain/environment/ports/SecretStore"
import { Secrets } from "@slipway/domain/environment/usecases/Secrets"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as Rekey from "@slipway/postgres/Rekey"
import { SecretsKey } from "@slipway/postgres/secret-store/SecretsKey"
import { DateTime, Effect, Option, Redacted, Schema, Stdio, Stream } from "effect"
import { Argument, Command, Flag, Prompt } from "effect/cli"
import { columns, json, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"
import { grantOf } from "./Partners.ts"

const grant = Flag.String("grant").pipe(Flag.withDescription("Grant id or name"))
const repo = Flag.String("repo").pipe(Flag.withDescription("Repository, as owner/name"), Flag.withSchema(RepoName))
const scope = Flag.String("repo").pipe(
  Flag.withDescription("Repository, as owner/name, or * for all repositories of the grant"),
  Flag.withSchema(Schema.Union([RepoName, Schema.Literal(ALL_REPOSITORIES)]))
)
/** For people. */
const placeOf = (repo: string): string => repo === ALL_REPOSITORIES ? "all repositories" : repo
// No schema here: its error would repeat the text, which may be a value given by mistake.
const name = Argument.String("name").pipe(
  Argument.withDescription("Name of the secret, and of the environment variable: capital letters, digits and _")
)

const shown = ({ createdAt, name, repo, setAt }: SecretRecord) => ({
  repo,
  name,
  createdAt: DateTime.formatIso(createdAt),
  setAt: DateTime.formatIso(setAt)
})

/** No value was given. */
class NoValue extends Schema.TaggedError<NoValue>()("NoValue", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

/** The largest value, a line break, and one byte more to detect excess. */
const MOST = MAX_VALUE_BYTES + 3

/** Standard input to its end, without the final line break. */
const piped = Effect.gen(function*() {
  const { stdin } = yield* Stdio.Stdio
  const chunks: Array<Uint8Array> = []
  let bytes = 0
  yield* stdin.pipe(
    Stream.takeUntil((chunk) => {
      chunks.push(chunk)
      bytes += chunk.length
      return bytes > MOST
    }),
    Stream.runDrain
  )
  const text = yield* Effect.try({
    try: () => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks).subarray(0, MOST)),
    catch: () => new NoValue({ detail: "the value on standard input is no UTF-8" })
  })
  if (text === "") {
    return yield* new NoValue({ detail: "standard input is empty: give the value there, as in: slipway secrets set … < file" })
  }
  return Redacted.make(text.replace(/\r?\n$/u, ""))
})

/** Reads the value from a hidden prompt, or from standard input. */
export const valueOf = Effect.fnUntraced(function*(name: string) {
  const { stdinIsTerminal } = yield* Stdio.Stdio
  return (yield* stdinIsTerminal) ? yield* Prompt.run(Prompt.Hidden({ message: `Value of ${name}` })) : yield* piped
})

const set = Command.make(
  "set",
  { name, grant, repo: scope, json },
  ({ grant: idOrName, json, name, repo }) =>
    Effect.flatMap(valueOf(name), (value) =>
      administration(Effect.gen(function*() {
        const secrets = yield* Secrets
        const { id: grantId, name: grant } = yield* grantOf(idOrName)
        const record = yield* secrets.set({ grantId, repo, name }, value)
        const isShort = Redacted.value(value).length < SHORTEST_REDACTED
        yield* print(
          json,
          shown(record),
          () =>
            `Sandboxes of ${placeOf(repo)} in grant ${grant} that boot from now on have this ${name} for their setup.` +
            (isShort ? ` It has fewer than ${SHORTEST_REDACTED} characters: where a setup prints it, it is shown.` : "")
        )
      })))
).pipe(
  Command.withDescription("Set or replace a secret. The value is read from standard input or a hidden prompt."),
  Command.withExamples([
    { command: "slipway secrets set NPM_TOKEN --grant acme --repo acme/shop", description: "Asks for the value, which is not shown" },
    {
      command: "slipway secrets set DEPLOY_KEY --grant acme --repo acme/shop < deploy.key",
      description: "From a file, without its last line break"
    },
    { command: "slipway secrets set NPM_TOKEN --grant acme --repo '*' < token", description: "For all repositories of the grant" }
  ])
)

const list = Command.make(
  "list",
  { grant, repo: Flag.optional(repo), json },
  ({ grant: idOrName, json, repo }) =>
    administration(Effect.gen(function*() {
      const secrets = yield* Secrets
      const { id: grantId } = yield* grantOf(idOrName)
      const all = (yield* secrets.list(grantId, Option.getOrNull(repo))).map(shown)
      yield* print(json, all, () =>
        all.length === 0 ? "No secrets. Set one with: slipway secrets set" : columns([
          ["REPOSITORY", "NAME", "SET", "FIRST SET"],
          ...all.map(({ createdAt, name, repo, setAt }) => [placeOf(repo), name, setAt, createdAt])
        ]))
    }))
).pipe(
  Command.withDescription("List the secrets of a grant, or of one repository in it, without their values"),
  Command.withExamples([{
    command: "slipway secrets list --grant acme --repo acme/shop",
    description: "All secrets, with the time when each was set"
  }])
)

const remove = Command.make(
  "remove",
  { name, grant, repo: scope, json },
  ({ grant: idOrName, json, name, repo }) =>
    administration(Effect.gen(function*() {
      const secrets = yield* Secrets
      const { id: grantId } = yield* grantOf(idOrName)
      yield* secrets.remove({ grantId, repo, name })
      yield* print(
        json,
        { repo, name },
        () => `${name} of ${placeOf(repo)} is removed. Sandboxes whose environment names it do not boot without it.`
      )
    }))
).pipe(
  Command.withDescription("Remove a secret, for good"),
  Command.withExamples([{ command: "slipway secrets remove NPM_TOKEN --grant acme --repo acme/shop", description: "Its value is gone" }])
)

const ref = Argument.String("ref").pipe(Argument.withDescription("A branch or a tag, or all below a folder: release/*"))

const shownRef = ({ listedAt, ref, repo }: TrustedRefRecord) => ({ repo, ref, listedAt: DateTime.formatIso(listedAt) })

const trust = Command.make(
  "trust",
  { ref, grant, repo, json },
  ({ grant: idOrName, json, ref, repo }) =>
    administration(Effect.gen(function*() {
      const secrets = yield* Secrets
      const { id: grantId, name: grant } = yield* grantOf(idOrName)
      const record = yield* secrets.trustRef({ grantId, repo, ref })
      yield* print(
        json,
        shownRef(record),
        () => `Setups of commits on ${ref} of ${repo} have its secrets in grant ${grant}. People who may push to that ref can read them.`
      )
    }))
).pipe(
  Command.withDescription("Give secrets to setups of commits on this branch or tag, as on the default branch"),
  Command.withExamples([
    { command: "slipway secrets trust develop --grant acme --repo acme/shop", description: "One branch" },
    { command: "slipway secrets trust 'release/*' --grant acme --repo acme/shop", description: "All branches and tags below a folder" }
  ])
)

const distrust = Command.make(
  "distrust",
  { ref, grant, repo, json },
  ({ grant: idOrName, json, ref, repo }) =>
    administration(Effect.gen(function*() {
      const secrets = yield* Secrets
      const { id: grantId } = yield* grantOf(idOrName)
      yield* secrets.distrustRef({ grantId, repo, ref })
      yield* print(json, { repo, ref }, () => `Setups of commits on ${ref} of ${repo} run without secrets from now on.`)
    }))
).pipe(
  Command.withDescription("Take back what trust did"),
  Command.withExamples([{
    command: "slipway secrets distrust develop --grant acme --repo acme/shop",
    description: "No secrets there any more"
  }])
)

const refs = Command.make(
  "refs",
  { grant, repo: Flag.optional(repo), json },
  ({ grant: idOrName, json, repo }) =>
    administration(Effect.gen(function*() {
      const secrets = yield* Secrets
      const { id: grantId } = yield* grantOf(idOrName)
      const all = (yield* secrets.trustedRefs(grantId, Option.getOrNull(repo))).map(shownRef)
      yield* print(json, all, () =>
        all.length === 0 ? "No refs: setups of the default branch alone have secrets." : columns([
          ["REPOSITORY", "REF", "LISTED"],
          ...all.map(({ listedAt, ref, repo }) => [repo, ref, listedAt])
        ]))
    }))
).pipe(
  Command.withDescription("List the branches and tags whose setups have secrets, beside the default branch"),
  Command.withExamples([{ command: "slipway secrets refs --grant acme", description: "Of all repositories of the grant" }])
)

/** Some values are not encrypted with the first key. Those that could be are. */
class NotRekeyed extends Schema.TaggedError<NotRekeyed>()("NotRekeyed", { problem: Schema.String }) {
  override get message() {
    return this.problem
  }
}

/** The kinds with their numbers, as `2 secrets of repositories, 1 keys of model providers`. */
const numbered = (kinds: ReadonlyArray<{ readonly kind: string; readonly anew: number }>) =>
  kinds.filter(({ anew }) => anew > 0).map(({ anew, kind }) => `${anew} ${kind}`).join(", ")

const rekey = Command.make("rekey", { json }, ({ json }) =>
  administration(Effect.gen(function*() {
    const { check, settle } = yield* SecretsKey
    const key = yield* check
    const kinds = key === null ? [] : yield* Rekey.all(key)
    // From now on a process without the first key does not start.
    if (key !== null) yield* settle
    yield* print(json, kinds.map(({ anew, changed, closed, closedCount, kind }) => ({ kind, anew, closed, closedCount, changed })), () => {
      if (key === null) return "No secret was ever stored in this database."
      const anew = numbered(kinds)
      return anew === "" ? "Nothing was to be encrypted anew." : `Encrypted anew with the first key: ${anew}.`
    })
    const changed = kinds.reduce((sum, { changed }) => sum + changed, 0)
    const closedCount = kinds.reduce((sum, { closedCount }) => sum + closedCount, 0)
    if (closedCount > 0) {
      const names = kinds.filter(({ closed }) => closed.length > 0).map(({ closed, closedCount, kind }) =>
        `${closedCount} ${kind} (${closed.join("; ")}${closed.length < closedCount ? "; …" : ""})`
      )
      return yield* new NotRekeyed({
        problem: `No key decrypts ${names.join(", ")}. Add the line of the key that encrypted them, or set or remove them, and repeat this.`
      })
    }
    if (changed > 0) return yield* new NotRekeyed({ problem: `${changed} values changed meanwhile, again and again. Repeat this.` })
    if (!json && key !== null) {
      yield* print(
        json,
        null,
        () => "All stored secrets are encrypted with the first key. Once it is the first of every process, remove the other lines."
      )
    }
  }))).pipe(
    Command.withDescription(
      "Encrypt all stored secrets anew with the first of several keys. Safe while the service runs, to stop and to repeat. " +
        "Exits with 1 if a value can be decrypted by no key, and names it."
    ),
    Command.withExamples([{ command: "slipway secrets rekey", description: "After the new key is the first line everywhere" }])
  )

export const secrets = Command.make("secrets").pipe(
  Command.withDescription(
    "Secrets for setups of repositories: set, list, remove; their refs: trust, distrust, refs; the key of all stored secrets: rekey"
  ),
  Command.withSubcommands([set, list, remove, trust, distrust, refs, rekey])
)
