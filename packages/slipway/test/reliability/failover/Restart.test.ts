/** All workers are restarted one after the other while people work: no turn is lost, and no turn runs twice. */
import { assert, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect, Fiber, Ref } from "effect"
import { folder, repository, run, serve } from "../../commands/SlipwayProcess.ts"
import * as Api from "./Api.ts"
import * as Machine from "./Machine.ts"

const SANDBOXES = 6
/** Well within the time that a turn may take to end once its worker is asked to leave. */
const TURN = "[[shell echo turn >> turns.txt]] [[slow 4 250]]"

it.live("a rolling restart of all workers loses no turn, runs none twice and leaves every log whole", () =>
  Effect.gen(function*() {
    const front = yield* folder
    const url = yield* TestPostgres.database(Migrations.layer)
    const server = yield* serve(front, { DATABASE_URL: url, SLIPWAY_ROLE: "http" })
    yield* run(front, ["repos", "add", "acme/shop", repository(front)], { DATABASE_URL: url })
    const api = Api.make(server)
    const first = [yield* Machine.make(url), yield* Machine.make(url)]

    const isOver = yield* Ref.make(false)
    const working = yield* Effect.forkChild(Effect.forEach(
      Array.from({ length: SANDBOXES }),
      Effect.fnUntraced(function*() {
        const id = yield* api.create({ prompt: TURN })
        let turns = 1
        yield* api.event(id, "turn.completed", turns)
        while (!(yield* Ref.get(isOver))) {
          yield* api.send(id, TURN)
          yield* api.event(id, "turn.completed", ++turns)
        }
        return { id, turns }
      }),
      { concurrency: "unbounded" }
    ))
    for (const machine of first) {
      yield* Effect.sleep("3 seconds")
      yield* Machine.make(url)
      yield* machine.stop
    }
    yield* Effect.sleep("3 seconds")
    yield* Ref.set(isOver, true)
    for (const { id, turns } of yield* Fiber.join(working)) {
      const log = yield* api.log(id)
      assert.deepStrictEqual(log.map(({ id }) => Number(id)), log.map((_, i) => i + 1), `the log of ${id}`)
      const ends = log.filter(({ type }) => type === "turn.completed").map(({ data }) => data["state"])
      assert.deepStrictEqual(ends, ends.map(() => "succeeded"), `the turns of ${id}`)
      assert.strictEqual(log.filter(({ type }) => type === "turn.started").length, turns)
      assert.strictEqual(yield* api.file(id, "turns.txt"), "turn\n".repeat(turns), `what the turns of ${id} did`)
    }
  }).pipe(Effect.scoped))
