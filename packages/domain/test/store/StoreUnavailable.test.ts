import { assert, it } from "@effect/vitest"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as Schema from "effect/Schema"

it("an unavailable store says which part is, and keeps the cause, also across processes", () => {
  const error = new StoreUnavailable({ cause: new Error("connection lost") })
  const part = new StoreUnavailable({ cause: null, detail: "The checkpoints are not available." })
  assert.deepStrictEqual([error.message, part.message], ["The store is not available.", "The checkpoints are not available."])
  const received = Schema.decodeUnknownSync(StoreUnavailable)(JSON.parse(JSON.stringify(Schema.encodeSync(StoreUnavailable)(error))))
  assert.include(received.cause, { message: "connection lost" })
})
