/** Decides which repositories of a sandbox get secrets for their setup, and reads these (docs/decisions/17). */
import { OutputRedaction, type RedactedOutput } from "@slipway/domain/environment/ports/OutputRedaction"
import { SecretStore, SecretsUnusable } from "@slipway/domain/environment/ports/SecretStore"
import { type Environment, EnvironmentInvalid } from "@slipway/domain/environment/rules/Environment"
import { Effect, Option, Redacted, Schedule } from "effect"
import { type LeasedSandbox, untilAvailable } from "../shared/LeasedSandbox.ts"
import * as CommitTrust from "./CommitTrust.ts"
import type * as Environments from "./Environments.ts"

/** Hides nothing, because there are no secrets. */
const plain = {
  stream: (): RedactedOutput => {
    const decoder = new TextDecoder()
    return { push: (bytes) => decoder.decode(bytes, { stream: true }), end: () => decoder.decode() }
  }
}

export const wanted = ({ environment }: Environments.RepositoryEnvironment): Environment["secrets"] =>
  environment instanceof EnvironmentInvalid ? [] : environment.secrets

export const foldersOf = ({ environment }: Environments.RepositoryEnvironment): Environment["cache"] =>
  environment instanceof EnvironmentInvalid ? [] : environment.cache

/** The secrets of these repositories as variables, and the redaction that hides them in output. */
export const reveal = Effect.fnUntraced(function*(leased: LeasedSandbox, asking: ReadonlyArray<Environments.RepositoryEnvironment>) {
  const { sandbox: { grantId } } = yield* leased.view
  const secrets = new Map<string, Readonly<Record<string, string>>>()
  if (asking.length === 0) return { secrets, redaction: plain }
  const store = Option.getOrUndefined(yield* Effect.serviceOption(SecretStore))
  const redaction = Option.getOrUndefined(yield* Effect.serviceOption(OutputRedaction))
  if (store === undefined || redaction === undefined) {
    return yield* new SecretsUnusable({ problem: "This service keeps no secrets, and a repository's setup needs some." })
  }
  for (const one of asking) {
    const values = yield* untilAvailable(store.reveal({ grantId, repo: one.repo }, wanted(one)))
    secrets.set(one.repo, Object.fromEntries(Array.from(values, ([name, value]) => [name, Redacted.value(value)])))
  }
  return { secrets, redaction: redaction.of(Array.from(secrets.values()).flatMap((values) => Object.values(values))) }
})

/** Why a setup has no secrets although its commit is trusted. */
const NO_FOLDERS = "Setup has secrets in a fresh clone alone, and its file names no folders (`cache`) to bring over from one."

/**
 * `withheld`: why a repository's setup runs without its secrets, by repository. `isTrusted`: whether caches may be filled. If the
 * source host cannot be reached, a boot with fresh trees fails; a sandbox that ran before continues without secrets.
 */
export const trustIn = Effect.fnUntraced(
  function*(leased: LeasedSandbox, environments: ReadonlyArray<Environments.RepositoryEnvironment>, isFresh: boolean) {
    const withheld = new Map<string, string>()
    const minded = environments.filter((one) => wanted(one).length > 0 || isFresh && foldersOf(one).length > 0)
    if (minded.length === 0) return { withheld, isTrusted: false }
    const asked = CommitTrust.problemOf(leased, isFresh)
    const problem = yield* (isFresh ? asked : asked.pipe(
      Effect.retry({ while: (error) => "retryable" in error && error.retryable, times: 3, schedule: Schedule.exponential("500 millis") }),
      Effect.catch(({ message }) => Effect.succeed(`Whether its commit is trusted could not be found out. ${message}`))
    ))
    for (const one of minded) {
      if (wanted(one).length === 0) continue
      const why = problem ?? (isFresh || foldersOf(one).length > 0 ? null : NO_FOLDERS)
      if (why !== null) withheld.set(one.repo, why)
    }
    return { withheld, isTrusted: problem === null }
  }
)
