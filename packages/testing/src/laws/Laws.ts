/**
 * The laws of every sandbox and of every store, for any actions in any order. `historyLaws` are about the pure rules; `storeLaws` and
 * `feedLaws` run against any store: an embedder calls `checkStore` and `checkFeed` with its own layer. A law that does not hold fails with
 * the shrunk input and a replay token.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import type { PartnerFact } from "@slipway/domain/partner/schema/PartnerEvent"
import { SandboxStore, topicsOf } from "@slipway/domain/sandbox/ports/SandboxStore"
import { type Approval, denialMessage } from "@slipway/domain/sandbox/rules/Approval"
import {
  cancelMessage,
  type Command,
  decideApproval,
  interrupt,
  rename,
  sendMessage,
  sync,
  terminate
} from "@slipway/domain/sandbox/rules/Command"
import { workOf } from "@slipway/domain/sandbox/rules/LeaseRules"
import type { QuestionState } from "@slipway/domain/sandbox/rules/Question"
import { created, type Creation, evolve, initial, isSettled } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { bootDeadline, expire, MAX_SETUP, nextDeadline } from "@slipway/domain/sandbox/rules/TimeLimit"
import { isActive, turnId } from "@slipway/domain/sandbox/rules/Turn"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import { WhenBusy } from "@slipway/domain/sandbox/schema/MessageQueue"
import { Sandbox } from "@slipway/domain/sandbox/schema/Sandbox"
import { fromWire, RestoreCause, toWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { TurnOutcome } from "@slipway/domain/sandbox/schema/Turn"
import { isUnderWay } from "@slipway/domain/source/rules/PullState"
import { WORK } from "@slipway/domain/store/Hints"
import { StorableText } from "@slipway/domain/text/Text"
import * as Arbitrary from "effect/Arbitrary"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { PartnerFixture } from "../contracts/partner/PartnerStoreContract.ts"
import { StoreFixture } from "../contracts/sandbox/SandboxStates.ts"
import {
  createdAt,
  creation,
  decider,
  Deciding,
  decisionOf,
  inquiry,
  type History,
  hostile,
  isAsked,
  legal,
  limits,
  play,
  REPLY,
  request,
  synced,
  thorough,
  TITLES
} from "../histories/Histories.ts"
import { assert } from "../suite/Assert.ts"
import { define, type Suite } from "../suite/Suite.ts"
import {
  approvalsResolveOnce,
  policyApprovesAsTold,
  questionsCloseOnce,
  checkpointsCount,
  endsForGood,
  eventsAreInOrder,
  type Log,
  publicationsAreAppended,
  queueIsKept,
  statusesAreReachable,
  syncsAreInOrder,
  titleIsAsTold,
  turnsAreReachable,
  usageIsAsTold
} from "./LogLaws.ts"
import { broughtByTime, TimeTable } from "./TimeTable.ts"

/** A sentence that holds of every history. `holds` throws when it does not. */
export interface HistoryLaw {
  readonly name: string
  holds(history: History): void
}

/** A sentence that holds of every store that is given `A`. `holds` dies when it does not. */
export interface StoreLaw<A, R> {
  readonly name: string
  readonly given: Arbitrary.Arbitrary<A>
  holds(given: A): Effect.Effect<void, unknown, R>
}

// ---------------------------------------------------------------------------------------------------------------
// Histories

const eventsOf = (history: History): Log => history.log.map(({ event }) => event)
const of = <T extends SandboxEvent["type"]>(type: T) => (event: SandboxEvent): event is Extract<SandboxEvent, { type: T }> =>
  event.type === type

const answered = ({ moments }: History) => moments.flatMap((moment) => moment.result === null ? [] : [{ ...moment, result: moment.result }])

const encode = Schema.encodeSync(Sandbox)
const states = ({ first, moments }: History) => [first, ...moments.map(({ after }) => after)]

// Stated again: laws that asked the rules would agree with whatever those say.
const SETTLED: ReadonlySet<string> = new Set(["succeeded", "failed", "terminated"])
const ACTIVE: ReadonlySet<string> = new Set(["pending", "running", "awaiting_approval", "awaiting_answer"])
const MOST_WAITING = 10
/** docs/decisions/15. */
const needOf = ({ owesCheckpoint, publications, restoring, status, syncing, turn }: Sandbox): "boot" | "turn" | "errand" | null => {
  const publishes = publications.some(({ actionState }) => actionState === "publishing" || actionState === "updating")
  if (status === "queued" || status === "creating") return "boot"
  if (status === "terminating") return "errand"
  if (status === "terminated") return null
  if (status === "running" && turn !== null && ACTIVE.has(turn.state)) return "turn"
  return publishes || status === "running" && (owesCheckpoint || syncing || restoring !== null) ? "errand" : null
}
/** The agent does not tell the kind of the call. */
const unknownCall = (turn: string, call: string): SystemCommand => ({
  _tag: "RequestApproval",
  turnId: turn,
  approval: { approval_id: call, tool: "write" }
})
/** Events of these types change the revision. */
const CHANGES = [
  /^sandbox\.(?:status|restoring|restored|renamed|syncing|synced)/u,
  /^message\.(?:queued|steered|cancelled)/u,
  /^(?:turn|approval|question|feedback|pull_request)\./u
]

/** Laws of the pure rules. */
export const historyLaws: ReadonlyArray<HistoryLaw> = [
  {
    name: "changes its status only as docs/decisions/2.1 say",
    holds: (history) => statusesAreReachable(eventsOf(history), history.sandbox)
  },
  {
    name: "moves its turns only as docs/decisions/2.2 say, one at a time",
    holds: (history) => turnsAreReachable(eventsOf(history), history.sandbox, (n) => `${creation.id}/turn/${n}`)
  },
  {
    name: "keeps every message that waits, in its order, until it gets its turn, an agent takes it, or it is cancelled",
    holds: (history) => queueIsKept(eventsOf(history), history.sandbox)
  },
  {
    name: "keeps a message waiting only beside an active turn, and lets an interrupt cancel none",
    holds: (history) => {
      for (const { after, did, events } of history.moments) {
        if (after.waiting.length > 0) assert.isTrue(after.status === "running" && isActive(after.turn))
        if (did._tag === "Interrupt") assert.isFalse(events.some(of("message.cancelled")))
        if (did._tag === "Terminate") assert.deepStrictEqual(after.waiting, [])
      }
    }
  },
  {
    name: "tells the events of one decision in the order of docs/decisions/2 and 5, and the dates of all in order",
    holds: (history) => {
      for (const call of ["law-b", "law-a"]) history.system(request(history.turn, call, "edit", false))
      for (const prompt of ["One", "Two"]) history.person({ _tag: "Send", prompt, whenBusy: "queue" })
      history.system({ _tag: "EndTurn", turnId: history.turn, state: "failed" })
      for (const prompt of ["Three", "Four"]) history.person({ _tag: "Send", prompt, whenBusy: "queue" })
      history.person({ _tag: "Terminate" })
      for (const { before, did, events } of history.moments) eventsAreInOrder(did._tag, before, events)
      let last = history.creation.createdAt.epochMilliseconds
      for (const { at } of history.log) {
        assert.isAtLeast(at.epochMilliseconds, last)
        last = at.epochMilliseconds
      }
      assert.strictEqual(history.sandbox.recordedAt?.epochMilliseconds, last)
    }
  },
  {
    name: "keeps its publications in the order of their first events, and of each what was told last",
    holds: (history) => {
      publicationsAreAppended(eventsOf(history), history.sandbox)
      const known = history.sandbox.publications.map(({ repo }) => repo)
      const report = (data: Extract<SystemCommand, { readonly _tag: "ReportPublication" }>["data"]) =>
        history.system({ _tag: "ReportPublication", data })
      report({ repo: "acme/new", action_state: "publishing" })
      report({ repo: "Acme/New", action_state: "idle", number: 9, url: "https://git.example/9", head_ref: "a", head_sha: "0".repeat(40) })
      report({ repo: "acme/new", action_state: "updating", number: 9 })
      report({ repo: "acme/new", action_state: "idle", head_ref: "b", head_sha: "1".repeat(40), error: { code: "no", message: "No." } })
      report({ repo: "acme/new", action_state: "idle", state: "closed", merged: true, draft: false })
      publicationsAreAppended(eventsOf(history), history.sandbox)
      assert.deepStrictEqual(history.sandbox.publications.map(({ repo }) => repo), [...known, "acme/new"])
    }
  },
  {
    name: "once terminated stays terminated",
    holds: (history) => {
      for (const { after, before } of history.moments) if (before.status === "terminated") assert.strictEqual(after.status, "terminated")
      endsForGood(eventsOf(history))
    }
  },
  {
    name: "is the fold of what its log says",
    holds: (history) => {
      const wires = history.log.map(({ at, event }, i) => toWire(history.creation.id, { seq: i + 1, at, event }))
      const folded = wires.reduce((state, wire) => {
        const { at, event } = fromWire(wire)
        return evolve(state, event, at)
      }, initial(history.creation))
      assert.deepStrictEqual(folded, history.sandbox)
    }
  },
  {
    name: "needs a worker as long as a turn is active or it is to be made, ended or published, and never once it is over",
    holds: ({ sandbox }) => {
      const work = workOf(sandbox)
      if (isActive(sandbox.turn)) assert.isNotNull(work)
      if (["queued", "creating", "terminating"].includes(sandbox.status)) assert.isNotNull(work)
      if (sandbox.status !== "terminated" && sandbox.publications.some(isUnderWay)) assert.isNotNull(work)
      if (isSettled(sandbox.status) && !sandbox.publications.some(isUnderWay)) assert.isNull(work)
    }
  },
  {
    name: "begins to need a worker by what is done to it, and by time only when that ends it",
    holds: ({ moments }) => {
      for (const { after, before, did, events } of moments) {
        if (workOf(before) !== null || workOf(after) === null) continue
        assert.isAbove(events.length, 0)
        if (did._tag === "Expire") assert.strictEqual(after.status, "terminating")
      }
    }
  },
  {
    name: "at rest it still ends by itself, when it was idle for too long or lived too long",
    holds: ({ sandbox }) => {
      if (sandbox.status !== "running" || workOf(sandbox) !== null) return
      const due = nextDeadline(sandbox, limits)
      const idle = DateTime.addDuration(sandbox.idleSince ?? sandbox.statusAt, limits.idle)
      const old = DateTime.addDuration(sandbox.createdAt, limits.lifetime)
      assert.deepStrictEqual(due, DateTime.min(idle, old))
    }
  },
  {
    name: "needs no worker once everything that was asked for has ended and a checkpoint is tried",
    holds: (history) => {
      const { lastSeq, publications, restoring } = history.sandbox
      while (history.sandbox.status === "running" && isActive(history.sandbox.turn)) {
        history.system({ _tag: "EndTurn", turnId: history.turn, state: "succeeded" })
      }
      for (const { repo } of publications.filter(isUnderWay)) {
        history.system({ _tag: "ReportPublication", data: { repo, action_state: "failed" } })
      }
      if (history.sandbox.status === "running" && restoring !== null) {
        history.system({ _tag: "RecordRestore", data: { checkpoint: restoring, cause: "command" } })
      }
      if (history.sandbox.syncing) history.system({ _tag: "RecordSync", data: { branches: [] } })
      if (history.sandbox.status === "running") history.system({ _tag: "RecordCheckpoint", data: { error: "No room." } })
      assert.isAtLeast(history.sandbox.lastSeq, lastSeq)
      const { status } = history.sandbox
      assert.strictEqual(
        workOf(history.sandbox),
        status === "queued" || status === "creating" ? "boot" : status === "terminating" ? "errand" : null
      )
    }
  },
  {
    name: "tells workers of every change by which it begins to need one",
    holds: ({ moments }) => {
      for (const { after, before, events } of moments) {
        const topics = topicsOf({ before, events, sandbox: after })
        assert.include(topics, after.id)
        if (workOf(before) === null && workOf(after) !== null) assert.include(topics, WORK)
      }
    }
  },
  {
    name: "resolves every approval once, and only a requested approval",
    holds: (history) => approvalsResolveOnce(eventsOf(history), history.sandbox)
  },
  {
    name: "keeps the first decision on an approval",
    holds: (history) => {
      const resolved = eventsOf(history).filter(of("approval.resolved")).map(({ data }) => data)
      const expected = resolved.map(({ approval_id, by, outcome, reason }): Approval => ({
        approvalId: approval_id,
        outcome,
        by,
        ...(reason === undefined ? {} : { reason })
      }))
      assert.sameDeepMembers(history.approvals.filter(({ outcome }) => outcome !== null), expected)
      for (const { before, did, events, result } of history.moments) {
        if (did._tag !== "Decide" || result === null) continue
        const pending = before.approvals.some(({ approval_id }) => approval_id === did.approvalId)
        assert.strictEqual(result.outcome === "applied", pending)
        assert.strictEqual(events.length > 0, pending)
      }
    }
  },
  {
    name: "closes every question once, and answers none in a person's name",
    holds: (history) => questionsCloseOnce(eventsOf(history), history.sandbox)
  },
  {
    name: "keeps the first answer to a question",
    holds: (history) => {
      const over = eventsOf(history).filter(of("question.answered")).map(({ data }) => data)
      const expected = over.map(({ answers, by, question_id }): QuestionState => ({
        questionId: question_id,
        by,
        ...(answers === undefined ? {} : { answers })
      }))
      assert.sameDeepMembers(history.questions.filter(({ by }) => by !== null), expected)
      for (const { before, did, events, result } of history.moments) {
        if (did._tag !== "Answer" || result === null) continue
        const pending = before.turn?.questions?.some(({ question_id }) => question_id === did.questionId) ?? false
        assert.strictEqual(result.outcome === "applied", pending)
        assert.strictEqual(events.length > 0, pending)
      }
    }
  },
  {
    name: "approves by itself what a person approved for the turn, and nothing else",
    holds: (history) => {
      policyApprovesAsTold(eventsOf(history))
      for (const { after } of history.moments) {
        const kinds = after.turn?.approvedKinds ?? []
        assert.isFalse(
          after.approvals.some(({ kind, plain = false }) => kind !== undefined && kinds.includes(kind) && (kind !== "edit" || plain))
        )
      }
    }
  },
  {
    name: "keeps what the agent is to be told of a denial waiting, with the denial",
    holds: ({ moments }) => {
      for (const { did, events, result } of moments) {
        if (did._tag !== "Decide" || did.reason === undefined || result?.outcome !== "applied") continue
        const told = events.filter(of("message.queued"))
        assert.deepStrictEqual(told.map(({ data }) => [data.text, data.author.id, data.steers]), [
          [denialMessage("write", did.reason), decider.userId, true]
        ])
      }
    }
  },
  {
    name: "repeating a command at once changes nothing and finds the first answer",
    holds: (history) => {
      const last = history.moments.at(-1)
      if (last === undefined || last.result === null || !isAsked(last.did)) return
      const again = history.person(last.did)
      // A message sent again is the next one; it has to wait for the turn, and may want to.
      if (last.did._tag === "Send") {
        if ((last.did.whenBusy ?? "reject") === "reject") return assert.strictEqual(again.refused, "TurnActive")
        if (last.did.whenBusy === "steer" && last.did.steerable === false) return assert.strictEqual(again.refused, "SteeringUnsupported")
        assert.strictEqual(again.refused, last.after.waiting.length < MOST_WAITING ? null : "QueueFull")
        return assert.notStrictEqual(again.result?.commandId, last.result.commandId)
      }
      // The turn that it ends makes room for the next one, which is another to be interrupted.
      if (last.did._tag === "Interrupt" && last.before.turn?.id !== last.after.turn?.id) {
        return assert.notStrictEqual(again.result?.commandId, last.result.commandId)
      }
      assert.strictEqual(again.after, again.before)
      assert.deepStrictEqual(again.result, last.result.outcome === "applied" ? { ...last.result, outcome: "duplicate" } : last.result)
    }
  },
  {
    name: "applies one identity at most once, and its duplicates carry the first answer",
    holds: (history) => {
      const first = new Map<string, number>()
      for (const { events, result: { commandId, outcome, revision } } of answered(history)) {
        if (outcome === "applied") {
          assert.isFalse(first.has(commandId))
          first.set(commandId, revision)
          continue
        }
        assert.deepStrictEqual(events, [])
        if (outcome === "duplicate") assert.strictEqual(first.get(commandId), revision)
      }
    }
  },
  {
    name: "has used what was told last, and in tokens what was told last of them",
    holds: (history) => {
      const usage = { llmRequestCount: 1, costMicroUsd: 2, creditsChargedMicros: 3 }
      history.system({ _tag: "ReportUsage", usage, tokens: { input: 4, cachedInput: 5, output: 6 } })
      history.system({ _tag: "ReportUsage", usage })
      usageIsAsTold(eventsOf(history), history.sandbox)
    }
  },
  {
    name: "has the title that it was given last",
    holds: (history) => {
      titleIsAsTold(eventsOf(history), history.sandbox, history.creation.title)
      for (const { after, did } of history.moments) if (did._tag === "Rename") assert.strictEqual(after.title, did.title)
    }
  },
  {
    name: "syncs between turns, one sync after the other, and each ends once",
    holds: (history) => {
      syncsAreInOrder(eventsOf(history), history.sandbox)
      for (const { before, did, events } of history.moments) {
        if (did._tag === "Sync" && events.length > 0) assert.isFalse(isActive(before.turn) || before.restoring !== null)
      }
    }
  },
  {
    name: "counts its checkpoints 1, 2, …",
    holds: (history) => checkpointsCount(eventsOf(history), history.sandbox)
  },
  {
    name: "has its next deadline where the limits of docs/decisions/2.1, 2.2 and 3 put it",
    holds: (history) => {
      history.wait("3 hours").system({ _tag: "ReportPublication", data: { repo: "acme/shop", action_state: "idle", number: 7 } })
      history.wait("1 minute").system({ _tag: "ReportPublication", data: { repo: "acme/shop", action_state: "publishing" } })
      const table = new TimeTable(limits)
      const next = (sandbox: Sandbox) => nextDeadline(sandbox, limits)?.epochMilliseconds ?? null
      for (const event of created(history.creation)) table.record(event, history.creation.createdAt)
      assert.strictEqual(next(history.first), table.next)
      for (const { after, at, events } of history.moments) {
        for (const event of events) table.record(event, at)
        assert.strictEqual(next(after), table.next)
        for (const { approval_id: id, expires_at: end } of after.approvals) assert.strictEqual(end.epochMilliseconds, table.expiryOf(id))
        for (const { expires_at: end, question_id: id } of after.turn?.questions ?? []) {
          assert.strictEqual(end.epochMilliseconds, table.expiryOf(id))
        }
      }
    }
  },
  {
    name: "is done by time what has come due, in its order, and nothing else",
    holds: (history) => {
      const table = new TimeTable(limits)
      for (const event of created(history.creation)) table.record(event, history.creation.createdAt)
      for (const { after, at: recorded, did, events, now } of history.moments) {
        const brought = events.flatMap((event) => broughtByTime(event) ?? [])
        assert.deepStrictEqual(brought, did._tag === "Expire" ? table.dueBy(now.epochMilliseconds) : [])
        for (const event of events) table.record(event, recorded)
        // And if nothing happened until each that is to come: often others are due by then.
        for (const { at } of table.dues) {
          const then = Math.max(at, now.epochMilliseconds)
          const expired = Result.getOrThrow(expire(after, limits, DateTime.makeUnsafe(then)))
          assert.deepStrictEqual(expired.flatMap((event) => broughtByTime(event) ?? []), table.dueBy(then))
        }
      }
    }
  },
  {
    name: "boots within its limit, and up to an hour longer for its setups",
    holds: (history) => {
      let hasSetup = false
      for (const { after, before, events } of history.moments) {
        if (after.status !== "creating") continue
        hasSetup = before.status === "creating" && (hasSetup || events.some(of("setup.started")))
        const end = DateTime.distance(after.statusAt, bootDeadline(after, limits))
        assert.isTrue(Duration.isGreaterThanOrEqualTo(end, limits.boot))
        assert.isTrue(Duration.isLessThanOrEqualTo(end, hasSetup ? Duration.sum(limits.boot, MAX_SETUP) : limits.boot))
      }
    }
  },
  {
    name: "owes a checkpoint after what an agent did, and none once one was taken or could not be",
    holds: (history) => {
      for (const { after, before, did, events } of history.moments) {
        const ended = before.turn !== null && before.turn.startedAt !== null && events.some(({ type }) => type === "turn.completed")
        if (did._tag === "RecordRestore") continue
        if (events.some(({ type }) => type === "sandbox.checkpoint")) assert.isFalse(after.owesCheckpoint)
        else if (ended) assert.isTrue(after.owesCheckpoint)
        else if (before.owesCheckpoint) assert.isTrue(after.owesCheckpoint)
        else assert.isTrue(!after.owesCheckpoint || events.some(({ type }) => type === "pull_request.updated"))
      }
    }
  },
  {
    name: "is pinned to its machine from a failed checkpoint until the next checkpoint is taken or restored",
    holds: (history) => {
      for (const { after, before, events } of history.moments) {
        const last = events.findLast(({ data, type }) =>
          type === "sandbox.checkpoint" || type === "sandbox.restored" && data.checkpoint !== undefined
        )
        assert.strictEqual(after.pinned, last === undefined ? before.pinned : last.type === "sandbox.checkpoint" && "error" in last.data)
      }
    }
  },
  {
    name: "has a checkpoint recorded while it runs or ends, and never once it is settled",
    holds: (history) => {
      for (const { before, did, events } of history.moments) {
        if (did._tag !== "RecordCheckpoint") continue
        if (isSettled(before.status)) assert.deepStrictEqual(events, [])
        const isNext = did.data.checkpoint === undefined || did.data.checkpoint === before.checkpoint + 1
        assert.strictEqual(events.length, isNext && (before.status === "running" || before.status === "terminating") ? 1 : 0)
      }
    }
  },
  {
    name: "goes back to checkpoints that it took, and starts as a fork with one of another sandbox",
    holds: (history) => {
      for (const { before, did, refused } of history.moments) {
        if (did._tag !== "RecordRestore") continue
        const { cause, checkpoint } = did.data
        const isOwn = checkpoint >= 1 && checkpoint <= before.checkpoint
        const mayBe = cause === "fork" ? before.status === "creating" || before.status === "running" : isOwn && before.status === "running"
        assert.strictEqual(refused, mayBe ? null : "IllegalTransition")
      }
    }
  },
  {
    name: "restored loses the turn that an agent was at, and owes what is in no checkpoint of its own yet",
    holds: (history) => {
      history.system({ _tag: "RecordCheckpoint", data: { checkpoint: history.sandbox.checkpoint + 1, bytes: 1, ms: 1, repos: [] } })
      history.person({ _tag: "Send", prompt: "And then?", whenBusy: "queue" })
      history.system({ _tag: "RecordRestore", data: { checkpoint: Math.max(history.sandbox.checkpoint, 1), cause: "machine_lost" } })
      for (const { after, before, did, events, refused } of history.moments) {
        if (did._tag !== "RecordRestore" || refused !== null) continue
        const { cause, checkpoint } = did.data
        const lost = isActive(before.turn) && before.turn.startedAt !== null ? before.turn : null
        const restored = events.filter(of("sandbox.restored")).map(({ data }) => data)
        assert.deepStrictEqual(restored, [{ checkpoint, cause, ...(lost === null ? {} : { lost_turn: lost.id }) }])
        eventsAreInOrder(did._tag, before, events)
        const ended = events.filter(of("turn.completed")).map(({ data }) => data)
        assert.deepStrictEqual(ended, lost === null ? [] : [{ state: "failed", reason: "machine_lost", initiator: "provider" }])
        const next = before.waiting.length > 0 ? "pending" : "failed"
        assert.strictEqual(after.turn?.state, lost === null ? before.turn?.state : next)
        assert.strictEqual(after.owesCheckpoint, cause === "fork" || checkpoint !== before.checkpoint)
        assert.deepStrictEqual([after.restoring, after.checkpoint], [cause === "command" ? null : before.restoring, before.checkpoint])
      }
    }
  },
  {
    name: "is as before after a restore that failed, and wants nothing back any more",
    holds: (history) => {
      for (const { after, before, did, events, refused } of history.moments) {
        if (did._tag !== "FailRestore") continue
        assert.strictEqual(refused, before.status === "running" ? null : "IllegalTransition")
        if (refused !== null || before.restoring === null) {
          assert.strictEqual(after, before)
          continue
        }
        const { damaged, error } = did
        assert.deepStrictEqual(events, [{ type: "sandbox.restored", data: { cause: "command", damaged, error } }])
        const { lastSeq, logBytes, recordedAt, restores, revision } = after
        assert.deepStrictEqual(after, { ...before, restoring: null, lastSeq, logBytes, recordedAt, restores, revision })
      }
    }
  },
  {
    name: "can be stored and read back",
    holds: ({ sandbox }) => {
      const json = JSON.stringify(encode(sandbox))
      const { metadata, ...read } = Schema.decodeUnknownSync(Sandbox)(JSON.parse(json))
      assert.deepStrictEqual({ ...read, metadata: { ...metadata } }, sandbox)
    }
  },
  {
    name: "counts every change of sandbox, turn, approval, pull request and tree in its revision, and every event in its log",
    holds: (history) => {
      let revision = 1
      let { lastSeq } = history.first
      for (const { after, events } of history.moments) {
        revision += events.filter(({ type }) => CHANGES.some((pattern) => pattern.test(type))).length
        lastSeq += events.length
        assert.deepStrictEqual([after.revision, after.lastSeq], [revision, lastSeq])
      }
    }
  },
  {
    name: "has no active turn once it is settled",
    holds: (history) => {
      for (const { status, turn } of states(history)) if (SETTLED.has(status)) assert.isFalse(turn !== null && ACTIVE.has(turn.state))
    }
  },
  {
    name: "has pending approvals and questions exactly while its turn waits for them",
    holds: (history) => {
      history.system({ _tag: "EndTurn", turnId: history.turn, state: "failed" })
      for (const { approvals, turn } of states(history)) {
        const { questions = [] } = turn ?? {}
        assert.strictEqual(approvals.length > 0, turn?.state === "awaiting_approval")
        assert.strictEqual(approvals.length === 0 && questions.length > 0, turn?.state === "awaiting_answer")
        assert.strictEqual(new Set(questions.map(({ question_id }) => question_id)).size, questions.length)
        assert.strictEqual(new Set(approvals.map(({ approval_id }) => approval_id)).size, approvals.length)
      }
    }
  },
  {
    name: "tells the time it first ran and was first over, and never changes it",
    holds: (history) => {
      let [startedAt, completedAt]: ReadonlyArray<DateTime.Utc | null> = [null, null]
      for (const { at, event } of history.log) {
        if (event.type !== "sandbox.status") continue
        if (event.data.status === "running") startedAt ??= at
        if (SETTLED.has(event.data.status)) completedAt ??= at
      }
      assert.deepStrictEqual([history.sandbox.startedAt, history.sandbox.completedAt], [startedAt, completedAt])
    }
  },
  {
    name: "says why as long as it is failed",
    holds: (history) => {
      for (const { error, status } of states(history)) if (status === "failed") assert.isNotNull(error)
    }
  },
  {
    name: "tells its agent's work only in the turn that it belongs to, while an agent is at it",
    holds: (history) => {
      for (const { before, events } of history.moments) {
        for (const event of events) {
          if (!/^(?:message\.(?:updated|completed)|tool\.)/u.test(event.type)) continue
          assert.isTrue(before.turn !== null && ACTIVE.has(before.turn.state) && before.turn.startedAt !== null)
          assert.strictEqual("turn_id" in event ? event.turn_id : undefined, before.turn?.id)
        }
      }
    }
  },
  {
    name: "hands a turn over once, with its prompt and the one who asked",
    holds: (history) => {
      const started = new Set<string>()
      for (const { before, events } of history.moments) {
        for (const event of events.filter(of("turn.started"))) {
          const { authorId, id, prompt } = before.turn ?? {}
          assert.deepStrictEqual([event.turn_id, event.data.text, event.data.author], [id, prompt, { id: authorId ?? "" }])
          assert.isFalse(started.has(event.turn_id ?? ""))
          started.add(event.turn_id ?? "")
        }
      }
      const { startedAt, state } = history.sandbox.turn ?? { startedAt: null, state: "succeeded" }
      if (startedAt === null || !ACTIVE.has(state) || history.sandbox.status !== "running") return
      assert.deepStrictEqual(history.system({ _tag: "StartTurn", turnId: history.turn }).events, [])
    }
  },
  {
    name: "needs a worker for what docs/decisions/15 says",
    holds: (history) => {
      history.system({ _tag: "ReportPublication", data: { repo: "acme/shop", action_state: "publishing" } })
      for (const sandbox of states(history)) assert.strictEqual(workOf(sandbox), needOf(sandbox))
    }
  },
  {
    name: "has ten messages waiting at most, and refuses the next one",
    holds: (history) => {
      for (const { waiting } of states(history)) assert.isAtMost(waiting.length, MOST_WAITING)
      for (let i = 0; i <= MOST_WAITING; i++) {
        const { before, refused } = history.person({ _tag: "Send", prompt: "And?", whenBusy: "queue" })
        if (refused === "QueueFull") assert.strictEqual(before.waiting.length, MOST_WAITING)
      }
      const { status, turn, waiting } = history.sandbox
      if (status === "running" && turn !== null && ACTIVE.has(turn.state)) assert.strictEqual(waiting.length, MOST_WAITING)
    }
  },
  {
    name: "denies an undecided approval when its time is over, its turn ends, or its sandbox does",
    holds: (history) => {
      for (const { data } of eventsOf(history).filter(of("approval.resolved"))) {
        if (data.by !== "user" && data.by !== "policy") assert.strictEqual(data.outcome, "denied")
      }
      for (const { approval_id: approvalId, expires_at: at } of history.sandbox.approvals) {
        history.now = DateTime.max(history.now, at)
        history.system({ _tag: "Expire" })
        const found = history.approvals.find((approval) => approval.approvalId === approvalId)
        assert.strictEqual(found?.outcome, "denied")
      }
    }
  },
  {
    name: "takes no other decision on what is decided, and says why",
    holds: (history) => {
      for (const { approvalId, by, outcome } of history.approvals) {
        if (outcome === null) continue
        const isOver = history.sandbox.status === "terminating" || SETTLED.has(history.sandbox.status)
        const rejection = isOver ? "sandbox_terminal" : by === "timeout" ? "approval_expired" : "approval_already_resolved"
        for (const decision of ["approve", "deny"] as const) {
          const { after, before, result } = history.person({ _tag: "Decide", approvalId, decision })
          const isSame = by === "user" && outcome === (decision === "approve" ? "approved" : "denied")
          assert.deepStrictEqual([result?.outcome, result?.rejection], isSame ? ["duplicate", undefined] : ["rejected", rejection])
          assert.strictEqual(after, before)
        }
      }
    }
  },
  {
    name: "ends a question without an answer when its time is over",
    holds: (history) => {
      for (const { expires_at: at, question_id: questionId } of history.sandbox.turn?.questions ?? []) {
        history.now = DateTime.max(history.now, at)
        history.system({ _tag: "Expire" })
        const found = history.questions.find((question) => question.questionId === questionId)
        assert.isTrue(found !== undefined && found.by !== null && found.by !== "user" && found.answers === undefined)
      }
    }
  },
  {
    name: "takes no other answer to what is over, and says why",
    holds: (history) => {
      for (const { answers, by, questionId } of history.questions) {
        if (by === null) continue
        const isOver = history.sandbox.status === "terminating" || SETTLED.has(history.sandbox.status)
        const rejection = isOver ? "sandbox_terminal" : by === "timeout" ? "question_expired" : "question_already_answered"
        for (const reply of [REPLY, { dismiss: true } as const]) {
          const { after, before, result } = history.person({ _tag: "Answer", questionId, reply })
          const isSame = by === "user" && JSON.stringify(answers) === JSON.stringify("answers" in reply ? reply.answers : undefined)
          assert.deepStrictEqual([result?.outcome, result?.rejection], isSame ? ["duplicate", undefined] : ["rejected", rejection])
          assert.strictEqual(after, before)
        }
      }
    }
  },
  {
    name: "approves for the turn what waits of the same kind, nothing else, and what is asked of that kind later",
    holds: (history) => {
      const { status, turn } = history.sandbox
      if (status !== "running" || turn === null || turn.startedAt === null || !ACTIVE.has(turn.state) || turn.interruptRequested) return
      const open = () => history.sandbox.approvals.map(({ approval_id }) => approval_id)
      const kinds = new Set(turn.approvedKinds)
      const ask = (call: string, kind: "edit" | "command", plain = kind === "edit") => history.system(request(turn.id, call, kind, plain))
      ask("law-0", "edit", false)
      ask("law-1", "edit")
      ask("law-2", "edit")
      ask("law-3", "command")
      if (history.sandbox.turn?.id !== turn.id || kinds.has("edit") || kinds.has("command")) return
      if (!open().includes("law-3")) return
      history.person({ _tag: "Decide", approvalId: "law-1", ...decisionOf("approve all") })
      const asked = () => open().filter((id) => id.startsWith("law-"))
      assert.deepStrictEqual(asked(), ["law-0", "law-3"])
      ask("law-4", "edit")
      assert.deepStrictEqual(asked(), ["law-0", "law-3"])
      history.person({ _tag: "Decide", approvalId: "law-3", ...decisionOf("approve all") })
      ask("law-5", "edit")
      ask("law-6", "command")
      assert.deepStrictEqual(asked(), ["law-0"])
      // An edit that is not plain is approved alone, and never by an earlier decision.
      ask("law-7", "edit", false)
      assert.deepStrictEqual(asked(), ["law-0", "law-7"])
    }
  },
  {
    name: "approves for the turn neither a call of unknown kind nor anything of a later turn",
    holds: (history) => {
      const { status, turn } = history.sandbox
      if (status !== "running" || turn === null || turn.startedAt === null || !ACTIVE.has(turn.state) || turn.interruptRequested) return
      if (history.sandbox.waiting.length > 0) return
      const decide = (approvalId: string) => history.person({ _tag: "Decide", approvalId, ...decisionOf("approve all") })
      for (const kind of ["other", undefined] as const) {
        const call = `law-${kind}`
        history.system(kind === undefined ? unknownCall(turn.id, call) : request(turn.id, call, kind))
        const { after, before, refused } = decide(call)
        assert.strictEqual(refused, "ScopeUnsupported")
        assert.strictEqual(after, before)
      }
      history.system(request(turn.id, "law-network", "network"))
      decide("law-network")
      history.system({ _tag: "EndTurn", turnId: turn.id, state: "succeeded" })
      history.person({ _tag: "Send", prompt: "And now?" })
      history.system({ _tag: "StartTurn", turnId: history.turn })
      for (const kind of ["edit", "command", "network"] as const) history.system(request(history.turn, `law-later-${kind}`, kind))
      assert.lengthOf(history.sandbox.approvals, 3)
    }
  },
  {
    name: "a turn that was asked to end is known as that once it has ended",
    holds: (history) => {
      const { turn, waiting } = history.sandbox
      if (turn === null || !ACTIVE.has(turn.state) || waiting.length > 0) return
      const { result } = history.person({ _tag: "Interrupt" })
      if (result === null || result.outcome === "rejected") return
      if (history.sandbox.turn?.state === "running") history.system({ _tag: "EndTurn", turnId: turn.id, state: "interrupted" })
      assert.deepStrictEqual(history.person({ _tag: "Interrupt" }).result, { ...result, outcome: "duplicate" })
    }
  },
  {
    name: "waits for no decision and no answer in a turn that is being ended",
    holds: (history) => {
      if (history.sandbox.turn?.state === "running") {
        history.person({ _tag: "Interrupt" })
        history.system(inquiry(history.turn, "law-question"))
        for (const kind of ["edit", "command"] as const) history.system(request(history.turn, `law-${kind}`, kind))
      }
      for (const { approvals, turn } of states(history)) {
        if (turn?.interruptRequested !== true) continue
        assert.deepStrictEqual([turn.state.startsWith("awaiting"), approvals, turn.questions ?? []], [false, [], []])
      }
    }
  },
  {
    name: "asks once for what waits already",
    holds: (history) => {
      for (const { approval_id: call, kind } of history.sandbox.approvals) {
        const { after, before, events } = history.system(request(history.turn, call, kind))
        assert.deepStrictEqual(events, [])
        assert.strictEqual(after, before)
      }
      for (const { question_id: id } of history.sandbox.turn?.questions ?? []) {
        assert.deepStrictEqual(history.system(inquiry(history.turn, id)).events, [])
      }
    }
  },
  {
    name: "takes a message back once",
    holds: (history) => {
      for (const { id } of history.sandbox.waiting) {
        const first = history.person({ _tag: "Cancel", messageId: id })
        assert.strictEqual(first.result?.outcome, "applied")
        const again = history.person({ _tag: "Cancel", messageId: id })
        assert.deepStrictEqual(again.result, { ...first.result, outcome: "duplicate" })
      }
    }
  },
  {
    name: "goes back to a checkpoint only between turns, one at a time, and only to a checkpoint that it took",
    holds: (history) => {
      const { checkpoint, restoring, status, turn } = history.sandbox
      const { refused, result } = history.person({ _tag: "Restore", checkpoint: Math.max(checkpoint, 1) })
      if (result?.outcome === "duplicate") return
      const told = refused ?? result?.rejection ?? null
      const isOver = status === "terminating" || SETTLED.has(status)
      const expected = isOver
        ? "sandbox_terminal"
        : status !== "running"
        ? "SandboxNotRunning"
        : turn !== null && ACTIVE.has(turn.state)
        ? "turn_active"
        : restoring !== null
        ? "restore_active"
        : checkpoint === 0
        ? "CheckpointNotFound"
        : null
      assert.strictEqual(told, expected)
    }
  },
  {
    name: "ends with its grant while it lives, and is left alone once it does not",
    holds: (history) => {
      const { after, before, refused } = history.system({ _tag: "RevokeGrant" })
      assert.isNull(refused)
      if (!["queued", "creating", "running"].includes(before.status)) return assert.strictEqual(after, before)
      assert.strictEqual(after.status, before.status === "queued" ? "terminated" : "terminating")
    }
  },
  {
    name: "publishes nothing on that was under way when it came to its end",
    holds: (history) => {
      const isUnsettled = !SETTLED.has(history.sandbox.status)
      history.system({ _tag: "ReportPublication", data: { repo: "acme/shop", action_state: "publishing" } })
      history.person({ _tag: "Terminate" })
      if (history.sandbox.status === "terminating") history.system({ _tag: "Release" })
      const { publications, status } = history.sandbox
      if (isUnsettled && SETTLED.has(status)) {
        assert.isFalse(publications.some(({ actionState }) => actionState === "publishing" || actionState === "updating"))
      }
    }
  },
  {
    name: "ends the turn that is meant, and no other one",
    holds: (history) => {
      const { after, before } = history.system({ _tag: "EndTurn", turnId: "another turn", state: "failed" })
      assert.strictEqual(after, before)
    }
  },
  {
    name: "asks for nothing before an agent is at the turn",
    holds: (history) => {
      if (history.sandbox.turn?.state !== "pending") return
      assert.strictEqual(history.system(request(history.turn, "law-1")).refused, "IllegalTransition")
    }
  },
  {
    name: "left alone between two turns it fails after a turn that failed, and succeeds after any other",
    holds: (history) => {
      const { createdAt, idleSince, publications, status, statusAt, turn } = history.sandbox
      if (status !== "running" || turn !== null && ACTIVE.has(turn.state)) return
      if (publications.some(({ actionState }) => actionState === "publishing" || actionState === "updating")) return
      const idle = DateTime.addDuration(idleSince ?? statusAt, limits.idle)
      if (DateTime.isGreaterThanOrEqualTo(idle, DateTime.addDuration(createdAt, limits.lifetime))) return
      history.now = idle
      history.system({ _tag: "Expire" })
      assert.strictEqual(history.sandbox.status, turn?.state === "failed" ? "failed" : "succeeded")
    }
  },
  {
    name: "gives all setups of a boot an hour together",
    holds: (history) => {
      if (history.sandbox.status !== "creating") return
      const { createdAt, statusAt } = history.sandbox
      for (let i = 0; i < 3; i++) {
        history.system({ _tag: "StartSetup", limit: Duration.hours(16) })
        history.wait("50 minutes")
      }
      const latest = DateTime.addDuration(statusAt, Duration.sum(limits.boot, Duration.hours(1)))
      const old = DateTime.addDuration(createdAt, limits.lifetime)
      assert.deepStrictEqual(nextDeadline(history.sandbox, limits), DateTime.min(latest, old))
    }
  },
  {
    name: "keeps the texts of what waits, and of nothing else",
    holds: (history) => {
      for (const { waiting, waitingTexts } of states(history)) {
        assert.sameMembers(waitingTexts.map(({ id }) => id), waiting.map(({ id }) => id))
      }
    }
  },
  {
    name: "a rejected command says why and changes nothing; nothing else says why",
    holds: (history) => {
      for (const { after, before, result: { outcome, rejection, revision } } of answered(history)) {
        assert.strictEqual(rejection !== undefined, outcome === "rejected")
        if (outcome !== "rejected") continue
        assert.strictEqual(after, before)
        assert.strictEqual(revision, before.revision)
      }
    }
  },
  {
    name: "an applied command tells the revision after it",
    holds: (history) => {
      for (const { after, result: { outcome, revision } } of answered(history)) {
        if (outcome === "applied") assert.strictEqual(revision, after.revision)
      }
    }
  },
  {
    name: "is answered by people's commands as the table of docs/decisions/3 says",
    holds: ({ moments }) => {
      for (const { before, did, refused, result } of moments) {
        const isOver = before.status === "terminating" || SETTLED.has(before.status)
        const isBusy = before.turn !== null && ACTIVE.has(before.turn.state)
        if (did._tag === "Interrupt" && result?.outcome !== "duplicate") {
          const rejection = isOver ? "sandbox_terminal" : isBusy ? undefined : "no_active_turn"
          assert.deepStrictEqual([result?.outcome, result?.rejection], [rejection === undefined ? "applied" : "rejected", rejection])
        }
        if (did._tag === "Send") {
          const waits = before.status === "running" && isBusy && (did.whenBusy ?? "reject") !== "reject"
          const expected = before.status !== "running"
            ? "SandboxNotRunning"
            : !isBusy
            ? null
            : !waits
            ? "TurnActive"
            : did.whenBusy === "steer" && did.steerable === false
            ? "SteeringUnsupported"
            : before.waiting.length < MOST_WAITING
            ? null
            : "QueueFull"
          assert.strictEqual(refused, expected)
        }
      }
    }
  },
  {
    name: "terminate is never rejected, and the first one ends the sandbox",
    holds: (history) => {
      history.moments.filter(({ did }) => did._tag === "Terminate").forEach(({ after, result }, i) => {
        assert.strictEqual(result?.outcome, i === 0 ? "applied" : "duplicate")
        if (i === 0) assert.include(["terminating", "terminated"], after.status)
      })
    }
  },
  {
    name: "ends for good when it is terminated and released",
    holds: (history) => {
      history.person({ _tag: "Terminate" })
      if (history.sandbox.status === "terminating") history.system({ _tag: "Release" })
      // Only a release that the host refused for too long is not taken back by a repeated command.
      assert.include(["terminated", "failed"], history.sandbox.status)
      if (history.sandbox.status === "failed") assert.strictEqual(history.sandbox.reason, "release_failed")
    }
  },
  {
    name: "has a next deadline exactly while something of it can expire",
    holds: (history) => {
      const next = nextDeadline(history.sandbox, limits)
      assert.strictEqual(next === null, SETTLED.has(history.sandbox.status))
      history.now = next ?? DateTime.add(history.now, { days: 365 })
      assert.strictEqual(history.system({ _tag: "Expire" }).events.length > 0, next !== null)
    }
  },
  {
    name: "expires in nothing before its next deadline",
    holds: (history) => {
      const next = nextDeadline(history.sandbox, limits)
      if (next === null) return
      history.now = DateTime.subtract(next, { milliseconds: 1 })
      assert.deepStrictEqual(history.system({ _tag: "Expire" }).events, [])
    }
  },
  {
    name: "expires once at one instant",
    holds: (history) => {
      history.wait("40 days").system({ _tag: "Expire" })
      const { after, before, events } = history.system({ _tag: "Expire" })
      assert.deepStrictEqual(events, [])
      assert.strictEqual(after, before)
      const next = nextDeadline(after, limits)
      assert.isTrue(next === null || DateTime.isGreaterThan(next, history.now))
    }
  },
  {
    name: "does not live for ever",
    holds: (history) => {
      for (let i = 0; i < 60; i++) {
        const next = nextDeadline(history.sandbox, limits)
        if (next === null) break
        history.now = DateTime.max(history.now, next)
        history.system({ _tag: "Expire" })
      }
      assert.isTrue(SETTLED.has(history.sandbox.status))
      assert.isTrue(DateTime.isLessThanOrEqualTo(createdAt, history.now))
    }
  }
]

/** Runs every law of histories on the rules of this package, so that a changed copy of the rules is checked itself. */
export const checkHistories = (runs = 300): Suite =>
  define("Laws of histories", Layer.empty, (it) => {
    for (const { holds, name } of historyLaws) {
      for (const [people, plans] of [["sensible", legal], ["hostile", hostile]] as const) {
        it.effect.prop(`${name} (${people} people)`, [plans], ([plan]) => Effect.sync(() => holds(play(plan))), {
          arbitrary: { ...thorough.arbitrary, runs }
        })
      }
    }
    it.effect.prop("sensible people are never refused", [legal], ([plan]) =>
      Effect.sync(() =>
        assert.deepStrictEqual(play(plan).moments.filter(({ refused }) => refused !== null), [])
      ), {
      arbitrary: { ...thorough.arbitrary, runs }
    })
  })

// ---------------------------------------------------------------------------------------------------------------
// Sandbox stores

const Deed = Schema.TaggedUnion({
  StartTurn: {},
  RequestApproval: { call: Schema.Literals([1, 2, 3]) },
  EndTurn: { state: TurnOutcome },
  Expire: { minutes: Schema.Literals([0, 30, 120]) },
  Release: {},
  ReportPublication: {},
  RecordCheckpoint: { skipped: Schema.Literals([0, 0, 0, 1]) },
  RecordRestore: { cause: RestoreCause },
  Terminate: {},
  Interrupt: {},
  Decide: { call: Schema.Literals([1, 2, 3]), by: Deciding },
  Send: { prompt: Schema.Literals(["And now?", "Go on."]), whenBusy: WhenBusy },
  Cancel: { n: Schema.Literals([1, 2, 3, 4]) },
  RecordSteer: { n: Schema.Literals([2, 3, 4]) },
  Rename: { title: Schema.Literals(TITLES) },
  Sync: {},
  RecordSync: {}
})
type Deed = typeof Deed.Type

/** How far a sandbox has come, and what is tried from there on. */
const Life = Schema.Struct({
  booted: Schema.Literals([0, 1, 2, 3, 4]),
  deeds: Schema.Array(Deed).check(Schema.isMaxLength(24))
})

const Decided = Schema.Literals(["approve", "deny"])

const life = Arbitrary.schema(Life)

const newCreation = Effect.fnUntraced(function*(grantId?: string) {
  const ids = yield* Ids
  const fixture = yield* StoreFixture
  return {
    ...creation,
    id: SandboxId.make(`c_${yield* ids.random(ID_ALPHABET, 12)}`),
    grantId: grantId ?? (yield* fixture.grant)
  } satisfies Creation
})

const boot = (turn: string): ReadonlyArray<SystemCommand> => [
  { _tag: "StartBoot" },
  { _tag: "FinishBoot", turnId: turn },
  { _tag: "StartTurn", turnId: turn },
  request(turn, "call-1")
]

/** Lives one life in the store and tells how it can be taken further. */
const live = Effect.fnUntraced(function*({ booted, deeds }: typeof Life.Type) {
  const store = yield* SandboxStore
  const ids = yield* Ids
  const made = yield* newCreation()
  const key = { grantId: made.grantId, id: made.id }
  yield* store.create({ creation: made, keyed: null })
  let now = made.createdAt
  const find = store.find(key)
  const system = (command: SystemCommand) =>
    Effect.result(store.change(made.id, "policy", (sandbox) => decide(sandbox, command, { limits, now }), now))
  const person = (command: Command<{ readonly _tag: string }>) =>
    Effect.result(Effect.map(store.command(key, command, now), ({ result }) => result))
  const events = Effect.map(store.log(made.id, 0, 10_000), (entries) => entries.map(({ wire }) => fromWire(wire)))
  const commandOf = (
    deed: Extract<Deed, { readonly _tag: "Terminate" | "Interrupt" | "Decide" | "Send" | "Cancel" | "Rename" | "Sync" }>
  ): Command<{ readonly _tag: string }> => {
    switch (deed._tag) {
      case "Terminate":
        return terminate(ids)
      case "Interrupt":
        return interrupt(ids)
      case "Decide":
        return decideApproval(ids, `call-${deed.call}`, decisionOf(deed.by), decider)
      case "Send":
        return sendMessage(ids, deed.prompt, "user-2", { whenBusy: deed.whenBusy, canSteer: () => true })
      case "Cancel":
        return cancelMessage(ids, turnId(ids, made.id, deed.n))
      case "Rename":
        return rename(ids, deed.title)
      case "Sync":
        return sync(ids)
    }
  }
  const take = Effect.fnUntraced(function*(deed: Deed) {
    const turn = (yield* find).turn?.id ?? turnId(ids, made.id, 1)
    switch (deed._tag) {
      case "Terminate":
      case "Interrupt":
      case "Decide":
      case "Send":
      case "Cancel":
      case "Rename":
      case "Sync":
        return yield* person(commandOf(deed))
      case "RecordSteer":
        return yield* system({ _tag: "RecordSteer", turnId: turn, messageId: turnId(ids, made.id, deed.n) })
      case "Expire":
        now = DateTime.add(now, { minutes: deed.minutes })
        return yield* system({ _tag: "Expire" })
      case "StartTurn":
        return yield* system({ _tag: "StartTurn", turnId: turn })
      case "EndTurn":
        return yield* system({ _tag: "EndTurn", turnId: turn, state: deed.state })
      case "RequestApproval": {
        const known = yield* store.approvals(made.id, [`call-${deed.call}`])
        // An agent never reuses the id of a decided call.
        return known.some(({ outcome }) => outcome !== null) ? null : yield* system(request(turn, `call-${deed.call}`))
      }
      case "ReportPublication":
        return yield* system({ _tag: "ReportPublication", data: { repo: "acme/shop", action_state: "idle", number: 7 } })
      case "RecordCheckpoint": {
        const { checkpoint } = yield* find
        return yield* system({ _tag: "RecordCheckpoint", data: { checkpoint: checkpoint + 1 + deed.skipped, bytes: 9, ms: 1, repos: [] } })
      }
      case "RecordRestore":
        return yield* system({ _tag: "RecordRestore", data: { checkpoint: 1, cause: deed.cause } })
      case "RecordSync":
        return yield* system(synced)
      case "Release":
        return yield* system({ _tag: "Release" })
    }
  })
  for (const command of boot(turnId(ids, made.id, 1)).slice(0, booted)) yield* system(command)
  for (const deed of deeds) yield* take(deed)
  return { creation: made, key, store, ids, find, events, person, take }
})

type Stored = SandboxStore | Ids | StoreFixture

const law = <A, R>(name: string, given: Arbitrary.Arbitrary<A>, holds: (given: A) => Effect.Effect<void, unknown, R>): StoreLaw<A, R> => ({
  name,
  given,
  holds
})

/** Laws of every sandbox store. */
export const storeLaws: {
  readonly reachable: StoreLaw<typeof Life.Type, Stored>
  readonly replay: StoreLaw<typeof Life.Type, Stored>
  readonly final: StoreLaw<typeof Life.Type, Stored>
  readonly identity: StoreLaw<typeof Life.Type, Stored>
  readonly firstDecision: StoreLaw<ReadonlyArray<typeof Decided.Type>, Stored>
  readonly idempotency: StoreLaw<{ readonly key: IdempotencyKey; readonly texts: readonly [string, string] }, Stored>
  readonly messageKeys: StoreLaw<readonly [typeof Life.Type, typeof Life.Type, IdempotencyKey], Stored>
  readonly isolation: StoreLaw<readonly [typeof Life.Type, typeof Life.Type], Stored>
} = {
  reachable: law(
    "only reachable states are stored",
    life,
    Effect.fnUntraced(function*(given) {
      const { creation, events, find, ids } = yield* live(given)
      const log = (yield* events).map(({ event }) => event)
      const sandbox = yield* find
      statusesAreReachable(log, sandbox)
      turnsAreReachable(log, sandbox, (n) => turnId(ids, creation.id, n))
      queueIsKept(log, sandbox)
      approvalsResolveOnce(log, sandbox)
      checkpointsCount(log, sandbox)
      usageIsAsTold(log, sandbox)
      titleIsAsTold(log, sandbox, creation.title)
      publicationsAreAppended(log, sandbox)
      syncsAreInOrder(log, sandbox)
    })
  ),

  replay: law(
    "the log counts from 1 without gaps and replays to the stored state",
    life,
    Effect.fnUntraced(function*(given) {
      const { creation, events, find } = yield* live(given)
      const log = yield* events
      assert.deepStrictEqual(log.map(({ seq }) => seq), log.map((_, i) => i + 1))
      const folded = log.reduce((state, { at, event }) => evolve(state, event, at), initial(creation))
      assert.deepStrictEqual(JSON.parse(JSON.stringify(encode(yield* find))), JSON.parse(JSON.stringify(encode(folded))))
    })
  ),

  final: law(
    "what was terminated and released keeps everything but its title and its pull requests, whatever is tried",
    life,
    Effect.fnUntraced(function*(given) {
      const { events, find, take } = yield* live({ ...given, deeds: [] })
      yield* take({ _tag: "Terminate" })
      yield* take({ _tag: "Release" })
      const [before, told] = [yield* find, (yield* events).length]
      assert.strictEqual(before.status, "terminated")
      for (const deed of given.deeds.filter(({ _tag }) => _tag !== "ReportPublication" && _tag !== "Rename")) yield* take(deed)
      assert.deepStrictEqual(yield* find, before)
      assert.strictEqual((yield* events).length, told)
    })
  ),

  identity: law(
    "a repeated command is answered by its receipt and writes nothing",
    life,
    Effect.fnUntraced(function*(given) {
      const { events, find, ids, person } = yield* live(given)
      for (
        const command of [
          decideApproval(ids, "call-1", { decision: "approve" }, decider),
          interrupt(ids),
          rename(ids, TITLES[1]),
          terminate(ids)
        ]
      ) {
        const turn = (yield* find).turn?.id
        const first = yield* person(command)
        // An interrupt made room for a turn that waited: another one would end that.
        if ((yield* find).turn?.id !== turn) continue
        const [before, told] = [yield* find, (yield* events).length]
        const again = yield* person(command)
        assert.deepStrictEqual(yield* find, before)
        assert.strictEqual((yield* events).length, told)
        if (Result.isFailure(first)) assert.deepStrictEqual(Result.isFailure(again) && again.failure._tag, first.failure._tag)
        else {
          const { outcome } = first.success
          assert.deepStrictEqual(
            Result.isSuccess(again) ? again.success : again.failure,
            outcome === "applied" ? { ...first.success, outcome: "duplicate" } : first.success
          )
        }
      }
    })
  ),

  firstDecision: law(
    "of many decisions at once on one approval exactly one is applied, and it stays",
    Arbitrary.array(Arbitrary.schema(Decided), { minLength: 1, maxLength: 6 }),
    Effect.fnUntraced(function*(given) {
      const { events, ids, key, person, store } = yield* live({ booted: 4, deeds: [] })
      const answers = yield* Effect.forEach(given, (decision) => person(decideApproval(ids, "call-1", { decision }, decider)), {
        concurrency: "unbounded"
      })
      const applied = answers.flatMap((answer, i) => Result.isSuccess(answer) && answer.success.outcome === "applied" ? [given[i]] : [])
      assert.strictEqual(applied.length, 1)
      const outcome = applied[0] === "approve" ? "approved" : "denied"
      assert.deepStrictEqual(yield* store.approvals(key.id, ["call-1"]), [{ approvalId: "call-1", outcome, by: "user" }])
      assert.strictEqual((yield* events).filter(({ event }) => event.type === "approval.resolved").length, 1)
    })
  ),

  idempotency: law(
    "a key gives the same sandbox for an equal request, conflicts with a changed one, and is free again after a failure",
    Arbitrary.schema(Schema.Struct({ key: IdempotencyKey, texts: Schema.Tuple([StorableText, StorableText]) })),
    Effect.fnUntraced(function*({ key, texts: [one, two] }) {
      const store = yield* SandboxStore
      const ids = yield* Ids
      const taken = yield* newCreation()
      yield* store.create({ creation: taken, keyed: null })
      const keyed = { key, fingerprint: `1:${ids.digest(one)}` }
      const failed = yield* Effect.flip(store.create({ creation: taken, keyed }))
      assert.strictEqual(failed._tag, "SandboxIdTaken")
      const made = yield* newCreation(taken.grantId)
      const first = yield* store.create({ creation: made, keyed })
      assert.deepStrictEqual([first.replayed, first.sandbox.id], [false, made.id])
      const unused = yield* newCreation(taken.grantId)
      const again = yield* store.create({ creation: unused, keyed })
      assert.deepStrictEqual([again.replayed, again.sandbox.id], [true, made.id])
      if (one !== two) {
        const conflict = yield* Effect.flip(
          store.create({ creation: unused, keyed: { key, fingerprint: `1:${ids.digest(two)}` } })
        )
        assert.strictEqual(conflict._tag, "IdempotencyConflict")
      }
      assert.strictEqual((yield* Effect.flip(store.find({ grantId: taken.grantId, id: unused.id })))._tag, "SandboxNotFound")
      const elsewhere = yield* newCreation()
      assert.isFalse(
        (yield* store.create({ creation: elsewhere, keyed: { key, fingerprint: `1:${ids.digest(two)}` } })).replayed
      )
    })
  ),

  messageKeys: law(
    "a message's key finds its first answer whatever happened since, refuses another message, and is free elsewhere and after a refusal",
    Arbitrary.all([life, life, Arbitrary.schema(IdempotencyKey)]),
    Effect.fnUntraced(function*([before, since, key]) {
      const { events, find, ids, key: own, store, take } = yield* live(before)
      const send = (to: typeof own, prompt: string) =>
        Effect.result(store.command(
          to,
          sendMessage(ids, prompt, "user-2", { whenBusy: "queue", canSteer: () => true }),
          creation.createdAt,
          { key, fingerprint: `1:${ids.digest(prompt)}` }
        ))
      const first = yield* send(own, "Once.")
      for (const deed of since.deeds) yield* take(deed)
      const [state, told] = [yield* find, (yield* events).length]
      if (Result.isSuccess(first)) {
        const again = Result.getOrThrow(yield* send(own, "Once."))
        assert.deepStrictEqual(again.result, { ...first.success.result, outcome: "duplicate" })
        assert.strictEqual(again.turnId, first.success.turnId)
        const other = yield* send(own, "Another.")
        assert.strictEqual(Result.isFailure(other) ? other.failure._tag : null, "IdempotencyConflict")
        assert.deepStrictEqual(yield* find, state)
        assert.strictEqual((yield* events).length, told)
      } else {
        const other = yield* send(own, "Another.")
        assert.notStrictEqual(Result.isFailure(other) ? other.failure._tag : null, "IdempotencyConflict")
      }
      const elsewhere = yield* live({ booted: 3, deeds: [] })
      const there = Result.getOrThrow(yield* send(elsewhere.key, "Another."))
      assert.strictEqual(there.result.outcome, "applied")
    })
  ),

  isolation: law(
    "nothing of one grant is visible to another, nor can it be touched",
    Arbitrary.all([life, life]),
    Effect.fnUntraced(function*(given) {
      const [one, other] = [yield* live(given[0]), yield* live(given[1])]
      for (const [mine, theirs] of [[one, other], [other, one]] as const) {
        const [before, told] = [yield* theirs.find, (yield* theirs.events).length]
        const foreign = { grantId: mine.key.grantId, id: theirs.key.id }
        const refusals = [
          yield* Effect.flip(mine.store.find(foreign)),
          yield* Effect.flip(mine.store.command(foreign, terminate(mine.ids), creation.createdAt)),
          yield* Effect.flip(mine.store.change(foreign.id, { grantId: foreign.grantId }, () => Result.succeed([]), creation.createdAt))
        ]
        assert.deepStrictEqual(refusals.map(({ _tag }) => _tag), ["SandboxNotFound", "SandboxNotFound", "SandboxNotFound"])
        const listed = yield* mine.store.list(mine.key.grantId, { after: null, limit: 100, status: null, repo: null })
        assert.deepStrictEqual(listed.map(({ id }) => id), [mine.key.id])
        for (const { wire } of yield* mine.store.log(mine.key.id, 0, 10_000)) assert.notInclude(wire, theirs.key.id)
        assert.deepStrictEqual(yield* theirs.find, before)
        assert.strictEqual((yield* theirs.events).length, told)
      }
    })
  )
}

/** Runs every law of sandbox stores against a layer, with the fixture of the contract suite. */
export const checkStore = (name: string, layer: Layer.Layer<Stored, unknown>, runs = 40) =>
  define(`Laws of SandboxStore (${name})`, layer, (it) => {
    const check = <A>({ given, holds, name }: StoreLaw<A, Stored>) =>
      it.effect.prop(name, [given], ([value]) => holds(value), { arbitrary: { runs } })
    check(storeLaws.reachable)
    check(storeLaws.replay)
    check(storeLaws.final)
    check(storeLaws.identity)
    check(storeLaws.firstDecision)
    check(storeLaws.idempotency)
    check(storeLaws.messageKeys)
    check(storeLaws.isolation)
  })

// ---------------------------------------------------------------------------------------------------------------
// Partner feeds

/** One transaction: what it tells to which of two feeds, and whether it is carried out. */
const Transaction = Schema.Struct({
  tell: Schema.Array(Schema.Struct({ feed: Schema.Literals([0, 1]), task: Schema.Literals([1, 2, 3, 4, 5, 6, 7, 8]) })).check(
    Schema.isMaxLength(5)
  ),
  fails: Schema.Boolean
})
type Transaction = typeof Transaction.Type
type Fed = PartnerStore | Ids | PartnerFixture

const feed = Effect.fnUntraced(function*(transactions: ReadonlyArray<Transaction>, concurrency: 1 | "unbounded") {
  const store = yield* PartnerStore
  const fixture = yield* PartnerFixture
  const claimId = yield* (yield* Ids).uuid7
  const grants = [yield* fixture.grant, yield* fixture.grant] as const
  const at = creation.createdAt
  const fact = (task: number): PartnerFact => ({
    type: "task.started",
    data: { claimId, leadId: "lead", variant: "variant", occurredAt: at, taskId: `${task}`, projectId: null }
  })
  yield* Effect.forEach(transactions, ({ fails, tell }) => {
    const decided = { result: null, tell: tell.map(({ feed, task }) => ({ grantId: grants[feed], fact: fact(task) })) }
    return Effect.result(store.record(fails ? Effect.fail("rolled back") : Effect.succeed(decided), at))
  }, { concurrency })
  const tasks = (events: ReadonlyArray<PartnerFact>) => events.map(({ data }) => "taskId" in data ? Number(data.taskId) : NaN)
  /** The facts that each feed should tell, in the order of the transactions. */
  const told = ([0, 1] as const).map((
    n
  ) => [
    ...new Set(
      transactions.filter(({ fails }) => !fails).flatMap(({ tell }) => tell.filter((one) => one.feed === n).map(({ task }) => task))
    )
  ])
  return { store, grants, tasks, told }
})

const transactions = Arbitrary.array(Arbitrary.schema(Transaction), { maxLength: 12 })

/** Laws of every partner store. */
const feedLaws: {
  readonly gapless: StoreLaw<ReadonlyArray<Transaction>, Fed>
  readonly concurrent: StoreLaw<ReadonlyArray<Transaction>, Fed>
  readonly pages: StoreLaw<{ readonly transactions: ReadonlyArray<Transaction>; readonly limit: number }, Fed>
} = {
  gapless: law(
    "each feed counts from 1 without gaps, tells a fact once, in order, and nothing of another grant",
    transactions,
    Effect.fnUntraced(function*(given) {
      const { grants, store, tasks, told } = yield* feed(given, 1)
      for (const [n, grantId] of grants.entries()) {
        const events = yield* store.feed(grantId, 0, 1000)
        assert.deepStrictEqual(events.map(({ sequence }) => sequence), events.map((_, i) => i + 1))
        assert.deepStrictEqual(tasks(events), told[n])
      }
    })
  ),
  concurrent: law(
    "transactions at once leave no gap and tell every fact once",
    transactions,
    Effect.fnUntraced(function*(given) {
      const { grants, store, tasks, told } = yield* feed(given, "unbounded")
      for (const [n, grantId] of grants.entries()) {
        const events = yield* store.feed(grantId, 0, 1000)
        assert.deepStrictEqual(events.map(({ sequence }) => sequence), events.map((_, i) => i + 1))
        assert.sameMembers(tasks(events), told[n] ?? [])
      }
    })
  ),
  pages: law(
    "pages of any size put together are the feed",
    Arbitrary.all({ transactions, limit: Arbitrary.schema(Schema.Literals([1, 2, 3, 7])) }),
    Effect.fnUntraced(function*({ limit, transactions }) {
      const { grants: [grantId], store } = yield* feed(transactions, 1)
      const whole = yield* store.feed(grantId, 0, 1000)
      const read: Array<unknown> = []
      for (let after = 0;;) {
        const page = yield* store.feed(grantId, after, limit)
        read.push(...page)
        assert.isAtMost(page.length, limit)
        const last = page.at(-1)
        if (last === undefined) break
        after = last.sequence
      }
      assert.deepStrictEqual(read, [...whole])
    })
  )
}

/** Runs every law of partner feeds against a layer, with the fixture of the contract suite. */
export const checkFeed = (name: string, layer: Layer.Layer<Fed, unknown>, runs = 40) =>
  define(`Laws of PartnerStore (${name})`, layer, (it) => {
    const check = <A>({ given, holds, name }: StoreLaw<A, Fed>) =>
      it.effect.prop(name, [given], ([value]) => holds(value), { arbitrary: { runs } })
    check(feedLaws.gapless)
    check(feedLaws.concurrent)
    check(feedLaws.pages)
  })
