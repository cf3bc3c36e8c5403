/**
 * Git over what an agent wrote. It runs in the sandbox's box: as its user, under its limits, and with nothing in sight that
 * the agent could not read itself, so neither a link that is swapped under it nor files that take it long harm anybody
 * else. It sees the host's repository of the tree, read-only, and nothing in the agent's `.git` tells it what to do.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { HostError, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Clock, Effect, Stream } from "effect"
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import { eachField, type GitFailed, terminated } from "../Git.ts"
import { afterIndex, afterNames, collecting, failed, sorted } from "./BoxAnswers.ts"
import { BOX_ENVIRONMENT, PATIENCE, SCRIPT } from "./BoxScript.ts"
import { type HostRepository, scratch } from "./HostRepository.ts"
import * as IndexStats from "./IndexStats.ts"
import type { Change, CopyLimits, Tree } from "./TreePlace.ts"

/** The most bytes of files that are copied for a comparison. For the others git only says that they differ. */
const MAXIMUM_COMPARED_BYTES = 268_435_456

const TAB = 0x09

/** The script prints the changed paths first; only then do we write to its stdin. */
const NOTHING = Effect.succeed({ found: undefined, input: Buffer.alloc(0) })

interface Box {
  readonly host: SandboxHost["Service"]
  readonly sandboxId: SandboxId
  /** Without isolation. */
  readonly isBare: boolean
  /** As the script has it: a folder for files that no other process may see. */
  readonly hidden: string
}

interface Talk<A, E, E2, R> {
  /** Whether it is to tell what it learned of files. */
  readonly take?: boolean
  readonly options?: ReadonlyArray<string>
  /** The folder with the copies. */
  readonly copied?: string
  readonly listen: (bytes: Uint8Array, answer: (input: Buffer) => Effect.Effect<void>) => Effect.Effect<void, E>
  /** The first that it is told, found out while the box is made. */
  readonly before: Effect.Effect<{ readonly found: A; readonly input: Buffer }, E2, R>
  /** Whether that is all that it is told. */
  readonly isAll?: boolean
}

/** `listen` gets what it says, and `answer`, which ends the input. Fails when that fails, git does, or it takes too long. */
const talk = Effect.fnUntraced(function*<A, E, E2, R>(
  { hidden, host, sandboxId }: Box,
  repository: HostRepository,
  what: keyof typeof PATIENCE,
  { before, copied, isAll = false, listen, options = [], take = false }: Talk<A, E, E2, R>
) {
  return yield* Effect.gen(function*() {
    const told = Effect.mapError<HostError, GitFailed>(({ detail, retryable }) => failed(what, retryable ? "lost" : "exit", detail))
    const { gitDir, isOwn } = repository.tree.inBox
    const start = Effect.gen(function*() {
      const box = yield* host.visit({ sandboxId })
      return yield* box.spawn({
        command: "sh",
        args: ["-c", SCRIPT, "slipway-git", what, `${PATIENCE[what]}`, hidden, copied ?? join(box.workspace, repository.folder),
          repository.baseSha, isOwn ? "own" : "", copied === undefined ? "" : "copied", take ? "take" : "", ...options],
        env: { ...BOX_ENVIRONMENT, GIT_DIR: gitDir },
        seesRepositories: true,
        isOffline: true
      })
    })
    const [process, { found, input }] = yield* Effect.all([told(start), before], { concurrency: 2 })
    if (input.length > 0) yield* process.write(input)
    if (isAll) yield* process.endInput
    const answer = (bytes: Buffer) => Effect.andThen(process.write(bytes), process.endInput)
    yield* Stream.runForEach(process.stdout, (bytes) => listen(bytes, answer))
    const { code } = yield* process.exited
    if (code !== 0) return yield* failed(what, code === null ? "lost" : "exit", (yield* process.stderrTail).slice(-4_000), code)
    return found
  }).pipe(
    Effect.scoped,
    Effect.timeoutOrElse({ duration: PATIENCE[what] * 1_000, orElse: () => Effect.fail(failed(what, "timeout", "")) })
  )
})

/** Whether the index gains by what this look learns, and what keeps that. */
const indexOf = Effect.fnUntraced(function*(repository: HostRepository, isSaved: boolean) {
  const seconds = Math.floor((yield* Clock.currentTimeMillis) / 1_000)
  // One in a machine is not ours.
  const take = !repository.tree.inBox.isOwn && (yield* IndexStats.isWanted(repository, seconds, isSaved))
  return { take, keep: (told: Buffer) => IndexStats.keep(repository, told, seconds) }
})

/** All that differs, as git says, in a folder of ours: `choose` tells which of the new files. Answers the folder, and what is in it. */
const copies = Effect.fnUntraced(function*<E>(
  box: Box,
  repository: HostRepository,
  copy: NonNullable<Tree["copy"]>,
  choose: (names: ReadonlyArray<Buffer>) => Effect.Effect<ReadonlyArray<Buffer>, E>,
  limits: CopyLimits
) {
  let names: Buffer = Buffer.alloc(0)
  const { keep, take } = yield* indexOf(repository, limits.beyond === "fail")
  const listen = afterNames((all) => Effect.sync(() => void (names = all)), afterIndex(keep, () => Effect.void))
  yield* talk(box, repository, "names", { before: NOTHING, isAll: true, listen, take })
  const { added, changed, submodules } = yield* sorted(names)
  const chosen: ReadonlyArray<Change> = [
    ...changed,
    ...(yield* choose(added)).map((path) => ({ path, mayBeRepository: false }))
  ]
  const place = yield* scratch(repository)
  yield* Effect.promise(() => mkdir(place, { mode: 0o700 }))
  const { copied, gone } = yield* Effect.mapError(copy(chosen, place, limits), () => failed("names", "output", ""))
  const nothing = Buffer.from(`0 ${"0".repeat(repository.baseSha.length)}\t`)
  const removed = terminated(gone.map((path) => Buffer.concat([nothing, path])))
  return { place, submodules, input: Buffer.concat([Buffer.from(`${removed.length}\n`), removed, terminated(copied)]) }
})

/**
 * The output of `git diff` with these options in the tree. `enter` gets the names of new files first and answers the entries that the index
 * gets for them, as lines of `update-index --index-info`. `names` end with NUL, those of repositories with `/` and NUL.
 */
const changes = Effect.fnUntraced(function*(
  box: Box,
  repository: HostRepository,
  options: ReadonlyArray<string>,
  enter: (names: Buffer) => Effect.Effect<Buffer>
) {
  const said = collecting("changes")
  const { copy } = repository.tree
  if (copy !== undefined && box.isBare) {
    const choose = (names: ReadonlyArray<Buffer>) =>
      Effect.map(enter(terminated(names)), (lines) => Array.from(eachField(lines), (line) => line.subarray(line.indexOf(TAB) + 1)))
    const { input, place } = yield* copies(box, repository, copy, choose, { maximumBytes: MAXIMUM_COMPARED_BYTES, beyond: "stand-in" })
    const before = Effect.succeed({ found: undefined, input })
    yield* talk(box, repository, "changes", { options, before, copied: place, isAll: true, listen: said.add })
    return said.all()
  }
  let reply: (input: Buffer) => Effect.Effect<void> = () => Effect.void
  const { keep, take } = yield* indexOf(repository, false)
  const listen = afterNames((names) => Effect.flatMap(enter(names), (lines) => reply(lines)), afterIndex(keep, said.add))
  yield* talk(box, repository, "changes", {
    options,
    take,
    before: NOTHING,
    listen: (bytes, answer) => {
      reply = answer
      return listen(bytes)
    }
  })
  return said.all()
}, Effect.scoped)

/** Which of these lines of `update-index --index-info` name files that the tree's own rules ignore. */
const ignored = Effect.fnUntraced(function*(box: Box, repository: HostRepository, entries: Buffer) {
  const said = collecting("ignored")
  yield* talk(box, repository, "ignored", { before: Effect.succeed({ found: undefined, input: entries }), isAll: true, listen: said.add })
  return said.all()
})

export interface SnapshotOf<A, E, E2, R> {
  readonly before: Effect.Effect<A, E2, R>
  readonly known: (found: A) => ReadonlyArray<string>
  readonly choose: (names: ReadonlyArray<Buffer>) => Effect.Effect<ReadonlyArray<Buffer>>
  /** The most bytes of files that differ. */
  readonly maximumBytes: number
  readonly take: (bytes: Uint8Array) => Effect.Effect<void, E>
  /** Is told of folders of submodules in which there are files: none of these is in the snapshot. */
  readonly hold?: (folders: ReadonlyArray<Buffer>) => void
}

/**
 * The tree as it is, in `take`: its id and a line feed, then a pack of what is neither in the commit it started from nor
 * in what `known` names. Of new files only those that `choose` names. It is looked at when `before` is through, which is
 * done while the box is made.
 */
const snapshot = Effect.fnUntraced(
  function*<A, E, E2, R>(
    box: Box,
    repository: HostRepository,
    { before, choose, hold = () => {}, known, maximumBytes, take }: SnapshotOf<A, E, E2, R>
  ) {
    const knownLine = (found: A) => Buffer.from(`${known(found).join(" ")}\n`)
    const { copy } = repository.tree
    if (copy !== undefined && box.isBare) {
      const found = yield* before
      const { input: told, place, submodules } = yield* copies(box, repository, copy, choose, { maximumBytes, beyond: "fail" })
      hold(submodules)
      const input = Buffer.concat([knownLine(found), told])
      return yield* talk(box, repository, "snapshot", {
        before: Effect.succeed({ found, input }),
        copied: place,
        isAll: true,
        listen: take
      })
    }
    let reply: (input: Buffer) => Effect.Effect<void> = () => Effect.void
    const index = yield* indexOf(repository, true)
    const listen = afterNames(
      Effect.fnUntraced(function*(entries) {
        const { added, changed, submodules } = yield* sorted(entries)
        hold(submodules)
        const names = terminated(changed.map(({ path }) => path))
        yield* reply(Buffer.concat([Buffer.from(`${names.length}\n`), names, terminated(yield* choose(added))]))
      }),
      afterIndex(index.keep, take)
    )
    return yield* talk(box, repository, "snapshot", {
      take: index.take,
      before: Effect.map(before, (found) => ({ found, input: knownLine(found) })),
      listen: (bytes, answer) => {
        reply = answer
        return listen(bytes)
      }
    })
  },
  Effect.scoped
)

export type BoxGit = ReturnType<typeof make>

/** The sandbox may be at rest. */
export const make = (host: SandboxHost["Service"], sandboxId: SandboxId) => {
  // Boxes have a `/tmp` for each process tree; without isolation nothing is hidden anyway.
  const isBare = host.isolation === "none"
  const box: Box = { host, sandboxId, isBare, hidden: isBare ? "" : "/tmp" }
  return {
    changes: (repository: HostRepository, options: ReadonlyArray<string>, enter: (names: Buffer) => Effect.Effect<Buffer>) =>
      changes(box, repository, options, enter),
    ignored: (repository: HostRepository, entries: Buffer) => ignored(box, repository, entries),
    snapshot: <A, E, E2, R>(repository: HostRepository, options: SnapshotOf<A, E, E2, R>) => snapshot(box, repository, options)
  }
}
