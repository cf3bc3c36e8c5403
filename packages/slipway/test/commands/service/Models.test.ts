import { assert, describe, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Database from "@slipway/postgres/Database"
import * as Migrations from "@slipway/postgres/Migrations"
import * as WorkerOffers from "@slipway/postgres/workers/WorkerOffers"
import { Effect, Redacted } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { createServer, type Server } from "node:http"
import path from "node:path"
import { inspect } from "node:util"
import * as Models from "../../../src/service/Models.ts"
import * as Settings from "../../../src/settings/Settings.ts"
import { folder, run, serve, until } from "../SlipwayProcess.ts"

const LONG = 300_000

const KEY = "sk-canary-0123456789abcdef"

const repository = (inside: string) => {
  const at = path.join(inside, "shop")
  const git = (...args: ReadonlyArray<string>) =>
    execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@shop.invalid", "-C", at, ...args], { stdio: "pipe" })
  mkdirSync(at)
  git("init", "--quiet", "--initial-branch=main")
  git("commit", "--quiet", "--allow-empty", "--message", "Start")
  return at
}

const ask = (url: string, key: string, body: object) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}/api/public/v1/sandboxes`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ repos: [{ fullName: "acme/shop" }], prompt: "Hello", ...body })
    })
    return { status: response.status, body: await response.json() }
  })

/** A server with these replies, by path and authorization. */
const replying = (reply: (path: string, authorization: string) => readonly [status: number, body: object]) =>
  Effect.acquireRelease(
    Effect.promise(() => {
      const server = createServer((request, response) => {
        const [status, body] = reply(request.url ?? "", request.headers.authorization ?? "")
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
      })
      return new Promise<Server>((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)))
    }),
    (server) => Effect.sync(() => server.close())
  ).pipe(Effect.map((server) => `http://127.0.0.1:${Object(server.address()).port}`))

describe("the accounts' keys", () => {
  it.effect("are read once, kept as secrets, and taken out of what other programs inherit", () =>
    Effect.gen(function*() {
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          process.env["OPENAI_API_KEY"] = KEY
          process.env["XAI_API_KEY"] = ""
        }),
        () => Effect.sync(() => ["OPENAI_API_KEY", "XAI_API_KEY"].forEach((name) => delete process.env[name]))
      )
      const models = yield* Models.find(yield* Settings.load)
      assert.deepStrictEqual([...models.keys].map(([name, key]) => [name, Redacted.value(key)]), [["OPENAI_API_KEY", KEY]])
      assert.notInclude(inspect(models, { depth: 9 }) + JSON.stringify(models), KEY)
      yield* Models.hideKeys(models)
      assert.isUndefined(process.env["OPENAI_API_KEY"])
    }).pipe(Effect.scoped))
})

describe("slipway models", () => {
  it.live("lists what can be used and what the others lack, and never a key", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const rows = (settings: Record<string, string>) =>
        Effect.map(run(data, ["models", "--json"], settings), ({ stderr, stdout }) => {
          assert.strictEqual(stderr, "")
          assert.notInclude(stdout, KEY)
          return new Map<string, { default: boolean; usable: boolean; problems: ReadonlyArray<string> }>(
            JSON.parse(stdout).map((row: { id: string }) => [row.id, row])
          )
        })
      const bare = yield* rows({})
      assert.deepInclude(bare.get("offline/demo"), { usable: true, problems: [], default: true })
      // The one where boxes can be made, the other where not.
      assert.match(
        bare.get("openai/gpt-6.1-sol")?.problems.join("\n") ?? "",
        /codex is not installed.*\nThere is no key: run slipway setup, or set OPENAI_API_KEY\.$/u
      )
      const open = yield* rows({ SLIPWAY_ISOLATION: "none", OPENAI_API_KEY: KEY })
      assert.match(
        open.get("openai/gpt-6.1-sol")?.problems.join("\n") ?? "",
        /^codex is not installed\. Run: slipway agents install codex$/u
      )
      const table = yield* run(data, ["models"], { OPENAI_API_KEY: KEY })
      assert.match(table.stdout, /^offline\/demo +opencode .*usable, the default$/mu)
      assert.match(
        table.stdout,
        /grok is not installed\. Run: slipway agents install grok\. There is no key: run slipway setup, or set XAI_API_KEY\.$/mu
      )
    }).pipe(Effect.scoped), LONG)

  it.live(
    "asks the server of --url, which judges by its own environment, and falls back from SLIPWAY_URL with a word of it",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const problems = ["codex is not installed. Run: slipway agents install codex", "There is no key."]
        const url = yield* replying((path, key) =>
          path !== "/api/internal/v1/models"
            ? [404, { error: { code: "not_found", message: "No." } }]
            : key !== "Bearer sbx_live_models"
            ? [403, { error: { code: "insufficient_scope", message: "The key needs the scope models." } }]
            : [200, { data: [{ id: "openai/gpt", default: true, usable: false, problems }], isolation: "Agents run isolated." }]
        )
        const good = { SLIPWAY_API_KEY: "sbx_live_models", OPENAI_API_KEY: KEY }
        const listed = yield* run(data, ["models", "--url", url], good)
        assert.match(listed.stdout, new RegExp(`^As ${url} reports\\.\n\n.*\n`, "u"))
        assert.match(listed.stdout, /^openai\/gpt .*The default\. codex is not installed\. .* There is no key\.$/mu)
        assert.notInclude(listed.stdout, "offline/demo")
        const found = yield* run(data, ["doctor", "--json"], { ...good, SLIPWAY_URL: url })
        assert.deepStrictEqual(JSON.parse(found.stdout).map(({ what }: { what: string }) => what), ["server", "isolation",
          "model openai/gpt"])
        const bad = { SLIPWAY_API_KEY: "sbx_live_other" }
        const refused = yield* run(data, ["models", "--url", url], bad)
        assert.deepStrictEqual([refused.code, refused.stdout], [6, ""])
        assert.match(refused.stderr, /The key needs the scope models/u)
        const fallen = yield* run(data, ["models"], { ...bad, SLIPWAY_URL: url })
        assert.strictEqual(fallen.code, 0)
        assert.match(fallen.stderr, /The key needs the scope models.* So this machine is checked/u)
        assert.match(fallen.stdout, /^No service is running\..*\n\n.*\noffline\/demo /u)
      }).pipe(Effect.scoped),
    LONG
  )

  it.live("the example is a file that works, and the schema describes it", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const example = yield* run(data, ["models", "--example"])
      const file = path.join(data, "models.json")
      writeFileSync(file, example.stdout)
      const listed = yield* run(data, ["models", "--json"], { SLIPWAY_MODELS: file })
      assert.strictEqual(listed.code, 0, listed.stderr)
      assert.strictEqual(listed.stdout, (yield* run(data, ["models", "--json"])).stdout)
      const schema = JSON.parse((yield* run(data, ["models", "--schema"])).stdout)
      assert.strictEqual(schema.$schema, "https://json-schema.org/draft/2020-12/schema")
      assert.isFalse(schema.$defs.ModelCatalogue.additionalProperties)
    }).pipe(Effect.scoped), LONG)

  it.live("a broken file stops the service with one line that names the entry and the field", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const file = path.join(data, "models.json")
      const wrong: ReadonlyArray<readonly [string, RegExp]> = [
        ["{", /: Expected [^\n]*|JSON/u],
        ["{\"default\":null,\"models\":[{\"id\":\"a/b\",\"agentRuntime\":\"codex\",\"price\":1}]}", /models\[0\] \(a\/b\)\.price: /u],
        ["{\"default\":\"c\",\"models\":[]}", /there is no model c to be the default/u]
      ]
      for (const [text, said] of wrong) {
        writeFileSync(file, text)
        for (const command of ["serve", "models"]) {
          const ended = yield* run(data, [command], { SLIPWAY_MODELS: file })
          assert.deepStrictEqual([ended.code, ended.stdout], [1, ""])
          assert.match(ended.stderr, /^slipway: The model catalogue [^\n]*\n$/u)
          assert.match(ended.stderr, said)
        }
      }
      const missing = yield* run(data, ["models"], { SLIPWAY_MODELS: path.join(data, "none.json") })
      assert.match(
        missing.stderr,
        /^slipway: The model catalogue [^\n]*none\.json cannot be used: it cannot be read \(ENOENT\)\.[^\n]*\n$/u
      )
    }).pipe(Effect.scoped), LONG)

  it.live(
    "the service warns of missing isolation, refuses what it cannot run, and keeps to a grant's budget",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const server = yield* serve(data, { SLIPWAY_ISOLATION: "none", OPENAI_API_KEY: KEY, SLIPWAY_APPROVAL_MINUTES: "7" })
        assert.match(server.output(), /"level":"warning"[^\n]*SLIPWAY_ISOLATION=none/u)
        const key = server.key ?? ""
        const refused = yield* ask(server.url, key, { model: "openai/gpt-6.1-sol" })
        assert.deepStrictEqual([refused.status, refused.body.error], [400, {
          code: "invalid_model",
          message: "openai/gpt-6.1-sol cannot be used. Its agent runtime, codex, is not installed."
        }])
        const accountless = yield* ask(server.url, key, { model: "xai/grok-4.7" })
        assert.strictEqual(accountless.status, 400)
        assert.notInclude(JSON.stringify(accountless.body), "XAI_API_KEY")

        const set = yield* run(data, ["grants", "budget", "default", "0", "--json"])
        assert.deepInclude(JSON.parse(set.stdout), { name: "default", spentUsd: "0.00", budgetUsd: "0.00", ownBudget: true })
        const over = yield* ask(server.url, key, {})
        assert.deepStrictEqual([over.status, over.body.error.code], [402, "budget_exceeded"])
        yield* run(data, ["grants", "budget", "default", "none"])
        yield* run(data, ["repos", "add", "acme/shop", repository(data)])
        const made = yield* ask(server.url, key, { prompt: "[[write path=a.txt content=a]]", toolApprovalMode: "prompt" })
        assert.strictEqual(made.status, 201)
        const events = Effect.promise(async () => {
          const response = await fetch(`${server.url}/api/public/v1/sandboxes/${made.body.id}/events`, {
            headers: { authorization: `Bearer ${key}` }
          })
          const { data }: { data: Array<{ type: string; ts: string; data: { expires_at: string } }> } = await response.json()
          return data.filter(({ type }) => type === "approval.requested")
        })
        const [asked] = yield* until(events, (found) => found.length > 0)
        assert.strictEqual(Date.parse(asked?.data.expires_at ?? "") - Date.parse(asked?.ts ?? ""), 7 * 60_000)
        assert.match((yield* run(data, ["grants", "budget", "unknown"])).stderr, /There is no grant unknown/u)
        assert.notInclude(server.output(), KEY)
      }).pipe(Effect.scoped),
    LONG
  )

  it.live("a process that only answers requests refuses what no worker can run", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const url = yield* TestPostgres.database(Migrations.layer)
      yield* run(data, ["repos", "add", "acme/shop", repository(data)], { DATABASE_URL: url })
      const server = yield* serve(data, { DATABASE_URL: url, SLIPWAY_ROLE: "http" })
      const create = ask(server.url, server.key ?? "", { model: "openai/gpt-6.1-sol" })
      // No worker is there yet: the sandbox waits for the first one.
      assert.strictEqual((yield* create).status, 201)
      const reason = "openai/gpt-6.1-sol cannot be used. This service has no account for it."
      yield* WorkerOffers.make.pipe(
        Effect.flatMap((offers) =>
          offers.publish("worker-1", { usable: ["offline/demo"], unusable: [{ id: "openai/gpt-6.1-sol", reason }] })
        ),
        Effect.provide(Database.layer({ url: Redacted.make(url) }))
      )
      const refused = yield* until(create, ({ status }) => status !== 201)
      assert.deepStrictEqual([refused.status, refused.body.error], [400, { code: "invalid_model", message: reason }])
      assert.strictEqual((yield* ask(server.url, server.key ?? "", {})).status, 201)
    }).pipe(Effect.scoped), LONG)
})
