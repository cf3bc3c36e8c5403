/**
 * Caches which files of a sandbox differ from the commit it started from, and how, for pages. Git reads them in the sandbox's box, which
 * takes a while: pages that ask at the same time share one reading, and a reading is kept until the files may have changed.
 */
import type { Principal } from "@slipway/domain/access/schema/Principal"
import type { ChangedFiles } from "@slipway/domain/files/schema/FileTree"
import { type ComparedTrees, Files } from "@slipway/domain/files/usecases/Files"
import type { SandboxNotFound } from "@slipway/domain/sandbox/ports/SandboxStore"
import { workOf } from "@slipway/domain/sandbox/rules/LeaseRules"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { LruCache } from "@slipway/domain/store/LruCache"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Context, DateTime, Deferred, Duration, Effect, Layer, Option, type Scope } from "effect"

export const AWAY = "The sandbox's worker cannot be reached just now. Load the page again in a moment."

/** The changed files; a text says why they are unknown. */
type Found = ChangedFiles | string

/** `at`: when it was read, where more may have changed since. */
export interface Reading {
  readonly found: Found
  readonly at: DateTime.Utc | null
}

/** How long a page waits for a reading, of the 100 ms in which it is answered. */
const PATIENCE = Duration.millis(60)

/**
 * How long a reading holds of a sandbox at rest. Its newest checkpoint has all of its tree, but for what a program writes that outlived
 * the turn.
 */
const HOLDS = Duration.minutes(1)

/** Characters of all names that are remembered: a few hundred sandboxes as people have them, or two of the largest. */
const MAX_KEPT = 8 * 2 ** 20
/** Bytes of all patches that are remembered: three of the largest. */
const MAX_PATCHES = 32 * 2 ** 20
/** Characters that a file counts for, beside its names. */
const FILE_CHARACTERS = 200

interface Known<A> {
  readonly version: string
  readonly found: A
  readonly at: DateTime.Utc
  readonly size: number
}

const isWhole = (found: Found): found is ChangedFiles => typeof found !== "string" && !found.partialWarnings.includes("unreadable_entries")

const charactersOf = ({ files }: ChangedFiles): number =>
  files.reduce((sum, { path, previousPath }) => sum + FILE_CHARACTERS + path.length + (previousPath?.length ?? 0), 0)

/** While it is the same, the tree is; `null`: it may change at any moment. */
const restsAs = (sandbox: Sandbox): string | null =>
  workOf(sandbox) !== null || sandbox.pinned || sandbox.checkpoint === 0
    ? null
    : [sandbox.checkpoint, sandbox.restores, sandbox.status, ...sandbox.publications.map(({ headSha }) => headSha)].join(" ")

/** The last reading of each key, up to `most` in size, and the readings under way with their waiters. */
const makeReadings = <A, E>(
  most: number,
  sizeOf: (found: A) => number,
  /** `resting`: it may be found again as it is. */
  isKept: (found: A, resting: boolean) => boolean,
  scope: Scope.Scope
) => {
  const known = new LruCache<string, Known<A>>(most, ({ size }) => size)
  const underWay = new Map<string, Deferred.Deferred<A, E>>()

  /** `resting`: while it is the same, what is found is; `null`: that may change at any moment. `lastSeq`: the sandbox's last event. */
  const read = Effect.fnUntraced(function*(name: string, resting: string | null, lastSeq: number, find: Effect.Effect<A, E>) {
    const last = known.get(name)
    const now = yield* DateTime.now
    const isFresh = last !== undefined && now.epochMilliseconds - last.at.epochMilliseconds < Duration.toMillis(HOLDS)
    if (isFresh && last.version === resting) return last.found
    // Nothing that came after the event is missing in what others wait for.
    const version = `${name} ${lastSeq}`
    const others = underWay.get(version)
    if (others !== undefined) return yield* Deferred.await(others)
    const reading = yield* Deferred.make<A, E>()
    underWay.set(version, reading)
    // It goes on for the others when who asked first has left.
    yield* find.pipe(
      Effect.tap((found) =>
        Effect.sync(() => {
          if (isKept(found, resting !== null)) known.set(name, { version: resting ?? version, found, at: now, size: sizeOf(found) })
        })
      ),
      Effect.onExit((exit) => {
        underWay.delete(version)
        return Deferred.done(reading, exit)
      }),
      Effect.forkIn(scope)
    )
    return yield* Deferred.await(reading)
  })

  return { read, last: (name: string): Known<A> | null => known.get(name) ?? null }
}

type Reads<A> = (by: Principal, sandbox: Sandbox, repo: RepoName) => Effect.Effect<A, SandboxNotFound | StoreUnavailable>

type DiffError = Effect.Error<ReturnType<Files["Service"]["diff"]>>

/** Changes of sandboxes. The caller must be allowed to see the sandbox. */
export class ChangesCache extends Context.Service<ChangesCache, {
  /** As they are. */
  readonly read: Reads<Found>
  /** As they are or, where that takes longer than a page may, as they were read last; `null`: the first reading is under way. */
  readonly soon: Reads<Reading | null>
  /** As {@link Files} has it. */
  readonly patch: (by: Principal, sandbox: Sandbox, asked: ComparedTrees) => Effect.Effect<Uint8Array, DiffError>
}>()("@slipway/pages/ChangesCache") {
  static readonly layer = Layer.effect(
    ChangesCache,
    Effect.gen(function*() {
      const files = yield* Files
      const scope = yield* Effect.scope
      const lists = makeReadings<Found, SandboxNotFound | StoreUnavailable>(
        MAX_KEPT,
        (found) => isWhole(found) ? charactersOf(found) : 0,
        isWhole,
        scope
      )
      const patches = makeReadings<Uint8Array, DiffError>(MAX_PATCHES, ({ length }) => length, (_, resting) => resting, scope)
      const treeOf = ({ id }: Sandbox, repo: RepoName | undefined) => `${id} ${repo ?? ""}`

      const read: Reads<Found> = (by, sandbox, repo) =>
        lists.read(
          treeOf(sandbox, repo),
          restsAs(sandbox),
          sandbox.lastSeq,
          Effect.catchTags(files.changes(by, sandbox.id, repo), {
            SandboxNotRunning: () =>
              Effect.succeed("There are no files to look at: the sandbox does not run, and nothing of it was saved."),
            AgentDisconnected: () => Effect.succeed(AWAY),
            FileNotFound: () => Effect.succeed("The repository is not there yet."),
            RepoNotFound: Effect.die,
            RepoRequired: Effect.die
          })
        )

      const soon = Effect.fnUntraced(function*(by: Principal, sandbox: Sandbox, repo: RepoName) {
        const found = yield* Effect.timeoutOption(read(by, sandbox, repo), PATIENCE)
        if (Option.isSome(found)) return { found: found.value, at: null }
        const last = lists.last(treeOf(sandbox, repo))
        return last === null ? null : { found: last.found, at: last.at }
      })

      const patch = (by: Principal, sandbox: Sandbox, asked: ComparedTrees) => {
        const { from, path = "", repo, to } = asked
        return patches.read(
          `${treeOf(sandbox, repo)} ${from} ${to} ${path}`,
          restsAs(sandbox),
          sandbox.lastSeq,
          files.diff(by, sandbox.id, asked)
        )
      }

      return { read, soon, patch }
    })
  )
}
