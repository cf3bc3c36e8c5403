/** `slipway conformance` as a person runs it, and what it does about a server that is busy. */
import { assert, describe, it } from "@effect/vitest"
import { Client } from "@slipway/conformance/client/Client"
import { Miss } from "@slipway/conformance/client/Expect"
import type { Rule } from "@slipway/conformance/rules/Rule"
import { judge } from "@slipway/conformance/Suite"
import { SANDBOXES, Session, World } from "@slipway/conformance/world/World"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect } from "effect"
import { createServer, type RequestListener } from "node:http"
import { command, folder, run } from "../commands/SlipwayProcess.ts"

const LONG = 300_000
const KEY = "sbx_live_secret"
const NOTHING_GIVEN = {
  url: "http://127.0.0.1:1",
  key: KEY,
  otherKey: null,
  noScopeKey: null,
  repos: [],
  slow: false,
  heartbeatMillis: 0,
  onWait: () => {}
}

const listening = (listener: RequestListener) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly url: string; readonly stop: () => void }>((resume) => {
      const server = createServer(listener)
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const stop = () => {
          server.closeAllConnections()
          server.close()
        }
        resume(Effect.succeed({ url: `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`, stop }))
      })
    }),
    ({ stop }) => Effect.sync(stop)
  )

const says = (body: unknown, status = 200): RequestListener => (_request, response) => {
  response.writeHead(status, { "content-type": "application/json" })
  response.end(JSON.stringify(body))
}

describe("slipway conformance", () => {
  it.live("tells what a server misses, exits 1, and never shows the key", () =>
    Effect.gen(function*() {
      const { url } = yield* listening(says({ status: "ok" }))
      const at = yield* folder
      const card = yield* run(at, ["conformance", url, "--only", "documents,wire.head"], { SLIPWAY_API_KEY: KEY })
      assert.strictEqual(card.code, 1)
      assert.match(card.stdout, / {2}ok {6}health /u)
      assert.match(card.stdout, / {2}MISSED {2}openapi .*\n +expected openapi 3\.1, got nothing\n/u)
      assert.match(card.stdout, /8 rules: 4 ok, 4 missed, 0 skipped/u)
      assert.strictEqual(card.stderr, "slipway: the server misses 4 rules.\n")

      const json = yield* run(at, ["conformance", url, "--only", "documents.health,ownership.sandbox", "--json"], {
        SLIPWAY_API_KEY: KEY
      })
      assert.deepStrictEqual([json.code, json.stderr], [0, ""])
      const { ok, rules, skipped } = JSON.parse(json.stdout)
      assert.deepStrictEqual([ok, skipped, rules.length], [1, 1, 2])
      for (const { stderr, stdout } of [card, json]) assert.notInclude(stdout + stderr, KEY)
    }).pipe(Effect.scoped), LONG)

  it.live("says in one line why it cannot begin", () =>
    Effect.gen(function*() {
      const at = yield* folder
      const { url } = yield* listening((_request, response) => {
        response.writeHead(401).end()
      })
      const cases: ReadonlyArray<readonly [args: ReadonlyArray<string>, env: Record<string, string>, said: RegExp]> = [
        [[url], {}, /^slipway: there is no key for http\S+\. Sign in: slipway auth login --url http\S+, or set SLIPWAY_API_KEY\.\n$/u],
        [[url], { SLIPWAY_API_KEY: KEY },
          /^slipway: the server does not accept the key\. Sign in again: slipway auth login --url http\S+, or set/u],
        [
          ["http://127.0.0.1:1"],
          { SLIPWAY_API_KEY: KEY },
          /^slipway: nothing answers at http:\/\/127\.0\.0\.1:1: [^\n]*\n$/u
        ]
      ]
      for (const [args, env, said] of cases) {
        const ended = yield* run(at, ["conformance", ...args], env)
        assert.deepStrictEqual([ended.code, ended.stdout], [1, ""])
        assert.match(ended.stderr, said)
      }
    }).pipe(Effect.scoped), LONG)
})

describe("slipway conformance, interrupted", () => {
  it.live("ends what it made, tells what it had checked, and exits 130", () =>
    Effect.gen(function*() {
      const asked: Array<string> = []
      let interrupt = () => {}
      const { url } = yield* listening((request, response) => {
        asked.push(`${request.method} ${request.url}`)
        // The command asks first, then the second rule, whose sandbox is there by then.
        if (request.url?.endsWith("?limit=1") === true && asked.filter((one) => one.endsWith("?limit=1")).length === 2) return interrupt()
        says({ id: "c_aaaaaaaaaaaa", createdAt: "2026-11-21T02:41:00.123Z" }, request.method === "POST" ? 201 : 200)(
          request,
          response
        )
      })
      const suite = yield* SpawnedProgram.scoped(process.execPath, [command, "conformance", url, "--only", "wire.timestamps,list.newest"], {
        env: { PATH: process.env["PATH"], SLIPWAY_API_KEY: KEY }
      })
      interrupt = () => suite.child.kill("SIGINT")
      const { code } = yield* Effect.promise(() => suite.closed)
      const ended = { code, stdout: suite.stdout(), stderr: suite.stderr() }
      assert.deepStrictEqual([ended.code, ended.stderr], [130, "slipway: interrupted after 1 of 2 rules.\n"])
      assert.match(ended.stdout, /1 rules: \d ok, /u)
      const terminate = "POST /api/public/v1/sandboxes/c_aaaaaaaaaaaa/terminate"
      assert.lengthOf(asked.filter((one) => one === terminate), 2)
    }).pipe(Effect.scoped), LONG)
})

describe("a session that ends while a rule goes on", () => {
  it.live("terminates the sandbox that is being made, and makes no other", () =>
    Effect.gen(function*() {
      const asked: Array<string> = []
      let ended: Promise<void> | undefined
      const { url } = yield* listening((request, response) => {
        asked.push(`${request.method} ${request.url}`)
        ended ??= session.end()
        says({ id: "c_aaaaaaaaaaaa" }, 201)(request, response)
      })
      const session = new Session({ ...NOTHING_GIVEN, url })
      yield* Effect.promise(() => session.setup.ask(SANDBOXES, { body: {} }))
      yield* Effect.promise(async () => ended)
      yield* Effect.flip(Effect.tryPromise(() => session.setup.ask(SANDBOXES, { body: {} })))
      assert.deepStrictEqual(asked, [`POST ${SANDBOXES}`, `POST ${SANDBOXES}/c_aaaaaaaaaaaa/terminate`])
    }).pipe(Effect.scoped))

  it.live("does not rely on a termination that has no answer yet", () =>
    Effect.gen(function*() {
      const held: Array<() => void> = []
      const { url } = yield* listening((request, response) => {
        if (request.url === SANDBOXES) return says({ id: "c_aaaaaaaaaaaa" }, 201)(request, response)
        held.push(() => says({})(request, response))
        if (held.length === 2) { for (const answer of held) answer() }
      })
      const session = new Session({ ...NOTHING_GIVEN, url })
      yield* Effect.promise(() => session.setup.ask(SANDBOXES, { body: {} }))
      const tidying = session.tidy().catch(() => {})
      yield* Effect.promise(() => session.end())
      yield* Effect.promise(() => tidying)
      assert.strictEqual(held.length, 2)
    }).pipe(Effect.scoped))
})

describe("a busy server", () => {
  it.live("is asked again when it said so", () =>
    Effect.gen(function*() {
      let asked = 0
      const { url } = yield* listening((_request, response) => {
        if (++asked === 1) response.writeHead(429, { "retry-after": "1" }).end()
        else response.writeHead(204).end()
      })
      const waits: Array<number> = []
      const client = new Client({ url, key: KEY, timeoutMillis: 30_000, onWait: (seconds) => waits.push(seconds) })
      assert.strictEqual((yield* Effect.promise(() => client.ask("/"))).status, 204)
      assert.deepStrictEqual([waits, asked], [[1], 2])
    }).pipe(Effect.scoped))

  it.live("that asks for hours is not waited for", () =>
    Effect.gen(function*() {
      const { url } = yield* listening((_request, response) => {
        response.writeHead(429, { "retry-after": "7200" }).end()
      })
      const client = new Client({ url, key: KEY, timeoutMillis: 30_000, onWait: () => assert.fail("waits") })
      const failure = yield* Effect.flip(Effect.tryPromise(() => client.ask("/")))
      assert.instanceOf(failure.cause, Miss)
    }).pipe(Effect.scoped))

  it.live("is given another chance at a rule that it made wait", () =>
    Effect.gen(function*() {
      const session = new Session(NOTHING_GIVEN)
      let checked = 0
      const rule = (waits: boolean): Rule => ({
        id: "rates.x",
        area: "rates",
        rule: "",
        source: "",
        needs: [],
        untestable: null,
        check: async () => {
          if (waits) session.waits++
          if (++checked === 1) throw new Miss("x", "y")
        }
      })
      assert.strictEqual((yield* Effect.promise(() => judge(rule(true), new World(session)))).verdict, "ok")
      checked = 0
      assert.strictEqual((yield* Effect.promise(() => judge(rule(false), new World(session)))).verdict, "missed")
    }))
})
