/** Machines that go away with their disks, in each phase of a sandbox: it goes on at another one, with its last checkpoint. */
import { assert, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import path from "node:path"
import { folder, repository, run, serve, until } from "../../commands/SlipwayProcess.ts"
import * as Api from "./Api.ts"
import * as Machine from "./Machine.ts"

/** How long the machine of a lost worker may take to come back, seconds: long enough for all to be lost before any is taken. */
const LOST = { SLIPWAY_MACHINE_LOST_SECONDS: "40" }

/** The state of a sandbox before its machine is lost, and the expected state elsewhere. */
interface Phase {
  readonly name: string
  readonly reach: (api: Api.Api) => Effect.Effect<string>
  /** The content of the first turn's file on the other machine. */
  readonly file: string | null
  readonly lostTurn: boolean
}

const WRITES = "[[write path=kept.txt content=first]]"

const LARGE = "acme/large"

/** A repository that takes a while to clone. */
const large = (inside: string) => {
  const at = repository(inside, "large")
  for (let i = 0; i < 20_000; i++) writeFileSync(path.join(at, `file-${i}.txt`), `${i}\n`)
  execFileSync("git", ["add", "--all"], { cwd: at })
  execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@shop.invalid", "commit", "--quiet", "--message", "More"], { cwd: at })
  return at
}

const afterFirst = Effect.fnUntraced(function*(api: Api.Api, more: object = {}) {
  const id = yield* api.create({ prompt: WRITES, ...more })
  yield* api.event(id, "sandbox.checkpoint")
  return id
})

const phases: ReadonlyArray<Phase> = [
  {
    name: "boot",
    // Long enough that it is lost in the middle of it.
    reach: (api) =>
      Effect.tap(
        api.create({ prompt: WRITES, repos: [{ fullName: LARGE }] }),
        (id) => until(api.status(id), (status) => status !== "queued")
      ),
    file: "first",
    lostTurn: false
  },
  {
    name: "turn",
    reach: (api) =>
      Effect.tap(afterFirst(api), (id) =>
        Effect.andThen(
          api.send(id, "[[write path=kept.txt content=second]] [[hang]]"),
          // The change is made, and no checkpoint has it.
          api.event(id, "tool.updated", 4)
        )),
    file: "first",
    lostTurn: true
  },
  {
    name: "approval",
    reach: (api) =>
      Effect.gen(function*() {
        const id = yield* api.create({ prompt: "[[say hello]]", toolApprovalMode: "prompt" })
        yield* api.event(id, "sandbox.checkpoint")
        yield* api.send(id, WRITES)
        yield* api.event(id, "approval.requested")
        return id
      }),
    file: null,
    lostTurn: true
  },
  {
    name: "rest",
    reach: (api) => afterFirst(api),
    file: "first",
    lostTurn: false
  },
  {
    name: "publication",
    reach: (api) =>
      Effect.tap(afterFirst(api), (id) => Effect.forkDetach(api.publish(id)).pipe(Effect.andThen(api.event(id, "pull_request.updated")))),
    file: "first",
    lostTurn: false
  },
  {
    name: "checkpoint",
    reach: (api) =>
      Effect.tap(afterFirst(api), (id) =>
        // Its turn has ended, and its checkpoint is not there yet, or only just.
        Effect.andThen(api.send(id, "[[write path=later.txt content=second]]"), api.event(id, "turn.completed", 2))),
    file: "first",
    lostTurn: false
  }
]

it.live("a sandbox goes on elsewhere with its last checkpoint, whatever it was at when its machine was lost", () =>
  Effect.gen(function*() {
    const front = yield* folder
    const url = yield* TestPostgres.database(Migrations.layer)
    const server = yield* serve(front, { DATABASE_URL: url, SLIPWAY_ROLE: "http" })
    yield* run(front, ["repos", "add", "acme/shop", repository(front)], { DATABASE_URL: url })
    yield* run(front, ["repos", "add", LARGE, large(front)], { DATABASE_URL: url })
    const api = Api.make(server)

    const sandboxes: Array<{ readonly phase: Phase; readonly id: string }> = []
    for (const phase of phases) {
      const machine = yield* Machine.make(url, LOST)
      sandboxes.push({ phase, id: yield* phase.reach(api) })
      yield* machine.lose
      process.stdout.write(`lost a machine at: ${phase.name}\n`)
    }

    const last = yield* Machine.make(url, LOST)
    for (const { id, phase } of sandboxes) {
      const said = (what: string) => `${phase.name}: ${what}\n${last.output().slice(-2000)}`
      if (phase.name === "boot") yield* api.event(id, "turn.completed")
      else if (phase.name === "publication") yield* until(api.pull(id), ({ actionState }) => actionState === "idle")
      else if (phase.lostTurn) yield* api.event(id, "sandbox.restored")
      const turns = (yield* api.log(id)).filter(({ type }) => type === "turn.completed").length
      yield* api.send(id, "[[recall]]")
      yield* api.event(id, "turn.completed", turns + 1)
      const log = yield* api.log(id)
      assert.deepStrictEqual(log.map(({ id }) => Number(id)), log.map((_, i) => i + 1), said("the log"))
      assert.notInclude(log.map(({ data }) => data["reason"]), "host_lost", said("reasons"))
      assert.strictEqual(yield* api.status(id), "running", said("status"))
      const restored = log.filter(({ type }) => type === "sandbox.restored")
      if (phase.name !== "boot") {
        assert.deepStrictEqual(restored.map(({ data }) => data["cause"]), ["machine_lost"], said("restored"))
        assert.strictEqual("lost_turn" in (restored[0]?.data ?? {}), phase.lostTurn, said("the lost turn"))
      }
      if (phase.file !== null) assert.strictEqual(yield* api.file(id, "kept.txt"), `${phase.file}\n`, said("the file"))
      // The messages that it was told before it moved.
      assert.include(log.filter(({ type }) => type === "message.updated").map(({ data }) => data["text"]).join("\n"), "[[", said("recall"))
      if (phase.file !== null) {
        yield* api.publish(id)
        yield* until(api.pull(id), ({ actionState }) => actionState === "idle")
        assert.isNotNull((yield* api.pull(id)).pullRequest, said("the pull request"))
      }
    }
    const pulls = yield* run(front, ["pulls", "list", "--json"], { DATABASE_URL: url })
    const heads = (JSON.parse(pulls.stdout) as ReadonlyArray<{ readonly headRef: string }>).map(({ headRef }) => headRef)
    assert.sameMembers(heads, sandboxes.filter(({ phase }) => phase.file !== null).map(({ id }) => `slipway/${id}`))
  }).pipe(Effect.scoped))
