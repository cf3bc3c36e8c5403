import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { chmodSync, mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import type { Finding } from "../../../src/commands/setup/Doctor.ts"
import { folder, repository, run, serve, until } from "../SlipwayProcess.ts"

const absent = spawnSync("bwrap", ["--version"]).status === 0 ? undefined : "needs bubblewrap: apt-get install bubblewrap"

describe("toolchains", () => {
  it.live.skipIf(absent !== undefined)(
    `a setup command and the agent's shell find the programs of a listed folder${absent === undefined ? "" : ` (${absent})`}`,
    () =>
      Effect.gen(function*() {
        const [data, toolchain] = [yield* folder, yield* folder]
        chmodSync(toolchain, 0o755)
        mkdirSync(path.join(toolchain, "bin"))
        writeFileSync(path.join(toolchain, "bin/greet"), "#!/bin/sh\necho greetings to \"$1\"\n", { mode: 0o755 })
        // The agent starts with the service's own.
        writeFileSync(path.join(toolchain, "bin/node"), "#!/bin/sh\nexit 7\n", { mode: 0o755 })
        const settings = { SLIPWAY_TOOLCHAINS: toolchain }
        const findings: ReadonlyArray<Finding> = JSON.parse((yield* run(data, ["doctor", "--json"], settings)).stdout)
        assert.deepInclude(findings.find(({ what }) => what === `toolchain ${toolchain}`), {
          state: "ok",
          detail: `programs in ${toolchain}/bin (2)`
        })
        assert.match(String(findings.find(({ what }) => what === "box: processors seen")?.detail), /^nproc says \d+/u)
        const refused = yield* run(data, ["serve"], { SLIPWAY_TOOLCHAINS: `${toolchain},/missing/tools`, SLIPWAY_PORT: "0" })
        assert.notStrictEqual(refused.code, 0)
        assert.include(refused.stderr, `SLIPWAY_TOOLCHAINS must be existing folders, but it is "/missing/tools".`)

        const work = repository(data)
        mkdirSync(path.join(work, ".slipway"))
        writeFileSync(path.join(work, ".slipway/environment.json"), JSON.stringify({ setup: ["greet setup > greeted.txt"] }))
        execFileSync("git", ["-C", work, "add", "-A"])
        execFileSync("git", ["-C", work, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "Environment"])
        yield* run(data, ["repos", "add", "acme/shop", work])
        const server = yield* serve(data, settings)
        const call = (method: string, address: string, body?: unknown) =>
          Effect.promise(async () => {
            const response = await fetch(`${server.url}/api/public/v1${address}`, {
              method,
              headers: { authorization: `Bearer ${server.key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
              ...(body === undefined ? {} : { body: JSON.stringify(body) })
            })
            return response.text()
          })
        const made = yield* call("POST", "/sandboxes", {
          repos: [{ fullName: "acme/shop" }],
          prompt: "[[shell greet agent; cat greeted.txt]]"
        })
        const { id } = JSON.parse(made)
        yield* until(call("GET", `/sandboxes/${id}/events`), (text) => text.includes("turn.completed"))
        const log = yield* call("GET", `/sandboxes/${id}/events`)
        assert.include(log, "greetings to agent")
        assert.include(log, "greetings to setup")
      }).pipe(Effect.scoped)
  )
})
