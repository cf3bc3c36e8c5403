/**
 * Arbitrary histories of one sandbox: actions of the service and of people, in any order, sensible or hostile, with time passing in
 * between, by clocks that differ and go back. Shared by every property of the pure rules. Assumed, because runtimes guarantee it: an agent
 * never reuses the id of a decided tool call.
 */
import { MAX_WAITING } from "@slipway/domain/sandbox/rules/MessageQueue"
import type { QuestionReply } from "@slipway/domain/sandbox/rules/Question"
import type { SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { WhenBusy } from "@slipway/domain/sandbox/schema/MessageQueue"
import { RestoreCause } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { TurnOutcome } from "@slipway/domain/sandbox/schema/Turn"
import * as Arbitrary from "effect/Arbitrary"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { decides, episodesOf, freshCall, freshQuestion, misuses, replies } from "./Episodes.ts"
import {
  type Asked,
  Deciding,
  decisionOf,
  type History,
  ids,
  inquiry,
  limits,
  reach,
  recordCheckpoint,
  REPLY,
  request,
  Scene,
  synced,
  TITLES
} from "./History.ts"

export * from "./History.ts"

/** Lengths of time on both sides of every limit. */
const Wait = Schema.TaggedStruct("Wait", { minutes: Schema.Literals([0, 1, 5, 10, 29, 30, 31, 60, 120, 1439, 1440, 43_199, 43_200]) })

/** The clock of the worker, or of the server that answers people, is set to so many minutes after the true time. */
const Clock = Schema.TaggedStruct("Clock", {
  of: Schema.Literals(["worker", "server"]),
  ahead: Schema.Literals([0, -1, 1, -60, 60, -1440, 1440])
})

/** More than what may come next at any time. */
const PICKS = 60
const Pick = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: PICKS - 1 }))
const Variant = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 11 }))
/** Whatever comes next in an ordinary life; `pick` chooses among several. */
const GoOn = Schema.TaggedStruct("GoOn", { pick: Pick })
/** An episode that makes sense now. */
const Go = Schema.TaggedStruct("Episode", { pick: Pick, variant: Variant })
/** Commands that make no sense now. */
const Misuse = Schema.TaggedStruct("Misuse", { pick: Pick, variant: Variant })

/** How people reply: as asked, not at all, and with what was not offered. */
const Replying = Schema.Literals(["answer", "dismiss", "misfit"])
const REPLIES: Readonly<Record<typeof Replying.Type, QuestionReply>> = {
  answer: REPLY,
  dismiss: { dismiss: true },
  misfit: { answers: { 1: { labels: ["Postgres", "SQLite"] } } }
}

const Named = Schema.Literals(["latest", "earlier", "unknown"])
const Call = Schema.Literals([1, 2, 3])

/** Anything at any time, legal or not. */
const Anything = Schema.TaggedUnion({
  StartBoot: {},
  ReportBoot: { stage: Schema.Literals(["clone", "setup"]) },
  StartSetup: { minutes: Schema.Literals([0, 10, 60, 960]) },
  FinishBoot: {},
  Fail: { reason: Schema.Literals(["boot_failed", "clone_failed", "repo_not_accessible", "agent_lost", "host_lost"]) },
  StartTurn: { turn: Named },
  RecordWork: { turn: Named },
  RequestApproval: { turn: Named, call: Call, kind: Schema.Literals(["edit", "command", "other"]), plain: Schema.Boolean },
  AskQuestion: { turn: Named, question: Call },
  EndTurn: { turn: Named, state: TurnOutcome },
  ReportBoxLimit: { turn: Named, limit: Schema.Literals(["out_of_memory", "too_many_processes"]) },
  ReportUsage: { counted: Schema.Boolean },
  Expire: {},
  RevokeGrant: {},
  Release: {},
  ReportPublication: {},
  RecordCheckpoint: { number: Schema.Literals(["next", "none", "newest", "skipping"]) },
  RecordRestore: { back: Schema.Literals([-1, 0, 1]), cause: RestoreCause },
  FailRestore: {},
  Terminate: {},
  Interrupt: {},
  Decide: { call: Call, by: Deciding },
  Answer: { question: Call, how: Replying },
  Send: { whenBusy: WhenBusy },
  Cancel: { turn: Schema.Literals([1, 2, 3, 4, 5, 99]) },
  RecordSteer: { turn: Named, message: Schema.Literals([1, 2, 3, 4, 5]) },
  Restore: { checkpoint: Schema.Literals([0, 1, 2, 3]) },
  Rename: { title: Schema.Literals(TITLES) },
  Sync: {},
  RecordSync: {}
})

/** One thing that happens in a history. */
export const Step = Schema.Union([GoOn, Go, Wait, Clock, Misuse, Anything])
export type Step = typeof Step.Type

const times = (scene: Scene, count: number): ReadonlyArray<Scene> => Array.from({ length: count }, () => scene)
/** Half of the lives begin before their first turn, because a life gets there once. */
const STARTS: ReadonlyArray<Scene> = [...times("queued", 8), ...times("creating", 8), ...Scene.literals]
const startOf = (n: number): Scene => STARTS[n % STARTS.length] ?? "queued"
const Start = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: STARTS.length - 1 }))

const mixed = (shares: ReadonlyArray<readonly [share: number, step: Arbitrary.Arbitrary<Step>]>) => {
  const choices = shares.flatMap(([share, step]) => Array.from({ length: share }, () => step))
  const index = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: choices.length - 1 }))
  const step = Arbitrary.flatMap(Arbitrary.schema(index), (i) => choices[i] ?? Arbitrary.schema(GoOn))
  return Arbitrary.all({ from: Arbitrary.map(Arbitrary.schema(Start), startOf), steps: Arbitrary.array(step, { maxLength: 60 }) })
}

/** A point in a sandbox's life, and what is tried from there on. */
export interface Plan {
  readonly from: Scene
  readonly steps: ReadonlyArray<Step>
}

/** Plans as a healthy service and sensible people make them. */
export const legal: Arbitrary.Arbitrary<Plan> = mixed([
  [4, Arbitrary.schema(Go)],
  [4, Arbitrary.schema(GoOn)],
  [1, Arbitrary.schema(Wait)],
  [1, Arbitrary.schema(Clock)]
])

/** Plans with commands that come twice, too late, too early, or for turns and approvals that never were. */
export const hostile: Arbitrary.Arbitrary<Plan> = mixed([
  [3, Arbitrary.schema(Go)],
  [1, Arbitrary.schema(GoOn)],
  [1, Arbitrary.schema(Wait)],
  [1, Arbitrary.schema(Clock)],
  [1, Arbitrary.schema(Misuse)],
  [3, Arbitrary.schema(Anything)]
])

/**
 * A plan of hostile people from any whole numbers, 0 or more, the same one from the same numbers: for property testers that draw and
 * shrink numbers themselves. The first is the scene, and each other one a step. Smaller numbers are simpler steps.
 */
export const planOf = ([from = 0, ...steps]: ReadonlyArray<number>): Plan => ({
  from: startOf(from),
  steps: steps.map(stepOf)
})

const sampled = (step: Arbitrary.Arbitrary<Step>, seed: number) => Effect.runSync(Arbitrary.sampleEffect(step, { count: 1, seed }))

/** Five of ten numbers are episodes, two misuses, one waits or changes a clock, and two are anything. */
const stepOf = (n: number): Step => {
  const rest = Math.floor(n / 10)
  const pick = rest % PICKS
  const variant = Math.floor(rest / PICKS) % 12
  switch (n % 10) {
    case 5:
      return sampled(Arbitrary.schema(rest % 2 === 0 ? Wait : Clock), rest)[0] ?? { _tag: "GoOn", pick }
    case 6:
    case 7:
      return { _tag: "Misuse", pick, variant }
    case 8:
    case 9:
      return sampled(Arbitrary.schema(Anything), rest)[0] ?? { _tag: "GoOn", pick }
    default:
      return { _tag: "Episode", pick, variant }
  }
}

/** For `it.prop`: long plans. */
export const thorough = { arbitrary: { runs: 300, size: 40 } }

/** The history after these steps, taken one after the other. In the end all clocks are right, so that a property may go on from there. */
export const play = ({ from, steps }: Plan): History => {
  const history = reach(from)
  for (const step of steps) take(history, step)
  history.ahead = { worker: 0, server: 0 }
  return history
}

type Asking = Extract<Step, {
  readonly _tag: "Terminate" | "Interrupt" | "Rename" | "Sync" | "Decide" | "Answer" | "Send" | "Cancel" | "Restore"
}>

const askedBy = (history: History, step: Asking): Asked => {
  switch (step._tag) {
    case "Decide":
      return { _tag: "Decide", approvalId: `call-${step.call}`, ...decisionOf(step.by) }
    case "Answer":
      return { _tag: "Answer", questionId: `question-${step.question}`, reply: REPLIES[step.how] }
    case "Send":
      return { _tag: "Send", prompt: "And now?", whenBusy: step.whenBusy }
    case "Cancel":
      return { _tag: "Cancel", messageId: turnId(ids, history.sandbox.id, step.turn) }
    case "Restore":
      return { _tag: "Restore", checkpoint: step.checkpoint }
    default:
      return step
  }
}

const take = (history: History, step: Step): void => {
  switch (step._tag) {
    case "Wait":
      history.wait(Duration.minutes(step.minutes))
      return
    case "Clock":
      history.ahead = { ...history.ahead, [step.of]: step.ahead }
      return
    case "Episode":
    case "Misuse": {
      const choices = step._tag === "Episode" ? episodesOf(history) : misuses
      choices[step.pick % choices.length]?.(history, step.variant)
      return
    }
    case "GoOn": {
      const choices = ordinary(history)
      choices[step.pick % choices.length]?.()
      return
    }
    case "Terminate":
    case "Interrupt":
    case "Rename":
    case "Sync":
    case "Decide":
    case "Answer":
    case "Send":
    case "Cancel":
    case "Restore":
      history.person(askedBy(history, step))
      return
    case "RecordSteer":
      history.system({ _tag: "RecordSteer", turnId: named(history, step.turn), messageId: turnId(ids, history.sandbox.id, step.message) })
      return
    case "ReportBoot":
      history.system({ _tag: "ReportBoot", data: { stage: step.stage, ms: 12, repo: "acme/shop" } })
      return
    case "StartSetup":
      history.system({ _tag: "StartSetup", limit: Duration.minutes(step.minutes) })
      return
    case "FinishBoot":
      history.system({ _tag: "FinishBoot", turnId: turnId(ids, history.sandbox.id, 1) })
      return
    case "Fail":
      history.system({ _tag: "Fail", reason: step.reason, error: `It was ${step.reason}.`, retryable: false })
      return
    case "StartTurn":
      history.system({ _tag: "StartTurn", turnId: named(history, step.turn) })
      return
    case "RecordWork":
      history.system(work(named(history, step.turn)))
      return
    case "RequestApproval":
      history.system(request(named(history, step.turn), freshCall(history, step.call), step.kind, step.plain && step.kind === "edit"))
      return
    case "AskQuestion":
      history.system(inquiry(named(history, step.turn), freshQuestion(history, step.question)))
      return
    case "EndTurn":
      history.system({ _tag: "EndTurn", turnId: named(history, step.turn), state: step.state })
      return
    case "ReportBoxLimit":
      history.system({ _tag: "ReportBoxLimit", turnId: named(history, step.turn), limit: step.limit })
      return
    case "ReportUsage":
      history.system(used(step.counted, history.moments.length))
      return
    case "ReportPublication":
      history.system(publication)
      return
    case "RecordCheckpoint": {
      const { checkpoint: newest } = history.sandbox
      const checkpoint = { next: newest + 1, none: null, newest, skipping: newest + 2 }[step.number]
      history.system(checkpoint === null ? noCheckpoint : recordCheckpoint(checkpoint))
      return
    }
    case "RecordRestore":
      history.system({
        _tag: "RecordRestore",
        data: { checkpoint: Math.max(history.sandbox.checkpoint - step.back, 0), cause: step.cause }
      })
      return
    case "FailRestore":
      history.system(noRestore)
      return
    case "RecordSync":
      history.system(synced)
      return
    case "StartBoot":
    case "Expire":
    case "RevokeGrant":
    case "Release":
      history.system(step)
      return
  }
}

const system = (history: History, command: SystemCommand) => () => void history.system(command)
const person = (history: History, asked: Asked) => () => void history.person(asked)
const expire = (history: History, limit: Duration.Duration) => () => void history.wait(limit).system({ _tag: "Expire" })
const often = (choice: () => void) => [choice, choice, choice, choice]
const leave = (history: History) => [person(history, { _tag: "Terminate" }), person(history, { _tag: "Rename", title: TITLES[1] })]
const asks = (history: History) => system(history, request(history.turn, freshCall(history, history.approvals.length + 1)))
const inquires = (history: History) => system(history, inquiry(history.turn, freshQuestion(history, history.questions.length + 1)))
const taken = (history: History) => [
  ...often(system(history, recordCheckpoint(history.sandbox.checkpoint + 1))),
  system(history, noCheckpoint)
]
const lost = (history: History) => {
  const { checkpoint } = history.sandbox
  return checkpoint === 0 ? [] : [system(history, { _tag: "RecordRestore", data: { checkpoint, cause: "machine_lost" } })]
}

/** Messages while a turn is active. */
const messages = (history: History): ReadonlyArray<() => void> => {
  const { sandbox, turn } = history
  const [first, second] = sandbox.waiting
  return [
    ...(sandbox.waiting.length < MAX_WAITING
      ? [
        person(history, { _tag: "Send", prompt: "And then?", whenBusy: "queue" }),
        person(history, { _tag: "Send", prompt: "No, so.", whenBusy: "steer" })
      ]
      : []),
    ...(first?.steers === true ? [system(history, { _tag: "RecordSteer", turnId: turn, messageId: first.id })] : []),
    ...(second === undefined ? [] : [person(history, { _tag: "Cancel", messageId: second.id })])
  ]
}

/** The same for a turn that works. */
const working = (history: History): ReadonlyArray<() => void> => {
  const { sandbox, turn } = history
  return [
    ...often(asks(history)),
    inquires(history),
    inquires(history),
    ...messages(history),
    system(history, work(turn)),
    system(history, used(true, 0)),
    system(history, { _tag: "ReportBoxLimit", turnId: turn, limit: "out_of_memory" }),
    system(history, publication),
    system(history, { _tag: "EndTurn", turnId: turn, state: sandbox.turn?.interruptRequested === true ? "interrupted" : "succeeded" }),
    system(history, { _tag: "EndTurn", turnId: turn, state: "failed", reason: "The model refused." }),
    system(history, { _tag: "RefuseMessage", turnId: turn }),
    ...lost(history),
    person(history, { _tag: "Interrupt" })
  ]
}

/** The same between turns. */
const resting = (history: History): ReadonlyArray<() => void> => {
  const { sandbox } = history
  return [
    ...often(person(history, { _tag: "Send", prompt: "And now?" })),
    ...(sandbox.owesCheckpoint ? taken(history) : lost(history)),
    ...sandbox.checkpoint > 0 ? [person(history, { _tag: "Restore", checkpoint: sandbox.checkpoint })] : [],
    ...sandbox.restoring === null
      ? []
      : [
        system(history, { _tag: "RecordRestore", data: { checkpoint: sandbox.restoring, cause: "command" } }),
        system(history, noRestore)
      ],
    ...(sandbox.syncing ? [system(history, synced)] : [person(history, { _tag: "Sync" })]),
    system(history, publishing),
    system(history, publication),
    expire(history, limits.idle),
    expire(history, limits.lifetime),
    ...leave(history)
  ]
}

/** The same for a turn that waits for a person. */
const waiting = (history: History): ReadonlyArray<() => void> => [
  ...messages(history),
  expire(history, limits.approval),
  ...lost(history),
  person(history, { _tag: "Interrupt" }),
  ...leave(history)
]

/** The same while it runs. */
const running = (history: History): ReadonlyArray<() => void> => {
  const { sandbox, turn } = history
  const decide = (by: typeof Deciding.Type) => () => decides(by)(history, 0)
  const reply = (how: typeof Replying.Type) => () => replies(REPLIES[how])(history, 0)
  switch (sandbox.turn?.state) {
    case "pending":
      return [
        ...messages(history),
        ...often(system(history, { _tag: "StartTurn", turnId: turn })),
        ...lost(history),
        person(history, { _tag: "Interrupt" }),
        ...leave(history)
      ]
    case "running":
      return working(history)
    case "awaiting_approval":
      return [
        ...often(decide("approve")),
        decide("deny"),
        decide("approve all"),
        decide("deny because"),
        asks(history),
        asks(history),
        inquires(history),
        ...waiting(history)
      ]
    case "awaiting_answer":
      return [...often(reply("answer")), reply("dismiss"), asks(history), inquires(history), ...waiting(history)]
    default:
      return resting(history)
  }
}

/** The steps that may well come next, the likely ones several times; never empty. */
const ordinary = (history: History): ReadonlyArray<() => void> => {
  const { sandbox, turn } = history
  switch (sandbox.status) {
    case "queued":
      return [...often(system(history, { _tag: "StartBoot" })), ...leave(history)]
    case "creating":
      return [
        ...often(system(history, { _tag: "FinishBoot", turnId: turn })),
        system(history, { _tag: "ReportBoot", data: { stage: "provision", ms: 7 } }),
        system(history, { _tag: "StartSetup", limit: Duration.minutes(20) }),
        () => void history.wait("40 minutes").system({ _tag: "StartSetup", limit: Duration.minutes(40) }),
        system(history, { _tag: "ReportBoot", data: { stage: "setup", ms: 600_000, cache: "miss" } }),
        system(history, { _tag: "Fail", reason: "clone_failed", error: "The repository is gone.", retryable: false })
      ]
    case "running":
      return running(history)
    case "terminating":
      return [
        system(history, { _tag: "EndTurn", turnId: turn, state: "interrupted" }),
        system(history, recordCheckpoint(sandbox.checkpoint + 1)),
        system(history, { _tag: "Release" }),
        expire(history, limits.release)
      ]
    case "succeeded":
    case "failed":
    case "terminated":
      return [system(history, publication), ...leave(history)]
  }
}

const named = ({ sandbox, turn }: History, which: typeof Named.Type): string =>
  which === "latest" ? turn : which === "earlier" ? turnId(ids, sandbox.id, (sandbox.turn?.n ?? 1) - 1) : "another sandbox's turn"

const work = (turn: string): SystemCommand => ({
  _tag: "RecordWork",
  turnId: turn,
  events: [
    { type: "message.updated", data: { part_id: "m1:text", message_id: "m1", kind: "text", text: "Hello" } },
    { type: "tool.updated", data: { part_id: "tool:1", message_id: `turn-tools:${turn}`, call_id: "1", tool: "write", status: "running" } },
    { type: "plan.updated", data: { part_id: `plan:${turn}`, entries: [{ text: "Write it", status: "in_progress" }] } },
    { type: "message.completed", data: { message_id: "m1", finish: "end_turn" } }
  ]
})
/** `counted`: in tokens too. */
const used = (counted: boolean, times: number): SystemCommand => ({
  _tag: "ReportUsage",
  usage: { llmRequestCount: 3 + times, costMicroUsd: 1200 + times, creditsChargedMicros: 0 },
  ...(counted ? { tokens: { input: 900 + times, cachedInput: 300, output: 77 + times } } : {})
})
const publishing: SystemCommand = { _tag: "ReportPublication", data: { repo: "acme/shop", action_state: "publishing" } }
const noCheckpoint: SystemCommand = { _tag: "RecordCheckpoint", data: { error: "It is too large." } }
const noRestore: SystemCommand = { _tag: "FailRestore", error: "It is cut.", damaged: [1] }
const publication: SystemCommand = {
  _tag: "ReportPublication",
  data: { repo: "acme/shop", action_state: "idle", number: 7, head_sha: "0123456789abcdef0123456789abcdef01234567" }
}
