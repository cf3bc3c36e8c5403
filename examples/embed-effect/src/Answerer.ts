/** Our worker: boots nothing, and lets a function answer every prompt. Shows how a worker speaks to the rules. */
import { Ids } from "@slipway/domain/ids/Ids"
import { Leases, type Leased, LEASE_RENEWAL_SECONDS } from "@slipway/domain/sandbox/ports/Leases"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore, type Writer } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { isSettled, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { Hints, WORK } from "@slipway/domain/store/Hints"
import { Context, DateTime, Effect, Layer, Schedule } from "effect"

/** Where answers come from: a model, a search, a person. */
export class Answers extends Context.Service<Answers, { of(question: string): Effect.Effect<string> }>()("embed-effect/Answers") {
  static readonly layerEcho = Layer.succeed(Answers, Answers.of({ of: (question) => Effect.succeed(`You asked: ${question}`) }))
}

const me = { worker: `answerer-${process.pid}`, machine: "here" }

const start = Effect.gen(function*() {
  const store = yield* SandboxStore
  const leases = yield* Leases
  const maintenance = yield* Maintenance
  const hints = yield* Hints
  const ids = yield* Ids
  const limits = yield* Policy
  const answers = yield* Answers

  const record = Effect.fnUntraced(function*({ id }: Pick<Sandbox, "id">, by: Writer, command: SystemCommand) {
    const now = yield* DateTime.now
    return (yield* store.change(id, by, (sandbox) => decide(sandbox, command, { now, limits }), now)).sandbox
  })

  /** What is to be done in the present state; empty when only a person can go on. */
  const next = (sandbox: Sandbox): Effect.Effect<ReadonlyArray<SystemCommand>> => {
    const { turn } = sandbox
    if (sandbox.status === "terminating") return Effect.succeed([{ _tag: "Release" }])
    if (sandbox.status !== "running") {
      return Effect.succeed([{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: turnId(ids, sandbox.id, 1) }])
    }
    if (turn === null) return Effect.succeed([])
    if (turn.state === "pending") return Effect.succeed([{ _tag: "StartTurn", turnId: turn.id }])
    if (turn.state !== "running") return Effect.succeed([])
    if (turn.interruptRequested) return Effect.succeed([{ _tag: "EndTurn", turnId: turn.id, state: "interrupted" }])
    const message = { part_id: `${turn.id}:text`, message_id: turn.id }
    return Effect.map(answers.of(turn.prompt), (text) => [
      {
        _tag: "RecordWork",
        turnId: turn.id,
        events: [
          { type: "message.updated", data: { ...message, kind: "text", text } },
          { type: "message.completed", data: { message_id: turn.id, finish: "end_turn" } }
        ]
      },
      { _tag: "EndTurn", turnId: turn.id, state: "succeeded" }
    ])
  }

  /** Works for one sandbox until it is over. A lease that was lost fails the next write, and somebody else goes on. */
  const work = Effect.fnUntraced(function*({ lease, sandbox: first }: Leased) {
    const changed = yield* hints.watch(first.id)
    let sandbox = first
    while (!isSettled(sandbox.status)) {
      const commands = yield* next(sandbox)
      for (const command of commands) sandbox = yield* record(sandbox, lease, command)
      if (commands.length > 0) continue
      yield* changed
      sandbox = yield* store.find(sandbox)
    }
  }, Effect.scoped)

  const session = (leased: Leased) =>
    work(leased).pipe(
      Effect.raceFirst(Effect.repeat(leases.renew([leased.lease]), Schedule.spaced(`${LEASE_RENEWAL_SECONDS} seconds`))),
      Effect.ensuring(Effect.ignore(leases.release(leased.lease))),
      Effect.catchCause((cause) => Effect.logWarning("left a sandbox to the next worker", cause))
    )

  // Watched before the first look, so that no hint falls between the two; a hint may be lost, so there is a tick as well.
  const waiting = yield* hints.watch(WORK)
  yield* leases.take(me, { slots: 16, boots: 16, errands: 16 }).pipe(
    Effect.flatMap(Effect.forEach((leased) => Effect.forkScoped(session(leased)))),
    Effect.andThen(Effect.timeoutOption(waiting, "1 second")),
    Effect.forever,
    Effect.forkScoped
  )
  // Time limits are rules too: idle sandboxes succeed, old ones end.
  yield* maintenance.due(100).pipe(
    Effect.flatMap(({ ids }) => Effect.forEach(ids, (id) => Effect.ignore(record({ id }, "policy", { _tag: "Expire" })))),
    Effect.repeat(Schedule.spaced("10 seconds")),
    Effect.forkScoped
  )
})

export const layer = Layer.effectDiscard(start)
