/**
 * Sets up a sandbox before its agent starts (docs/decisions/17): runs the setup commands of its repositories in the box, with
 * secrets that the agent never gets, and saves their output.
 */
import { SecretsMissing, SecretsUnusable } from "@slipway/domain/environment/ports/SecretStore"
import { EnvironmentInvalid } from "@slipway/domain/environment/rules/Environment"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type Box, type Programs, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { type SetupCache, type SetupRecord, Setups } from "@slipway/domain/sandbox/ports/Setups"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { SandboxEventOf } from "@slipway/domain/sandbox/rules/SandboxEvent"
import type { SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { bootDeadline, MAX_SETUP } from "@slipway/domain/sandbox/rules/TimeLimit"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { Context, DateTime, Duration, Effect, Schema, Scope } from "effect"
import { elapsedMillis } from "../shared/Elapsed.ts"
import { type LeasedSandbox, untilAvailable } from "../shared/LeasedSandbox.ts"
import * as CacheFiles from "./CacheFiles.ts"
import { clearHome, conversationOf } from "./ClearHome.ts"
import * as Environments from "./Environments.ts"
import * as FreshClones from "./FreshClones.ts"
import * as RepositoryPrograms from "./RepositoryPrograms.ts"
import * as RepositorySetup from "./RepositorySetup.ts"
import * as SetupMessages from "./SetupMessages.ts"
import { SetupOutput } from "./SetupOutput.ts"
import { SetupProgress } from "./SetupProgress.ts"
import * as SetupSecrets from "./SetupSecrets.ts"

/** The destinations that the operator allows beside the model, as `name:port`. */
export const AllowedEgress = Context.Reference<ReadonlySet<string>>("@slipway/worker/AllowedEgress", { defaultValue: () => new Set() })

/** A required setup failed, or its files in the home could not be removed. No agent may start. */
export class SetupFailed extends Schema.TaggedError<SetupFailed>()("SetupFailed", {
  /** For people, with the last lines of the output, without secrets. */
  detail: Schema.String
}) {
  override get message() {
    return this.detail
  }
}

/** The programs, variables and instructions of an agent after setup. */
export interface Prepared {
  readonly programs: Programs
  readonly env: Readonly<Record<string, string>>
  /** The report of the setup for the agent, Markdown; `null`: no report. */
  readonly told: string | null
}

type Report = Omit<SandboxEventOf<"sandbox.boot">["data"], "stage">

const report = (leased: LeasedSandbox, reports: ReadonlyArray<Report>) =>
  leased.write(reports.map((data): SystemCommand => ({ _tag: "ReportBoot", data: { stage: "setup", ...data } })))

/** The interval between two saves of the output of a running setup. */
const SAVE_EVERY = "2 seconds"
/** The part of a boot's time that is reserved for the start of the agent. */
const FOR_THE_AGENT = Duration.minutes(1)
/** The error when the home could not be cleared. */
const LEFT = "Credentials, or settings of agents, that setup left in the home could not be removed."

/** The cache result for all repositories together. */
const cacheOf = (reports: ReadonlyArray<Report>): SetupCache => {
  const caches = reports.map(({ cache }) => cache)
  return caches.includes("miss") ? "miss" : caches.includes("hit") ? "hit" : "none"
}

/** The time limit of all setups together. A setup with a cache counts twice, because another sandbox may be filling the cache. */
const limitOf = (environments: ReadonlyArray<Environments.RepositoryEnvironment>): Duration.Duration =>
  Duration.minutes(environments.reduce((sum, { environment }) => {
    if (environment instanceof EnvironmentInvalid || environment.setup.length === 0) return sum
    return sum + environment.timeoutMinutes * (environment.cache.length === 0 ? 1 : 2)
  }, 0))

/** The time left of the boot, or of a setup outside a boot. */
const left = Effect.fnUntraced(function*(leased: LeasedSandbox, { startedAt }: SetupRecord) {
  const { sandbox } = yield* leased.view
  const end = sandbox.status === "creating"
    ? DateTime.subtractDuration(bootDeadline(sandbox, yield* Policy), FOR_THE_AGENT)
    : DateTime.addDuration(startedAt, MAX_SETUP)
  return Duration.max(Duration.seconds(1), DateTime.distance(yield* DateTime.now, end))
})

/** Saves the output at intervals while it grows. */
const saving = Effect.fnUntraced(function*(leased: LeasedSandbox, began: SetupRecord, output: SetupOutput, reports: ReadonlyArray<Report>) {
  const setups = yield* Setups
  for (let saved = output.version;;) {
    yield* Effect.sleep(SAVE_EVERY)
    if (output.version === saved) continue
    saved = output.version
    yield* untilAvailable(setups.save(leased.lease, { ...began, cache: cacheOf(reports), output: output.text }))
  }
})

/** The record of a setup that has just started. */
const STARTED: Omit<SetupRecord, "startedAt"> = { state: "running", ms: null, cache: "none", exitCode: null, output: "", told: null }

/** The files of a fresh tree that differ from its commit now. */
const changedFiles = Effect.fnUntraced(function*(box: Box, repo: string) {
  const trees = yield* WorkingTrees
  const { files } = yield* trees.changes({ sandboxId: box.sandboxId, repo })
  return files.map(({ path }) => path)
}, Effect.catch(() => Effect.succeed([])))

const stateOf = (results: ReadonlyArray<SetupMessages.Result>) =>
  results.some(({ _tag }) => _tag !== "Succeeded") ? "failed" as const : "succeeded" as const

const exitCodeOf = (results: ReadonlyArray<SetupMessages.Result>): number | null => {
  const failed = results.find(({ _tag }) => _tag !== "Succeeded")
  if (failed === undefined) return 0
  return failed._tag === "Failed" ? failed.exitCode : null
}

/** The event of one repository's setup, without its duration. */
const reportOf = Effect.fnUntraced(function*(
  one: Environments.RepositoryEnvironment,
  { cache, result }: RepositorySetup.Done,
  programs: Programs,
  secretsWithheld: string | undefined
) {
  const host = yield* SandboxHost
  const allowed = yield* AllowedEgress
  const { environment, repo } = one
  const { egress, ignored: unread } = environment instanceof EnvironmentInvalid ? { egress: [], ignored: [] } : environment
  const { ignored: withoutImage = [], ...image } = yield* RepositoryPrograms.report(one, programs)
  const ignored = [...unread, ...withoutImage]
  const refused = host.isolation === "none" ? [] : egress.filter((name) => !allowed.has(name))
  const about: Omit<Report, "ms"> = {
    repo,
    cache,
    ...(ignored.length === 0 ? {} : { ignored }),
    ...(refused.length === 0 ? {} : { egress_refused: refused }),
    ...(secretsWithheld === undefined ? {} : { secrets_withheld: visible(secretsWithheld) }),
    ...(result._tag === "Succeeded" ? {} : { error: visible(SetupMessages.reason(result)) }),
    ...image
  }
  return about
})

const isFatal = ({ environment }: Environments.RepositoryEnvironment): boolean =>
  !(environment instanceof EnvironmentInvalid) && environment.onFailure === "fail"

/**
 * Sets up all repositories with an environment file, in order, and saves the progress. Safe to repeat. `isFresh`: no agent has worked
 * in the trees. `conversation`: files of the home that the agent can resume with. A failure is saved too; then no agent may start.
 */
export const run = Effect.fn("RunSetup.run")(
  function*(leased: LeasedSandbox, box: Box, { conversation = [], isFresh }: {
    readonly isFresh: boolean
    readonly conversation?: ReadonlyArray<string>
  }) {
    const setups = yield* Setups
    const policy = yield* Policy
    const { sandbox: { environment: own, repos } } = yield* leased.view
    const environments = Environments.withVariables(yield* Environments.read(box, repos), own)
    const programs = yield* RepositoryPrograms.of(environments)
    if (environments.length === 0) return { programs, env: own, told: null } satisfies Prepared

    const began: SetupRecord = { ...STARTED, startedAt: yield* DateTime.now }
    const isFirst = isFresh && (yield* untilAvailable(setups.find(leased.id))) === null
    const save = (record: SetupRecord) => untilAvailable(setups.save(leased.lease, record))
    const start = yield* elapsedMillis
    yield* save(began)
    const { isTrusted, withheld } = yield* SetupSecrets.trustIn(leased, environments, isFresh)
    const asking = environments.filter((one) => SetupSecrets.wanted(one).length > 0 && !withheld.has(one.repo))
    const { redaction, secrets } = yield* SetupSecrets.reveal(leased, asking).pipe(
      Effect.tapError((error) =>
        Effect.flatMap(
          elapsedMillis,
          (now) =>
            save({ ...began, state: "failed", ms: now - start, output: `${error.message}\n`, told: SetupMessages.refused(error.message) })
        )
      )
    )
    const progress = yield* SetupProgress
    const output = new SetupOutput(redaction, progress.output)
    if (Object.keys(own).length > 0 && Environments.nameSecrets(environments)) output.say(SetupMessages.WITHOUT_VARIABLES)
    const limit = limitOf(environments)
    if (Duration.isPositive(limit)) yield* leased.write([{ _tag: "StartSetup", limit }])

    const clones = yield* Effect.cached(Scope.provide(FreshClones.make(leased), yield* Effect.scope))
    const results: Array<SetupMessages.Result> = []
    const reports: Array<Report> = []
    const told: Array<string> = []
    const running = Effect.gen(function*() {
      for (const one of environments) {
        const { environment, file, folder, repo } = one
        const beginning = yield* elapsedMillis
        if (environments.length > 1) output.say(`# ${repo}`)
        let done: RepositorySetup.Done
        if (environment instanceof EnvironmentInvalid) {
          output.say(environment.message)
          done = { cache: "none", result: { _tag: "Invalid", problem: environment.message } }
        } else {
          const given = { programs, secrets: secrets.get(repo) ?? {} }
          const earlier = environments.slice(0, results.length).flatMap(SetupSecrets.foldersOf)
          const way: RepositorySetup.Way = {
            clear: isFirst ? Effect.void : CacheFiles.removeFromHome(box, environment.cache, earlier),
            isFresh,
            mayFill: isFresh && isTrusted,
            left: Effect.provideService(left(leased, began), Policy, policy)
          }
          const usable = { ...one, environment }
          done = yield* (isFresh || Object.keys(given.secrets).length === 0
            ? RepositorySetup.runInBox(leased, box, usable, given, output, way)
            : RepositorySetup.runInClone(leased, clones, box, usable, given, output, way, (problem) => withheld.set(repo, problem)))
        }
        const secretsWithheld = done.cache === "hit" ? undefined : withheld.get(repo)
        const { cache, result } = done
        results.push(result)
        progress.ended(result)
        const ran = !(environment instanceof EnvironmentInvalid) && environment.setup.length > 0 && cache !== "hit"
        const changed = isFresh && ran ? yield* changedFiles(box, repo) : []
        const { lastLines } = output
        told.push(SetupMessages.sectionFor({ repo, folder, file, environment, cache, result, changed, lastLines, secretsWithheld }))
        const about = yield* reportOf(one, done, programs, secretsWithheld)
        reports.push({ ms: (yield* elapsedMillis) - beginning, ...about })
        if (result._tag !== "Succeeded" && isFatal(one)) {
          const without = secretsWithheld === undefined ? "" : ` ${SetupMessages.withoutSecrets(secretsWithheld)}`
          return `The setup of ${repo} failed. ${SetupMessages.reason(result)}${without}`
        }
      }
      return null
    })
    const problem = yield* Effect.raceFirst(running, saving(leased, began, output, reports))
    const isClear = yield* clearHome(box, conversation)
    if (!isClear) yield* Effect.logWarning("what setup left in the home could not be removed")
    const fatal = problem ?? (isClear ? null : LEFT)

    const prepared: Prepared = { programs, env: Environments.variablesOf(environments, own), told: told.join("\n") }
    yield* save({
      ...began,
      state: fatal === null ? stateOf(results) : "failed",
      ms: (yield* elapsedMillis) - start,
      cache: cacheOf(reports),
      exitCode: exitCodeOf(results),
      output: output.text,
      told: prepared.told
    })
    if (problem === null && fatal !== null) reports.push({ ms: (yield* elapsedMillis) - start, error: fatal })
    yield* report(leased, reports)
    if (fatal !== null) return yield* new SetupFailed({ detail: SetupMessages.withOutput(fatal, output.lastLines) })
    return prepared
  },
  Effect.scoped
)

/** The result of an earlier setup, for an agent that starts again. */
export const recall = Effect.fn("RunSetup.recall")(function*(leased: LeasedSandbox, box: Box) {
  const setups = yield* Setups
  const { sandbox: { environment: own, repos } } = yield* leased.view
  const environments = yield* Environments.read(box, repos)
  const programs = yield* RepositoryPrograms.of(environments)
  if (environments.length === 0) return { programs, env: own, told: null } satisfies Prepared
  const record = yield* untilAvailable(setups.find(leased.id))
  return { programs, env: Environments.variablesOf(environments, own), told: record?.told ?? null } satisfies Prepared
})

/** Marks the setup as unfinished because its folders are lost or about to be replaced. The next worker then runs it again. */
export const invalidate = Effect.fn("RunSetup.invalidate")(function*(leased: LeasedSandbox) {
  const setups = yield* Setups
  const record = yield* untilAvailable(setups.find(leased.id))
  if (record !== null && record.state !== "running") {
    yield* untilAvailable(setups.save(leased.lease, { ...record, state: "running", ms: null }))
  }
})

/** Whether a setup started and did not end. */
export const wasInterrupted = Effect.fnUntraced(function*(sandboxId: SandboxId) {
  const setups = yield* Setups
  return (yield* untilAvailable(setups.find(sandboxId)))?.state === "running"
})

/**
 * Runs the setup again after trees were restored, because a checkpoint has no ignored files, or after an interrupted run. The sandbox
 * has work in it, so it continues even if the setup fails. The agent and the log get the reason.
 */
export const runAgain = Effect.fn("RunSetup.runAgain")(function*(leased: LeasedSandbox, box: Box) {
  const start = yield* elapsedMillis
  yield* run(leased, box, { isFresh: false, conversation: yield* conversationOf(leased) }).pipe(
    // The setup did not run, so it reported nothing.
    Effect.tapErrorTag(
      ["SecretsMissing", "SecretsUnusable"],
      ({ message }) => Effect.flatMap(elapsedMillis, (now) => report(leased, [{ ms: now - start, error: visible(message) }]))
    ),
    Effect.catchTag(
      ["SetupFailed", "SecretsMissing", "SecretsUnusable"],
      ({ message }) => Effect.logWarning("a sandbox goes on without its setup", { reason: message })
    )
  )
})

export { SecretsMissing, SecretsUnusable }
