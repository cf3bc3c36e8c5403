/** What every log says of its sandbox, whatever was done and in which order. Each throws when it does not hold. */
import type { Sandbox } from "../src/sandbox/Sandbox.ts"
import type { SandboxEvent } from "../src/sandbox/SandboxEvent.ts"

/** `from>to reason/initiator` of every change of docs/decisions.md 2.1 that names its cause. */
const changes = new Set([
  "queued>creating null/system",
  "queued>failed queue_timeout/policy",
  "creating>running null/system",
  "creating>failed boot_timeout/policy",
  "creating>failed boot_failed/provider",
  "creating>failed clone_failed/provider",
  "creating>failed repo_not_accessible/provider",
  "running>succeeded idle_timeout/policy",
  "running>failed last_turn_failed/policy",
  "running>failed agent_lost/provider",
  "running>failed host_lost/provider",
  "terminating>failed release_failed/provider",
  ...["queued", "creating", "running", "succeeded", "failed"].map((from) => `${from}>terminating terminated/user`),
  ...["queued", "creating", "running"].flatMap((from) => [
    `${from}>terminating max_lifetime/policy`,
    `${from}>terminating grant_revoked/policy`
  ]),
  "terminating>terminated terminated/user",
  "terminating>terminated max_lifetime/policy",
  "terminating>terminated grant_revoked/policy"
])

/** Decisions 2.2. */
const steps = new Set([
  "pending>running",
  "pending>cancelled",
  "running>running",
  "running>awaiting_approval",
  "awaiting_approval>running",
  ...["running", "awaiting_approval"].flatMap((from) => ["succeeded", "failed", "interrupted"].map((to) => `${from}>${to}`))
])

/** The events of one sandbox, from its first. */
export type Log = ReadonlyArray<SandboxEvent>

const of = <T extends SandboxEvent["type"]>(type: T) => (event: SandboxEvent): event is Extract<SandboxEvent, { type: T }> =>
  event.type === type

const hold = (holds: boolean, sentence: string): void => {
  if (!holds) throw new Error(sentence)
}

/** Throws where a status changed as it must not (docs/decisions.md 2.1). */
export const statusesAreReachable = (log: Log, sandbox: Sandbox): void => {
  let status: string | null = null
  for (const { data } of log.filter(of("sandbox.status"))) {
    hold(data.previous === status, `${data.status} says it came after ${data.previous}, but it came after ${status}`)
    const change = `${status}>${data.status} ${data.reason}/${data.initiator}`
    hold(status === null || changes.has(change), `${change} is no legal change of status`)
    status = data.status
  }
  hold(sandbox.status === status, `the status is ${sandbox.status}, the log ends with ${status}`)
}

/** Throws where a turn changed as it must not, or two were active at once (docs/decisions.md 2.2). */
export const turnsAreReachable = (log: Log, sandbox: Sandbox, idOf: (n: number) => string): void => {
  let turn: { readonly id: string | undefined; readonly state: string } | null = null
  let n = 0
  for (const event of log) {
    if (event.type !== "turn.updated" && event.type !== "turn.started" && event.type !== "turn.completed") continue
    if (event.type === "turn.updated" && event.data.state === "pending") {
      hold(
        turn === null || !["pending", "running", "awaiting_approval"].includes(turn.state),
        `a turn began while ${turn?.id} was ${turn?.state}`
      )
      n += 1
      hold(event.turn_id === idOf(n), `turn ${n} is called ${event.turn_id}`)
      turn = { id: event.turn_id, state: "pending" }
      continue
    }
    const state: string = event.type === "turn.started" ? "running" : event.data.state
    hold(event.turn_id === turn?.id, `${event.type} is about ${event.turn_id}, the turn is ${turn?.id}`)
    hold(steps.has(`${turn?.state}>${state}`), `${turn?.state}>${state} is no legal step of a turn`)
    if (event.type === "turn.updated") {
      hold(event.data.previous === turn?.state, `${state} says it came after ${event.data.previous}, but it came after ${turn?.state}`)
    }
    turn = { id: event.turn_id, state }
  }
  hold(sandbox.turn?.state === turn?.state, `the turn is ${sandbox.turn?.state}, the log ends with ${turn?.state}`)
}

/** Nothing but publications is told of a sandbox once it is terminated: its pull request may go on living. */
export const endsForGood = (log: Log): void => {
  const end = log.findIndex((event) => event.type === "sandbox.status" && event.data.status === "terminated")
  const after = end < 0 ? [] : log.slice(end + 1).filter(({ type }) => type !== "pull_request.updated" && type !== "usage.updated")
  hold(after.length === 0, `${after[0]?.type} came after the end`)
}

/** Throws where an approval was resolved twice, or without having been requested. */
export const approvalsResolveOnce = (log: Log, sandbox: Sandbox): void => {
  const pending = new Set<string>()
  for (const event of log) {
    if (event.type === "approval.requested") pending.add(event.data.approval_id)
    if (event.type === "approval.resolved") {
      hold(pending.delete(event.data.approval_id), `${event.data.approval_id} was resolved although it was not pending`)
    }
  }
  const kept = sandbox.approvals.map(({ approval_id }) => approval_id)
  hold(kept.join() === Array.from(pending).join(), `pending are ${kept.join()}, by the log ${Array.from(pending).join()}`)
}
