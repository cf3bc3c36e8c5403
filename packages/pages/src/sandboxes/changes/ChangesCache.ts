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
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Context, DateTime, Duration, Effect, Layer, Option } from "effect"
import * as SharedReadings from "../../shared/SharedReadings.ts"

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

const isWhole = (found: Found): found is ChangedFiles => typeof found !== "string" && !found.partialWarnings.includes("unreadable_entries")

const charactersOf = ({ files }: ChangedFiles): number =>
  files.reduce((sum, { path, previousPath }) => sum + FILE_CHARACTERS + path.length + (previousPath?.length ?? 0), 0)

/** While it is the same, the tree is; `null`: it may change at any moment. */
const restsAs = (sandbox: Sandbox): string | null =>
  workOf(sandbox) !== null || sandbox.pinned || sandbox.checkpoint === 0
    ? null
    : [sandbox.checkpoint, sandbox.restores, sandbox.status, ...sandbox.publications.map(({ headSha }) => headSha)].join(" ")

const isStarting = ({ status }: Sandbox): boolean => status === "queued" || status === "creating"

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
      const lists = SharedReadings.make<Found, SandboxNotFound | StoreUnavailable>(
        MAX_KEPT,
        (found) => typeof found === "string" ? 0 : charactersOf(found),
        scope
      )
      const patches = SharedReadings.make<Uint8Array, DiffError>(MAX_PATCHES, ({ length }) => length, scope)
      const treeOf = ({ id }: Sandbox, repo: RepoName | undefined) => `${id} ${repo ?? ""}`
      /** No event that a caller knows of is missing in the reading that it waits for. */
      const stateOf = ({ lastSeq }: Sandbox) => String(lastSeq)
      const isFreshAs = (resting: string | null) => ({ version }: { readonly version: string }, ageMillis: number) =>
        version === resting && ageMillis < Duration.toMillis(HOLDS)

      const read: Reads<Found> = (by, sandbox, repo) =>
        lists.read({
          key: treeOf(sandbox, repo),
          state: stateOf(sandbox),
          isFresh: isFreshAs(restsAs(sandbox)),
          versionOf: (found) => isWhole(found) ? restsAs(sandbox) ?? "" : null,
          find: Effect.catchTags(files.changes(by, sandbox.id, repo), {
            SandboxNotRunning: () =>
              Effect.succeed(isStarting(sandbox) ? "Files appear once the sandbox has started." : "No files were saved."),
            AgentDisconnected: () => Effect.succeed(AWAY),
            FileNotFound: () => Effect.succeed("The repository is not cloned yet."),
            RepoNotFound: Effect.die,
            RepoRequired: Effect.die
          })
        })

      const soon = Effect.fnUntraced(function*(by: Principal, sandbox: Sandbox, repo: RepoName) {
        const found = yield* Effect.timeoutOption(read(by, sandbox, repo), PATIENCE)
        if (Option.isSome(found)) return { found: found.value, at: null }
        const last = lists.last(treeOf(sandbox, repo))
        return last === null ? null : { found: last.found, at: DateTime.makeUnsafe(last.atMillis) }
      })

      const patch = (by: Principal, sandbox: Sandbox, asked: ComparedTrees) => {
        const { from, path = "", repo, to } = asked
        const resting = restsAs(sandbox)
        return patches.read({
          key: `${treeOf(sandbox, repo)} ${from} ${to} ${path}`,
          state: stateOf(sandbox),
          isFresh: isFreshAs(resting),
          versionOf: () => resting,
          find: files.diff(by, sandbox.id, asked)
        })
      }

      return { read, soon, patch }
    })
  )
}
