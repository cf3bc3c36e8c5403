/** A service on a machine whose clock is wrong, beside a database whose clock is right. Needs libfaketime (`faketime`). */
import { assert, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { folder, repository, run, serve, until } from "../../commands/SlipwayProcess.ts"

/** Makes a process see another time. */
const library = spawnSync("faketime", ["-f", "+0", "printenv", "LD_PRELOAD"], { encoding: "utf8" }).stdout?.trim() ?? ""

for (const hours of [-25, 25]) {
  it.live.skipIf(library === "")(
    `with a clock that is off by ${hours} hours everything is dated by the database's, nothing ends, and /readyz says why (needs faketime)`,
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const url = yield* TestPostgres.database(Migrations.layer)
        yield* run(data, ["repos", "add", "acme/shop", repository(data)], { DATABASE_URL: url })
        const server = yield* serve(data, {
          DATABASE_URL: url,
          LD_PRELOAD: library,
          FAKETIME: `${hours > 0 ? "+" : ""}${hours}h`,
          FAKETIME_DONT_FAKE_MONOTONIC: "1",
          DONT_FAKE_MONOTONIC: "1"
        })
        const get = (path: string, body?: unknown) =>
          Effect.promise(async () => {
            const response = await fetch(server.url + path, {
              headers: { authorization: `Bearer ${server.key}`, "content-type": "application/json" },
              ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
            })
            return { status: response.status, said: await response.json() }
          })
        const ready = yield* get("/readyz")
        assert.strictEqual(ready.status, 503)
        assert.match(
          ready.said.error.message,
          hours > 0 ? /9000\d seconds ahead of the database's/u : /(?:9000\d|89999) seconds behind the database's/u
        )
        assert.strictEqual(server.logs().split("enforces no time limits").length, 2)
        const made = yield* get("/api/public/v1/sandboxes", { repos: [{ fullName: "acme/shop" }], prompt: "Hello" })
        assert.isBelow(Math.abs(Date.parse(made.said.createdAt) - Date.now()), 60_000)
        const ended = yield* until(get(`/api/public/v1/sandboxes/${made.said.id}/events`), ({ said }) =>
          said.data.some(({ type }: { type: string }) => type === "turn.completed"))
        for (const { ts } of ended.said.data) {
          assert.isBelow(Math.abs(Date.parse(ts) - Date.now()), 60_000)
        }
        // Time for two rounds of its limits.
        yield* Effect.sleep("2500 millis")
        assert.strictEqual((yield* get(`/api/public/v1/sandboxes/${made.said.id}`)).said.status, "running")
      }).pipe(Effect.scoped)
  )
}
