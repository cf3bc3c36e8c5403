/**
 * When what has to happen to a sandbox, by its log alone: the tables of docs/decisions/2.1, 2.2 and 3 as plain arithmetic. It shares
 * nothing with the rules that it judges.
 */
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import type * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"

/** The time limit of all setups of a boot together; milliseconds. */
const SETUPS = 3_600_000

/** A deadline and its consequence; epoch milliseconds. */
export interface Due {
  /** The reason of the status that follows, `turn_timeout`, `approval <id>`, or `question <id>`. */
  readonly what: string
  readonly at: number
}

type Limit = "approval" | "boot" | "idle" | "lifetime" | "queue" | "release" | "turn"

type Limits = Readonly<Record<Limit, Duration.Duration>>

/** A sandbox as far as its log says when something is due. */
class Known {
  createdAt: number | null = null
  status = "queued"
  statusAt = 0
  idleAt = 0
  /** The active turn; `startedAt`: its agent took it. */
  turn: { startedAt: number | null } | null = null
  failedLast = false
  /** When each was asked for, and when its people were told that it expires; oldest first. */
  readonly approvals = new Map<string, { readonly since: number; readonly until: number }>()
  readonly questions = new Map<string, { readonly since: number; readonly until: number }>()
  readonly publishing = new Set<string>()
  /** Time of the finished setups of this boot, and of the running one. */
  setupMillis = 0
  setup: { readonly since: number; readonly limit: number } | null = null
}

/** Reads a log event by event. */
export class TimeTable {
  readonly #limit: (name: Limit) => number
  readonly #known: Known

  constructor(limits: Limits, known = new Known()) {
    this.#limit = (name) => Duration.toMillis(limits[name])
    this.#known = known
  }

  /** The table of the same log under other limits. */
  under(limits: Limits): TimeTable {
    return new TimeTable(limits, this.#known)
  }

  record(event: SandboxEvent, time: DateTime.Utc): void {
    const at = time.epochMilliseconds
    this.#known.createdAt ??= at
    switch (event.type) {
      case "sandbox.status":
        this.#known.status = event.data.status
        this.#known.statusAt = at
        this.#known.idleAt = at
        this.#known.setupMillis = 0
        this.#known.setup = null
        return
      case "setup.started":
        this.#endSetup(at)
        this.#known.setup = { since: at, limit: event.data.limit_ms }
        return
      case "sandbox.boot":
        if (event.data.stage === "setup") this.#endSetup(at)
        return
      case "turn.updated":
        if (event.data.state === "pending") this.#known.turn = { startedAt: null }
        return
      case "turn.started":
        if (this.#known.turn !== null) this.#known.turn.startedAt = at
        return
      case "turn.completed":
        this.#known.turn = null
        this.#known.failedLast = event.data.state === "failed"
        this.#known.idleAt = at
        return
      case "approval.requested":
        this.#known.approvals.set(event.data.approval_id, { since: at, until: event.data.expires_at.epochMilliseconds })
        return
      case "approval.resolved":
        this.#known.approvals.delete(event.data.approval_id)
        return
      case "question.asked":
        this.#known.questions.set(event.data.question_id, { since: at, until: event.data.expires_at.epochMilliseconds })
        return
      case "question.answered":
        this.#known.questions.delete(event.data.question_id)
        return
      case "pull_request.updated": {
        const repo = event.data.repo.toLowerCase()
        const { action_state: state } = event.data
        if (state === "publishing" || state === "updating") this.#known.publishing.add(repo)
        else if (this.#known.publishing.delete(repo)) this.#known.idleAt = at
        return
      }
      default:
        return
    }
  }

  #endSetup(at: number): void {
    if (this.#known.setup !== null) this.#known.setupMillis += Math.min(Math.max(at - this.#known.setup.since, 0), this.#known.setup.limit)
    this.#known.setup = null
  }

  /** When an approval or a question that was asked under these limits expires; `undefined`: none of this id waits. */
  expiryOf(id: string): number | undefined {
    const asked = this.#known.approvals.get(id) ?? this.#known.questions.get(id)
    return asked === undefined ? undefined : asked.since + this.#limit("approval")
  }

  /** All that comes due as long as nothing else happens. What ends a sandbox comes first: nothing else counts then. */
  get dues(): ReadonlyArray<Due> {
    const status = this.#known.status
    const createdAt = this.#known.createdAt ?? 0
    const dues: Array<Due> = []
    const due = (what: string, since: number, limit: Limit) => void dues.push({ what, at: since + this.#limit(limit) })
    if (status === "queued" || status === "creating" || status === "running") due("max_lifetime", createdAt, "lifetime")
    if (status === "queued") due("queue_timeout", createdAt, "queue")
    if (status === "creating") {
      due("boot_timeout", this.#known.statusAt + Math.min(this.#known.setupMillis + (this.#known.setup?.limit ?? 0), SETUPS), "boot")
    }
    if (status === "terminating") due("release_failed", this.#known.statusAt, "release")
    if (status !== "running") return dues
    // Whatever the limits are by now.
    for (const [id, { until }] of this.#known.approvals) dues.push({ what: `approval ${id}`, at: until })
    for (const [id, { until }] of this.#known.questions) dues.push({ what: `question ${id}`, at: until })
    if (this.#known.turn !== null) {
      if (this.#known.turn.startedAt !== null) due("turn_timeout", this.#known.turn.startedAt, "turn")
    } else if (this.#known.publishing.size === 0) {
      due(this.#known.failedLast ? "last_turn_failed" : "idle_timeout", this.#known.idleAt, "idle")
    }
    return dues
  }

  /** When the first comes due; epoch milliseconds, `null`: nothing does. */
  get next(): number | null {
    return this.dues.reduce<number | null>((first, { at }) => first === null ? at : Math.min(first, at), null)
  }

  /** All that is due by then, in the order in which it happens. */
  dueBy(now: number): ReadonlyArray<string> {
    const due = this.dues.filter(({ at }) => at <= now).map(({ what }) => what)
    const [first] = due
    return first === undefined || isGentle(first) ? due : [first]
  }
}

/** The sandbox goes on after it. */
const isGentle = (what: string) => what === "turn_timeout" || /^(?:approval|question) /u.test(what)

const byTime: ReadonlyArray<string | null> = [
  "max_lifetime",
  "queue_timeout",
  "boot_timeout",
  "release_failed",
  "idle_timeout",
  "last_turn_failed"
]

/** The entry of a time table that this event is; `null`: it has another cause, or follows from another event. */
export const broughtByTime = (event: SandboxEvent): string | null => {
  switch (event.type) {
    case "sandbox.status":
      return event.data.status !== "terminated" && byTime.includes(event.data.reason) ? event.data.reason : null
    case "approval.resolved":
      return event.data.by === "timeout" ? `approval ${event.data.approval_id}` : null
    case "question.answered":
      return event.data.by === "timeout" ? `question ${event.data.question_id}` : null
    case "turn.completed":
      return event.data.reason === "turn_timeout" ? "turn_timeout" : null
    default:
      return null
  }
}
