import { assert, layer } from "@effect/vitest"
import { Effect, Latch } from "effect"
import { create, fieldsOf, layer as http, mintKey, openStream, postJson, SANDBOXES } from "../testing/Harness.ts"

/** The store was asked which keys are good. */
const asked = Latch.makeUnsafe(false)
/** Closed: its answer is on its way. */
const answers = Latch.makeUnsafe(true)

const opened = Effect.fnUntraced(function*(grant: string) {
  const { key } = yield* mintKey({ grant })
  const id = yield* create(key)
  const reader = yield* openStream(`${SANDBOXES}/${id}/events/stream`, { key })
  for (let type = ""; type !== "sandbox.status";) type = fieldsOf(yield* reader.next).data?.type ?? ""
  return { id, key, reader }
})

layer(
  http({
    access: (store) => ({
      ...store,
      stillGood: (ids) => store.stillGood(ids).pipe(Effect.tap(() => Effect.andThen(asked.open, answers.await)))
    })
  }),
  { excludeTestServices: true }
)("the watch for revocations", (it) => {
  it.effect("leaves alone what was opened while the store answered", () =>
    Effect.gen(function*() {
      yield* answers.close
      yield* opened("early")
      yield* asked.await
      const late = yield* opened("late")
      yield* asked.close
      yield* answers.open
      // The answer was taken in when the next question comes.
      yield* asked.await
      yield* postJson(`${SANDBOXES}/${late.id}/terminate`, late.key, {})
      assert.strictEqual(fieldsOf(yield* late.reader.next).data?.data.status, "terminating")
    }))
})
