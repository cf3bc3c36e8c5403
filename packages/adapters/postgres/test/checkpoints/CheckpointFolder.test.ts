import { assert, it } from "@effect/vitest"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { held } from "@slipway/machine/testing/HeldMemory"
import * as SmallDisk from "@slipway/machine/testing/SmallDisk"
import * as CheckpointsContract from "@slipway/testing/contracts/sandbox/CheckpointsContract"
import { numbers, prune, putText, read, take, takenOver, worked } from "@slipway/testing/contracts/sandbox/CheckpointsContract"
import * as ForksContract from "@slipway/testing/contracts/sandbox/ForksContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Deferred, Effect, Fiber, Layer, Logger, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtempSync, readdirSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import * as CheckpointFolder from "../../src/checkpoints/CheckpointFolder.ts"
import * as CheckpointsPostgres from "../../src/checkpoints/CheckpointsPostgres.ts"
import { stores } from "../Stores.ts"

const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-checkpoints-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

const everyRule = stores(Layer.unwrap(Effect.map(temporary, (folder) => CheckpointsPostgres.layerIn({ folder, writes: "folder" }))))
register(CheckpointsContract.suite("folder", everyRule))
register(CheckpointsContract.streaming("folder", everyRule, held))

/** Beneath `folder`, as paths from it, sorted. */
const filesIn = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => statSync(path.join(folder, name)).isFile()).sort()

const inFolder = (folder: string) => CheckpointsPostgres.layerIn({ folder, writes: "folder" })

/** On a database and in a folder of its own; `said`: what was logged. */
const on = <A, E>(
  use: (folder: string, said: ReadonlyArray<string>) => Effect.Effect<A, E, Layer.Success<typeof everyRule>>,
  within: Effect.Effect<string, never, never> | null = null
) =>
  Effect.scoped(Effect.gen(function*() {
    const folder = within === null ? yield* temporary : yield* within
    const said: Array<string> = []
    const logger = Logger.make(({ message }) => void said.push(String(message)))
    return yield* use(folder, said).pipe(
      Effect.provide(Layer.merge(stores(inFolder(folder)), Logger.layer([logger])))
    )
  }))

it.live("files and the folders they are in are for the account of the service alone, and named by sandbox, number and lease", () =>
  on((folder) =>
    Effect.gen(function*() {
      const { lease, sandbox } = yield* worked()
      yield* take(sandbox, lease, [1])
      const [file = "", ...more] = filesIn(folder)
      assert.deepStrictEqual(more, [])
      assert.match(path.basename(file), new RegExp(`^${sandbox.id}-1-${lease.fence}-\\d+\\.zst$`, "u"))
      assert.strictEqual(statSync(path.join(folder, file)).mode & 0o777, 0o600)
      assert.strictEqual(statSync(path.join(folder, path.dirname(file))).mode & 0o777, 0o700)
    })
  ))

it.live("nothing is left of what failed, and what was left with its worker goes when checkpoints are pruned", () =>
  on((folder) =>
    Effect.gen(function*() {
      const { lease, sandbox } = yield* worked()
      yield* putText(lease, 1, "its worker is killed")
      const [file = ""] = filesIn(folder)
      // Killed before it was whole.
      renameSync(path.join(folder, file), path.join(folder, `${file}.partial`))
      yield* prune()
      assert.strictEqual(filesIn(folder).length, 1)
      yield* takenOver(sandbox.id)
      yield* Effect.flip(putText(lease, 1, "stale"))
      yield* prune()
      assert.deepStrictEqual(filesIn(folder), [])
    })
  ))

it.live("bytes of a put that lost its lease and was killed before it noticed are removed too, once it cannot be running any more", () =>
  on((folder) =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { lease, sandbox } = yield* worked()
      const [began, goOn] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const files = CheckpointFolder.make(folder)
      const killed = yield* CheckpointsPostgres.make([{
        ...files,
        write: (key, pieces) =>
          Effect.andThen(Deferred.succeed(began, undefined), Deferred.await(goOn)).pipe(
            Effect.andThen(files.write(key, pieces)),
            Effect.andThen(Effect.die("killed"))
          ),
        remove: () => Effect.void
      }])
      const put = yield* Effect.forkChild(Effect.exit(killed.put(lease, 1, Stream.make(new Uint8Array(9)))))
      yield* Deferred.await(began)
      const next = yield* takenOver(sandbox.id)
      yield* prune()
      yield* Deferred.succeed(goOn, undefined)
      yield* Fiber.join(put)
      assert.strictEqual(filesIn(folder).length, 1)
      yield* take(sandbox, next, [1])
      yield* prune()
      assert.strictEqual(filesIn(folder).length, 2)
      yield* sql`UPDATE checkpoint_contents SET due_at = due_at - interval '1 hour' WHERE NOT seen`
      yield* prune()
      assert.deepStrictEqual(filesIn(folder).map((file) => path.basename(file).split("-").slice(1, 3)), [["1", `${next.fence}`]])
      assert.strictEqual(yield* read(sandbox.id, 1), "content 1")
      assert.strictEqual((yield* sql`SELECT FROM checkpoint_contents`).length, 1)
    })
  ))

it.live("a server of files that did what it is asked again, since its answer was lost, has stored it", () =>
  on((folder) =>
    Effect.gen(function*() {
      const { lease } = yield* worked()
      const renamed = Stream.fromEffect(Effect.sync(() => {
        const [file = ""] = filesIn(folder)
        renameSync(path.join(folder, file), path.join(folder, file.replace(/\.partial$/u, "")))
        return new Uint8Array(9)
      }))
      assert.isAbove(yield* Checkpoints.use((checkpoints) => checkpoints.put(lease, 1, renamed)), 0)
    })
  ))

it.live("one whose file is missing, cut short or damaged is not there; where the folder is away, the store is", () =>
  on((folder) =>
    Effect.gen(function*() {
      const { lease, sandbox } = yield* worked()
      yield* take(sandbox, lease, [1, 2, 3, 4])
      const fileOf = (n: number) => path.join(folder, filesIn(folder).find((name) => name.includes(`-${n}-${lease.fence}-`)) ?? "")
      const failure = (n: number) => Effect.map(Effect.flip(read(sandbox.id, n)), ({ _tag }) => _tag)
      truncateSync(fileOf(1), statSync(fileOf(1)).size - 2)
      writeFileSync(fileOf(2), "something else")
      rmSync(fileOf(3))
      for (const n of [1, 2, 3]) assert.strictEqual(yield* failure(n), "CheckpointNotFound")
      assert.strictEqual(yield* read(sandbox.id, 4), "content 4")
      renameSync(folder, `${folder}-away`)
      assert.strictEqual(yield* failure(4), "StoreUnavailable")
      renameSync(`${folder}-away`, folder)
      assert.strictEqual(yield* read(sandbox.id, 4), "content 4")
    })
  ))

it.live("a folder that is away is not made: nothing is kept, and the log says what helps", () =>
  on((folder, said) =>
    Effect.gen(function*() {
      const { lease, sandbox } = yield* worked()
      rmSync(folder, { recursive: true })
      assert.strictEqual((yield* Effect.flip(putText(lease, 1, "lost")))._tag, "StoreUnavailable")
      const line = `Checkpoints cannot be kept in ${folder}: it is not there. Make it, or mount what it is on.`
      assert.isTrue(said.some((one) => one.startsWith(line)), said.join("\n"))
      assert.deepStrictEqual(yield* numbers(sandbox.id), [])
    })
  ))

it.live("what is in the other place stays readable when the setting changes, and is forgotten there", () =>
  Effect.scoped(Effect.gen(function*() {
    const folder = yield* temporary
    const all = stores(CheckpointsPostgres.layer)
    yield* Effect.gen(function*() {
      const { lease, sandbox } = yield* worked()
      const writing = (writes: "database" | "folder") => Effect.provide(CheckpointsPostgres.layerIn({ folder, writes }))
      const first = yield* take(sandbox, lease, [1]).pipe(writing("folder"))
      yield* take(first, lease, [2])
      assert.strictEqual(filesIn(folder).length, 1)
      for (const writes of ["folder", "database"] as const) {
        assert.strictEqual(yield* read(sandbox.id, 1).pipe(writing(writes)), "content 1")
        assert.strictEqual(yield* read(sandbox.id, 2).pipe(writing(writes)), "content 2")
      }
      // A process that was not told of the folder does not call it lost.
      assert.strictEqual((yield* Effect.flip(read(sandbox.id, 1)))._tag, "StoreUnavailable")
      yield* ForksContract.settle(sandbox)
      yield* prune()
      assert.strictEqual(filesIn(folder).length, 1)
      yield* prune().pipe(writing("database"))
      assert.deepStrictEqual(filesIn(folder), [])
    }).pipe(Effect.provide(all))
  })))

it.live.skipIf(!SmallDisk.isPossible)(
  "on a disk that is full, out of inodes or read-only nothing is kept, and the log says what helps (needs root, to mount)",
  () =>
    Effect.scoped(Effect.gen(function*() {
      const disk = yield* SmallDisk.make(4)
      const advice = { full: "its disk is full", "out of inodes": "its disk is full", "read-only": "its disk is read-only" }
      yield* on((folder, said) =>
        Effect.gen(function*() {
          for (const trouble of SmallDisk.TROUBLES) {
            const { lease, sandbox } = yield* worked()
            const there = filesIn(folder)
            disk.spoil(trouble)
            assert.strictEqual((yield* Effect.flip(putText(lease, 1, "x".repeat(9000))))._tag, "StoreUnavailable")
            assert.isTrue(said.some((line) => line.includes(`${folder}: ${advice[trouble]}`)), said.join("\n"))
            disk.mend()
            assert.deepStrictEqual(filesIn(folder), there)
            yield* take(sandbox, lease, [1])
            assert.strictEqual(yield* read(sandbox.id, 1), "content 1")
          }
        }), Effect.succeed(disk.path))
    }))
)
