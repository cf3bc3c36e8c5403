/**
 * A machine that sleeps: every process of the service and all that it started stands still for longer than its leases, while the
 * database's clock goes on by an hour. Each worker has an account of its own there, so the database says who wrote what.
 */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { randomBytes } from "node:crypto"
import { readFileSync } from "node:fs"
import path from "node:path"
import { folder, serve, until, worker } from "../../commands/SlipwayProcess.ts"
import * as Api from "../failover/Api.ts"
import * as World from "./World.ts"

/** Seconds of real time: longer than a lease. The rest of the hour is subtracted from the times in the rows. */
const FROZEN_SECONDS = 35
const HOUR_SECONDS = 3600

/** Events that only the holder of a sandbox's lease appends. */
const OF_THE_HOLDER = ["sandbox.boot", "sandbox.checkpoint", "turn.started", "message.updated", "message.completed", "tool.updated",
  "approval.requested"]

const signal = (roots: ReadonlyArray<number>, name: "SIGSTOP" | "SIGCONT") => {
  for (const pid of roots.flatMap(World.treeOf)) {
    try {
      process.kill(pid, name)
    } catch {
      // It ended.
    }
  }
}

/** Takes what is left of the hour off all that the rows of sandboxes say of time. */
const passed = Effect.fnUntraced(function*(databaseUrl: string, seconds: number) {
  const earlier = (json: string) =>
    json.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/gu, (at) => new Date(Date.parse(at) - seconds * 1000).toISOString())
  const columns = yield* World.query(
    databaseUrl,
    `SELECT column_name AS name, data_type AS type FROM information_schema.columns
    WHERE table_name = 'sandboxes' AND (data_type LIKE 'timestamp%' OR data_type = 'jsonb')`
  )
  const rows = yield* World.query(databaseUrl, "SELECT * FROM sandboxes")
  for (const row of rows) {
    const changed = columns.flatMap(({ name, type }) =>
      row[name] === null
        ? []
        : [{ name, value: type === "jsonb" ? earlier(JSON.stringify(row[name])) : new Date(row[name].getTime() - seconds * 1000) }]
    )
    yield* World.query(
      databaseUrl,
      `UPDATE sandboxes SET ${changed.map(({ name }, i) => `${name} = $${i + 2}`).join(", ")} WHERE id = $1`,
      [row["id"], ...changed.map(({ value }) => value)]
    )
  }
})

/** The database as somebody who is known there by a name of their own. */
const as = Effect.fnUntraced(function*(databaseUrl: string, name: string) {
  const [role, url] = [`${name}_${randomBytes(6).toString("hex")}`, new URL(databaseUrl)]
  const whole = ["SCHEMA slipway", ...["TABLES", "SEQUENCES", "ROUTINES"].map((kind) => `ALL ${kind} IN SCHEMA slipway`)]
  yield* Effect.acquireRelease(
    World.query(
      databaseUrl,
      [
        `CREATE ROLE ${role} LOGIN PASSWORD 'known'`,
        // To remove it again.
        `GRANT ${role} TO CURRENT_USER`,
        ...whole.map((what) => `GRANT ALL ON ${what} TO ${role}`)
      ].join("; ")
    ),
    () => World.query(databaseUrl, `DROP OWNED BY ${role}; DROP ROLE ${role}`)
  )
  url.username = role
  url.password = "known"
  return { role, url: url.href }
})

const frozen = Effect.fnUntraced(function*(thawing: "at once" | "one after the other") {
  const { data, databaseUrl } = yield* World.place
  yield* World.query(
    databaseUrl,
    `CREATE TABLE written (n bigserial, sandbox_id text, seq bigint, type text, who text, fence bigint);
    CREATE FUNCTION note_written() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO written (sandbox_id, seq, type, who, fence)
      SELECT new.sandbox_id, new.seq, new.type, session_user, s.fence FROM sandboxes s WHERE s.id = new.sandbox_id;
      RETURN NULL;
    END $$;
    CREATE TRIGGER note_written AFTER INSERT ON sandbox_events FOR EACH ROW EXECUTE FUNCTION note_written()`
  )
  const settings = {
    // Commands leave a mark where both machines see it.
    SLIPWAY_ISOLATION: "none",
    SLIPWAY_TURN_MINUTES: "30",
    SLIPWAY_APPROVAL_MINUTES: "30",
    SLIPWAY_SECRETS_KEY_FILE: `${data}/secrets.key`
  }
  const ran = path.join(data, "ran.txt")
  const server = yield* serve(data, { DATABASE_URL: databaseUrl, SLIPWAY_ROLE: "http", ...settings })
  const api = Api.make(server)
  const [one, other] = [yield* as(databaseUrl, "one"), yield* as(databaseUrl, "other")]
  const first = yield* worker(data, one.url, settings)

  const [working, asking, resting] = [
    yield* api.create({ prompt: "[[say hello]]" }),
    yield* api.create({ prompt: "[[say hello]]", toolApprovalMode: "prompt" }),
    yield* api.create({ prompt: "[[say hello]]" })
  ]
  for (const id of [working, asking]) yield* api.event(id, "sandbox.checkpoint")
  yield* api.send(working, `[[shell echo first >> ${ran}]] [[slow 4000 50]]`)
  yield* until(api.log(working), (events) => World.ofType(events, "message.updated").some(({ text }) => !String(text).includes("hello")))
  yield* api.queue(working, `[[shell echo next >> ${ran}]]`)
  yield* api.send(asking, "[[write path=a.txt content=a]]")
  yield* api.event(asking, "approval.requested")
  yield* api.event(resting, "sandbox.checkpoint")
  const second = yield* worker(yield* folder, other.url, settings)

  const all = [server.pid, first.pid, second.pid]
  signal(all, "SIGSTOP")
  yield* Effect.addFinalizer(() => Effect.sync(() => signal(all, "SIGCONT")))
  const leased = [working, asking]
  const fences = World.query(databaseUrl, "SELECT id, fence::int AS fence FROM sandboxes WHERE id = ANY($1) ORDER BY id", [leased])
  const before = yield* fences
  yield* Effect.sleep(`${FROZEN_SECONDS} seconds`)
  yield* passed(databaseUrl, HOUR_SECONDS - FROZEN_SECONDS)
  if (thawing === "at once") signal(all, "SIGCONT")
  else {
    signal([server.pid, second.pid], "SIGCONT")
    yield* until(fences, (now) => now.every(({ fence }, i) => fence > before[i]?.["fence"]))
    signal([first.pid], "SIGCONT")
  }

  yield* api.event(working, "turn.completed", 3)
  yield* api.event(asking, "turn.completed", 2)
  // The first worker goes on with new work, so it is through with what it found out.
  const next = yield* api.create({ prompt: "[[say on]]" })
  yield* api.event(next, "turn.completed")
  for (const id of [working, asking, resting, next]) {
    const events = yield* api.log(id)
    assert.deepStrictEqual(events.map((event) => Number(event.id)), events.map((_, i) => i + 1), `the log of ${id}`)
    for (const turn of new Set(events.flatMap(({ turn_id }) => turn_id ?? []))) {
      const told = events.filter(({ turn_id, type }) => turn_id === turn && type !== "sandbox.checkpoint").map(({ type }) => type)
      assert.lengthOf(told.filter((type) => type === "turn.completed"), 1, `${id}: ${told.join(", ")}`)
      assert.isAtMost(told.filter((type) => type === "turn.started").length, 1, `${id}: ${told.join(", ")}`)
      assert.strictEqual(told.at(-1), "turn.completed", `${id}: ${told.join(", ")}`)
    }
  }
  // Limits, each once.
  const ofWorking = World.ofType(yield* api.log(working), "turn.completed")
  assert.deepStrictEqual(ofWorking, [
    { state: "succeeded" },
    { state: "failed", reason: "turn_timeout", initiator: "policy" },
    { state: "succeeded" }
  ])
  const asked = yield* api.log(asking)
  assert.deepStrictEqual(World.ofType(asked, "approval.resolved").map(({ by, outcome }) => [outcome, by]), [["denied", "timeout"]])
  assert.lengthOf(World.ofType(asked, "turn.completed"), 2)
  assert.strictEqual(yield* api.status(resting), "running")
  // The command of the turn that stood still ran once, that of the next one too.
  assert.strictEqual(readFileSync(ran, "utf8"), "first\nnext\n")

  const writers = yield* World.query(
    databaseUrl,
    `SELECT sandbox_id, fence::int AS fence, array_agg(DISTINCT who) AS who FROM written
    WHERE type = ANY($1) GROUP BY 1, 2 ORDER BY 1, 2`,
    [OF_THE_HOLDER]
  )
  for (const { fence, sandbox_id, who } of writers) assert.lengthOf(who, 1, `lease ${fence} of ${sandbox_id}`)
  const late = yield* World.query(
    databaseUrl,
    `SELECT DISTINCT a.sandbox_id, a.fence FROM written a
    JOIN written b ON b.sandbox_id = a.sandbox_id AND b.n < a.n AND b.fence > a.fence`
  )
  assert.deepStrictEqual(late, [])
})

it.live("everything frozen for an hour and thawed: no stale lease writes, each limit is applied once, and nothing happens twice", () =>
  Effect.forEach(["at once", "one after the other"] as const, (thawing) => Effect.scoped(frozen(thawing)), {
    concurrency: 2,
    discard: true
  }))
