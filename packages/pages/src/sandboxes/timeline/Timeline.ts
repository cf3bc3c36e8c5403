/** How a sandbox spent its time, and the costs of its turns, from its events alone. Pure functions of bounded state. */
import { addTokenCounts, noTokenCounts, type TokenCounts } from "@slipway/domain/models/rules/Usage"
import type { RecordedEvent, SandboxStatus } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { type TurnState, turnTransitions } from "@slipway/domain/sandbox/rules/Turn"
import type { DateTime } from "effect"

/** Uses of time. Each moment belongs to one of them. */
export const KINDS = [
  "earlier",
  "queue",
  "boot",
  "clone",
  "setup",
  "agent",
  "turn",
  "tool",
  "person",
  "idle",
  "ending"
] as const
export type Kind = typeof KINDS[number]

/** From one instant to another, in milliseconds since 1970. The end is not part of it. */
export interface Segment {
  readonly kind: Kind
  readonly from: number
  readonly to: number
}

export interface TurnTold {
  /** Counts from 1 within what is read of the log. */
  readonly number: number
  readonly from: number
  /** `null`: it goes on. */
  readonly to: number | null
  readonly state: TurnState
  readonly costMicroUsd: number
  readonly requests: number
  /** Tokens of all requests, as far as they were counted. */
  readonly tokens: TokenCounts
}

/** Segments shorter than this part of the whole are merged, since the picture cannot show them. */
const RESOLUTION = 300
/** Segments that are kept while reading; merged beyond that. */
const MAX_SEGMENTS = 4000
/** Open tool calls and approvals that are counted. */
const MAX_OPEN = 1000
const MAX_TURNS = 100

const isOpen = (state: TurnState): boolean => turnTransitions[state].length > 0

const OF_STAGE = { provision: "boot", clone: "clone", setup: "setup", mcp: "agent", agent_start: "agent", ready: "agent" } as const

/**
 * Short segments side by side become one, of the kind that most of its time is of. The rest keeps its place, so that none overlap and
 * they still add up to the whole. At most three times {@link RESOLUTION} and one are left.
 */
export const merged = (segments: ReadonlyArray<Segment>): ReadonlyArray<Segment> => {
  const [first, last] = [segments[0], segments.at(-1)]
  if (first === undefined || last === undefined) return []
  const least = (last.to - first.from) / RESOLUTION
  const result: Array<Segment> = []
  let small: Array<Segment> = []
  const flush = () => {
    const [begin, end] = [small[0], small.at(-1)]
    if (begin === undefined || end === undefined) return
    const times = new Map<Kind, number>()
    for (const { from, kind, to } of small) times.set(kind, (times.get(kind) ?? 0) + to - from)
    const [most] = [...times].sort(([, a], [, b]) => b - a)
    result.push({ kind: most?.[0] ?? begin.kind, from: begin.from, to: end.to })
    small = []
  }
  for (const segment of segments) {
    if (segment.to - segment.from >= least) {
      flush()
      result.push(segment)
    } else {
      small.push(segment)
      if (segment.to - (small[0]?.from ?? 0) >= least) flush()
    }
  }
  flush()
  return result
}

/** The increase of the totals; they never fall. */
const more = (before: TokenCounts, now: TokenCounts): TokenCounts => ({
  input: Math.max(0, now.input - before.input),
  cachedInput: Math.max(0, now.cachedInput - before.cachedInput),
  output: Math.max(0, now.output - before.output)
})

/** Reads the log once, event by event. `after`: the first event that is read is the one behind it. */
export class Run {
  #done: Array<Segment> = []
  readonly #totals = new Map<Kind, number>()
  readonly #turns: Array<TurnTold> = []
  readonly #tools = new Set<string>()
  readonly #approvals = new Set<string>()
  #status: SandboxStatus | null
  #turn: TurnState | null = null
  #kind: Kind
  #since: number
  #turnCount = 0
  #cost = 0
  #requests = 0
  #tokens = noTokenCounts
  seq: number

  constructor(createdAt: DateTime.Utc, after: number) {
    this.#since = createdAt.epochMilliseconds
    this.#status = after === 0 ? "queued" : null
    this.#kind = after === 0 ? "queue" : "earlier"
    this.seq = after
  }

  /** Ends what goes on, as of that instant, and says what it was. Clocks of processes differ: time never runs back. */
  #close(at: number, kind: Kind = this.#kind) {
    const to = Math.max(at, this.#since)
    if (to > this.#since) {
      const last = this.#done.at(-1)
      if (last?.kind === kind) this.#done[this.#done.length - 1] = { ...last, to }
      else this.#done.push({ kind, from: this.#since, to })
      this.#totals.set(kind, (this.#totals.get(kind) ?? 0) + to - this.#since)
    }
    this.#since = to
    if (this.#done.length > MAX_SEGMENTS) this.#done.splice(0, this.#done.length, ...merged(this.#done))
  }

  #now(): Kind {
    if (this.#status === null) return this.#turn === null ? "earlier" : this.#working()
    if (this.#status === "queued") return "queue"
    if (this.#status === "creating") return "boot"
    if (this.#status !== "running") return "ending"
    return this.#turn === null ? "idle" : this.#working()
  }
  #working(): Kind {
    return this.#approvals.size > 0 ? "person" : this.#tools.size > 0 ? "tool" : "turn"
  }

  #endTurn(at: number, state: TurnState) {
    const open = this.#turns.at(-1)
    if (open?.to === null) this.#turns[this.#turns.length - 1] = { ...open, to: Math.max(at, open.from), state }
    this.#turn = null
    this.#tools.clear()
    this.#approvals.clear()
  }

  add({ at, event: { data, type }, seq }: RecordedEvent): void {
    if (seq <= this.seq) return
    this.seq = seq
    const now = at.epochMilliseconds
    switch (type) {
      case "sandbox.status":
        this.#status = data.status
        break
      case "sandbox.boot":
        // Told when a stage is done: what went on until now was that stage.
        if (this.#kind === "boot") this.#close(now, OF_STAGE[data.stage])
        break
      case "turn.updated":
        if (isOpen(data.state) && this.#turn === null) this.#begin(now, data.state)
        else if (isOpen(data.state)) this.#turn = data.state
        break
      case "turn.started":
        if (this.#turn === null) this.#begin(now, "running")
        break
      case "turn.completed":
        this.#close(now)
        this.#endTurn(now, data.state)
        break
      case "tool.updated":
        if (data.status === "completed" || data.status === "error") this.#tools.delete(data.call_id)
        else if (data.status === "running" && this.#tools.size < MAX_OPEN) this.#tools.add(data.call_id)
        break
      case "approval.requested":
        if (this.#approvals.size < MAX_OPEN) this.#approvals.add(data.approval_id)
        break
      case "approval.resolved":
        this.#approvals.delete(data.approval_id)
        break
      case "usage.updated": {
        const { costMicroUsd, llmRequestCount } = data.usage
        const { tokens = this.#tokens } = data
        const last = this.#turns.at(-1)
        // A charge that comes after the end of a turn belongs to that turn.
        if (last !== undefined) {
          this.#turns[this.#turns.length - 1] = {
            ...last,
            costMicroUsd: last.costMicroUsd + Math.max(0, costMicroUsd - this.#cost),
            requests: last.requests + Math.max(0, llmRequestCount - this.#requests),
            tokens: addTokenCounts(last.tokens, more(this.#tokens, tokens))
          }
        }
        this.#cost = costMicroUsd
        this.#requests = llmRequestCount
        this.#tokens = tokens
        break
      }
    }
    const next = this.#now()
    if (next !== this.#kind) {
      this.#close(now)
      this.#kind = next
    }
  }

  #begin(at: number, state: TurnState) {
    this.#turn = state
    this.#turns.push({ number: ++this.#turnCount, from: at, to: null, state, costMicroUsd: 0, requests: 0, tokens: noTokenCounts })
    if (this.#turns.length > MAX_TURNS) this.#turns.shift()
  }

  /** Up to `until`: now, or when the sandbox ended. */
  told(until: DateTime.Utc): {
    readonly segments: ReadonlyArray<Segment>
    /** How long each kind took in all, milliseconds, before anything was merged. */
    readonly totals: ReadonlyMap<Kind, number>
    readonly turns: ReadonlyArray<TurnTold>
  } {
    const to = Math.max(until.epochMilliseconds, this.#since)
    const rest = to - this.#since
    const all = rest > 0 ? [...this.#done, { kind: this.#kind, from: this.#since, to }] : this.#done
    const totals = new Map(this.#totals)
    if (rest > 0) totals.set(this.#kind, (totals.get(this.#kind) ?? 0) + rest)
    return { segments: merged(all), totals, turns: this.#turns }
  }
}
