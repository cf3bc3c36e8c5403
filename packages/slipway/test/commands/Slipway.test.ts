import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { readdirSync } from "node:fs"
import * as Settings from "../../src/settings/Settings.ts"
import { folder, processesOf, repository, run, runHere, serve, type Server, until } from "./SlipwayProcess.ts"

const LONG = 300_000

const api = ({ url }: Server, key: string) => (method: string, address: string, body?: unknown) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}/api/public/v1${address}`, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    return { status: response.status, body: await response.json() }
  })

describe("slipway", () => {
  it.live("keys create prints one JSON object, and the key is nowhere else", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const created = yield* run(data, ["keys", "create", "--grant", "ci", "--scopes", "none", "--json"])
      assert.strictEqual(created.code, 0)
      const { grantId, id, key, scopes } = JSON.parse(created.stdout)
      assert.match(key, /^sbx_live_[0-9A-Za-z]{49}$/u)
      assert.deepStrictEqual(scopes, [])
      assert.strictEqual(created.stderr, "")
      const listed = yield* run(data, ["keys", "list", "--json"])
      assert.notInclude(listed.stdout, key)
      assert.deepStrictEqual(JSON.parse(listed.stdout).map((row: { id: string; grantId: string }) => [row.id, row.grantId]), [[id,
        grantId]])
      assert.deepStrictEqual(yield* processesOf(data), [])
    }), LONG)

  it.live("a setting that cannot be used is one line and exit 1", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const wrong: ReadonlyArray<readonly [string, string]> = [
        ["SLIPWAY_PORT", "65536"],
        ["SLIPWAY_PORT", "http"],
        ["SLIPWAY_ROLE", "boss"],
        ["SLIPWAY_RATE_LIMIT_PER_MINUTE", "0"],
        ["SLIPWAY_WORKER_SLOTS", "-1"],
        ["SLIPWAY_PUBLIC_URL", "ftp://x"],
        ["DATABASE_URL", "mysql://secret@x"],
        ["DATABASE_URL", "postgres://u:secret@h/db?sslmode=sometimes"],
        ["DATABASE_URL", "postgres://u:1?secret@h/db"],
        ["SLIPWAY_ROLE", "http"],
        ["SLIPWAY_ISOLATION", "podman"],
        ["SLIPWAY_EGRESS_ALLOW", "https://pypi.org"],
        ["SLIPWAY_EGRESS_ALLOW", "10.0.0.1:443"],
        ["SLIPWAY_SANDBOX_MEMORY_MIB", "1"],
        ["SLIPWAY_SANDBOX_PROCESSES", "0"],
        ["SLIPWAY_SANDBOX_CPUS", "0"],
        ["SLIPWAY_SANDBOX_DISK_MIB", "x"],
        ["SLIPWAY_CLONE_DEPTH", "0"],
        ["SLIPWAY_CLONE_MINUTES", "0"],
        ["SLIPWAY_CLONE_MIB", "0"],
        ["SLIPWAY_CHECKOUT_MIB", "0"],
        ["SLIPWAY_GITHUB_APP_ID", "1 2"],
        ["SLIPWAY_GITHUB_WEBHOOK_SECRET", "too secret"],
        ["SLIPWAY_COMMIT_AUTHOR", "someone"],
        ["SLIPWAY_GITHUB_APP_ID", "1"],
        ["SLIPWAY_GITHUB_CLIENT_ID", "1 2"],
        ["SLIPWAY_GITHUB_CLIENT_ID", "Iv1"],
        ["SLIPWAY_GITHUB_CLIENT_SECRET_FILE", "x"],
        ["SLIPWAY_OIDC_ISSUER", "http://login.example.com"],
        ["SLIPWAY_OIDC_ISSUER", "https://login.example.com"],
        ["SLIPWAY_OIDC_CLIENT_ID", "slipway"],
        ["SLIPWAY_OIDC_EMAIL_DOMAINS", "@example.com"],
        ["SLIPWAY_OIDC_CLAIM", "hd"],
        ["SLIPWAY_OIDC_ROLES", "staff=boss"],
        ["SLIPWAY_OIDC_SCOPES", "email"],
        ["SLIPWAY_OIDC_SESSION_HOURS", "0"],
        ["SLIPWAY_GRANT_BUDGET_USD", "1e3"],
        ["SLIPWAY_SANDBOX_BUDGET_USD", "-1"],
        ["SLIPWAY_APPROVAL_MINUTES", "0"],
        ["SLIPWAY_AGENT_IDLE_MINUTES", "1.5"]
      ]
      yield* Effect.forEach(wrong, ([name, value]) =>
        Effect.map(runHere(data, ["serve"], { [name]: value }), (ended) => {
          assert.deepStrictEqual([ended.code, ended.stdout], [1, ""], `${name}=${value}`)
          assert.match(ended.stderr, /^slipway: (?:SLIPWAY_|DATABASE_)\w+ must be [^\n]*\n$/u)
          assert.notInclude(ended.stderr, "secret")
        }))
      // As a process that ends with it, too.
      assert.strictEqual((yield* run(data, ["serve"], { SLIPWAY_PORT: "http" })).code, 1)
    }), LONG)

  it.live(
    "a worker without the address of the service is one line and exit 1: its pull requests would link to itself",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const ended = yield* run(data, ["serve"], {
          DATABASE_URL: "postgres://stranger@127.0.0.1:1/none",
          SLIPWAY_ROLE: "worker",
          SLIPWAY_STARTUP_SECONDS: "1"
        })
        assert.deepStrictEqual([ended.code, ended.stdout], [1, ""])
        assert.match(ended.stderr, /^slipway: SLIPWAY_PUBLIC_URL must be set when SLIPWAY_ROLE is worker: [^\n]*\n$/u)
      }),
    LONG
  )

  it.live("a Node that is too old is one line and exit 1", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const older = "data:text/javascript,Object.defineProperty(process,'versions',{value:{...process.versions,node:'22.18.9'}})"
      const ended = yield* run(data, ["--help"], {}, ["--import", older])
      assert.strictEqual(ended.code, 1)
      assert.match(ended.stderr, /^Slipway needs Node 22\.19 or newer[^\n]*\n$/u)
    }), LONG)

  it.live("the demo does the whole job, twice in a row, and leaves nothing behind", () =>
    Effect.gen(function*() {
      const place = yield* folder
      for (const _ of ["once", "again"]) {
        const ended = yield* run(place, ["demo"], { TMPDIR: place })
        assert.strictEqual(ended.code, 0, ended.stdout + ended.stderr)
        assert.strictEqual(ended.stderr, "")
        for (const said of ["a sandbox is created", "the tool call is approved", "a draft pull request is published", "Done in"]) {
          assert.include(ended.stdout, said)
        }
        assert.deepStrictEqual(yield* processesOf(place), [])
        assert.deepStrictEqual(readdirSync(place), [])
      }
    }).pipe(Effect.scoped), LONG)

  it.live("help names every setting with its default", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const { code, stdout } = yield* run(data, ["serve", "--help"])
      assert.strictEqual(code, 0)
      assert.match(stdout, /^SLIPWAY_PORT +4000 +Port to listen on/mu)
      assert.match(stdout, /^SLIPWAY_CLONE_MIB +10240 MiB +/mu)
      for (const { name } of Settings.all) assert.include(stdout, `\n${name} `)
    }), LONG)

  it.live(
    "the first start prints a key, the next ones do not; commands work meanwhile; SIGTERM ends it cleanly",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const first = yield* serve(data)
        assert.isDefined(first.key)
        const call = api(first, first.key ?? "")
        assert.strictEqual((yield* call("GET", "/sandboxes")).status, 200)

        const minted = JSON.parse((yield* run(data, ["keys", "create", "--json"])).stdout)
        const other = api(first, minted.key)
        assert.strictEqual((yield* other("GET", "/sandboxes")).status, 200)
        assert.strictEqual((yield* run(data, ["keys", "revoke", minted.id])).code, 0)
        assert.strictEqual((yield* other("GET", "/sandboxes")).status, 401)

        assert.strictEqual((yield* first.stop("SIGTERM")).code, 0)
        assert.deepStrictEqual(yield* processesOf(data), [])
        const second = yield* serve(data)
        assert.isUndefined(second.key)
        assert.strictEqual((yield* api(second, first.key ?? "")("GET", "/sandboxes")).status, 200)
      }).pipe(Effect.scoped),
    LONG
  )

  it.live("killed in the middle of a turn, it leaves no process; started again, the sandbox goes on", () =>
    Effect.gen(function*() {
      const data = yield* folder
      yield* run(data, ["repos", "add", "acme/shop", repository(data)])
      const first = yield* serve(data)
      const key = first.key ?? ""
      const made = yield* api(first, key)("POST", "/sandboxes", { repos: [{ fullName: "acme/shop" }], prompt: "[[shell sleep 600]]" })
      assert.strictEqual(made.status, 201)
      const sandbox = `/sandboxes/${made.body.id}`
      const types = (server: Server) =>
        Effect.map(api(server, key)("GET", `${sandbox}/events`), ({ body }) =>
          body.data.map(({ data, type }: { type: string; data: { status?: string; state?: string } }) =>
            `${type} ${data.status ?? data.state ?? ""}`.trim()
          ))
      yield* until(types(first), (seen) =>
        seen.includes("tool.updated running"))

      yield* first.stop("SIGKILL")
      yield* until(processesOf(data), (left) =>
        left.length === 0)

      const second = yield* serve(data)
      const found = yield* api(second, key)("GET", sandbox)
      assert.deepStrictEqual([found.status, found.body.id, found.body.status], [200, made.body.id, "running"])
      yield* until(types(second), (seen) => seen.includes("turn.completed failed"))
      const sent = yield* api(second, key)("POST", `${sandbox}/messages`, { prompt: "[[recall]]" })
      assert.strictEqual(sent.status, 201)
      const seen = yield* until(types(second), (seen) => seen.includes("turn.completed succeeded"))
      assert.strictEqual(seen.filter((type: string) => type === "turn.started").length, 2)
      assert.strictEqual((yield* second.stop("SIGTERM")).code, 0)
      assert.deepStrictEqual(yield* processesOf(data), [])
    }).pipe(Effect.scoped), LONG)
})
