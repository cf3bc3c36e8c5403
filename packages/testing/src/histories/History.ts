/**
 * The history of one sandbox: actions of the service and of people, with time passing in between. `Histories.ts` makes arbitrary ones;
 * tests with stated values begin with a scene and add their own actions.
 */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { conclude } from "@slipway/domain/sandbox/ports/SandboxStore"
import { type Approval, type ApprovalDecision, approvalOf } from "@slipway/domain/sandbox/rules/Approval"
import {
  answerQuestion,
  cancelMessage,
  type Command,
  type CommandResult,
  decideApproval,
  type Decider,
  interrupt,
  type Receipt,
  type Rejection,
  rename,
  restore,
  sendMessage,
  sync,
  terminate
} from "@slipway/domain/sandbox/rules/Command"
import type { Limits } from "@slipway/domain/sandbox/rules/Policy"
import { type Question, type QuestionReply, type QuestionState, questionStateOf } from "@slipway/domain/sandbox/rules/Question"
import { type Creation, created, dateOf, evolveAll, initial, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import type { ToolKind } from "@slipway/domain/sandbox/rules/ToolCall"
import { turnId } from "@slipway/domain/sandbox/rules/Turn"
import type { WhenBusy } from "@slipway/domain/sandbox/schema/MessageQueue"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { specificationOf, type When } from "../suite/GivenWhenThen.ts"

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
  continues: null,
  createdAt
}

/** The title of {@link creation}, and others that people give it. */
export const TITLES = [creation.title, "The shop", "Prices"] as const

/** The commands of a person. */
export type Asked =
  | { readonly _tag: "Terminate" }
  | { readonly _tag: "Interrupt" }
  | { readonly _tag: "Decide"; readonly approvalId: string } & ApprovalDecision
  | { readonly _tag: "Answer"; readonly questionId: string; readonly reply: QuestionReply }
  /** `steerable`: the agent takes messages during a turn, as it does by default. */
  | { readonly _tag: "Send"; readonly prompt: string; readonly whenBusy?: WhenBusy; readonly steerable?: boolean }
  | { readonly _tag: "Cancel"; readonly messageId: string }
  | { readonly _tag: "Restore"; readonly checkpoint: number }
  | { readonly _tag: "Rename"; readonly title: string }
  | { readonly _tag: "Sync" }

const asking: ReadonlyArray<string> = [
  "Terminate",
  "Interrupt",
  "Decide",
  "Answer",
  "Send",
  "Cancel",
  "Restore",
  "Rename",
  "Sync"
] satisfies ReadonlyArray<Asked["_tag"]>
/** Whether a person did it, and not the service. */
export const isAsked = (did: SystemCommand | Asked): did is Asked => asking.includes(did._tag)

type Decisions =
  | typeof answerQuestion
  | typeof cancelMessage
  | typeof decideApproval
  | typeof interrupt
  | typeof rename
  | typeof restore
  | typeof sendMessage
  | typeof sync
  | typeof terminate
type ErrorsOf<C> = C extends Command<infer E> ? E : never
/** The tags of the errors that the rules of a sandbox give. */
export type Refusal =
  (ErrorsOf<ReturnType<Decisions>> | (ReturnType<typeof decide> extends Result.Result<unknown, infer E> ? E : never))["_tag"]

/** One thing that was tried. A refused one has no events and leaves the sandbox as it was. */
export interface Moment {
  /** By the clock of the process that decided. */
  readonly now: DateTime.Utc
  /** The date of the events: never before that of an earlier event. */
  readonly at: DateTime.Utc
  readonly did: SystemCommand | Asked
  readonly before: Sandbox
  readonly events: ReadonlyArray<SandboxEvent>
  readonly after: Sandbox
  /** Tag of the error, when that was the answer. */
  readonly refused: Refusal | null
  /** The answer to a person. */
  readonly result: CommandResult | null
}

/** A process with a clock of its own. */
type Process = "server" | "worker"

/** A sandbox, its receipts, its approvals and its questions, as a store keeps them. */
export class History {
  /** The true time. */
  now = createdAt
  /** How far the clocks of the worker and of the server that answers people are ahead of the true time; minutes. */
  ahead = { worker: 0, server: 0 }
  readonly creation: Creation
  readonly first: Sandbox
  readonly moments: Array<Moment> = []
  readonly #receipts = new Map<string, Receipt>()
  readonly #approvals = new Map<string, Approval>()
  readonly #questions = new Map<string, QuestionState>()
  #sandbox: Sandbox

  constructor(more: Partial<Creation> = {}) {
    this.creation = { ...creation, ...more }
    this.first = evolveAll(initial(this.creation), created(this.creation), createdAt)
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
      ...this.moments.flatMap(({ at, events }) => events.map((event) => ({ at, event })))
    ]
  }
  /** Every approval that was ever requested, oldest first. */
  get approvals(): ReadonlyArray<Approval> {
    return [...this.#approvals.values()]
  }
  /** Every request for answers, oldest first. */
  get questions(): ReadonlyArray<QuestionState> {
    return [...this.#questions.values()]
  }

  wait(duration: Duration.Input): this {
    this.now = DateTime.addDuration(this.now, Duration.fromInputUnsafe(duration))
    return this
  }

  system(command: SystemCommand): Moment {
    const decided = decide(this.#sandbox, command, { limits, now: this.#clock("worker") })
    return Result.isSuccess(decided)
      ? this.#record("worker", command, decided.success, null, null)
      : this.#record("worker", command, [], decided.failure._tag, null)
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
    const question = command.questionId === undefined ? null : this.#questions.get(command.questionId) ?? null
    const isMessage = this.isMessage(command.messageId)
    const decided = command.decide({ sandbox: before, receipt, approval, question, isMessage })
    if (Result.isFailure(decided)) return this.#record("server", asked, [], decided.failure._tag, null)
    const verdict = decided.success
    const events = verdict.outcome === "applied" ? verdict.events : []
    const { keep, result } = conclude(evolveAll(before, events, before.statusAt).revision, commandId, receipt, verdict)
    if (keep !== null) this.#receipts.set(commandId, keep)
    return this.#record("server", asked, events, null, result)
  }

  #clock(process: Process): DateTime.Utc {
    return DateTime.add(this.now, { minutes: this.ahead[process] })
  }

  #record(
    process: Process,
    did: Moment["did"],
    events: ReadonlyArray<SandboxEvent>,
    refused: Refusal | null,
    result: CommandResult | null
  ): Moment {
    const before = this.#sandbox
    const now = this.#clock(process)
    const at = dateOf(before, now)
    this.#sandbox = evolveAll(before, events, at)
    for (const event of events) {
      if (event.type === "approval.requested" || event.type === "approval.resolved") {
        this.#approvals.set(event.data.approval_id, approvalOf(event))
      }
      if (event.type === "question.asked" || event.type === "question.answered") {
        this.#questions.set(event.data.question_id, questionStateOf(event))
      }
    }
    const moment = { now, at, did, before, events, after: this.#sandbox, refused, result }
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

const commandOf = (asked: Asked): Command<{ readonly _tag: Refusal }> => {
  switch (asked._tag) {
    case "Terminate":
      return terminate(ids)
    case "Interrupt":
      return interrupt(ids)
    case "Decide":
      return decideApproval(ids, asked.approvalId, asked, decider)
    case "Answer":
      return answerQuestion(ids, asked.questionId, asked.reply)
    case "Send":
      return sendMessage(ids, asked.prompt, "user-2", {
        whenBusy: asked.whenBusy ?? "reject",
        canSteer: () => asked.steerable ?? true
      })
    case "Cancel":
      return cancelMessage(ids, asked.messageId)
    case "Restore":
      return restore(ids, asked.checkpoint, true)
    case "Rename":
      return rename(ids, asked.title)
    case "Sync":
      return sync(ids)
  }
}

// ---------------------------------------------------------------------------------------------------------------
// Scenes

/** Where a history may begin: one for each state of sandbox and turn that can be reached. */
export const Scene = Schema.Literals([
  "queued",
  "forked",
  "continued",
  "creating",
  "pending",
  "working",
  "resumed",
  "asking",
  "inquiring",
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
  /** Queued, to start with a checkpoint of another sandbox. */
  forked: () => new History({ origin: { sandboxId: SandboxId.make("c_zyxwvutsrqpn"), checkpoint: 3 } }),
  /** Queued, to start with a branch of a person that has a pull request. */
  continued: () =>
    new History({
      repos: [{ fullName: "acme/shop", ref: "feature/cart" }, { fullName: "acme/other" }],
      continues: { repo: "acme/shop", branch: "feature/cart", pullRequest: 12, headSha: "1".repeat(40) }
    }),
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
  /** `question-1` waits for an answer. */
  inquiring: () => after("working", (history) => history.system(inquiry(history.turn, "question-1"))),
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

/** The questions of {@link inquiry}: with one option to choose, with several, and only with a text. */
export const QUESTIONS: ReadonlyArray<Question> = [
  { id: "1", text: "Which database?", options: [{ label: "Postgres" }, { label: "SQLite" }], multiple: false, allows_text: true },
  { id: "2", text: "Which pages?", options: [{ label: "Cart" }, { label: "Shop" }], multiple: true, allows_text: false },
  { id: "3", text: "Why?", options: [], multiple: false, allows_text: true }
]

/** A person's answers to {@link inquiry}. */
export const REPLY: QuestionReply = { answers: { 1: { labels: ["Postgres"] }, 2: { labels: ["Shop", "Cart"] }, 3: { text: "As before." } } }

/** The agent asks a person. */
export const inquiry = (turn: string, questionId: string): SystemCommand => ({
  _tag: "AskQuestion",
  turnId: turn,
  question: { question_id: questionId, questions: QUESTIONS }
})

/** A worker stored it. */
export const recordCheckpoint = (checkpoint: number): SystemCommand => ({
  _tag: "RecordCheckpoint",
  data: { checkpoint, bytes: 1234, ms: 5, repos: [{ repo: "acme/shop", sha: "0123456789abcdef0123456789abcdef01234567" }] }
})

/** A worker got the newest commits of the source host. */
export const synced: SystemCommand = {
  _tag: "RecordSync",
  data: { branches: [{ repo: "acme/shop", branch: "main", sha: "0123456789abcdef0123456789abcdef01234567" }] }
}

/** Minutes that pass. */
interface Passing {
  readonly _tag: "Wait"
  readonly minutes: number
}

/**
 * Sentences about a sandbox: given a scene, when the service or a person commands this, then these events follow, or this refusal.
 * `duplicate`: an equal command took effect before.
 */
export const given: (scene: Scene) => When<SystemCommand | Asked | Passing, SandboxEvent, Refusal | Rejection | "duplicate"> =
  specificationOf({
    begin: reach,
    take: (history, did) => {
      if (did._tag === "Wait") return [[], history.wait(Duration.minutes(did.minutes))]
      const { events, refused, result } = isAsked(did) ? history.person(did) : history.system(did)
      return [refused ?? (result?.outcome === "duplicate" ? result.outcome : result?.rejection) ?? events, history]
    }
  })
