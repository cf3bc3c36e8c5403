/** The installation of agents from the page of models. */
import { assert, describe, it } from "@effect/vitest"
import { InstallFailed } from "@slipway/agents/Install"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { AgentInstaller } from "@slipway/pages/models/AgentInstaller"
import { Deferred, Effect } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import * as InstallAgents from "../../../src/service/InstallAgents.ts"
import * as Settings from "../../../src/settings/Settings.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-install-"))),
  (made) => Effect.sync(() => rmSync(made, { recursive: true }))
)

const stateOf = (name: string) =>
  Effect.map(Effect.flatMap(AgentInstaller, ({ agents }) => agents), (all) => {
    const { detail, state } = all.find((agent) => agent.name === name)!
    return [state, detail]
  })

const until = (name: string, wanted: string) =>
  Effect.repeat(Effect.tap(stateOf(name), Effect.yieldNow), { until: ([state]) => state === wanted })

/** With the installer of a service in that folder. */
const using = <A, E>(dataDir: string, install: typeof InstallAgents.installInto, use: Effect.Effect<A, E, AgentInstaller>) =>
  Effect.flatMap(
    Settings.load,
    (settings) =>
      Effect.provideServiceEffect(use, AgentInstaller, Effect.provide(InstallAgents.make({ ...settings, dataDir }, install), IdsNode.layer))
  )

describe("the installer of a service", () => {
  it.live("installs one agent at a time in the background, tells each step, and why one failed", () =>
    Effect.gen(function*() {
      const dataDir = yield* folder
      const fetched = yield* Deferred.make<void>()
      const begun: Array<string> = []
      const install: typeof InstallAgents.installInto = Effect.fnUntraced(function*(_, [name = ""], progress) {
        begun.push(name)
        yield* progress(`${name}: fetching`)
        yield* Deferred.await(fetched)
        return yield* new InstallFailed({ detail: "npm was not found." })
      })
      yield* using(
        dataDir,
        install,
        Effect.gen(function*() {
          const installer = yield* AgentInstaller
          assert.isNull(yield* installer.problem)
          assert.deepStrictEqual(yield* stateOf("codex"), ["missing", null])
          assert.isFalse(yield* installer.install("bash"))
          for (const name of ["codex", "codex", "grok"]) assert.isTrue(yield* installer.install(name))
          yield* Effect.repeat(stateOf("codex"), { until: ([, detail]) => detail === "codex: fetching" })
          assert.deepStrictEqual([yield* stateOf("grok"), begun], [["installing", null], ["codex"]])
          yield* Deferred.succeed(fetched, undefined)
          assert.deepStrictEqual(yield* until("codex", "failed"), ["failed", "npm was not found."])
          yield* until("grok", "failed")
          assert.deepStrictEqual(begun, ["codex", "grok"])
        })
      )
    }))

  it.effect("says which command to run where the service cannot write", () =>
    Effect.gen(function*() {
      const dataDir = path.join(yield* folder, "file")
      writeFileSync(dataDir, "")
      const problem = yield* using(dataDir, InstallAgents.installInto, Effect.flatMap(AgentInstaller, ({ problem }) => problem))
      assert.match(problem ?? "", /^The service cannot write to .*file\/agents \(\w+\)\. .* run: slipway agents install$/u)
    }))
})
