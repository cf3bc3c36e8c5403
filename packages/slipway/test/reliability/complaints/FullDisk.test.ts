/** A worker whose disk is full with what finished sandboxes left. */
import { assert, it } from "@effect/vitest"
import * as SmallDisk from "@slipway/machine/testing/SmallDisk"
import { Effect } from "effect"
import { existsSync, readdirSync, statfsSync } from "node:fs"
import path from "node:path"
import { repository, run, serve, until } from "../../commands/SlipwayProcess.ts"
import * as Api from "../failover/Api.ts"
import * as World from "./World.ts"

const DISK_MIB = 200
const EACH_MIB = 60

it.live.skipIf(!SmallDisk.isPossible)(
  "a disk full with finished trees to remove: they are removed, and there is room again",
  () =>
    Effect.gen(function*() {
      const { data, databaseUrl } = yield* World.place
      const disk = yield* SmallDisk.make(DISK_MIB, 20_000)
      const settings = { DATABASE_URL: databaseUrl, SLIPWAY_ISOLATION: "none", XDG_STATE_HOME: data }
      yield* run(data, ["repos", "add", "acme/other", repository(data, "other")], settings)
      const server = yield* serve(disk.path, settings)
      const api = Api.make(server)
      const free = () => {
        const { bfree, bsize } = statfsSync(disk.path)
        return bfree * bsize / 2 ** 20
      }
      const trees = () => {
        const at = path.join(disk.path, "trees", "sandboxes")
        return existsSync(at) ? readdirSync(at) : []
      }
      const prompt = `[[shell head -c ${EACH_MIB}M /dev/urandom > big.bin; echo big.bin > .gitignore]]`
      const finished = [yield* api.create({ prompt }), yield* api.create({ prompt })]
      for (const id of finished) yield* api.event(id, "turn.completed")
      disk.spoil("full")
      assert.isBelow(free(), 1)
      assert.includeMembers(trees(), finished)
      // No sandbox can begin.
      const refused = yield* api.create({ prompt: "[[say hello]]" })
      yield* api.event(refused, "sandbox.error")

      for (const id of finished) yield* api.terminate(id)
      for (const id of finished) yield* until(api.status(id), (status) => status === "terminated")
      yield* until(Effect.sync(trees), (left) => !finished.some((id) => left.includes(id)))
      assert.isAbove(free(), 2 * EACH_MIB - 10)
      const next = yield* api.create({ prompt: "[[write path=a.txt content=a]]" })
      yield* api.event(next, "turn.completed")
      assert.strictEqual(yield* api.file(next, "a.txt"), "a\n")
    }).pipe(Effect.scoped)
)
