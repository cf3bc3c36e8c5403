/** An agent whose command takes all that its box may have. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import * as World from "./World.ts"

const MEMORY_MIB = 256
const PROCESSES = 80

/** Forks as often as it can, and says how often it could. */
const STORM = String.raw`perl -e 'for (1 .. 1000) { my $p = fork; last unless defined $p; if (!$p) { sleep 3; exit } $n++ } print "$n\n"'`
const HOG = `perl -e '$x = "a" x (1024 * 1024 * 1024); print length $x'`

it.live.skipIf(!World.hasBoxes)(
  "a fork storm or out-of-memory in the box: the turn says which limit it was, and the next one works",
  () =>
    Effect.gen(function*() {
      const { api } = yield* World.service({
        SLIPWAY_ISOLATION: "bubblewrap",
        SLIPWAY_SANDBOX_MEMORY_MIB: `${MEMORY_MIB}`,
        SLIPWAY_SANDBOX_PROCESSES: `${PROCESSES}`
      })
      const told = (id: string) =>
        Effect.map(api.log(id), (events) => World.ofType(events, "sandbox.error").map(({ code, message }) => [code, message]))

      const storm = yield* api.create({ prompt: `[[shell ${STORM}]]` })
      yield* api.event(storm, "turn.completed")
      assert.deepStrictEqual(yield* told(storm), [
        ["too_many_processes", "The sandbox has too many processes: it could start no more of them."]
      ])

      const hog = yield* api.create({ prompt: `[[shell ${HOG}]]` })
      yield* api.event(hog, "turn.completed")
      assert.deepStrictEqual(yield* told(hog), [["out_of_memory", "The sandbox ran out of memory, so programs of it were ended."]])

      for (const id of [storm, hog]) {
        yield* api.send(id, "[[shell echo fine]]")
        yield* api.event(id, "turn.completed", 2)
        const events = yield* api.log(id)
        assert.deepStrictEqual(World.ofType(events, "turn.completed").at(-1), { state: "succeeded" })
        // A limit that was met in an earlier turn is not reported again.
        assert.lengthOf(yield* told(id), 1)
      }
    }).pipe(Effect.scoped)
)
