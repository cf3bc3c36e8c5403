/**
 * Commits of checkpoints that trees are compared with, each in a folder beside their repositories: neither the disk of a sandbox nor
 * its box has them. Those that were used last are kept. Each can be had again, so none outlives the process.
 */
import { CheckpointDamaged, type FileNotFound, type TreeKey } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { deleteTree } from "@slipway/machine/node/DeleteTree"
import { Effect, type Stream } from "effect"
import { randomUUID } from "node:crypto"
import { renameSync } from "node:fs"
import { mkdir, readdir, stat } from "node:fs/promises"
import { join } from "node:path"
import type { HostRepository } from "../tree/HostRepository.ts"
import * as Restoring from "./Restoring.ts"
import * as TreesArchive from "./TreesArchive.ts"

/** On one machine, at most. */
const MOST = 200
/** Those used last stay, whatever their size: a comparison needs two, and several are made at once. */
const LEAST = 8

interface Options {
  /** It belongs to this process alone. */
  readonly directory: string
  /** The most bytes of all commits, except the last {@link LEAST}. */
  readonly maximumBytes: number
  /** The most bytes of one archive. */
  readonly maximumArchiveBytes: number
  readonly limits: Restoring.Limits
  find(key: TreeKey): Effect.Effect<HostRepository, FileNotFound>
  /** While no tree of the sandbox is restored. */
  locked(sandboxId: SandboxId): <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

interface Learned {
  readonly sandboxId: SandboxId
  readonly objects: string
  readonly bytes: number
  readers: number
}

const nameOf = ({ gitDir }: HostRepository, commit: string): string => `${gitDir} ${commit}`

const sizeOf = async (folder: string): Promise<number> => {
  const names = await readdir(folder, { recursive: true })
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size))
  return sizes.reduce((sum, size) => sum + size, 0)
}

export type LearnedCommits = ReturnType<typeof make>

export const make = ({ directory, find, limits, locked, maximumArchiveBytes, maximumBytes }: Options) => {
  /** In order of their last use. */
  const known = new Map<string, Learned>()

  const makeFolder = (path: string) => Effect.promise(() => mkdir(path, { recursive: true, mode: 0o700 }))
  const drop = (wanted: ReadonlyArray<readonly [string, Learned]>) =>
    Effect.suspend(() => {
      for (const [name] of wanted) known.delete(name)
      return Effect.forEach(wanted, ([, { objects }]) => deleteTree(objects), { discard: true })
    })
  const unread = () => Array.from(known).filter(([, { readers }]) => readers === 0)
  const use = (name: string): Learned | undefined => {
    const one = known.get(name)
    if (one === undefined) return undefined
    known.delete(name)
    known.set(name, one)
    return one
  }
  const trim = Effect.suspend(() => {
    let bytes = Array.from(known.values()).reduce((sum, one) => sum + one.bytes, 0)
    let count = known.size
    const last = new Set(Array.from(known.keys()).slice(-LEAST))
    return drop(
      unread().filter(([name, one]) => {
        if (last.has(name) || bytes <= maximumBytes && count <= MOST) return false
        bytes -= one.bytes
        count--
        return true
      })
    )
  })
  const forget = (sandboxId: SandboxId) => Effect.suspend(() => drop(Array.from(known).filter(([, one]) => one.sandboxId === sandboxId)))

  const take = Effect.fnUntraced(
    function*(key: TreeKey, tree: TreesArchive.SavedTree, pack: string, objects: string) {
      const repository = yield* find(key)
      if (repository.baseSha !== tree.baseSha) return yield* new CheckpointDamaged({ detail: "It goes on from another commit." })
      const name = nameOf(repository, tree.sha)
      if (tree.sha === tree.baseSha || use(name) !== undefined) return []
      yield* makeFolder(objects)
      yield* Restoring.takeBeside(repository, tree, pack, objects, limits)
      const one: Learned = { sandboxId: key.sandboxId, objects, bytes: yield* Effect.promise(() => sizeOf(objects)), readers: 0 }
      return [{ name, one }]
    },
    (self, key) =>
      // A tree that went meanwhile says nothing about what was saved.
      Effect.tapErrorTag(self, "CheckpointDamaged", () => find(key))
  )

  const learn = Effect.fn("WorkingTrees.learn")(
    function*<E, R>(sandboxId: SandboxId, content: Stream.Stream<Uint8Array, E, R>) {
      const site = yield* Effect.acquireRelease(
        Effect.sync(() => join(directory, randomUUID())),
        (site) => Effect.ignoreCause(deleteTree(site))
      )
      yield* makeFolder(site)
      const saved = yield* TreesArchive.read(content, site, maximumArchiveBytes)
      yield* Effect.forEach(saved, ({ pack, tree }, i) => take({ sandboxId, repo: tree.repo }, tree, pack, join(site, `${i}`))).pipe(
        Effect.map((taken) => {
          for (const { name, one } of taken.flat()) {
            if (known.has(name)) continue
            const objects = join(directory, randomUUID())
            renameSync(one.objects, objects)
            known.set(name, { ...one, objects })
          }
        }),
        locked(sandboxId)
      )
      // The trees may have been removed meanwhile: then these commits are removed too.
      yield* Effect.forEach(saved, ({ tree: { repo } }) => find({ sandboxId, repo }), { discard: true }).pipe(
        Effect.tapError(() => forget(sandboxId))
      )
      yield* Effect.catchCause(trim, (cause) => Effect.logWarning("unused commits of checkpoints are left", cause))
    },
    Effect.scoped
  )

  /** The folder with the commit, which stays until the scope closes. */
  const objectsOf = (repository: HostRepository) => (commit: string) =>
    Effect.acquireRelease(
      Effect.sync(() => {
        const one = use(nameOf(repository, commit))
        if (one !== undefined) one.readers++
        return one
      }),
      (one) => Effect.sync(() => void (one !== undefined && one.readers--))
    ).pipe(Effect.map((one) => one?.objects))

  return { learn, objectsOf, forget, makeRoom: Effect.suspend(() => drop(unread())) }
}
