/**
 * Sees every call as it is carried out, below all faults, and says which rule it breaks. It knows what the log says, who
 * holds which lease and which agents run; it never asks the code that is under test.
 */
import { Context, Effect, Equal, Exit, Option } from "effect"
import type { Ids } from "../../src/Ids.ts"
import type { Approval } from "../../src/sandbox/Approval.ts"
import type { CommandResult } from "../../src/sandbox/Command.ts"
import { Leases, LEASE_SECONDS, type Lease } from "../../src/sandbox/Leases.ts"
import type { Limits } from "../../src/sandbox/Policy.ts"
import { isUnderWay, type Creation, evolve, initial, isSettled, type Sandbox } from "../../src/sandbox/Sandbox.ts"
import { changesRevision, fromWire, type SandboxEvent } from "../../src/sandbox/SandboxEvent.ts"
import { SandboxStore } from "../../src/sandbox/SandboxStore.ts"
import { nextDeadline } from "../../src/sandbox/TimeLimit.ts"
import { type SandboxId, turnId } from "../../src/SandboxId.ts"
import type { PullRequest } from "../../src/source/PullRequest.ts"
import { approvalsResolveOnce, endsForGood, statusesAreReachable, turnsAreReachable } from "../LogLaws.ts"
import type { Process, Timeline } from "./Timeline.ts"
import type { Trace } from "./Trace.ts"

/** One process of an agent. */
export interface RunningAgent {
  readonly owner: Process
  readonly machine: string
  running: boolean
}

/** One sandbox as its log tells. */
interface Seen {
  readonly creation: Creation
  /** Writes under way, and whether the log was read since the last one. */
  writers: number
  looked: boolean
  state: Sandbox
  /** As the store gave it last. */
  stored: Sandbox | null
  /** Of every event, as every reader gets it. */
  readonly wires: Array<string>
  /** Those that change the revision. */
  readonly changes: Array<SandboxEvent>
  readonly approvals: Map<string, Approval>
  readonly messages: Array<{ readonly id: string; readonly text: string }>
  readonly texts: Map<string, string>
  readonly turns: Map<string, string>
  /** What the turns are to be called. */
  readonly turnIds: Array<string>
  readonly applied: Set<string>
  readonly prompted: Set<string>
  readonly pullRequests: Map<string, number>
  fence: number
  /** The lease lasts at least until then; epoch milliseconds. */
  heldUntil: number
  machine: string | null
  agents: Array<RunningAgent>
}

/** A reader's place in a log. `null`: it has nothing yet. */
export interface Reader {
  readonly id: SandboxId
  cursor: number | null
}

/** A stall may have made a process late; what it does in the first moments after one is no fault of its own. */
const AFTER_A_STALL = 5_000

/** A write may be long under way, and whoever wrote it may have been told the time late. */
const LATE = 300_000

/** Watches everything from outside and knows what must hold. The first rule that does not is the result. */
export class Witness {
  readonly sandboxes = new Map<SandboxId, Seen>()
  readonly readers: Array<Reader> = []
  /** Somebody was told that these will end. */
  readonly mustEnd = new Set<SandboxId>()
  readonly #made = new Map<string, { id: SandboxId; times: number }>()
  readonly #opened = new Map<string, number>()
  readonly #lookedFor = new Map<string, number>()
  readonly #store: SandboxStore["Service"]
  readonly #leases: Leases["Service"]
  readonly #ids: Ids["Service"]
  readonly #limits: Limits
  readonly #timeline: Timeline
  readonly #trace: Trace

  constructor(options: {
    readonly store: SandboxStore["Service"]
    readonly leases: Leases["Service"]
    readonly ids: Ids["Service"]
    readonly limits: Limits
    readonly timeline: Timeline
    readonly trace: Trace
  }) {
    this.#store = options.store
    this.#leases = options.leases
    this.#ids = options.ids
    this.#limits = options.limits
    this.#timeline = options.timeline
    this.#trace = options.trace
  }

  /** What is known of it by now. A change shows before the call that made it is answered. */
  seen(id: SandboxId): Seen | undefined {
    this.#look(id)
    return this.sandboxes.get(id)
  }

  // -------------------------------------------------------------------------------------------------------------
  // The store

  /** The store, watched. */
  get store(): SandboxStore["Service"] {
    const store = this.#store
    return SandboxStore.of({
      ...store,
      create: (request) =>
        Effect.suspend(() => {
          const { creation, keyed } = request
          if (!this.sandboxes.has(creation.id)) this.sandboxes.set(creation.id, seenFirst(creation))
          return Effect.onExit(this.#writing(creation.id, store.create(request)), (exit) =>
            Effect.sync(() => {
              if (this.sandboxes.get(creation.id)?.state.lastSeq === 0) {
                this.sandboxes.delete(creation.id)
              }
              if (Exit.isFailure(exit)) {
                return
              }
              const { replayed, sandbox } = exit.value
              if (keyed !== null) {
                this.#bound(`${creation.grantId} ${keyed.key}`, sandbox.id, replayed)
              }
              this.#rule("a sandbox is the grant's that asked for it", sandbox.grantId === creation.grantId, sandbox.id)
            }))
        }),
      find: (key) =>
        Effect.tap(
          store.find(key),
          (sandbox) =>
            Effect.sync(() => this.#rule("nothing of one grant is visible to another", sandbox.grantId === key.grantId, `find ${key.id}`))
        ),
      list: (grantId, query) =>
        Effect.tap(
          store.list(grantId, query),
          (found) =>
            Effect.sync(() =>
              this.#rule("nothing of one grant is visible to another", found.every((sandbox) => sandbox.grantId === grantId), "list")
            )
        ),
      command: (key, command, now, keyed) =>
        Effect.tap(this.#writing(key.id, store.command(key, command, now, keyed)), ({ result }) =>
          Effect.sync(() => {
            this.#rule("nothing of one grant can be touched by another", this.seen(key.id)?.creation.grantId === key.grantId, key.id)
            this.#answered(key.id, result)
          })),
      change: (id, by, decide, now) =>
        Effect.suspend(() => {
          const stale = by !== "policy" && "fence" in by && this.#isStale(by)
          if (stale) this.#trace.count("writes under an old lease")
          return Effect.tap(this.#writing(id, store.change(id, by, decide, now)), () =>
            Effect.sync(() => {
              this.#rule("a write under an old lease is refused", !stale, id)
              if (by !== "policy" && "grantId" in by) {
                this.#rule("nothing of one grant can be touched by another", this.seen(id)?.creation.grantId === by.grantId, id)
              }
            }))
        })
    })
  }

  /** The leases, watched. */
  get leases(): Leases["Service"] {
    const leases = this.#leases
    return Leases.of({
      ...leases,
      take: (by, limit, ending) =>
        Effect.suspend(() => {
          const asked = this.#timeline.now
          return Effect.tap(leases.take(by, limit, ending), (leased) =>
            Effect.sync(() => {
              for (const { elsewhere, lease: { fence, sandboxId }, sandbox } of leased) {
                const seen = this.seen(sandboxId)
                if (seen === undefined) continue
                this.#rule(
                  "a sandbox is leased to one worker at a time",
                  seen.heldUntil <= this.#timeline.now,
                  `${sandboxId} to ${by.worker}`
                )
                this.#rule("each lease has a higher fence", fence > seen.fence, `${sandboxId}: ${fence} after ${seen.fence}`)
                this.#rule("no worker is given a settled sandbox", !isSettled(sandbox.status), sandboxId)
                this.#trace.add(`${by.worker} has the lease ${fence} of ${sandboxId}`)
                this.#trace.count("leases")
                if (fence > 1) this.#trace.count("takeovers")
                if (elsewhere) this.#trace.count("takeovers elsewhere")
                seen.fence = fence
                seen.machine = by.machine
                seen.heldUntil = asked + LEASE_SECONDS * 1000
              }
            }))
        }),
      renew: (held) =>
        Effect.suspend(() => {
          const asked = this.#timeline.now
          const stale = held.filter((lease) => this.#isStale(lease))
          return Effect.tap(leases.renew(held), (kept) =>
            Effect.sync(() => {
              for (const lease of kept) {
                this.#rule("an old lease is not renewed", !stale.includes(lease), lease.sandboxId)
                const seen = this.seen(lease.sandboxId)
                // One that was given back in the meantime stays so.
                if (seen !== undefined && seen.heldUntil > 0) seen.heldUntil = Math.max(seen.heldUntil, asked + LEASE_SECONDS * 1000)
              }
            }))
        }),
      endLeases: (machine) =>
        Effect.suspend(() => {
          for (const seen of this.sandboxes.values()) if (seen.machine === machine) seen.heldUntil = 0
          return leases.endLeases(machine)
        }),
      release: (lease) =>
        Effect.suspend(() => {
          const seen = this.seen(lease.sandboxId)
          if (seen?.fence === lease.fence) seen.heldUntil = 0
          return leases.release(lease)
        }),
      saveAgentSession: (lease, session) =>
        Effect.suspend(() => {
          const stale = this.#isStale(lease)
          return Effect.tap(leases.saveAgentSession(lease, session), () =>
            Effect.sync(() => this.#rule("a write under an old lease is refused", !stale, lease.sandboxId)))
        })
    })
  }

  /** One that is killed on its way stays under way: what it did may show at any time. */
  #writing<A, E>(id: SandboxId, self: Effect.Effect<A, E>): Effect.Effect<A, E> {
    return Effect.suspend(() => {
      const seen = this.sandboxes.get(id)
      if (seen === undefined) return self
      seen.writers += 1
      return Effect.onExit(self, () =>
        Effect.sync(() => {
          seen.writers -= 1
          seen.looked = false
          this.#look(id)
        }))
    })
  }

  #isStale({ fence, sandboxId }: Lease): boolean {
    return fence < (this.seen(sandboxId)?.fence ?? 0)
  }

  #bound(scope: string, id: SandboxId, replayed: boolean): void {
    const known = this.#made.get(scope) ?? { id, times: 0 }
    this.#made.set(scope, known)
    if (replayed) this.#trace.count("replayed creations")
    else known.times += 1
    this.#rule("a key makes one sandbox", known.id === id && known.times <= 1, `${scope}: ${known.id}, ${id}`)
  }

  #answered(id: SandboxId, { commandId, outcome }: CommandResult): void {
    this.#trace.count(`commands ${outcome}`)
    const seen = this.seen(id)
    if (seen === undefined || outcome !== "applied") return
    this.#rule("a command is applied once", !seen.applied.has(commandId), `${id} ${commandId}`)
    seen.applied.add(commandId)
  }

  /** Reads what is new in the log and holds the stored state against it. */
  #look(id: SandboxId): void {
    const seen = this.sandboxes.get(id)
    if (seen === undefined || seen.writers === 0 && seen.looked) return
    seen.looked = seen.writers === 0
    const { grantId } = seen.creation
    const { entries, found } = this.#timeline.run(
      Context.empty(),
      Effect.all({
        entries: this.#store.log(id, seen.state.lastSeq, 100_000),
        found: Effect.option(this.#store.find({ grantId, id }))
      })
    )
    if (Option.isNone(found) || entries.length === 0 && found.value === seen.stored) return
    seen.stored = found.value
    for (const { seq, wire } of entries) {
      this.#rule("a log counts from 1 without gaps", seq === seen.state.lastSeq + 1, `${id}: ${seq} after ${seen.state.lastSeq}`)
      const { at, event, seq: told } = fromWire(wire)
      this.#rule(
        "what a worker writes is dated by the store's clock",
        at.epochMilliseconds <= this.#timeline.now && at.epochMilliseconds >= this.#timeline.now - LATE,
        `${id} #${seq} ${event.type}: ${at.epochMilliseconds - this.#timeline.now} ms`
      )
      this.#rule("an event says its own number and sandbox", told === seq && wire.includes(`"${id}"`), wire)
      seen.wires.push(wire)
      seen.state = evolve(seen.state, event, at)
      this.#record(seen, event)
    }
    this.#rule(
      "the stored sandbox is what its log says",
      Equal.equals(found.value, seen.state),
      `${id}: stored ${JSON.stringify(found.value)}, by the log ${JSON.stringify(seen.state)}`
    )
    for (const law of [statusesAreReachable, endsForGood, approvalsResolveOnce]) this.#law(id, () => law(seen.changes, seen.state))
    this.#law(id, () => turnsAreReachable(seen.changes, seen.state, (n) => seen.turnIds[n - 1] ??= turnId(this.#ids, id, n)))
  }

  #record(seen: Seen, event: SandboxEvent): void {
    const { id } = seen.creation
    if (changesRevision[event.type]) {
      seen.changes.push(event)
      this.#trace.add(`    ${id} #${seen.state.lastSeq} ${event.type} ${JSON.stringify(event.data)}`)
    }
    switch (event.type) {
      case "approval.resolved":
        seen.approvals.set(event.data.approval_id, { approvalId: event.data.approval_id, outcome: event.data.outcome, by: event.data.by })
        this.#trace.count(`approvals resolved by ${event.data.by}`)
        return
      case "turn.started":
        seen.messages.push({ id: event.data.prompt_id, text: event.data.text })
        return
      case "turn.updated":
        if (event.data.state === "pending") {
          this.#trace.count("turns")
          seen.turns.set(event.turn_id ?? "", event.data.text ?? "")
        }
        return
      case "turn.completed":
        this.#trace.count(`turns ${event.data.state}`)
        if (event.data.reason === "agent_lost") this.#trace.count("turns lost")
        return
      case "message.updated":
        if (event.data.kind !== "text") return
        if (!seen.texts.has(event.data.message_id)) seen.messages.push({ id: event.data.message_id, text: "" })
        seen.texts.set(event.data.message_id, event.data.text)
        return
      case "sandbox.status":
        if (event.data.previous === null) this.#trace.count("sandboxes")
        this.#trace.count(`sandboxes ${event.data.status}${event.data.reason === null ? "" : ` (${event.data.reason})`}`)
        return
      case "pull_request.updated":
        this.#trace.count(`publications ${event.data.error?.code ?? event.data.action_state}`)
        if (event.data.number !== undefined) this.#numbered(seen, event.data.repo, event.data.number)
    }
  }

  #numbered(seen: Seen, repo: string, number: number): void {
    const known = seen.pullRequests.get(repo) ?? number
    seen.pullRequests.set(repo, known)
    this.#rule("a sandbox has one pull request per repository", known === number, `${seen.creation.id} ${repo}: ${known}, ${number}`)
  }

  // -------------------------------------------------------------------------------------------------------------
  // Agents and the source host

  agentStarted(id: SandboxId, owner: Process, machine: string): RunningAgent {
    const agent: RunningAgent = { owner, machine, running: true }
    const seen = this.sandboxes.get(id)
    this.#trace.count("agents")
    if (seen === undefined) return agent
    seen.agents = seen.agents.filter(({ running }) => running)
    // Who stands still ends no agent, and writes nothing when it goes on: its lease is another's.
    const others = seen.agents.filter(({ owner }) => owner.alive && !this.#wasStalled(owner))
    this.#rule(
      "a sandbox has one agent at a time",
      others.length === 0 || this.#wasStalled(owner),
      `${id}: ${owner.name} starts one beside that of ${others.map((other) => other.owner.name).join()}`
    )
    seen.agents.push(agent)
    return agent
  }

  #wasStalled(process: Process): boolean {
    return process.pausedUntil + AFTER_A_STALL > this.#timeline.now
  }

  prompted(id: SandboxId, turn: string): void {
    const seen = this.seen(id)
    if (seen === undefined) return
    this.#rule("a prompt is handed to one agent once", !seen.prompted.has(turn), `${id} ${turn}`)
    this.#rule("an agent is given prompts that were sent", seen.turns.has(turn), `${id} ${turn}`)
    seen.prompted.add(turn)
  }

  /** An agent was told how somebody decided, or runs what had to be approved. */
  approved(id: SandboxId, approvalId: string, approved: boolean): void {
    const outcome = this.seen(id)?.approvals.get(approvalId)?.outcome
    this.#rule("an agent is told what was decided", outcome === (approved ? "approved" : "denied"), `${id} ${approvalId}: ${outcome}`)
  }

  lookedFor(process: Process, repo: string, head: string): void {
    this.#lookedFor.set(`${process.name} ${repo} ${head}`, this.#timeline.steps)
  }

  found(pullRequest: PullRequest | null): void {
    if (pullRequest !== null) this.#trace.count("pull requests found again")
  }

  opensPullRequest(process: Process, repo: string, head: string): void {
    const opened = this.#opened.get(`${repo} ${head}`)
    const looked = this.#lookedFor.get(`${process.name} ${repo} ${head}`) ?? -1
    this.#rule(
      "a pull request is looked for before one is opened",
      looked >= 0 && (opened === undefined || looked < opened),
      `${process.name} ${repo} ${head}`
    )
  }

  openedPullRequest(repo: string, head: string): void {
    this.#trace.count("pull requests")
    this.#rule("a head has one pull request", !this.#opened.has(`${repo} ${head}`), `${repo} ${head}`)
    this.#opened.set(`${repo} ${head}`, this.#timeline.steps)
  }

  // -------------------------------------------------------------------------------------------------------------
  // When nothing goes wrong any more

  /** Time limits and readers keep up once calls go through. `latest`: the newest event of each sandbox some seconds ago. */
  keepsUp(latest: ReadonlyMap<SandboxId, number>): void {
    const late = this.#timeline.now - 5_000
    for (const [id, { state }] of this.sandboxes) {
      const deadline = nextDeadline(state, this.#limits)
      this.#rule(
        "a time limit is applied when it has come",
        deadline === null || deadline.epochMilliseconds > late,
        `${id} ${state.status}`
      )
    }
    for (const { cursor, id } of this.readers) {
      const behind = latest.get(id) ?? 0
      this.#rule("a reader hears of every event within seconds", cursor !== null && cursor >= behind, `${id}: ${cursor} of ${behind}`)
    }
  }

  /** What is left to be done; `null`: everything is settled. */
  unsettled(): string | null {
    for (const [id, { agents, state }] of this.sandboxes) {
      if (!isSettled(state.status)) return `${id} is ${state.status}`
      if (agents.some(({ owner, running }) => running && owner.alive)) return `${id} has a running agent`
    }
    return null
  }

  /** What must be so of everything that is over. */
  end(): void {
    for (const [id, seen] of this.sandboxes) {
      const { state } = seen
      const ended = new Set(seen.changes.flatMap((event) => event.type === "turn.completed" ? [event.turn_id] : []))
      for (const turn of seen.turns.keys()) this.#rule("every accepted prompt becomes a turn that ends", ended.has(turn), `${id} ${turn}`)
      const { reason, status } = state
      this.#rule(
        "a sandbox that is terminated ends",
        !this.mustEnd.has(id) || status === "terminated" || reason === "release_failed",
        `${id} ${status}`
      )
      this.#rule("no approval stays open after the end", state.approvals.length === 0, id)
      this.#rule("no publication looks as if it went on after the end", !state.publications.some(isUnderWay), id)
      const messages = this.#timeline.run(Context.empty(), this.#store.messages(id, 0, 100_000))
      const told = messages.map((message) => `${message.id} ${message.text}`).join("\n")
      // The one that the agent is writing is not whole.
      const whole = seen.messages.filter((message) => message.id !== seen.state.turn?.speaking)
      const said = whole.map((message) => `${message.id} ${seen.texts.get(message.id) ?? message.text}`)
      this.#rule("messages are those of the log", told === said.join("\n"), id)
      this.#rule("a message is there once", new Set(messages.map((message) => message.id)).size === messages.length, `${id}\n${told}`)
    }
    for (const { cursor, id } of this.readers) {
      this.#rule(
        "a reader gets every event",
        cursor === this.sandboxes.get(id)?.state.lastSeq,
        `${id}: ${cursor} of ${this.seen(id)?.state.lastSeq}`
      )
    }
  }

  #law(id: SandboxId, holds: () => void): void {
    try {
      holds()
    } catch (error) {
      this.#trace.breaks("only reachable states are stored", `${id}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }

  #rule(rule: string, holds: boolean, detail: string): void {
    if (!holds) this.#trace.breaks(rule, detail)
  }
}

const seenFirst = (creation: Creation): Seen => ({
  creation,
  writers: 0,
  looked: false,
  state: initial(creation),
  stored: null,
  wires: [],
  changes: [],
  approvals: new Map(),
  messages: [],
  texts: new Map(),
  turns: new Map(),
  turnIds: [],
  applied: new Set(),
  prompted: new Set(),
  pullRequests: new Map(),
  fence: 0,
  heldUntil: 0,
  machine: null,
  agents: []
})
