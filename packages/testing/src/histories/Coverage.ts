/**
 * How often lives reach each transition, reason, refusal and command of a sandbox. The list is read from the schemas and the tables of the
 * domain, so a new reason is in it by itself.
 */
import type { SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { transitions } from "@slipway/domain/sandbox/rules/Transition"
import { isUnderWay, turnTransitions } from "@slipway/domain/sandbox/rules/Turn"
import { CommandResult, Rejection } from "@slipway/domain/sandbox/schema/Command"
import { SandboxEvent } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { TurnState } from "@slipway/domain/sandbox/schema/Turn"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import type * as SchemaAST from "effect/SchemaAST"
import { type Asked, type History, isAsked, type Moment, planOf, play, type Refusal } from "./Histories.ts"

/** An item that lives can reach, how many of them reached it, and why it may be fewer than one of a hundred. */
export interface Reached {
  /** E.g. `approval.resolved by=turn_end`. */
  readonly what: string
  readonly lives: number
  /** The part of all lives, from 0 to 1. */
  readonly share: number
  /** Why few lives or none reach it; `null`: at least one of a hundred has to. */
  readonly excuse: string | null
}

// ---------------------------------------------------------------------------------------------------------------
// The list

/** A new refusal of a rule does not compile before it is here. */
const refusals: Readonly<Record<Refusal, true>> = {
  AnswerInvalid: true,
  ApprovalNotFound: true,
  CheckpointNotFound: true,
  IllegalTransition: true,
  MessageNotFound: true,
  MessageNotWaiting: true,
  QuestionNotFound: true,
  QueueFull: true,
  SandboxNotRunning: true,
  ScopeUnsupported: true,
  SteeringUnsupported: true,
  TurnActive: true
}

/** All commands, and whether each can be refused as an `IllegalTransition`. */
const commands: Readonly<Record<SystemCommand["_tag"] | Asked["_tag"], boolean>> = {
  Answer: false,
  AskQuestion: true,
  Cancel: false,
  Decide: false,
  EndTurn: false,
  Expire: false,
  Fail: true,
  FailRestore: true,
  FinishBoot: true,
  Interrupt: false,
  RecordCheckpoint: true,
  RecordRestore: true,
  RecordSteer: false,
  RecordSync: false,
  RecordWork: false,
  RefuseMessage: false,
  Release: true,
  Rename: false,
  ReportBoot: true,
  ReportBoxLimit: false,
  ReportPublication: false,
  ReportUsage: false,
  RequestApproval: true,
  Restore: false,
  RevokeGrant: false,
  Send: false,
  StartBoot: true,
  StartSetup: true,
  StartTurn: true,
  Sync: false,
  Terminate: false
}

/** The values of a field that has a closed list of them. */
const literalsOf = (ast: SchemaAST.AST): ReadonlyArray<unknown> => {
  switch (ast._tag) {
    case "Literal":
      return [ast.literal]
    case "Null":
      return [null]
    case "Union": {
      const all = ast.types.map(literalsOf)
      return all.some((literals) => literals.length === 0) ? [] : all.flat()
    }
    default:
      return []
  }
}
const fieldsOf = (ast: SchemaAST.AST) => ast._tag === "Objects" ? ast.propertySignatures : []

/** Each type of event, with each value of each field that has a closed list. */
const eventItems = (): ReadonlyArray<string> =>
  (SandboxEvent.ast._tag === "Union" ? SandboxEvent.ast.types : []).flatMap((event) => {
    const type = fieldsOf(event).find(({ name }) => name === "type")?.type
    const data = fieldsOf(event).find(({ name }) => name === "data")?.type
    if (type?._tag !== "Literal" || data === undefined) throw new Error("an event has no type")
    const named = String(type.literal)
    return [named, ...fieldsOf(data).flatMap((field) => literalsOf(field.type).map((value) => `${named} ${String(field.name)}=${value}`))]
  })

/** A worker or a server decides by a clock that is behind that of an earlier event. */
const BEHIND = "decided by a clock that is behind"

const known: ReadonlySet<string> = new Set([
  BEHIND,
  ...Object.entries(transitions).flatMap(([cause, { from, to }]) => from.map((status) => `${status} > ${to} by ${cause}`)),
  ...TurnState.literals.flatMap((from) => turnTransitions[from].map((to) => `turn ${from} > ${to}`)),
  ...eventItems(),
  ...CommandResult.fields.outcome.literals.map((outcome) => `answer ${outcome}`),
  ...Rejection.literals.map((rejection) => `rejected: ${rejection}`),
  ...Object.keys(refusals).map((refusal) => `refused: ${refusal}`),
  ...Object.keys(commands).map((command) => `${command} applied`),
  ...Object.entries(commands).flatMap(([command, isRefused]) => isRefused ? [`${command} refused`] : [])
])

const FEEDBACK = "Lives have no source host that tells of feedback: Feedback.test.ts has lives of pull requests."
const ENDED_BY = "A turn's end is told by turn.completed."
/** Items that few lives reach or none, with the reason. */
const excuses: Readonly<Record<string, string>> = {
  "message.cancelled reason=output_limit":
    "Only a sandbox with a log of 512 MiB or 250,000 events cancels messages for it: MessageQueue.test.ts begins with such a log.",
  ...Object.fromEntries(
    ["received", "received kind=review", "received kind=comment", "received kind=checks", "replied", "paused", "resumed"]
      .map((what) => [`feedback.${what}`, FEEDBACK])
  ),
  "sandbox.status previous=terminated": "Nothing follows terminated.",
  "turn.updated previous=pending": "The step from pending is told by turn.started or turn.completed.",
  ...Object.fromEntries(
    ["policy", "provider", "system"].map((by) => [`turn.updated initiator=${by}`, "Only a person asks an agent to end its turn."])
  ),
  ...Object.fromEntries(TurnState.literals.filter((state) => !isUnderWay(state)).map((state) => [`turn.updated state=${state}`, ENDED_BY])),
  ...Object.fromEntries(
    TurnState.literals.filter((state) => !isUnderWay(state)).map((
      state
    ) => [`turn.updated previous=${state}`, "An ended turn has no steps."])
  )
}

// ---------------------------------------------------------------------------------------------------------------
// Counting

const causeOf = ({ previous, reason, status }: Extract<SandboxEvent, { readonly type: "sandbox.status" }>["data"]): string =>
  status === "creating"
    ? "leased"
    : status === "running"
    ? "ready"
    : previous === "terminating" && status === "terminated"
    ? "released"
    : `${reason}`

const stepOf = (state: string | undefined, event: SandboxEvent): string | null =>
  event.type === "turn.started"
    ? "running"
    : event.type === "turn.updated" && event.data.state !== "pending" || event.type === "turn.completed"
    ? event.data.state
    // Another request of a turn that waits for a person.
    : event.type === "approval.requested" && state === "awaiting_approval" || event.type === "question.asked" && state === "awaiting_answer"
    ? state
    : null

const eventReached = (event: SandboxEvent): ReadonlyArray<string> => [
  event.type,
  ...Object.entries(event.data).map(([field, value]) => `${event.type} ${field}=${value}`),
  ...(event.type === "sandbox.status" ? [`${event.data.previous} > ${event.data.status} by ${causeOf(event.data)}`] : [])
]

const momentReached = ({ at, before, did, events, now, refused, result }: Moment): ReadonlyArray<string> => {
  let state: string | undefined = before.turn?.state
  return [
    ...events.flatMap((event) => {
      const to = stepOf(state, event)
      const from = state
      if (event.type === "turn.updated" || event.type === "turn.completed") state = event.data.state
      if (event.type === "turn.started") state = "running"
      return to === null ? [] : [`turn ${from} > ${to}`]
    }),
    ...(events.length > 0 && now.epochMilliseconds < at.epochMilliseconds ? [BEHIND] : []),
    ...(result === null ? [] : [`answer ${result.outcome}`, `rejected: ${result.rejection}`]),
    ...(refused === null ? [] : [`refused: ${refused}`, `${did._tag} refused`]),
    ...(events.length > 0 || isAsked(did) && result?.outcome === "applied" ? [`${did._tag} applied`] : [])
  ]
}

const reachedBy = (history: History): ReadonlySet<string> =>
  new Set([...history.log.flatMap(({ event }) => eventReached(event)), ...history.moments.flatMap(momentReached)])

/** Everything that lives can reach, with the number of these lives that reached it. */
export const coverageOf = (histories: Iterable<History>): ReadonlyArray<Reached> => {
  const counts = new Map(Array.from(known, (what) => [what, 0]))
  let all = 0
  for (const history of histories) {
    all += 1
    for (const what of reachedBy(history)) {
      const count = counts.get(what)
      if (count !== undefined) counts.set(what, count + 1)
    }
  }
  return Array.from(counts, ([what, lives]) => ({ what, lives, share: all === 0 ? 0 : lives / all, excuse: excuses[what] ?? null }))
}

/** Lives that `planOf` makes of up to 24 random numbers, as `fc.array(fc.nat(), { maxLength: 24, size: "medium" })` of fast-check. */
export function* livesOf(seed: number, count: number): Generator<History> {
  const random = Effect.runSync(Random.withSeed(Random.Random, seed))
  const below = (limit: number) => Math.floor(random.nextDoubleUnsafe() * limit)
  for (let i = 0; i < count; i++) yield play(planOf(Array.from({ length: 1 + below(24) }, () => below(0x7fff_ffff))))
}
