/** A service whose data folder lies on a disk in trouble. */
import { assert, describe, it } from "@effect/vitest"
import * as SmallDisk from "@slipway/machine/testing/SmallDisk"
import { Effect } from "effect"
import { folder, runIn, serve, until } from "../../commands/SlipwayProcess.ts"

describe.skipIf(!SmallDisk.isPossible)("on a disk of its own (needs root, to mount)", () => {
  it.live("the service is not ready while that is full, says so, and is ready again once there is room", () =>
    Effect.gen(function*() {
      const disk = yield* SmallDisk.make(300, 20_000)
      const { url } = yield* serve(disk.path, { XDG_STATE_HOME: yield* folder })
      const ready = Effect.promise(async () => {
        const reply = await fetch(`${url}/readyz`)
        const { error } = await reply.json()
        return `${reply.status} ${error?.message ?? ""}`
      })
      assert.strictEqual(yield* ready, "200 ")
      disk.spoil("full")
      yield* until(ready, (said) => said === "503 The disk of the database is full.")
      disk.mend()
      yield* until(ready, (said) => said === "200 ")
    }).pipe(Effect.scoped))

  it.live("read-only: it does not start, and says why in one line, whether anything was there before", () =>
    Effect.gen(function*() {
      const disk = yield* SmallDisk.make(300, 20_000)
      const settings = { XDG_STATE_HOME: yield* folder }
      const refused = Effect.fnUntraced(function*(dataDir: string, more: Record<string, string> = {}) {
        const ended = yield* runIn(dataDir, ["serve"], { ...settings, ...more }, { at: "/" })
        assert.deepStrictEqual(ended, {
          code: 1,
          stdout: "",
          stderr: `slipway: The data folder ${dataDir} cannot be written to: its disk is read-only. ` +
            "Mend that, or choose another with SLIPWAY_DATA_DIR.\n"
        })
      })
      disk.spoil("read-only")
      yield* refused(disk.path)
      yield* refused(`${disk.path}/not/there`)
      yield* refused(disk.path, {
        DATABASE_URL: "postgres://127.0.0.1:1/shop",
        SLIPWAY_ROLE: "worker",
        SLIPWAY_PUBLIC_URL: "http://127.0.0.1:4000"
      })
      disk.mend()
      yield* (yield* serve(disk.path, settings)).stop("SIGTERM")
      disk.spoil("read-only")
      yield* refused(disk.path)
    }).pipe(Effect.scoped))
})
