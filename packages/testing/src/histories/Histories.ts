/**
 * Histories of one sandbox: actions of the service and of people, in any order, sensible or hostile, with time passing in between. Shared
 * by every property of the pure rules; `History` also sets the scene of tests with stated values. Assumed, because runtimes guarantee it:
 * an agent never reuses the id of a decided tool call.
 */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { conclude } from "@slipway/domain/sandbox/ports/SandboxStore"
import { type Approval, type ApprovalDecision, approvalOf } from "@slipway/domain/sandbox/rules/Approval"
import {
  cancelMessage,
  type Command,
  type CommandResult,
  decideApproval,
  type Decider,
  interrupt,
  type Receipt,
  restore,
  sendMessage,
  terminate
} from "@slipway/domain/sandbox/rules/Command"
import { MAX_WAITING } from "@slipway/domain/sandbox/rules/MessageQueue"
import type { Limits } from "@slipway/domain/sandbox/rules/Policy"
import { type Creation, created, evolveAll, initial, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import type { ToolKind } from "@slipway/domain/sandbox/rules/ToolCall"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import { WhenBusy } from "@slipway/domain/sandbox/schema/MessageQueue"
import { RestoreCause } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { TurnOutcome } from "@slipway/domain/sandbox/schema/Turn"
import * as Arbitrary from "effect/Arbitrary"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

/** Derived ids show the name they stand for. */
export const ids = { derive: (name: string) => name }

/** The defaults of docs/decisions/2.1, 2.2 and 3, stated again. */
export const limits: Limits = {
  queue: Duration.hours(24),
  boot: Duration.minutes(10),
  idle: Duration.hours(24),
  lost: Duration.minutes(5),
  lifetime: Duration.days(30),
  release: Duration.minutes(10),
  turn: Duration.hours(2),
  approval: Duration.minutes(30),
  retention: Duration.days(30)
}

/** When every history begins. */
export const createdAt = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")

/** The sandbox every history is of. */
export const creation: Creation = {
  id: SandboxId.make("c_abcdefgh2345"),
  grantId: "grant-1",
  createdBy: "user-1",
  title: "Fix the shop",
  repos: [{ fullName: "acme/shop", ref: "main" }, { fullName: "acme/other" }],
  prompt: "Fix the shop",
  model: offlineDemo.id,
  agentRuntime: offlineDemo.agentRuntime,
  reasoningEffort: null,
  toolApprovalMode: "prompt",
  metadata: { customer: "42" },
  origin: null,
  createdAt
}

/** The commands of a person. */
export type Asked =
  | { readonly _tag: "Terminate" }
  | { readonly _tag: "Interrupt" }
  | { readonly _tag: "Decide"; readonly approvalId: string } & ApprovalDecision
  | { readonly _tag: "Send"; readonly prompt: string; readonly whenBusy?: WhenBusy }
  | { readonly _tag: "Cancel"; readonly messageId: string }
  | { readonly _tag: "Restore"; readonly checkpoint: number }

const asking: ReadonlyArray<string> = ["Terminate", "Interrupt", "Decide", "Send", "Cancel", "Restore"] satisfies ReadonlyArray<
  Asked["_tag"]
>
/** Whether a person did it, and not the service. */
export const isAsked = (did: SystemCommand | Asked): did is Asked => asking.includes(did._tag)

/** One thing that was tried. A refused one has no events and leaves the sandbox as it was. */
export interface Moment {
  readonly now: DateTime.Utc
  readonly did: SystemCommand | Asked
  readonly before: Sandbox
  readonly events: ReadonlyArray<SandboxEvent>
  readonly after: Sandbox
  /** Tag of the error, when that was the answer. */
  readonly refused: string | null
  /** The answer to a person. */
  readonly result: CommandResult | null
}

/** A sandbox, its receipts and its approvals, as a store keeps them. */
export class History {
  now = createdAt
  readonly first: Sandbox
  readonly moments: Array<Moment> = []
  readonly #receipts = new Map<string, Receipt>()
  readonly #approvals = new Map<string, Approval>()
  #sandbox: Sandbox

  constructor(more: Partial<Creation> = {}) {
    const asked = { ...creation, ...more }
    this.first = evolveAll(initial(asked), created(asked), createdAt)
    this.#sandbox = this.first
  }

  get sandbox(): Sandbox {
    return this.#sandbox
  }
  /** The latest turn's id; before running, the one it will have. */
  get turn(): string {
    return this.#sandbox.turn?.id ?? turnId(ids, this.#sandbox.id, 1)
  }
  /** Every event with its time, the first one included. */
  get log(): ReadonlyArray<{ readonly at: DateTime.Utc; readonly event: SandboxEvent }> {
    return [
      ...created(this.first).map((event) => ({ at: createdAt, event })),
      ...this.moments.flatMap(({ events, now }) => events.map((event) => ({ at: now, event })))
    ]
  }
  /** Every approval that was ever requested, oldest first. */
  get approvals(): ReadonlyArray<Approval> {
    return [...this.#approvals.values()]
  }

  wait(duration: Duration.Input): this {
    this.now = DateTime.addDuration(this.now, Duration.fromInputUnsafe(duration))
    return this
  }

  system(command: SystemCommand): Moment {
    const decided = decide(this.#sandbox, command, { limits, now: this.now })
    return Result.isSuccess(decided)
      ? this.#record(command, decided.success, null, null)
      : this.#record(command, [], decided.failure._tag, null)
  }

  /** Whether a command was answered with this turn. */
  isMessage(turnId: string | undefined): boolean {
    return turnId !== undefined && Array.from(this.#receipts.values()).some((receipt) => receipt.turnId === turnId)
  }

  person(asked: Asked): Moment {
    const command = commandOf(asked)
    const before = this.#sandbox
    const commandId = command.identity(before)
    const receipt = this.#receipts.get(commandId) ?? null
    const approval = command.approvalId === null ? null : this.#approvals.get(command.approvalId) ?? null
    const isMessage = this.isMessage(command.messageId)
    const decided = command.decide({ sandbox: before, receipt, approval, isMessage })
    if (Result.isFailure(decided)) return this.#record(asked, [], decided.failure._tag, null)
    const verdict = decided.success
    const events = verdict.outcome === "applied" ? verdict.events : []
    const { keep, result } = conclude(evolveAll(before, events, this.now).revision, commandId, receipt, verdict)
    if (keep !== null) this.#receipts.set(commandId, keep)
    return this.#record(asked, events, null, result)
  }

  #record(did: Moment["did"], events: ReadonlyArray<SandboxEvent>, refused: string | null, result: CommandResult | null): Moment {
    const before = this.#sandbox
    this.#sandbox = evolveAll(before, events, this.now)
    for (const event of events) {
      if (event.type === "approval.requested" || event.type === "approval.resolved") {
        this.#approvals.set(event.data.approval_id, approvalOf(event))
      }
    }
    const moment = { now: this.now, did, before, events, after: this.#sandbox, refused, result }
    this.moments.push(moment)
    return moment
  }
}

/** The person who decides. The sandbox's agent is told why by steering. */
export const decider: Decider = { userId: "user-2", tellingOf: () => "steer" }

/** How people decide. */
export const Deciding = Schema.Literals(["approve", "approve all", "deny", "deny because"])

/** The decision that this person makes. */
export const decisionOf = (by: typeof Deciding.Type): ApprovalDecision => {
  switch (by) {
    case "approve":
    case "deny":
      return { decision: by }
    case "approve all":
      return { decision: "approve", scope: "turn" }
    case "deny because":
      return { decision: "deny", reason: "Not there." }
  }
}

const commandOf = (asked: Asked): Command<{ readonly _tag: string }> => {
  switch (asked._tag) {
    case "Terminate":
      return terminate(ids)
    case "Interrupt":
      return interrupt(ids)
    case "Decide":
      return decideApproval(ids, asked.approvalId, asked, decider)
    case "Send":
      return sendMessage(ids, asked.prompt, "user-2", { whenBusy: asked.whenBusy ?? "reject", canSteer: () => true })
    case "Cancel":
      return cancelMessage(ids, asked.messageId)
    case "Restore":
      return restore(ids, asked.checkpoint, true)
  }
}

// ---------------------------------------------------------------------------------------------------------------
// Scenes

/** Where a history may begin: one for each state of sandbox and turn that can be reached. */
export const Scene = Schema.Literals([
  "queued",
  "creating",
  "pending",
  "working",
  "resumed",
  "asking",
  "interrupting",
  "idle",
  "stuck",
  "succeeded",
  "failed",
  "terminating",
  "terminated"
])
export type Scene = typeof Scene.Type

const scenes: Readonly<Record<Scene, () => History>> = {
  queued: () => new History(),
  creating: () => after("queued", (history) => history.system({ _tag: "StartBoot" })),
  /** Running; the first turn waits for its agent. */
  pending: () => after("creating", (history) => history.system({ _tag: "FinishBoot", turnId: history.turn })),
  /** Running, and so is the turn. */
  working: () => after("pending", (history) => history.system({ _tag: "StartTurn", turnId: history.turn })),
  /** The agent is at the second turn, and a checkpoint was taken before it. */
  resumed: () =>
    after("idle", (history) => {
      history.system(recordCheckpoint(1))
      history.person({ _tag: "Send", prompt: "And now?" })
      history.system({ _tag: "StartTurn", turnId: history.turn })
    }),
  /** `call-1` waits for a decision. */
  asking: () => after("working", (history) => history.system(request(history.turn, "call-1"))),
  /** A person asked for the turn's end; the agent has not answered yet. */
  interrupting: () => after("working", (history) => history.person({ _tag: "Interrupt" })),
  /** Running; the last turn succeeded. */
  idle: () => after("working", (history) => history.system({ _tag: "EndTurn", turnId: history.turn, state: "succeeded" })),
  /** Running; the last turn failed. */
  stuck: () => after("working", (history) => history.system({ _tag: "EndTurn", turnId: history.turn, state: "failed" })),
  succeeded: () => after("idle", (history) => history.wait(limits.idle).system({ _tag: "Expire" })),
  failed: () =>
    after("creating", (history) => history.system({ _tag: "Fail", reason: "boot_failed", error: "The image is gone.", retryable: false })),
  /** A person ended it while it worked. */
  terminating: () => after("working", (history) => history.person({ _tag: "Terminate" })),
  terminated: () => after("terminating", (history) => history.system({ _tag: "Release" }))
}

/** A fresh history that has come to this point. */
export const reach = (scene: Scene): History => scenes[scene]()

const after = (scene: Scene, then: (history: History) => unknown): History => {
  const history = reach(scene)
  then(history)
  return history
}

/** The agent asks whether it may go on with this tool call. */
export const request = (turn: string, call: string, kind: ToolKind = "edit", plain = kind === "edit"): SystemCommand => ({
  _tag: "RequestApproval",
  turnId: turn,
  approval: { approval_id: call, tool: "write", kind, paths: ["a.txt"], ...(plain ? { plain: true } : {}) }
})

// ---------------------------------------------------------------------------------------------------------------
// Arbitrary histories

/** Lengths of time on both sides of every limit. */
const Wait = Schema.TaggedStruct("Wait", { minutes: Schema.Literals([0, 1, 5, 10, 29, 30, 31, 60, 120, 1439, 1440, 43_199, 43_200]) })

/** More than what may come next at any time. */
const PICKS = 60
/** Whatever comes next in an ordinary life; `pick` chooses among several. */
const GoOn = Schema.TaggedStruct("GoOn", { pick: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: PICKS - 1 })) })

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
  Send: { whenBusy: WhenBusy },
  Cancel: { turn: Schema.Literals([1, 2, 3, 4, 5, 99]) },
  RecordSteer: { turn: Named, message: Schema.Literals([1, 2, 3, 4, 5]) },
  Restore: { checkpoint: Schema.Literals([0, 1, 2, 3]) }
})

/** One thing that happens in a history. */
export const Step = Schema.Union([Wait, GoOn, Anything])
export type Step = typeof Step.Type

const mixed = (shares: ReadonlyArray<readonly [share: number, step: Arbitrary.Arbitrary<Step>]>) => {
  const choices = shares.flatMap(([share, step]) => Array.from({ length: share }, () => step))
  const index = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: choices.length - 1 }))
  const step = Arbitrary.flatMap(Arbitrary.schema(index), (i) => choices[i] ?? Arbitrary.schema(GoOn))
  return Arbitrary.all({ from: Arbitrary.schema(Scene), steps: Arbitrary.array(step, { maxLength: 60 }) })
}

/** A point in a sandbox's life, and what is tried from there on. */
export interface Plan {
  readonly from: Scene
  readonly steps: ReadonlyArray<Step>
}

/** Plans as a healthy service and sensible people make them. */
export const legal: Arbitrary.Arbitrary<Plan> = mixed([[5, Arbitrary.schema(GoOn)], [1, Arbitrary.schema(Wait)]])

/** Plans with commands that come twice, too late, too early, or for turns and approvals that never were. */
export const hostile: Arbitrary.Arbitrary<Plan> = mixed([
  [4, Arbitrary.schema(GoOn)],
  [1, Arbitrary.schema(Wait)],
  [5, Arbitrary.schema(Anything)]
])

/**
 * A plan of hostile people from any whole numbers, 0 or more, the same one from the same numbers: for property testers that draw and
 * shrink numbers themselves. The first is the scene, and each other one a step.
 */
export const planOf = ([from = 0, ...steps]: ReadonlyArray<number>): Plan => {
  const { literals } = Scene
  return { from: literals[from % literals.length] ?? "queued", steps: steps.map(stepOf) }
}

const sampled = (step: Arbitrary.Arbitrary<Step>, seed: number) => Effect.runSync(Arbitrary.sampleEffect(step, { count: 1, seed }))

/** Four of ten numbers go on, one waits, and five are arbitrary. */
const stepOf = (n: number): Step => {
  const pick = Math.floor(n / 10)
  if (n % 10 < 4) return { _tag: "GoOn", pick: pick % PICKS }
  const [step] = sampled(n % 10 === 4 ? Arbitrary.schema(Wait) : Arbitrary.schema(Anything), pick)
  return step ?? { _tag: "GoOn", pick: 0 }
}

/** For `it.prop`: long plans. */
export const thorough = { arbitrary: { runs: 300, size: 40 } }

/** The history after these steps, taken one after the other. */
export const play = ({ from, steps }: Plan): History => {
  const history = reach(from)
  for (const step of steps) take(history, step)
  return history
}

const take = (history: History, step: Step): void => {
  switch (step._tag) {
    case "Wait":
      history.wait(Duration.minutes(step.minutes))
      return
    case "GoOn": {
      const choices = ordinary(history)
      choices[step.pick % choices.length]?.()
      return
    }
    case "Terminate":
    case "Interrupt":
      history.person(step)
      return
    case "Decide":
      history.person({ _tag: "Decide", approvalId: `call-${step.call}`, ...decisionOf(step.by) })
      return
    case "Send":
      history.person({ _tag: "Send", prompt: "And now?", whenBusy: step.whenBusy })
      return
    case "Cancel":
      history.person({ _tag: "Cancel", messageId: turnId(ids, history.sandbox.id, step.turn) })
      return
    case "RecordSteer":
      history.system({ _tag: "RecordSteer", turnId: named(history, step.turn), messageId: turnId(ids, history.sandbox.id, step.message) })
      return
    case "Restore":
      history.person({ _tag: "Restore", checkpoint: step.checkpoint })
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
    case "StartBoot":
    case "Expire":
    case "RevokeGrant":
    case "Release":
      history.system(step)
      return
  }
}

/** The steps that may well come next, the likely ones several times; never empty. */
const ordinary = (history: History): ReadonlyArray<() => void> => {
  const { sandbox, turn } = history
  const system = (command: SystemCommand) => () => void history.system(command)
  const person = (asked: Asked) => () => void history.person(asked)
  const often = (choice: () => void) => [choice, choice, choice, choice]
  const ask = system(request(turn, freshCall(history, history.approvals.length + 1)))
  const expire = (limit: Duration.Duration) => () => void history.wait(limit).system({ _tag: "Expire" })
  const leave = [person({ _tag: "Terminate" })]
  const [first, second] = sandbox.waiting
  const busy = [
    ...(sandbox.waiting.length < MAX_WAITING
      ? [
        person({ _tag: "Send", prompt: "And then?", whenBusy: "queue" }),
        person({ _tag: "Send", prompt: "No, so.", whenBusy: "steer" })
      ]
      : []),
    ...(first?.steers === true ? [system({ _tag: "RecordSteer", turnId: turn, messageId: first.id })] : []),
    ...(second === undefined ? [] : [person({ _tag: "Cancel", messageId: second.id })])
  ]
  const { checkpoint } = sandbox
  const taken = [...often(system(recordCheckpoint(checkpoint + 1))), system(noCheckpoint)]
  const lost = checkpoint === 0 ? [] : [system({ _tag: "RecordRestore", data: { checkpoint, cause: "machine_lost" } })]

  switch (sandbox.status) {
    case "queued":
      return [...often(system({ _tag: "StartBoot" })), ...leave]
    case "creating":
      return [
        ...often(system({ _tag: "FinishBoot", turnId: turn })),
        system({ _tag: "ReportBoot", data: { stage: "provision", ms: 7 } }),
        system({ _tag: "StartSetup", limit: Duration.minutes(20) }),
        () => void history.wait("40 minutes").system({ _tag: "StartSetup", limit: Duration.minutes(40) }),
        system({ _tag: "ReportBoot", data: { stage: "setup", ms: 600_000, cache: "miss" } }),
        system({ _tag: "Fail", reason: "clone_failed", error: "The repository is gone.", retryable: false })
      ]
    case "running":
      switch (sandbox.turn?.state) {
        case "pending":
          return [...busy, ...often(system({ _tag: "StartTurn", turnId: turn })), ...lost, person({ _tag: "Interrupt" }), ...leave]
        case "running":
          return [
            ...often(ask),
            ...busy,
            system(work(turn)),
            system(used(true, 0)),
            system({ _tag: "ReportBoxLimit", turnId: turn, limit: "out_of_memory" }),
            system(publication),
            system({ _tag: "EndTurn", turnId: turn, state: sandbox.turn.interruptRequested ? "interrupted" : "succeeded" }),
            system({ _tag: "EndTurn", turnId: turn, state: "failed", reason: "The model refused." }),
            system({ _tag: "RefuseMessage", turnId: turn }),
            ...lost,
            person({ _tag: "Interrupt" })
          ]
        case "awaiting_approval": {
          const [oldest] = sandbox.approvals
          const approvalId = oldest?.approval_id ?? "none"
          return [
            ...often(person({ _tag: "Decide", approvalId, decision: "approve" })),
            person({ _tag: "Decide", approvalId, decision: "deny" }),
            person({ _tag: "Decide", approvalId, ...decisionOf("approve all") }),
            person({ _tag: "Decide", approvalId, ...decisionOf("deny because") }),
            ask,
            ask,
            ...busy,
            expire(limits.approval),
            ...lost,
            person({ _tag: "Interrupt" }),
            ...leave
          ]
        }
        default:
          return [
            ...often(person({ _tag: "Send", prompt: "And now?" })),
            ...(sandbox.owesCheckpoint ? taken : lost),
            ...sandbox.checkpoint > 0 ? [person({ _tag: "Restore", checkpoint: sandbox.checkpoint })] : [],
            ...sandbox.restoring === null
              ? []
              : [system({ _tag: "RecordRestore", data: { checkpoint: sandbox.restoring, cause: "command" } }), system(noRestore)],
            system(publishing),
            system(publication),
            expire(limits.idle),
            expire(limits.lifetime),
            ...leave
          ]
      }
    case "terminating":
      return [
        system({ _tag: "EndTurn", turnId: turn, state: "interrupted" }),
        system(recordCheckpoint(checkpoint + 1)),
        system({ _tag: "Release" }),
        expire(limits.release)
      ]
    case "succeeded":
    case "failed":
    case "terminated":
      return [system(publication), ...leave]
  }
}

const named = ({ sandbox, turn }: History, which: typeof Named.Type): string =>
  which === "latest" ? turn : which === "earlier" ? turnId(ids, sandbox.id, (sandbox.turn?.n ?? 1) - 1) : "another sandbox's turn"

/** The `n`th call, or the next undecided one. */
const freshCall = (history: History, n: number): string => {
  const known = history.approvals.find(({ approvalId }) => approvalId === `call-${n}`)
  return known === undefined || known.outcome === null ? `call-${n}` : freshCall(history, n + 1)
}

const work = (turn: string): SystemCommand => ({
  _tag: "RecordWork",
  turnId: turn,
  events: [
    { type: "message.updated", data: { part_id: "m1:text", message_id: "m1", kind: "text", text: "Hello" } },
    { type: "tool.updated", data: { part_id: "tool:1", message_id: `turn-tools:${turn}`, call_id: "1", tool: "write", status: "running" } },
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
/** A worker stored it. */
export const recordCheckpoint = (checkpoint: number): SystemCommand => ({
  _tag: "RecordCheckpoint",
  data: { checkpoint, bytes: 1234, ms: 5, repos: [{ repo: "acme/shop", sha: "0123456789abcdef0123456789abcdef01234567" }] }
})
const noCheckpoint: SystemCommand = { _tag: "RecordCheckpoint", data: { error: "It is too large." } }
const noRestore: SystemCommand = { _tag: "FailRestore", error: "It is cut.", damaged: [1] }
const publication: SystemCommand = {
  _tag: "ReportPublication",
  data: { repo: "acme/shop", action_state: "idle", number: 7, head_sha: "0123456789abcdef0123456789abcdef01234567" }
}
