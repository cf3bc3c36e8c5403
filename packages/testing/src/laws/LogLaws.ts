/** The laws of every sandbox's log, for any actions in any order. Each throws when it does not hold. */
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"

/** `from>to reason/initiator` of every change of docs/decisions/2.1 that names its cause. */
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
  ...["running", "awaiting_approval", "awaiting_answer"].flatMap((from) =>
    ["running", "awaiting_approval", "awaiting_answer"].flatMap((to) => from === to ? [] : [`${from}>${to}`])
  ),
  ...["running", "awaiting_approval", "awaiting_answer"].flatMap((from) =>
    ["succeeded", "failed", "interrupted"].map((to) => `${from}>${to}`)
  )
])

/** The events of one sandbox, from its first. */
export type Log = ReadonlyArray<SandboxEvent>

const of = <T extends SandboxEvent["type"]>(type: T) => (event: SandboxEvent): event is Extract<SandboxEvent, { type: T }> =>
  event.type === type

const hold = (holds: boolean, sentence: string): void => {
  if (!holds) throw new Error(sentence)
}

/** Throws where a status changed as it must not (docs/decisions/2.1). */
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

/** Throws where a turn changed as it must not, or two were active at once (docs/decisions/2.2). */
export const turnsAreReachable = (log: Log, sandbox: Sandbox, idOf: (n: number) => string): void => {
  let turn: { readonly id: string | undefined; readonly state: string } | null = null
  let n = 0
  const waiting = new Set<string>()
  const named = (id: string | undefined) => {
    n += 1
    hold(id === idOf(n), `prompt ${n} is called ${id}`)
  }
  for (const event of log) {
    if (event.type === "message.queued") {
      named(event.data.message_id)
      waiting.add(event.data.message_id)
    }
    if (event.type !== "turn.updated" && event.type !== "turn.started" && event.type !== "turn.completed") continue
    if (event.type === "turn.updated" && event.data.state === "pending") {
      hold(
        turn === null || !["pending", "running", "awaiting_approval", "awaiting_answer"].includes(turn.state),
        `a turn began while ${turn?.id} was ${turn?.state}`
      )
      if (!waiting.delete(event.turn_id ?? "")) named(event.turn_id)
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

/**
 * Throws where a message that waited was lost, came twice, came out of its order, or was taken by an agent that was not at a turn
 * (docs/decisions/18).
 */
export const queueIsKept = (log: Log, sandbox: Sandbox): void => {
  const waiting: Array<{ readonly id: string; readonly text: string; readonly steers: boolean }> = []
  const leave = (id: string) => {
    const at = waiting.findIndex((message) => message.id === id)
    hold(at >= 0, `${id} did not wait`)
    return { at, message: waiting.splice(at, 1)[0] }
  }
  let atWork: string | null = null
  for (const event of log) {
    switch (event.type) {
      case "message.queued": {
        const { message_id: id, position, steers, text } = event.data
        const place = steers ? waiting.filter((message) => message.steers).length : waiting.length
        hold(position === place + 1, `${id} is told as ${position}., it is ${place + 1}.`)
        waiting.splice(place, 0, { id, text, steers })
        hold(waiting.length <= 10, `${waiting.length} messages wait`)
        break
      }
      case "message.cancelled":
        leave(event.data.message_id)
        break
      case "message.steered": {
        const { message } = leave(event.data.message_id)
        hold(message?.steers === true && message.text === event.data.text, `${event.data.message_id} is another one than what was sent`)
        hold(atWork !== null && atWork === event.turn_id, `${event.data.message_id} was taken in ${event.turn_id}, at work is ${atWork}`)
        break
      }
      case "turn.updated":
        if (event.data.state !== "pending" || waiting.length === 0) break
        {
          const { at, message } = leave(event.turn_id ?? "")
          hold(at === 0 && message?.text === event.data.text, `${event.turn_id} came before a message that waited longer`)
        }
        break
      case "turn.started":
        atWork = event.turn_id ?? null
        break
      case "turn.completed":
        atWork = null
        break
      default:
    }
  }
  const kept = sandbox.waiting.map(({ id, steers }) => `${id} ${steers}`).join()
  const told = waiting.map(({ id, steers }) => `${id} ${steers}`).join()
  hold(kept === told, `there wait ${kept}, by the log ${told}`)
  const texts = new Map(sandbox.waitingTexts.map(({ id, text }) => [id, text]))
  hold(texts.size === waiting.length && waiting.every(({ id, text }) => texts.get(id) === text), "a text of what waits is another one")
}

const AFTER_END: ReadonlySet<SandboxEvent["type"]> = new Set([
  "feedback.paused",
  "feedback.received",
  "feedback.replied",
  "feedback.resumed",
  "pull_request.updated",
  "sandbox.renamed",
  "usage.updated"
])

/** Throws where a sandbox has more than publications, feedback, usage and titles after it was terminated: its pull request may go on. */
export const endsForGood = (log: Log): void => {
  const end = log.findIndex((event) => event.type === "sandbox.status" && event.data.status === "terminated")
  const after = end < 0 ? [] : log.slice(end + 1).filter(({ type }) => !AFTER_END.has(type))
  hold(after.length === 0, `${after[0]?.type} came after the end`)
}

/**
 * Throws where the policy decided what no person approved before, in the same turn and of the same kind, for the rest of it; or after
 * somebody wanted that turn to end.
 */
export const policyApprovesAsTold = (log: Log): void => {
  const kinds = new Map<string, string | undefined>()
  const approved = new Set<string>()
  let over: string | undefined
  for (const event of log) {
    if (event.type === "turn.completed" || event.type === "turn.updated" && event.data.reason === "interrupt") over = event.turn_id
    if (event.type === "approval.requested") {
      const { approval_id, kind, plain = false } = event.data
      kinds.set(approval_id, kind === "edit" && !plain ? "edit alone" : kind)
    }
    if (event.type !== "approval.resolved") continue
    const { approval_id, by, outcome, scope } = event.data
    const covered = `${event.turn_id} ${kinds.get(approval_id)}`
    if (scope === "turn") {
      hold(
        by === "user" && outcome === "approved" && kinds.get(approval_id) !== "edit alone",
        `${approval_id} was ${outcome} by ${by} for the rest of the turn`
      )
      approved.add(covered)
    }
    if (by === "policy") {
      hold(outcome === "approved" && approved.has(covered) && over !== event.turn_id, `${approval_id} was ${outcome} without a decision`)
    }
  }
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

/**
 * Throws where a question was over twice or without having been asked, where somebody answered in a person's name, or where an answer came
 * after somebody wanted the turn to end (docs/decisions/22).
 */
export const questionsCloseOnce = (log: Log, sandbox: Sandbox): void => {
  const pending = new Set<string>()
  let over: string | undefined
  for (const event of log) {
    if (event.type === "turn.completed" || event.type === "turn.updated" && event.data.reason === "interrupt") over = event.turn_id
    if (event.type === "question.asked") pending.add(event.data.question_id)
    if (event.type !== "question.answered") continue
    const { answers, by, question_id } = event.data
    hold(pending.delete(question_id), `${question_id} was over although it was not pending`)
    hold(answers === undefined || by === "user", `${question_id} was answered by ${by}`)
    hold(by !== "user" || event.turn_id !== over, `${question_id} was answered in a turn that was to end`)
  }
  const kept = (sandbox.turn?.questions ?? []).map(({ question_id }) => question_id)
  hold(kept.join() === Array.from(pending).join(), `pending are ${kept.join()}, by the log ${Array.from(pending).join()}`)
}

/** Throws where checkpoints do not count 1, 2, … (docs/decisions/16). */
export const checkpointsCount = (log: Log, sandbox: Sandbox): void => {
  const numbers = log.flatMap((event) => event.type === "sandbox.checkpoint" ? event.data.checkpoint ?? [] : [])
  numbers.forEach((checkpoint, i) => hold(checkpoint === i + 1, `checkpoint ${checkpoint} came after ${i} others`))
  hold(sandbox.checkpoint === numbers.length, `the newest checkpoint is ${sandbox.checkpoint}, the log has ${numbers.length}`)
}

/** Throws where a sandbox's usage is not the newest that was told, or its tokens are not: an event may leave these out. */
export const usageIsAsTold = (log: Log, sandbox: Sandbox): void => {
  const told = log.flatMap((event) => event.type === "usage.updated" ? event.data : [])
  const usage = told.at(-1)?.usage ?? { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 }
  const tokens = told.findLast((data) => data.tokens !== undefined)?.tokens ?? { input: 0, cachedInput: 0, output: 0 }
  const [kept, by] = [[sandbox.usage, sandbox.tokens], [usage, tokens]].map((parts) =>
    JSON.stringify(parts.map((part) => Object.entries(part).sort()))
  )
  hold(kept === by, `used was ${kept}, by the log ${by}`)
}

/** Throws where the title is not the newest of the log. `first`: the title of the creation. */
export const titleIsAsTold = (log: Log, { renames, title }: Sandbox, first: string): void => {
  const told = log.filter(of("sandbox.renamed")).map(({ data }) => data.title)
  hold(title === (told.at(-1) ?? first), `the title is ${title} after ${told.join()}`)
  hold(renames === told.length, `${renames} renames are counted of ${told.length}`)
}

interface Known {
  readonly repo: string
  readonly number: number | null
  readonly url: string | undefined
  readonly headSha: string | null
  readonly state: string | null
  readonly draft: boolean | null
  readonly merged: boolean | null
  readonly pushed: string | undefined
  readonly actionState: string
  readonly error: string | null
}

/**
 * Throws where a publication is not as its log tells: a new repository comes last, a known one keeps its place and what is not told anew,
 * and an error is that of the last event alone. Upper and lower case of a repository are the same.
 */
export const publicationsAreAppended = (log: Log, sandbox: Sandbox): void => {
  const known: Array<Known> = []
  for (const { data } of log.filter(of("pull_request.updated"))) {
    const at = known.findIndex(({ repo }) => repo.toLowerCase() === data.repo.toLowerCase())
    const before = known[at]
    const isPush = before !== undefined && /^(?:publishing|updating)$/u.test(before.actionState) && data.action_state === "idle" &&
      data.error === undefined && data.head_ref !== undefined && data.head_sha !== undefined
    known.splice(at < 0 ? known.length : at, 1, {
      repo: before?.repo ?? data.repo,
      number: data.number ?? before?.number ?? null,
      url: data.url ?? before?.url,
      headSha: data.head_sha ?? before?.headSha ?? null,
      state: data.state ?? before?.state ?? null,
      draft: data.draft ?? before?.draft ?? null,
      merged: data.merged ?? before?.merged ?? null,
      pushed: isPush ? `${data.head_ref} ${data.head_sha}` : before?.pushed,
      actionState: data.action_state,
      error: data.error?.code ?? null
    })
  }
  const kept = sandbox.publications.map(({ actionState, draft, error, headSha, merged, number, pushed, repo, state, url }): Known => ({
    repo,
    number,
    url,
    headSha,
    state,
    draft,
    merged,
    pushed: pushed === undefined ? undefined : `${pushed.headRef} ${pushed.sha}`,
    actionState,
    error: error?.code ?? null
  }))
  hold(JSON.stringify(kept) === JSON.stringify(known), `published is ${JSON.stringify(kept)}, by the log ${JSON.stringify(known)}`)
}

/** Throws where a sync begins during another one or outside of a running sandbox, or ends without one. `sandbox`: after the log. */
export const syncsAreInOrder = (log: Log, sandbox: Pick<Sandbox, "syncing" | "syncs">): void => {
  let isRunning = false
  let isSyncing = false
  let ended = 0
  for (const event of log) {
    if (event.type === "sandbox.status") {
      isRunning = event.data.status === "running"
      isSyncing = isSyncing && isRunning
    } else if (event.type === "sandbox.syncing") {
      hold(isRunning, "a sync began, and the sandbox does not run")
      hold(!isSyncing, "a sync began during another one")
      isSyncing = true
    } else if (event.type === "sandbox.synced") {
      hold(isSyncing, "a sync ended that had not begun")
      isSyncing = false
      ended += 1
    }
  }
  hold(sandbox.syncing === isSyncing && sandbox.syncs === ended, `${sandbox.syncs} syncs ended, by the log ${ended}`)
}

/** An event in the order of a decision. */
const wordOf = (event: SandboxEvent): string => {
  switch (event.type) {
    case "sandbox.status":
      return event.data.status
    case "turn.updated":
      return event.data.reason ?? event.data.state
    case "approval.resolved":
    case "question.answered":
      return event.data.by
    case "message.cancelled":
      return `cancelled:${event.data.reason}`
    case "message.updated":
    case "message.completed":
    case "plan.updated":
    case "tool.updated":
      return "work"
    default:
      return event.type
  }
}

const CLOSED = "(turn_end )*turn.completed "
const DROPPED = "(pull_request.updated )*(cancelled:sandbox_ended )*"
const SETTLED = `${DROPPED}(${CLOSED})?`
const ENDING = `${DROPPED}(terminate )*(running )?terminating (terminated )?`
const LIMITED = `sandbox.error ${CLOSED}(pending )?`

/** The order of the events of each decision. */
const orders: Readonly<Record<string, string>> = {
  Answer: "user (running )?",
  AskQuestion: `(question.asked (awaiting_answer |interrupt )?|${LIMITED})?`,
  Cancel: "cancelled:command ",
  Decide: "user (policy )*(running |awaiting_answer )?(message.queued )?",
  EndTurn: `(${CLOSED}(pending |(cancelled:(budget_exceeded|no_credits) )*))?`,
  Expire: `(timeout (running |awaiting_answer )?)*(${CLOSED}(pending )?)?(${SETTLED}(failed|succeeded) |${ENDING})?`,
  Fail: `sandbox.error ${SETTLED}failed `,
  FailRestore: "(sandbox.restored )?",
  FinishBoot: "running pending ",
  Interrupt: "(interrupt )+|turn.completed (pending )?",
  RecordCheckpoint: "sandbox.checkpoint ",
  RecordRestore: `(${CLOSED})?sandbox.restored (pending )?`,
  RecordSteer: "(message.steered )?",
  RecordSync: "(sandbox.synced )?",
  RecordWork: `(work )*(${LIMITED})?`,
  RefuseMessage: `(${LIMITED})?`,
  Release: `(${SETTLED}terminated )?`,
  Rename: "(sandbox.renamed )?",
  ReportBoot: "sandbox.boot ",
  ReportBoxLimit: `(sandbox.error )?(${LIMITED})?`,
  ReportPublication: "pull_request.updated ",
  ReportUsage: "usage.updated ",
  RequestApproval: `(approval.requested (awaiting_approval |interrupt |policy )?|${LIMITED})?`,
  Restore: "sandbox.restoring ",
  RevokeGrant: `(${ENDING})?`,
  Send: "message.queued |pending ",
  StartBoot: "(creating )?",
  StartSetup: "setup.started ",
  StartTurn: `(turn.started (${LIMITED})?)?`,
  Sync: "sandbox.syncing ",
  Terminate: `(${ENDING})?`
}

/**
 * Throws where the events of one decision come in another order than docs/decisions/2 and 5 say: a turn's approvals and questions are
 * closed before it ends, it ends before its sandbox, and the next one begins after both; of those denied or
 * cancelled together the oldest comes first.
 */
export const eventsAreInOrder = (did: string, before: Pick<Sandbox, "approvals" | "waiting">, events: Log): void => {
  const words = events.map((event) => `${wordOf(event)} `).join("")
  hold(events.length === 0 || new RegExp(`^(?:${orders[did]})$`, "u").test(words), `${did} gave ${words}`)
  const denied = events.filter(of("approval.resolved")).filter(({ data }) => data.by !== "user" && data.by !== "policy")
  const cancelled = events.filter(of("message.cancelled"))
  const asked = before.approvals.map(({ approval_id: id }) => id).filter((id) => denied.some(({ data }) => data.approval_id === id))
  const waiting = before.waiting.map(({ id }) => id).filter((id) => cancelled.some(({ data }) => data.message_id === id))
  const known = denied.map(({ data }) => data.approval_id).filter((id) => asked.includes(id))
  hold(known.join() === asked.join(), `${known.join()} were denied in another order than ${asked.join()} were requested`)
  const taken = cancelled.map(({ data }) => data.message_id)
  hold(taken.join() === waiting.join(), `${taken.join()} were cancelled in another order than ${waiting.join()} wait`)
}
