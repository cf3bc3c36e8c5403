/** A backup of a service that runs, and what goes on from it in an empty data folder. */
import { assert, it } from "@effect/vitest"
import * as WebhookReceiver from "@slipway/machine/testing/WebhookReceiver"
import { Effect } from "effect"
import { createHash, createHmac } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { cp } from "node:fs/promises"
import path from "node:path"
import { folder, repository, run, runIn, serve, type Server, until } from "../../commands/SlipwayProcess.ts"
import * as Api from "../failover/Api.ts"

const LONG = 480_000
const SETTINGS = { SLIPWAY_WEBHOOK_PRIVATE: "true" }
const WRITES = "[[write path=kept.txt content=first]]"

const call = (server: Server, address: string, body?: object) =>
  Effect.promise(async () => {
    const reply = await fetch(`${server.url}/api/public/v1/sandboxes${address}`, {
      headers: { authorization: `Bearer ${server.key}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) })
    })
    return { status: reply.status, text: await reply.text() }
  })

it.live("every sandbox goes on from a backup that was made while the service ran", () =>
  Effect.gen(function*() {
    const [data, away, empty] = [yield* folder, yield* folder, yield* folder]
    const receiver = yield* WebhookReceiver.start()
    const first = yield* serve(data, SETTINGS)
    yield* run(data, ["repos", "add", "acme/shop", repository(away)])
    const api = Api.make(first)
    const slipway = (...args: ReadonlyArray<string>) => run(data, args, SETTINGS)

    const started = Effect.fnUntraced(function*(body: object = {}) {
      const id = yield* api.create({ prompt: WRITES, ...body })
      yield* api.event(id, "sandbox.checkpoint")
      return id
    })
    const resting = yield* started()
    const finished = yield* started()
    yield* call(first, `/${finished}/terminate`, {})
    yield* until(api.status(finished), (status) => status === "terminated")
    const running = yield* started()
    yield* api.send(running, "[[write path=kept.txt content=second]] [[hang]]")
    yield* api.event(running, "tool.updated", 4)
    const asking = yield* api.create({ prompt: "[[say hello]]", toolApprovalMode: "prompt" })
    yield* api.event(asking, "sandbox.checkpoint")
    yield* api.send(asking, WRITES)
    yield* api.event(asking, "approval.requested")

    yield* slipway("grants", "create", "acme")
    const hook = JSON.parse((yield* slipway("webhooks", "add", `http://127.0.0.1:${receiver.port}/`, "--grant", "acme", "--json")).stdout)
    // It is tried again in five seconds, and then in five minutes: the backup and the kill are in between, whenever that is.
    receiver.answers.push(WebhookReceiver.status(500), WebhookReceiver.status(500))
    yield* slipway("partners", "claims", "create", "--grant", "acme", "--lead", "lead-1", "--variant", "b", "--credits", "5")
    const refused = yield* receiver.next
    yield* receiver.next

    const at = path.join(away, "backup")
    const made = yield* runIn(data, ["backup", at], SETTINGS)
    assert.deepStrictEqual([made.code, made.stderr], [0, ""], made.stdout)
    for (const id of [running, asking]) assert.include(made.stdout, id)
    for (const id of [resting, finished]) assert.notInclude(made.stdout, id)
    assert.strictEqual(statSync(at).mode & 0o777, 0o700)
    assert.deepStrictEqual(readdirSync(at).sort(), ["manifest.json", "manifest.sha256", "secrets.key", "tables"])
    assert.strictEqual(statSync(path.join(at, "secrets.key")).mode & 0o777, 0o600)
    assert.deepStrictEqual(readdirSync(away).sort(), ["backup", "shop"])
    // The backup has no later sandboxes.
    const later = yield* started()
    yield* first.stop("SIGKILL")

    const target = path.join(empty, "restored")
    const restored = yield* runIn(empty, ["restore", at], { SLIPWAY_DATA_DIR: target })
    assert.deepStrictEqual([restored.code, restored.stderr], [0, ""], restored.stdout)
    assert.deepStrictEqual(readdirSync(target).sort(), ["postgres", "secrets.key"])

    const second = { ...yield* serve(target, SETTINGS), key: first.key }
    const again = Api.make(second)
    assert.strictEqual((yield* call(second, `/${later}`)).status, 404)

    // A delivery that is due in minutes is sent now.
    yield* run(target, ["webhooks", "redeliver", hook.id, String(refused.headers["webhook-id"]), "--grant", "acme"], {
      ...SETTINGS,
      SLIPWAY_DATA_DIR: target
    })
    // The webhook is signed with the secret of before.
    const told = yield* until(receiver.next, ({ headers }) => headers["webhook-id"] === refused.headers["webhook-id"])
    const signed = `${told.headers["webhook-id"]}.${told.headers["webhook-timestamp"]}.${told.body.toString()}`
    const secret = Buffer.from(hook.secret.slice(6), "base64")
    assert.strictEqual(told.headers["webhook-signature"], `v1,${createHmac("sha256", secret).update(signed).digest("base64")}`)

    // Running turns ended with the machine, the turn waiting for approval too; their sandboxes have their last checkpoint.
    for (const id of [running, asking]) {
      yield* again.event(id, "turn.completed", 2)
      const ends = (yield* again.log(id)).filter(({ type }) => type === "turn.completed")
      assert.deepInclude(ends[1]?.data, { state: "failed", reason: "machine_lost" })
    }
    assert.strictEqual(yield* again.file(running, "kept.txt"), "first\n")
    // Each goes on: with its files, its conversation, and another checkpoint.
    for (const id of [resting, running]) {
      const before = (yield* again.log(id)).filter(({ type }) => type === "turn.completed").length
      yield* again.send(id, "[[recall]] [[write path=more.txt content=more]]")
      yield* again.event(id, "turn.completed", before + 1)
      assert.deepInclude((yield* again.log(id)).findLast(({ type }) => type === "turn.completed")?.data, { state: "succeeded" })
      assert.strictEqual(yield* again.file(id, "kept.txt"), "first\n")
      assert.strictEqual(yield* again.file(id, "more.txt"), "more\n")
    }
    yield* again.send(asking, WRITES)
    yield* again.event(asking, "approval.requested", 2)
    const approval = (yield* again.log(asking)).findLast(({ type }) => type === "approval.requested")?.data["approval_id"]
    assert.strictEqual((yield* call(second, `/${asking}/approvals/${String(approval)}`, { decision: "approve" })).status, 200)
    yield* again.event(asking, "turn.completed", 3)
    assert.strictEqual(yield* again.file(asking, "kept.txt"), "first\n")

    assert.strictEqual(yield* again.status(finished), "terminated")
    const fork = yield* call(second, `/${finished}/fork`, { prompt: "[[recall]]" })
    assert.strictEqual(fork.status, 201, fork.text)
    const { id: forked } = JSON.parse(fork.text)
    yield* again.event(forked, "turn.completed")
    assert.strictEqual(yield* again.file(forked, "kept.txt"), "first\n")
    // New rows do not meet old numbers.
    assert.strictEqual(
      yield* again.status(yield* again.create({ prompt: WRITES }).pipe(Effect.tap((id) => again.event(id, "sandbox.checkpoint")))),
      "running"
    )
  }).pipe(Effect.scoped), LONG)

it.live(
  "a backup is a new folder, and only a whole one of no newer version is restored, into an empty folder",
  () =>
    Effect.gen(function*() {
      const [data, away] = [yield* folder, yield* folder]
      const server = yield* serve(data)
      const at = path.join(away, "backup")
      const told = (args: ReadonlyArray<string>, settings: Readonly<Record<string, string>> = {}) =>
        Effect.map(runIn(data, args, settings), ({ code, stderr }) => {
          assert.strictEqual(code, 1, stderr)
          return stderr
        })
      assert.include(yield* told(["backup", path.join(data, "backup")]), "would be lost together with it")
      assert.include(yield* told(["backup", path.join(away, "no", "backup")]), "There is no folder")
      assert.include(yield* told(["backup", at], { DATABASE_URL: "postgres://stranger@127.0.0.1:1/none" }), "pg_dump")
      assert.strictEqual((yield* runIn(data, ["backup", at, "--without-key"])).code, 0)
      assert.isFalse(existsSync(path.join(at, "secrets.key")))
      assert.include(yield* told(["backup", at]), "exists already")

      assert.include(yield* told(["restore", at]), "Another worker uses")
      yield* server.stop("SIGTERM")
      assert.include(yield* told(["restore", at]), "is not empty")

      const target = path.join(away, "restored")
      const refused = Effect.fnUntraced(function*(name: string, change: (copy: string) => void) {
        const copy = path.join(away, name)
        yield* Effect.promise(() => cp(at, copy, { recursive: true }))
        change(copy)
        const said = yield* told(["restore", copy], { SLIPWAY_DATA_DIR: target })
        // At most an empty folder was made.
        assert.deepStrictEqual(existsSync(target) ? readdirSync(target) : [], [])
        return said
      })
      const manifest = JSON.parse(readFileSync(path.join(at, "manifest.json"), "utf8"))
      const rewritten = (change: object) => (copy: string) => {
        const text = JSON.stringify({ ...manifest, ...change })
        writeFileSync(path.join(copy, "manifest.json"), text)
        writeFileSync(path.join(copy, "manifest.sha256"), `${createHash("sha256").update(text).digest("hex")}  manifest.json\n`)
      }
      const table = path.join("tables", "sandboxes.zst")
      assert.include(
        yield* refused("changed", (copy) => {
          const bytes = readFileSync(path.join(copy, table))
          bytes[bytes.length - 1]! ^= 1
          writeFileSync(path.join(copy, table), bytes)
        }),
        `${table} was changed`
      )
      assert.include(yield* refused("cut", (copy) => writeFileSync(path.join(copy, table), "")), `${table} has 0 bytes`)
      assert.include(
        yield* refused("edited", (copy) => writeFileSync(path.join(copy, "manifest.json"), JSON.stringify({ ...manifest, version: "0" }))),
        "manifest.json was changed"
      )
      assert.include(yield* refused("layout", rewritten({ format: 2, version: "9.0.0" })), "Slipway 9.0.0, which is newer")
      const newer = { migrations: [...manifest.migrations, "9999_later"], version: "9.0.0" }
      assert.include(yield* refused("newer", rewritten(newer)), "Slipway 9.0.0, which is newer")
      const columns = manifest.tables.map((one: { name: string; columns: ReadonlyArray<string> }) =>
        one.name === "grants" ? { ...one, columns: [...one.columns].reverse() } : one
      )
      assert.include(yield* refused("other", rewritten({ tables: columns })), "The table grants of the backup is not as this version")
      assert.include(yield* told(["restore", away], { SLIPWAY_DATA_DIR: target }), "it is not a complete backup")

      // The leftover of a killed restore is not in the way.
      mkdirSync(path.join(target, ".restoring-killed"), { recursive: true })
      const done = yield* runIn(data, ["restore", at], { SLIPWAY_DATA_DIR: target })
      assert.deepStrictEqual([done.code, done.stderr], [0, ""])
      assert.include(done.stdout, `put the one of that time to ${path.join(target, "secrets.key")}`)
      assert.deepStrictEqual(readdirSync(target), ["postgres"])
      assert.include(yield* told(["serve"], { SLIPWAY_DATA_DIR: target }), "it is not there")
    }).pipe(Effect.scoped),
  LONG
)
