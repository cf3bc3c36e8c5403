/** Removes unused mirrors, and repacks the others. */
import { deleteTree } from "@slipway/machine/node/DeleteTree"
import { namesIn } from "@slipway/machine/node/IsThere"
import { Clock, Duration, Effect } from "effect"
import { randomUUID } from "node:crypto"
import { renameSync, statSync } from "node:fs"
import { mkdir, readdir, rm } from "node:fs/promises"
import { basename, join } from "node:path"
import { git } from "../Git.ts"
import { clear, clearLeftovers } from "./MirrorFiles.ts"
import type { OpenMirrors } from "./OpenMirrors.ts"

/** Every pack is looked into for every object. As `gc.autoPackLimit` of git. */
const MAX_PACKS = 50

/** Packs of many fetches become few. Not under the lock: it adds packs that are whole, and takes away only what they hold. */
const consolidate = Effect.fnUntraced(function*({ locked }: OpenMirrors, mirror: string) {
  const packs = join(mirror, "objects", "pack")
  yield* locked(mirror)(Effect.promise(() => clearLeftovers(packs)))
  if ((yield* Effect.promise(() => namesIn(packs))).filter((name) => name.endsWith(".idx")).length <= MAX_PACKS) return
  yield* Effect.promise(() => Promise.all(["packed-refs.lock", "packed-refs.new"].map((name) => rm(join(mirror, name), { force: true }))))
    .pipe(
      Effect.andThen(git(["pack-refs", "--all"], { env: { GIT_DIR: mirror } })),
      locked(mirror)
    )
  // This way to repack keeps unreachable objects too, and does not write large packs again for each small one.
  yield* git(["repack", "--geometric=2", "-d", "-n", "--quiet"], {
    env: { GIT_DIR: mirror },
    timeout: "1 hour",
    // It has time; boots have not.
    config: ["pack.threads=1", "pack.windowMemory=256m"]
  })
})

/** Moves a mirror out if it is unused, and was not asked for since `oldest`. */
const retire = Effect.fnUntraced(function*(
  { removed, users }: OpenMirrors,
  mirror: string,
  oldest: number,
  lenders: Effect.Effect<ReadonlySet<string>>
) {
  const isUnused = () => !users.has(mirror) && statSync(mirror).mtimeMs < oldest
  if (!isUnused() || (yield* lenders).has(join(mirror, "objects"))) return
  const isOut = yield* Effect.sync(() => {
    // Synchronously, so that no use begins meanwhile. A borrower since `lenders` was read has made it younger.
    if (!isUnused()) return false
    renameSync(mirror, join(removed, randomUUID()))
    return true
  })
  if (isOut) yield* Effect.logInfo("removed an unused mirror", { mirror: basename(mirror) })
})

const each = Effect.fnUntraced(function*<E>({ directory }: OpenMirrors, work: (mirror: string) => Effect.Effect<void, E>) {
  const names = yield* Effect.promise(() => readdir(directory))
  yield* Effect.forEach(
    names.filter((name) => name.endsWith(".git")),
    (name) =>
      Effect.catchCause(
        work(join(directory, name)),
        (cause) => Effect.logWarning("a mirror could not be put in order", { mirror: name }, cause)
      ),
    {
      discard: true
    }
  )
})

/** Removes unused mirrors that were not asked for since `oldest`, and what is left of downloads. */
const removeUnused = Effect.fnUntraced(function*(mirrors: OpenMirrors, oldest: number | null) {
  const { borrowed, incoming, landing, removed } = mirrors
  yield* Effect.promise(async () => {
    await mkdir(removed, { recursive: true })
    await Promise.all((await namesIn(incoming)).filter((name) => !landing.has(name)).map((name) => clear(join(incoming, name))))
  })
  const lenders = yield* Effect.cached(borrowed)
  if (oldest !== null) yield* each(mirrors, (mirror) => retire(mirrors, mirror, oldest, lenders))
  // The folder itself stays: on a full disk there would be no other.
  const out = yield* Effect.promise(() => namesIn(removed))
  yield* Effect.forEach(out, (name) => deleteTree(join(removed, name)), { discard: true })
})

/** Removes unused mirrors and repacks those with many packs. Boots go on meanwhile. */
export const maintain = (mirrors: OpenMirrors) =>
  Effect.gen(function*() {
    const { keepUnused } = mirrors
    yield* removeUnused(mirrors, keepUnused === null ? null : (yield* Clock.currentTimeMillis) - Duration.toMillis(keepUnused))
    // The slow part comes last.
    yield* each(mirrors, (mirror) => consolidate(mirrors, mirror))
  }).pipe(Effect.withSpan("Mirrors.maintain"))

/** Removes all unused mirrors, whatever their age: they can be fetched again. */
export const makeRoom = (mirrors: OpenMirrors) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => removeUnused(mirrors, now)).pipe(Effect.withSpan("Mirrors.makeRoom"))
