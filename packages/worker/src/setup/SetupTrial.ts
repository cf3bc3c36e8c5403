/**
 * Tries the setup of one repository for the author of its environment file, in a separate box and tree. Starts no agent and leaves
 * nothing behind.
 */
import { MAX_CACHE_BYTES } from "@slipway/domain/environment/ports/SetupCaches"
import * as CachePath from "@slipway/domain/environment/rules/CachePath"
import { EnvironmentInvalid } from "@slipway/domain/environment/rules/Environment"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { ChangedFile } from "@slipway/domain/files/schema/FileTree"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { type Box, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Setups } from "@slipway/domain/sandbox/ports/Setups"
import { CreateSandbox, toCreation } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { DateTime, Effect, Schema, Stream } from "effect"
import { elapsedMillis } from "../shared/Elapsed.ts"
import * as LeasedSandbox from "../shared/LeasedSandbox.ts"
import * as CacheFiles from "./CacheFiles.ts"
import * as Environments from "./Environments.ts"
import * as RunSetup from "./RunSetup.ts"
import * as SetupMessages from "./SetupMessages.ts"
import { SetupProgress } from "./SetupProgress.ts"

export interface Options {
  /** The grant whose secrets it gets. */
  readonly grantId: string
  readonly repo: RepoName
  readonly remote: Remote
  readonly branch: string
  /** Output of the commands, without secrets, while they run. */
  readonly output: (text: string) => void
}

/** A folder that the environment names as a cache. */
export interface CachedFolder {
  /** As written in the file. */
  readonly path: string
  /** The size in bytes before compression; `null`: the folder does not exist. */
  readonly bytes: number | null
  /** Why it would not be kept, for people; `null`: it would be kept if the setup succeeds. */
  readonly problem: string | null
}

export interface Tried {
  /** Why the setup failed, a sentence; `null`: it succeeded. */
  readonly problem: string | null
  readonly exitCode: number | null
  /** The duration of the setup, without clone and box. */
  readonly ms: number
  readonly cache: ReadonlyArray<CachedFolder>
  /** Files that differ from the commit after the setup. */
  readonly changed: ReadonlyArray<Pick<ChangedFile, "path" | "status">>
  /** Files with credentials that the setup left in the home and that were removed, such as `~/.npmrc`. */
  readonly removed: ReadonlyArray<string>
}

const decodeRequest = Schema.decodeUnknownEffect(CreateSandbox)

/** Leases a new sandbox that no other worker sees. */
const hold = Effect.fnUntraced(function*({ grantId, repo }: Options) {
  const ids = yield* Ids
  const request = yield* Effect.orDie(decodeRequest({ repos: [{ fullName: repo }], prompt: "Set up" }))
  const id = SandboxId.make(`c_${yield* ids.random(ID_ALPHABET, 12)}`)
  const at = yield* DateTime.now
  const creation = toCreation(request, { id, grantId, createdBy: grantId, model: offlineDemo, at })
  const store = yield* SandboxStore
  yield* Effect.orDie(store.create({ creation, keyed: null }))
  const leases = yield* Leases
  const [leased] = yield* Effect.orDie(leases.take({ worker: "trial", machine: "trial" }, { slots: 1, boots: 1, errands: 1 }))
  if (leased === undefined) return yield* Effect.die(new Error("the trial's own sandbox cannot be leased"))
  return yield* LeasedSandbox.make(leased)
})

const unknown = (path: string, problem: string): CachedFolder => ({ path, bytes: null, problem })

const problemOf = (result: SetupMessages.Result) => result._tag === "Succeeded" ? null : SetupMessages.reason(result)

/** The time limit of one folder. A setup may fill the whole disk of its box, so reading can take long. */
const LOOK_WITHIN = "5 minutes"

/** The size of each folder in a cache, or why it would not be kept. */
const look = (box: Box, tree: string, paths: ReadonlyArray<CachePath.CachePath>) =>
  Effect.forEach(paths, (path) => {
    const shown = CachePath.show(path)
    return CacheFiles.pack({ box, tree, paths: [path] }).pipe(
      // The first chunk is the header.
      Stream.drop(1),
      Stream.runFold(() => 0, (bytes, chunk) => bytes + chunk.length),
      Effect.map((bytes): CachedFolder => ({
        path: shown,
        bytes: bytes === 0 ? null : bytes,
        problem: bytes === 0 ? "is not there" : bytes > MAX_CACHE_BYTES ? "is more than a cache may have" : null
      })),
      Effect.timeoutOrElse({ duration: LOOK_WITHIN, orElse: () => Effect.succeed(unknown(shown, "takes too long to read")) }),
      Effect.catch(({ message }) => Effect.succeed(unknown(shown, message)))
    )
  })

/**
 * `null`: the repository has no environment file. After a failure or an interruption too, the processes are ended, and box and tree
 * are removed.
 */
export const run = Effect.fn("SetupTrial.run")(
  function*(options: Options) {
    const { branch, remote, repo } = options
    const host = yield* SandboxHost
    const trees = yield* WorkingTrees
    const setups = yield* Setups
    const leased = yield* hold(options)
    const { id } = leased
    yield* Effect.addFinalizer(() => Effect.orDie(Effect.andThen(host.stop(id), trees.remove(id))))
    const [box] = yield* Effect.all([
      host.provision(leased.lease),
      trees.prepare({ sandboxId: id, repo }, { remote, ref: undefined, defaultBranch: branch, repos: [repo] })
    ], { concurrency: 2 })
    const [found] = yield* Environments.read(box, [{ fullName: repo }])
    if (found === undefined) return null

    let result: SetupMessages.Result = { _tag: "Succeeded" }
    let removed: ReadonlyArray<string> = []
    const start = yield* elapsedMillis
    const fatal = yield* RunSetup.run(leased, box, { isFresh: true }).pipe(
      Effect.as(null),
      Effect.catchTag(["SecretsMissing", "SecretsUnusable", "SetupFailed"], ({ message }) => Effect.succeed(message)),
      Effect.provideService(SetupProgress, {
        output: options.output,
        ended: (ended) => {
          result = ended
        },
        removed: (paths) => {
          removed = paths
        }
      })
    )
    const ms = (yield* elapsedMillis) - start
    const record = yield* LeasedSandbox.untilAvailable(setups.find(id))
    const problem = problemOf(result) ?? fatal
    const { files } = yield* trees.changes({ sandboxId: id, repo })
    const cached = found.environment instanceof EnvironmentInvalid ? [] : found.environment.cache
    const tried: Tried = {
      problem,
      exitCode: record?.exitCode ?? null,
      ms,
      cache: yield* look(box, found.folder, cached),
      changed: files.map(({ path, status }) => ({ path, status })),
      removed: removed.map((path) => `~/${path}`)
    }
    return tried
  },
  Effect.scoped
)
