/**
 * Follows what becomes of every message that people send (docs/decisions/18), from the log, from what agents are handed and from
 * what people are told, and says which rule is broken. It never asks the code that is under test.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { SandboxEvent, SandboxEventOf } from "@slipway/domain/sandbox/rules/SandboxEvent"
import type { Process, Timeline } from "./Timeline.ts"
import type { Trace } from "./Trace.ts"

/** Places in the line of one sandbox. */
const PLACES = 10

/** How long what is known may not be acted on yet; milliseconds. */
const STALE = 5_000

/** The fate of a message. A waiting message is in line; every other fate is final. */
type Fate = "waits" | "turn" | "steered" | "cancelled"

/** A message as the log tells of it. */
export interface Sent {
  readonly id: string
  readonly text: string
  readonly steers: boolean
  /** Whether it had to wait at first. */
  readonly waited: boolean
  fate: Fate
  /** Since when that is so; epoch milliseconds. */
  since: number
  /** The event that said so. */
  seq: number
}

/** The known state of one sandbox's messages. */
interface Known {
  /** By id, in the order in which they came. */
  readonly sent: Map<string, Sent>
  /** The message whose turn is active; `null`: no turn is active. */
  active: string | null
  /** Since when its agent has worked on it without a request to end it; epoch milliseconds, `null`: it does not. */
  goesOnSince: number | null
  status: string
  /** Sequence number of the newest event. */
  seq: number
  /** Waiting messages that ended with the sandbox in what was read last. */
  swept: boolean
  /** Callers without an answer yet: the most messages that waited since they asked, and whether a turn was active. */
  readonly watching: Set<{ most: number; wasActive: boolean }>
  /** Whom a person asked to be taken back. */
  readonly unwanted: Set<string>
  /** Messages that an agent was handed in each turn, and those that it took, as `<turn> <message>`. */
  readonly handed: Set<string>
  readonly taken: Set<string>
}

export class QueueWitness {
  readonly #known = new Map<SandboxId, Known>()
  /** By process and message: since when it has known that the message waits no longer. */
  readonly #toldGone = new Map<string, number>()
  readonly #timeline: Timeline
  readonly #trace: Trace
  readonly #isTooExpensive: (id: SandboxId) => boolean

  /** `isTooExpensive`: whether a request of this sandbox to its model was refused for money. */
  constructor(timeline: Timeline, trace: Trace, isTooExpensive: (id: SandboxId) => boolean) {
    this.#timeline = timeline
    this.#isTooExpensive = isTooExpensive
    this.#trace = trace
  }

  /** A message of this id. */
  sent(id: SandboxId, message: string): Sent | undefined {
    return this.#known.get(id)?.sent.get(message)
  }

  /** Every message that was sent, oldest first. */
  all(id: SandboxId): ReadonlyArray<Sent> {
    return Array.from(this.#of(id).sent.values())
  }

  #of(id: SandboxId): Known {
    const known = this.#known.get(id) ?? {
      sent: new Map(),
      active: null,
      goesOnSince: null,
      status: "queued",
      seq: 0,
      swept: false,
      watching: new Set(),
      unwanted: new Set(),
      handed: new Set(),
      taken: new Set()
    }
    this.#known.set(id, known)
    return known
  }

  /** In the order of their turns: what steers comes first. */
  #line({ sent }: Known): ReadonlyArray<Sent> {
    const waiting = Array.from(sent.values()).filter(({ fate }) => fate === "waits")
    return [...waiting.filter(({ steers }) => steers), ...waiting.filter(({ steers }) => !steers)]
  }

  // -------------------------------------------------------------------------------------------------------------
  // The log

  /** Takes note of an event. */
  record(id: SandboxId, event: SandboxEvent, seq: number): void {
    const known = this.#of(id)
    known.seq = seq
    switch (event.type) {
      case "message.queued":
        this.#queued(id, known, event)
        break
      case "message.cancelled":
        this.#cancelled(id, known, event)
        break
      case "message.steered":
        this.#steered(id, known, event)
        break
      case "turn.updated":
        if (event.data.state === "pending") this.#turn(id, known, event.turn_id ?? "", event.data.text ?? "")
        if (event.data.reason === "interrupt") known.goesOnSince = null
        break
      case "turn.started":
        known.goesOnSince = this.#timeline.now
        break
      case "turn.completed":
        known.active = null
        known.goesOnSince = null
        break
      case "sandbox.status":
        known.status = event.data.status
        break
      default:
        return
    }
    const waiting = this.#line(known).length
    for (const watch of known.watching) {
      watch.most = Math.max(watch.most, waiting)
      watch.wasActive ||= known.active !== null
    }
  }

  #queued(id: SandboxId, known: Known, { data }: SandboxEventOf<"message.queued">): void {
    const { message_id: message, position, steers, text } = data
    const line = this.#line(known)
    this.#trace.count(steers ? "messages that steer" : "messages that wait")
    this.#rule("a message has an id of its own", !known.sent.has(message), `${id} ${message}`)
    this.#rule(`${PLACES} messages wait at most`, line.length < PLACES, `${id} ${message} beside ${line.length}`)
    this.#rule("a message waits while a turn is active", known.active !== null, `${id} ${message}`)
    const place = steers ? line.filter((other) => other.steers).length : line.length
    this.#rule("a message is told its place in the line", position === place + 1, `${id} ${message}: ${position}, not ${place + 1}`)
    known.sent.set(message, { id: message, text, steers, waited: true, fate: "waits", since: this.#timeline.now, seq: known.seq })
  }

  #cancelled(id: SandboxId, known: Known, { data }: SandboxEventOf<"message.cancelled">): void {
    const { message_id: message, reason } = data
    this.#trace.count(`messages cancelled (${reason})`)
    // None says too much.
    this.#rule(
      "a message that waits is cancelled by who takes it back, by the end of its sandbox, or for want of money",
      reason === "sandbox_ended" || reason === "command" && known.unwanted.has(message) ||
        reason === "budget_exceeded" && this.#isTooExpensive(id),
      `${id} ${message}: ${reason}`
    )
    if (reason === "sandbox_ended") known.swept = true
    this.#leaves(id, known, message, "cancelled")
  }

  #steered(id: SandboxId, known: Known, event: SandboxEventOf<"message.steered">): void {
    const { data: { message_id: message, text }, turn_id: turn } = event
    this.#trace.count("messages steered")
    const sent = known.sent.get(message)
    this.#rule(
      "an agent is told what was sent to steer it",
      sent?.steers === true && sent.text === text && this.#line(known)[0] === sent,
      `${id} ${message}`
    )
    this.#rule(
      "what is told to have steered a turn was taken by its agent",
      turn === known.active && known.taken.has(`${turn} ${message}`),
      `${id} ${message} in ${turn}`
    )
    this.#leaves(id, known, message, "steered")
  }

  #turn(id: SandboxId, known: Known, message: string, text: string): void {
    const [first] = this.#line(known)
    if (first === undefined && !known.sent.has(message)) {
      const sent = { id: message, text, steers: false, waited: false, since: this.#timeline.now, seq: known.seq }
      known.sent.set(message, { ...sent, fate: "turn" })
    } else {
      this.#rule(
        "the next turn is of the longest waiting message",
        first?.id === message && first.text === text,
        `${id} ${message}, but first comes ${first?.id}`
      )
      if (first?.steers === true) this.#trace.count("messages that steer and became a turn")
      this.#leaves(id, known, message, "turn")
    }
    known.active = message
    known.goesOnSince = null
  }

  #leaves(id: SandboxId, known: Known, message: string, fate: Fate): void {
    const sent = known.sent.get(message)
    this.#rule("a message has one fate", sent?.fate === "waits", `${id} ${message}: ${sent?.fate}, then ${fate}`)
    if (sent === undefined) return
    sent.fate = fate
    sent.since = this.#timeline.now
    sent.seq = known.seq
  }

  /** All is read that was written at one time. */
  settled(id: SandboxId): void {
    const known = this.#of(id)
    const line = this.#line(known)
    if (known.swept) {
      this.#rule(
        "what waits is swept away with its sandbox alone",
        known.status !== "running" && line.length === 0,
        `${id} ${known.status}`
      )
    }
    known.swept = false
    this.#rule(
      "as long as a message waits, a turn is active",
      line.length === 0 || known.status === "running" && known.active !== null,
      `${id} ${known.status}: ${line.map((sent) => sent.id).join()}`
    )
  }

  // -------------------------------------------------------------------------------------------------------------
  // People

  /** A person waits for an answer until `end`. `holds`: the answer is this refusal. */
  asks(id: SandboxId): { readonly holds: (refusal: string) => void; readonly end: () => void } {
    const known = this.#of(id)
    const watch = { most: this.#line(known).length, wasActive: known.active !== null }
    known.watching.add(watch)
    return {
      holds: (refusal) => {
        if (refusal === "QueueFull") {
          this.#trace.count("messages refused as too many wait")
          this.#rule("a message is not refused while the line has room", watch.most === PLACES, `${id}: ${watch.most}`)
        }
        if (refusal === "TurnActive") this.#rule("a caller is not told of an inactive turn", watch.wasActive, id)
        this.#rule("an agent that can be steered is", refusal !== "SteeringUnsupported", id)
      },
      end: () => void known.watching.delete(watch)
    }
  }

  /** A person asks for it to be taken back. */
  unwanted(id: SandboxId, message: string): void {
    this.#of(id).unwanted.add(message)
  }

  /** A person was told what became of taking it back; `refusal`: why it was not. */
  tookBack(id: SandboxId, message: string, refusal: string | null): void {
    const sent = this.sent(id, message)
    this.#rule(
      "what is taken back is cancelled, and nothing else is refused that",
      refusal === null ? sent?.fate === "cancelled" : refusal === "MessageNotFound" ? sent === undefined : sent?.fate !== "waits",
      `${id} ${message}: ${refusal ?? "done"}, but it is ${sent?.fate}`
    )
  }

  // -------------------------------------------------------------------------------------------------------------
  // Agents

  /** A process was told of the sandbox up to this event. */
  told(process: Process, id: SandboxId, seq: number): void {
    for (const sent of this.#of(id).sent.values()) {
      const key = `${process.name} ${sent.id}`
      if (sent.steers && sent.fate !== "waits" && sent.seq <= seq && !this.#toldGone.has(key)) this.#toldGone.set(key, this.#timeline.now)
    }
  }

  /** The agent of a turn is handed this. `wasStalled`: the process may just have found out what it was told. */
  handed(
    id: SandboxId,
    turn: string,
    message: { readonly id: string; readonly text: string },
    process: Process,
    wasStalled: boolean
  ): void {
    const known = this.#of(id)
    const sent = known.sent.get(message.id)
    const gone = this.#toldGone.get(`${process.name} ${message.id}`) ?? this.#timeline.now
    this.#rule(
      "an agent is handed what waits to steer it",
      sent?.steers === true && sent.text === message.text && (this.#timeline.now - gone <= STALE || wasStalled),
      `${process.name} ${id} ${message.id}: ${sent?.fate}`
    )
    known.handed.add(`${turn} ${message.id}`)
  }

  /** The agent of a turn says that it took this; its text. */
  took(id: SandboxId, turn: string, message: string): string | null {
    const known = this.#of(id)
    this.#rule("an agent takes what it was handed", known.handed.has(`${turn} ${message}`), `${id} ${message}`)
    known.taken.add(`${turn} ${message}`)
    return known.sent.get(message)?.text ?? null
  }

  // -------------------------------------------------------------------------------------------------------------
  // When nothing goes wrong any more

  /** Steering is handed over within seconds. `isAtIt`: the agent of the active turn works, for the worker with the lease. */
  keepsUp(id: SandboxId, isAtIt: boolean): void {
    const known = this.#of(id)
    const { active, goesOnSince } = known
    if (!isAtIt || active === null || goesOnSince === null) return
    for (const { id: message, since, steers } of this.#line(known)) {
      if (!steers || Math.max(since, goesOnSince) > this.#timeline.now - STALE) continue
      this.#rule("what steers is handed to the agent within seconds", known.handed.has(`${active} ${message}`), `${id} ${message}`)
    }
  }

  /** Checks the rules of a sandbox that is over. */
  end(id: SandboxId): void {
    const line = this.#line(this.#of(id))
    this.#rule("no message waits after the end", line.length === 0, `${id}: ${line.map((sent) => sent.id).join()}`)
  }

  #rule(rule: string, holds: boolean, detail: string): void {
    if (!holds) this.#trace.breaks(rule, detail)
  }
}
