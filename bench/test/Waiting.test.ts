import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { createServer } from "node:http"
import path from "node:path"
import * as Checkout from "../fleet/Checkout.ts"
import * as Interruptible from "../Interruptible.ts"

const LONG = 60_000
const problemOf = (work: Promise<unknown>) =>
  work.then(() => "none", (error: unknown) => error instanceof Error ? error.message : String(error))

describe("what a benchmark waits for", () => {
  it("has a limit: a stream that says nothing is an error with what it lacks", async () => {
    const server = createServer((_, response) => void response.write("data: {}\n\n"))
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    try {
      const problem = await problemOf(Checkout.follow(`http://127.0.0.1:${port}/stream`, "key", `"type":"turn.started"`, 1))
      assert.match(problem, /\/stream: "type":"turn\.started" after data: \{\}\s+: not within 1 s$/u)
    } finally {
      server.close()
      server.closeAllConnections()
    }
  })

  it("ends with all that it began when it is given up", async () => {
    let isEnded = false
    const hanging = Effect.andThen(Effect.addFinalizer(() => Effect.sync(() => void (isEnded = true))), Effect.never).pipe(Effect.scoped)
    assert.strictEqual(
      await problemOf(Interruptible.within(0.1, () => "the row", () => Interruptible.run(hanging))),
      "the row: not within 0.1 s"
    )
    assert.isTrue(isEnded)
  })

  it("is not a service that could not start", async () => {
    const starting = Effect.gen(function*() {
      const data = path.join(yield* Checkout.temporaryFolder, "data")
      const fleet = yield* Checkout.make(path.resolve(import.meta.dirname, "../.."))
      return yield* Effect.promise(() => problemOf(fleet.start(data, { SLIPWAY_PORT: "http" })))
    })
    assert.match(await Interruptible.run(Effect.scoped(starting)), /serve ended early \(1\): slipway: SLIPWAY_PORT must be/u)
  }, LONG)
})
