/** `slipway shell` against a service of several processes, and against one of one process. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { folder, repository, run, serve } from "../SlipwayProcess.ts"
import { noScript, piped, sandbox, story } from "./Shells.ts"

const LONG = 300_000
const real = noScript === undefined ? it.live : it.live.skip
const NEEDS = "(needs script: util-linux)"

describe("slipway shell", () => {
  real(`opens, leaves and finds again terminals of a sandbox on another process ${NEEDS}`, () => story("none"), LONG)

  real(
    `opens a shell in a service of one process with the best isolation of this machine, unless terminals are off ${NEEDS}`,
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const shop = repository(data)
        const server = yield* serve(data)
        yield* run(data, ["repos", "add", "acme/shop", shop])
        const reached = { url: server.url, key: server.key ?? "" }
        const id = yield* sandbox(reached)
        const asked = yield* piped(reached, [id, "--new"], "stty size; cat shop/README.md; exit 5\n")
        assert.strictEqual(asked.code, 5, asked.stderr)
        assert.match(asked.stdout, /24 80\r\n.*shop\r\n/su)
        yield* server.stop("SIGTERM")

        const without = yield* serve(data, { SLIPWAY_TERMINAL: "off" })
        const refused = yield* piped({ ...reached, url: without.url }, [id], "exit\n")
        assert.deepStrictEqual([refused.code, refused.stdout], [4, ""])
        assert.include(refused.stderr, "Terminals are switched off in this service. (terminal_off")
      }),
    LONG
  )
})
