/** Sandboxes in machines of their own, with nothing of a worker in them but its word: what any other sandbox does, they do. */
import { assert, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { folder, processesOf, repository, run, serve, until, worker } from "../../commands/SlipwayProcess.ts"
import * as Api from "./Api.ts"
import { kill, machinesIn } from "./Machines.ts"

const isThere = (program: string): boolean => {
  try {
    execFileSync(program, ["--version"], { stdio: "pipe" })
    return true
  } catch {
    return false
  }
}

for (const [kind, needs] of [["bubblewrap", "bwrap"], ["gvisor", "runsc"]] as const) {
  it.live.skipIf(!isThere(needs))(
    `in a machine of ${kind}, work is approved, kept over the loss of its worker, published and cleared away`,
    () =>
      Effect.gen(function*() {
        const front = yield* folder
        const back = yield* folder
        const url = yield* TestPostgres.database(Migrations.layer)
        const server = yield* serve(front, { DATABASE_URL: url, SLIPWAY_ROLE: "http" })
        yield* run(front, ["repos", "add", "acme/shop", repository(front)], { DATABASE_URL: url })
        const { left, machines, program } = machinesIn(yield* folder, kind, back)
        // The processes have no parent: after a failed test they would stay.
        yield* Effect.addFinalizer(() =>
          Effect.map(processesOf(`${machines}/`), (found) => found.forEach((one) => kill(Number(one.split(" ")[0]))))
        )
        const api = Api.make(server)
        const settings = { SLIPWAY_ISOLATION: "runner", SLIPWAY_RUNNER_MACHINES: program }
        const first = yield* worker(back, url, settings)

        const id = yield* api.create({ prompt: "[[write path=kept.txt content=first]]", toolApprovalMode: "prompt" })
        yield* api.event(id, "approval.requested")
        const asked = (yield* api.log(id)).findLast(({ type }) => type === "approval.requested")
        yield* api.approve(id, String(asked?.data["approval_id"]))
        yield* api.event(id, "sandbox.checkpoint")
        assert.strictEqual(yield* api.file(id, "kept.txt"), "first\n")
        assert.deepStrictEqual(left(), [id])

        // The machine is not the worker's: it outlives it, and who comes next ends what ran there and goes on with what is there.
        yield* api.send(id, "[[shell echo second >> turns.txt]] [[hang]]")
        yield* api.event(id, "approval.requested", 2)
        const again = (yield* api.log(id)).findLast(({ type }) => type === "approval.requested")
        yield* api.approve(id, String(again?.data["approval_id"]))
        yield* until(
          api.log(id),
          (log) => log.filter(({ data, type }) => type === "tool.updated" && data["status"] === "completed").length === 2
        )
        yield* first.kill
        yield* worker(back, url, settings)
        yield* api.event(id, "turn.completed", 2)
        const ended = (yield* api.log(id)).findLast(({ type }) => type === "turn.completed")
        assert.strictEqual(ended?.data["reason"], "agent_lost")
        assert.strictEqual(yield* api.file(id, "turns.txt"), "second\n")

        // A machine that refuses connections is made again at once, not when a lease or a patience ends.
        const lost = Date.now()
        for (const one of yield* processesOf(`${machines}/`)) kill(Number(one.split(" ")[0]))
        yield* api.send(id, "[[write path=third.txt content=third]]")
        yield* api.event(id, "approval.requested", 3)
        process.stdout.write(`${kind}: ${Date.now() - lost} ms from the loss of the machine to the next turn\n`)
        const third = (yield* api.log(id)).findLast(({ type }) => type === "approval.requested")
        yield* api.approve(id, String(third?.data["approval_id"]))
        yield* api.event(id, "turn.completed", 3)
        assert.deepStrictEqual([yield* api.file(id, "third.txt"), yield* api.file(id, "turns.txt")], ["third\n", "second\n"])

        yield* api.publish(id)
        yield* until(api.pull(id), ({ actionState, pullRequest }) => actionState === "idle" && pullRequest !== null)
        const log = yield* api.log(id)
        assert.deepStrictEqual(log.map(({ id }) => Number(id)), log.map((_, i) => i + 1))

        yield* api.terminate(id)
        yield* until(Effect.sync(left), (some) => some.length === 0)
        yield* until(processesOf(`${machines}/`), (some) => some.length === 0)
      }).pipe(Effect.scoped)
  )
}
