/** Which service a command works on. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { existsSync, mkdirSync, readdirSync } from "node:fs"
import path from "node:path"
import { folder, processesOf, runHere, runIn, serve } from "../../commands/SlipwayProcess.ts"

const LONG = 300_000

/** As somebody has it who set nothing. */
const unset = { SLIPWAY_DATA_DIR: undefined }
const commands: ReadonlyArray<ReadonlyArray<string>> = [
  ["keys", "list", "--json"],
  ["repos", "list", "--json"],
  ["pulls", "--json"],
  ["sign-in-link"],
  ["audit"],
  ["grants", "list"],
  ["users", "list"],
  ["members", "list"],
  ["orgs", "list"],
  ["webhooks", "list", "--grant", "default"],
  ["partners", "claims", "list", "--grant", "default"]
]

describe("which service a command means", () => {
  it.live("without one, every command that needs it makes nothing, says what to set and ends with 2", () =>
    Effect.gen(function*() {
      const empty = yield* folder
      const elsewhere = path.join(empty, "elsewhere")
      mkdirSync(elsewhere)
      yield* Effect.forEach(commands, (args) =>
        Effect.gen(function*() {
          for (const settings of [unset, { SLIPWAY_DATA_DIR: path.join(elsewhere, "typo") }]) {
            const ended = yield* runHere(empty, args, settings, { at: elsewhere })
            assert.deepStrictEqual([ended.code, ended.stdout], [2, ""], args.join(" ") + ended.stderr)
            assert.match(
              ended.stderr,
              /^slipway: there is no Slipway in [^\n]*slipway serve[^\n]*SLIPWAY_DATA_DIR[^\n]*DATABASE_URL[^\n]*\n$/u
            )
          }
        }))
      assert.strictEqual((yield* runIn(empty, ["keys", "list"], unset, { at: elsewhere })).code, 2)
      for (const args of [["models"], ["agents"], ["doctor"]]) yield* runIn(empty, args, unset, { at: elsewhere })
      assert.deepStrictEqual([readdirSync(empty), readdirSync(elsewhere)], [["elsewhere"], []])
    }).pipe(Effect.scoped), 2 * LONG)

  it.live(
    "the running service is found from any folder, and so is the service of a folder above when none runs",
    () =>
      Effect.gen(function*() {
        const home = yield* folder
        const project = path.join(home, "project")
        const deep = path.join(project, "a/b")
        const elsewhere = path.join(home, "elsewhere")
        for (const made of [deep, elsewhere, path.join(project, ".slipway")]) mkdirSync(made, { recursive: true })
        const dataDir = path.join(project, ".slipway")
        const state = { XDG_STATE_HOME: path.join(home, "state") }
        const server = yield* serve(dataDir, state)
        const minted = yield* runIn(home, ["keys", "create", "--json"], { ...unset, ...state }, { at: elsewhere })
        assert.strictEqual(minted.code, 0, minted.stderr)
        const { key } = JSON.parse(minted.stdout)
        const answer = yield* Effect.promise(() =>
          fetch(`${server.url}/api/public/v1/sandboxes`, { headers: { authorization: `Bearer ${key}` } })
        )
        assert.strictEqual(answer.status, 200)
        const link = yield* runIn(home, ["sign-in-link"], { ...unset, ...state }, { at: elsewhere })
        assert.include(link.stdout, `${server.url}/sign-in#`)

        yield* server.stop("SIGTERM")
        assert.deepStrictEqual(readdirSync(path.join(state.XDG_STATE_HOME, "slipway/services")), [])
        const above = yield* runIn(home, ["keys", "list", "--json"], { ...unset, ...state }, { at: deep })
        assert.strictEqual(above.code, 0, above.stderr)
        assert.lengthOf(JSON.parse(above.stdout), 2)
        assert.strictEqual((yield* runIn(home, ["keys", "list"], { ...unset, ...state }, { at: elsewhere })).code, 2)
        assert.deepStrictEqual([readdirSync(elsewhere), existsSync(path.join(deep, ".slipway"))], [[], false])
        assert.deepStrictEqual(yield* processesOf(home), [])
      }).pipe(Effect.scoped),
    LONG
  )

  it.live("among several that run, the command names them and leaves the choice; a killed one is forgotten", () =>
    Effect.gen(function*() {
      const home = yield* folder
      const elsewhere = path.join(home, "elsewhere")
      mkdirSync(elsewhere)
      const state = { XDG_STATE_HOME: path.join(home, "state") }
      const servers = yield* Effect.forEach(["one", "two"], (name) => {
        mkdirSync(path.join(home, name))
        return serve(path.join(home, name), state)
      }, { concurrency: 2 })
      const list = runIn(home, ["keys", "list", "--json"], { ...unset, ...state }, { at: elsewhere })
      const asked = yield* list
      assert.strictEqual(asked.code, 2)
      for (const name of ["one", "two"]) assert.include(asked.stderr, `SLIPWAY_DATA_DIR=${path.join(home, name)}`)
      yield* servers[0]?.stop("SIGKILL") ?? Effect.void
      const found = yield* list
      assert.strictEqual(found.code, 0, found.stderr)
      assert.lengthOf(JSON.parse(found.stdout), 1)
    }).pipe(Effect.scoped), LONG)
})
