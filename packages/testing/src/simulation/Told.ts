/**
 * A sandbox as its log tells of it: the tables of docs/decisions/2, 3, 5, 7, 15 and 16 in plain words, event by event. It shares
 * nothing with the rules that it judges: where `evolve` were wrong, what is stored would be something else.
 */
import type { Creation, Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent, SandboxEventOf } from "@slipway/domain/sandbox/rules/SandboxEvent"

/** The work for which a sandbox needs a worker (docs/decisions/15); `null`: it is at rest, or over. */
export type Need = "boot" | "turn" | "errand" | null

/** The newest turn. Moments are epoch milliseconds, here and below. */
interface TurnTold {
  readonly id: string
  readonly n: number
  readonly prompt: string
  readonly authorId: string
  state: string
  /** When an agent took it; `null`: none did. */
  startedAt: number | null
  interruptRequested: boolean
}

interface PublicationTold {
  readonly repo: string
  actionState: string
  number: number | null
  headSha: string | null
  state: string | null
  draft: boolean | null
  merged: boolean | null
  error: string | null
}

/** Each is 1 more of the `revision` (docs/decisions/3): status, turn, approvals, pull requests, what waits, going back, title. */
const COUNTS = new Set<SandboxEvent["type"]>([
  "sandbox.status",
  "turn.updated",
  "turn.started",
  "turn.completed",
  "approval.requested",
  "approval.resolved",
  "question.asked",
  "question.answered",
  "pull_request.updated",
  "message.queued",
  "message.steered",
  "message.cancelled",
  "sandbox.restoring",
  "sandbox.restored",
  "sandbox.renamed",
  "sandbox.syncing",
  "sandbox.synced",
  "feedback.received",
  "feedback.replied",
  "feedback.paused",
  "feedback.resumed"
])

/** Whether it is one of the events of which the `revision` counts. */
export const isChange = ({ type }: SandboxEvent): boolean => COUNTS.has(type)

/** Pending, running or waiting for a person. */
const ACTIVE = ["pending", "running", "awaiting_approval", "awaiting_answer"]
const OVER = ["succeeded", "failed", "terminated"]
const UNDER_WAY = ["publishing", "updating"]

export class Told {
  readonly creation: Creation
  title: string
  status = "queued"
  reason: string | null = null
  initiator = "user"
  statusAt: number
  startedAt: number | null = null
  completedAt: number | null = null
  turn: TurnTold | null = null
  /** When the last turn or, where that was later, the last publication ended; `null`: none did, or a turn is active. */
  idleSince: number | null = null
  /** Pending ones, oldest first. */
  readonly approvals: Array<string> = []
  readonly questions: Array<string> = []
  readonly publications: Array<PublicationTold> = []
  usage = { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 }
  tokens = { input: 0, cachedInput: 0, output: 0 }
  checkpoint = 0
  owesCheckpoint = false
  pinned = false
  restoring: number | null = null
  isSyncing = false
  restores = 0
  revision = 0
  lastSeq = 0
  /** An agent took a prompt, or was to take a prompt after the first. */
  wasTouched = false

  constructor(creation: Creation) {
    this.creation = creation
    this.title = creation.title
    this.statusAt = creation.createdAt.epochMilliseconds
  }

  get isActive(): boolean {
    return this.turn !== null && ACTIVE.includes(this.turn.state)
  }

  /** Succeeded, failed or terminated: no worker has anything left to do, but what somebody wants published. */
  get isOver(): boolean {
    return OVER.includes(this.status)
  }

  get isPublishing(): boolean {
    return this.publications.some(({ actionState }) => UNDER_WAY.includes(actionState))
  }

  get need(): Need {
    switch (this.status) {
      case "queued":
      case "creating":
        return "boot"
      case "running":
        return this.isActive
          ? "turn"
          : this.restoring !== null || this.owesCheckpoint || this.isSyncing || this.isPublishing
          ? "errand"
          : null
      case "terminating":
        return "errand"
      case "succeeded":
      case "failed":
        return this.isPublishing ? "errand" : null
      default:
        return null
    }
  }

  /**
   * Its machine may have the only copy of something: an agent is at work, a checkpoint is owed or failed, or an agent began before the
   * first checkpoint.
   */
  get isUnsaved(): boolean {
    if (this.turn === null) return false
    const { origin } = this.creation
    const isUntouched = this.checkpoint === 0 && origin === null && !this.wasTouched
    const isAtWork = this.isActive && this.turn.startedAt !== null
    return !isUntouched && (isAtWork || this.owesCheckpoint || this.pinned || this.checkpoint === 0 && origin === null)
  }

  record(event: SandboxEvent, at: number): void {
    this.lastSeq += 1
    if (isChange(event)) this.revision += 1
    switch (event.type) {
      case "sandbox.status":
        return this.#status(event, at)
      case "turn.updated":
      case "turn.started":
      case "turn.completed":
        return this.#turn(event, at)
      case "approval.requested":
        this.approvals.push(event.data.approval_id)
        return
      case "approval.resolved":
        this.approvals.splice(0, Infinity, ...this.approvals.filter((id) => id !== event.data.approval_id))
        return
      case "question.asked":
        this.questions.push(event.data.question_id)
        return
      case "question.answered":
        this.questions.splice(0, Infinity, ...this.questions.filter((id) => id !== event.data.question_id))
        return
      case "pull_request.updated":
        return this.#publication(event, at)
      case "usage.updated":
        this.usage = event.data.usage
        this.tokens = event.data.tokens ?? this.tokens
        return
      case "sandbox.checkpoint":
        this.checkpoint = event.data.checkpoint ?? this.checkpoint
        this.owesCheckpoint = false
        this.pinned = event.data.checkpoint === undefined
        return
      case "sandbox.renamed":
        this.title = event.data.title
        return
      case "sandbox.syncing":
      case "sandbox.synced":
        this.isSyncing = event.type === "sandbox.syncing"
        break
      case "sandbox.restoring":
        this.restoring = event.data.checkpoint
        return
      case "sandbox.restored": {
        const { cause, checkpoint } = event.data
        if (cause === "command") {
          this.restoring = null
          this.restores += 1
        }
        if (checkpoint === undefined) return
        this.pinned = false
        // The newest checkpoint is another one than what is there now.
        this.owesCheckpoint = cause === "fork" || checkpoint !== this.checkpoint
        return
      }
      default:
        return
    }
  }

  #status({ data }: SandboxEventOf<"sandbox.status">, at: number): void {
    this.status = data.status
    this.reason = data.reason
    this.initiator = data.initiator
    this.statusAt = at
    if (data.status === "running") this.startedAt ??= at
    if (this.isOver) this.completedAt ??= at
  }

  #turn(event: SandboxEventOf<"turn.updated" | "turn.started" | "turn.completed">, at: number): void {
    const { turn } = this
    if (event.type === "turn.updated" && event.data.state === "pending") {
      const { author, text } = event.data
      const n = (turn?.n ?? 0) + 1
      if (n > 1) this.wasTouched = true
      this.turn = {
        id: event.turn_id ?? "",
        n,
        prompt: text ?? "",
        authorId: author?.id ?? "",
        state: "pending",
        startedAt: null,
        interruptRequested: false
      }
      this.idleSince = null
      return
    }
    if (turn === null) return
    if (event.type === "turn.started") {
      turn.state = "running"
      turn.startedAt = at
      this.wasTouched = true
      return
    }
    turn.state = event.data.state
    turn.interruptRequested ||= event.data.reason === "interrupt"
    if (event.type !== "turn.completed") return
    this.idleSince = at
    // A turn without an agent left nothing.
    this.owesCheckpoint ||= turn.startedAt !== null
  }

  #publication({ data }: SandboxEventOf<"pull_request.updated">, at: number): void {
    let known = this.publications.find(({ repo }) => repo.toLowerCase() === data.repo.toLowerCase())
    if (known === undefined) {
      known = { repo: data.repo, actionState: "idle", number: null, headSha: null, state: null, draft: null, merged: null, error: null }
      this.publications.push(known)
    }
    const wasUnderWay = UNDER_WAY.includes(known.actionState)
    // The next machine has to know the last push.
    this.owesCheckpoint ||= this.status === "running" && data.head_sha !== undefined && data.head_sha !== known.headSha
    known.actionState = data.action_state
    known.number = data.number ?? known.number
    known.headSha = data.head_sha ?? known.headSha
    known.state = data.state ?? known.state
    known.draft = data.draft ?? known.draft
    known.merged = data.merged ?? known.merged
    known.error = data.error?.code ?? null
    if (wasUnderWay && !UNDER_WAY.includes(data.action_state) && !this.isActive) this.idleSince = at
  }

  /** The field of the stored sandbox that differs; `null`: no field does. */
  differs(stored: Sandbox): string | null {
    const turn = stored.turn === null ? null : {
      id: stored.turn.id,
      n: stored.turn.n,
      prompt: stored.turn.prompt,
      authorId: stored.turn.authorId,
      state: stored.turn.state,
      startedAt: stored.turn.startedAt?.epochMilliseconds ?? null,
      interruptRequested: stored.turn.interruptRequested
    }
    const publications = stored.publications.map((
      { actionState, draft, error, headSha, merged, number, repo, state }
    ): PublicationTold => ({
      repo,
      actionState,
      number,
      headSha,
      state,
      draft,
      merged,
      error: error?.code ?? null
    }))
    const { creation } = this
    const pairs: ReadonlyArray<readonly [what: string, stored: unknown, told: unknown]> = [
      ["grantId", stored.grantId, creation.grantId],
      ["createdBy", stored.createdBy, creation.createdBy],
      ["createdAt", stored.createdAt.epochMilliseconds, creation.createdAt.epochMilliseconds],
      ["title", stored.title, this.title],
      ["prompt", stored.prompt, creation.prompt],
      ["model", stored.model, creation.model],
      ["status", stored.status, this.status],
      ["reason", stored.reason, this.reason],
      ["initiator", stored.initiator, this.initiator],
      ["statusAt", stored.statusAt.epochMilliseconds, this.statusAt],
      ["startedAt", stored.startedAt?.epochMilliseconds ?? null, this.startedAt],
      ["completedAt", stored.completedAt?.epochMilliseconds ?? null, this.completedAt],
      ["idleSince", stored.idleSince?.epochMilliseconds ?? null, this.idleSince],
      ["usage", stored.usage.costMicroUsd, this.usage.costMicroUsd],
      ["requests", stored.usage.llmRequestCount, this.usage.llmRequestCount],
      ["credits", stored.usage.creditsChargedMicros, this.usage.creditsChargedMicros],
      ["tokens", stored.tokens.input, this.tokens.input],
      ["cached tokens", stored.tokens.cachedInput, this.tokens.cachedInput],
      ["output tokens", stored.tokens.output, this.tokens.output],
      ["checkpoint", stored.checkpoint, this.checkpoint],
      ["owesCheckpoint", stored.owesCheckpoint, this.owesCheckpoint],
      ["pinned", stored.pinned, this.pinned],
      ["restoring", stored.restoring, this.restoring],
      ["syncing", stored.syncing, stored.status === "running" && this.isSyncing],
      ["restores", stored.restores, this.restores],
      ["revision", stored.revision, this.revision],
      ["lastSeq", stored.lastSeq, this.lastSeq],
      ["approvals", stored.approvals.map(({ approval_id }) => approval_id).join(), this.approvals.join()],
      ["questions", (stored.turn?.questions ?? []).map(({ question_id }) => question_id).join(), this.questions.join()],
      ["repos", JSON.stringify(stored.repos), JSON.stringify(creation.repos)],
      ["turn", JSON.stringify(turn), JSON.stringify(this.turn)],
      ["publications", JSON.stringify(publications), JSON.stringify(this.publications)]
    ]
    const [what, is, told] = pairs.find(([, is, told]) => is !== told) ?? []
    if (what !== undefined) return `${what} is ${String(is)}, by the log ${String(told)}`
    // A sentence for people, and only of what failed or got over some trouble.
    if (stored.status === "failed" && stored.error === null) return "it failed, and does not say why"
    return null
  }
}
