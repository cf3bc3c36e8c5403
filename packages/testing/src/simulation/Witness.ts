/**
 * Sees every call as it is carried out, below all faults, and says which rule it breaks. It knows what the log says, who
 * holds which lease and which agents run. What must be it reads off the tables of docs/decisions/, which it has in words of its own
 * (`Told`, `Claims`, `TimeTable`, `LogLaws`): it never asks the rules that are under test. It knows `evolve`, to hold stores against it.
 */
import type { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { Ids } from "@slipway/domain/ids/Ids"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { PartnerEvent } from "@slipway/domain/partner/schema/PartnerEvent"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { Leases, type Lease, type Leased } from "@slipway/domain/sandbox/ports/Leases"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { CommandResult } from "@slipway/domain/sandbox/rules/Command"
import { type Answers, type QuestionReply, replyText } from "@slipway/domain/sandbox/rules/Question"
import { type Creation, evolve, initial, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import type { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import {
  approvalsResolveOnce,
  endsForGood,
  policyApprovesAsTold,
  questionsCloseOnce,
  queueIsKept,
  statusesAreReachable,
  turnsAreReachable
} from "../laws/LogLaws.ts"
import { broughtByTime, TimeTable } from "../laws/TimeTable.ts"
import { earlierSandbox, rowKey, type Versions } from "../stores/Versions.ts"
import { Claims } from "./Claims.ts"
import type { MoneyWitness } from "./MoneyWitness.ts"
import { QueueWitness } from "./QueueWitness.ts"
import type { RightsWitness } from "./RightsWitness.ts"
import { atOnce, type Process, type Timeline } from "./Timeline.ts"
import { isChange, Told } from "./Told.ts"
import type { Trace } from "./Trace.ts"
import type { Disk, TreesWitness } from "./TreesWitness.ts"
import type { WebhookWitness } from "./WebhookWitness.ts"

/** One process of an agent. */
export interface RunningAgent {
  readonly owner: Process
  readonly machine: string
  running: boolean
}

/** One sandbox as its log tells. */
interface Seen {
  readonly creation: Creation
  /** To be read under the limits of the process that judges, or under any that are in force. */
  readonly table: TimeTable
  /** Writes under way, and whether the log was read since the last one. */
  writers: number
  looked: boolean
  /** When the first of them began, and of those that were read last; epoch milliseconds. */
  writingSince: number
  wroteSince: number
  /** By the tables. */
  readonly state: Told
  /** By the rules that wrote it, to be held against what is stored, to the last field. */
  replayed: Sandbox
  /** As the store gave it last. */
  stored: Sandbox | null
  /** How many of its events were forgotten. */
  purged: number
  /** The last cost that it was told, micro-USD. */
  cost: number
  /** Every event, as every reader gets it. */
  readonly wires: Array<string>
  /** Those that change the revision. */
  readonly changes: Array<SandboxEvent>
  /** Those that were resolved. */
  readonly approvals: Map<string, { readonly outcome: string; readonly by: string; readonly reason?: string | undefined }>
  /** Those that are over. */
  readonly questions: Map<string, { readonly by: string; readonly answers?: Answers }>
  /** People's replies to each, in one text for each reply. */
  readonly replies: Map<string, Set<string>>
  /** Those whose end an agent was told. */
  readonly answersTold: Set<string>
  readonly messages: Array<{ readonly id: string; readonly text: string }>
  readonly texts: Map<string, string>
  /** The earlier version did not store where the agent's text is that was not over: it is listed where it ends. */
  isUnordered: boolean
  readonly turns: Map<string, string>
  /** The ids of the turns. */
  readonly turnIds: Array<string>
  readonly applied: Set<string>
  /** By turn: whose agent got its prompt. */
  readonly prompted: Map<string, Process>
  readonly pullRequests: Map<string, number>
  fence: number
  /** The lease lasts at least until then; epoch milliseconds. */
  heldUntil: number
  machine: string | null
  /** The machine that has the files; `null`: none has any that another one could not make. */
  home: string | null
  /** The worker that was given the newest lease. */
  worker: string | null
  /** The workers that were given a lease so far. */
  readonly workers: Set<string>
  /** Since when it has needed a worker and had none; epoch milliseconds, `null`: it has one or needs none. */
  waitsSince: number | null
  /** The turn that waits for an agent of a worker that has nothing else to do, and since when; epoch milliseconds. */
  pending: { readonly turn: string; readonly since: number } | null
  agents: Array<RunningAgent>
}

/** A reader's place in a log. `null`: it has nothing yet. */
export interface Reader {
  readonly id: SandboxId
  readonly grantId: string
  cursor: number | null
  /** When it was told that what it wants next is forgotten; epoch milliseconds. It begins anew soon. */
  expiredAt: number | null
}

/** How long a lease lasts; milliseconds. */
const LEASE = 30_000

/** A stall may have made a process late; what it does in the first moments after one is no fault of its own. */
const AFTER_A_STALL = 5_000

/** How long a turn may take to begin beside the lease of a lost worker and what a lost agent takes; milliseconds. */
const PATIENCE = 20_000

/** It is killed in the last two seconds of the lease. */
const NO_AGENT_LATER = "no agent works after the lease of its worker"

/** A write may take long, and its worker may have got the time late. */
const LATE = 300_000

/** Watches everything from outside and knows what must hold. The first rule that does not is the result. */
export class Witness {
  readonly sandboxes = new Map<SandboxId, Seen>()
  /** Those of them that were deleted. */
  readonly deleted = new Set<SandboxId>()
  readonly readers: Array<Reader> = []
  /** Somebody was told that these will end. */
  readonly mustEnd = new Set<SandboxId>()
  readonly trees: TreesWitness
  readonly queue: QueueWitness
  readonly rights: RightsWitness
  readonly money: MoneyWitness
  readonly webhooks: WebhookWitness
  /** All that a grant's feed has. */
  readonly feedOf: (grantId: string) => ReadonlyArray<PartnerEvent>
  readonly #claims = new Claims()
  /** Since when, by process and sandbox. */
  readonly #rested = new Map<string, number>()
  /** By process and sandbox: events that were written without an answer, and the number of the last one. */
  readonly #unanswered = new Map<string, { readonly events: string; readonly last: number }>()
  readonly #made = new Map<string, { id: SandboxId; times: number }>()
  readonly #opened = new Map<string, number>()
  readonly #lookedFor = new Map<string, number>()
  readonly #store: SandboxStore["Service"]
  readonly #leases: Leases["Service"]
  readonly #maintenance: Maintenance["Service"]
  readonly #checkpoints: Checkpoints["Service"]
  readonly #diskOf: (worker: string) => Disk | null
  readonly #ids: Ids["Service"]
  readonly #versions: Versions
  readonly #timeline: Timeline
  readonly #trace: Trace

  constructor(options: {
    readonly store: SandboxStore["Service"]
    readonly leases: Leases["Service"]
    readonly maintenance: Maintenance["Service"]
    readonly checkpoints: Checkpoints["Service"]
    /** The disk of the machine on which this worker was started. */
    readonly diskOf: (worker: string) => Disk | null
    readonly trees: TreesWitness
    readonly rights: RightsWitness
    readonly money: MoneyWitness
    readonly webhooks: WebhookWitness
    readonly feedOf: (grantId: string) => ReadonlyArray<PartnerEvent>
    readonly ids: Ids["Service"]
    readonly versions: Versions
    readonly timeline: Timeline
    readonly trace: Trace
  }) {
    this.#store = options.store
    this.#leases = options.leases
    this.#maintenance = options.maintenance
    this.#checkpoints = options.checkpoints
    this.#diskOf = options.diskOf
    this.trees = options.trees
    this.rights = options.rights
    this.money = options.money
    this.webhooks = options.webhooks
    this.feedOf = options.feedOf
    this.queue = new QueueWitness(
      options.timeline,
      options.trace,
      (id) => options.money.wasRefused(id, this.sandboxes.get(id)?.creation.grantId ?? "")
    )
    this.#ids = options.ids
    this.#versions = options.versions
    this.#timeline = options.timeline
    this.#trace = options.trace
  }

  /** The sandbox as known by now. A change shows before its call is answered. */
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
          if (!this.sandboxes.has(creation.id)) this.sandboxes.set(creation.id, seenFirst(creation, this.#versions))
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
        }).pipe(atOnce),
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
      delete: (key, now) => Effect.tap(store.delete(key, now), () => Effect.sync(() => this.deleted.add(key.id))).pipe(atOnce),
      command: (key, command, now, keyed, trace) =>
        Effect.suspend(() => {
          this.#look(key.id)
          const asked = this.queue.asks(key.id)
          return this.#writing(key.id, store.command(key, command, now, keyed, trace)).pipe(
            Effect.tap(({ result }) =>
              Effect.sync(() => {
                this.#rule("nothing of one grant can be touched by another", this.seen(key.id)?.creation.grantId === key.grantId, key.id)
                this.#answered(key.id, result)
              })
            ),
            Effect.tapError((error) => Effect.sync(() => asked.holds(tagOf(error)))),
            Effect.ensuring(Effect.sync(asked.end))
          )
        }),
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
      take: (by, room) =>
        Effect.suspend(() => {
          const asked = this.#timeline.now
          this.#lookAtAll()
          for (const [id, { agents, heldUntil }] of this.sandboxes) {
            for (const { owner, running } of agents) if (running && heldUntil > 0 && heldUntil < asked) this.works(id, owner)
          }
          const answered = this.#claims.begins()
          const expected = this.#claims.expected(by.machine, room, this.#lost, asked)
          return leases.take(by, room).pipe(
            Effect.tap((leased) =>
              Effect.sync(() => {
                this.#lookAtAll()
                const after = this.#claims.expected(by.machine, room, this.#lost, this.#timeline.now)
                // Checked before the order: a lease of a held sandbox breaks the order too.
                for (const one of leased) this.#leased(by, one, asked)
                if (expected !== null && after?.version === expected.version && this.#timeline.now === asked) {
                  this.#isGiven(by.worker, leased.map(({ sandbox }) => sandbox.id), expected.ids)
                }
              })
            ),
            Effect.onExit(() => Effect.sync(answered))
          )
        }).pipe(atOnce),
      renew: (held) =>
        Effect.suspend(() => {
          const asked = this.#timeline.now
          const stale = held.filter((lease) => this.#isStale(lease))
          const answered = this.#claims.begins()
          return leases.renew(held).pipe(
            Effect.tap((kept) =>
              Effect.sync(() => {
                for (const lease of kept) {
                  this.#rule("an old lease is not renewed", !stale.includes(lease), lease.sandboxId)
                  this.#claims.renewed(lease.sandboxId, { least: asked, most: this.#timeline.now })
                  const seen = this.seen(lease.sandboxId)
                  // A sandbox that was given back in the meantime stays so.
                  if (seen !== undefined && seen.heldUntil > 0) seen.heldUntil = Math.max(seen.heldUntil, asked + LEASE)
                }
              })
            ),
            Effect.onExit(() => Effect.sync(answered))
          )
        }).pipe(atOnce),
      endLeases: (machine) =>
        Effect.suspend(() => {
          for (const seen of this.sandboxes.values()) if (seen.machine === machine) seen.heldUntil = 0
          return this.#ends(leases.endLeases(machine), (at) => this.#claims.endedOn(machine, at))
        }),
      arrived: (lease) =>
        Effect.suspend(() => {
          const stale = this.#isStale(lease)
          return Effect.tap(leases.arrived(lease), () =>
            Effect.sync(() => this.#rule("a write under an old lease is refused", !stale, lease.sandboxId)))
        }),
      rest: (lease) => this.#rest(lease),
      release: (lease, options) =>
        Effect.suspend(() => {
          const seen = this.seen(lease.sandboxId)
          const isCurrent = seen?.fence === lease.fence
          if (isCurrent) seen.heldUntil = 0
          return this.#ends(leases.release(lease, options), (at) => {
            if (isCurrent) this.#claims.ended(lease.sandboxId, at, options?.mayMove === true)
          })
        }),
      drain: (machine, isDraining) => this.#ends(leases.drain(machine, isDraining), (at) => this.#claims.drained(machine, isDraining, at)),
      saveAgentSession: (lease, session) =>
        Effect.suspend(() => {
          const stale = this.#isStale(lease)
          return Effect.tap(leases.saveAgentSession(lease, session), () =>
            Effect.sync(() => this.#rule("a write under an old lease is refused", !stale, lease.sandboxId)))
        })
    })
  }

  /** The limit of the worker that calls, milliseconds. */
  get #lost(): number {
    return Duration.toMillis(this.#versions.ofCaller.lost)
  }

  /** Returning a lease, watched. */
  #rest(lease: Lease) {
    return Effect.suspend(() => {
      const stale = this.#isStale(lease)
      const seen = this.seen(lease.sandboxId)
      const needed = seen?.state.need ?? null
      const seq = seen?.state.lastSeq
      return this.#ends(
        Effect.tap(this.#leases.rest(lease), (rested) =>
          Effect.sync(() => {
            this.#rule("a write under an old lease is refused", !stale, lease.sandboxId)
            const seen = this.seen(lease.sandboxId)
            if (seen === undefined) return
            if (seen.writers === 0 && seen.state.lastSeq === seq) {
              this.#rule("a sandbox rests when it needs no worker", rested === (needed === null), `${lease.sandboxId} needs ${needed}`)
            }
            if (!rested) return
            this.#trace.count("rests")
            seen.heldUntil = 0
            const { worker } = seen
            this.#rule(
              "nothing of a sandbox runs while it is at rest",
              seen.agents.every(({ owner, running }) => !running || owner.name !== worker),
              `${lease.sandboxId}, of ${worker}`
            )
          })),
        (at, rested) => {
          if (rested) this.#claims.ended(lease.sandboxId, at)
        }
      )
    })
  }

  /** Records a call to the leases and the time of its end. */
  #ends<A, E>(self: Effect.Effect<A, E>, done: (at: { readonly least: number; readonly most: number }, result: A) => void) {
    return Effect.suspend(() => {
      const least = this.#timeline.now
      const answered = this.#claims.begins()
      return self.pipe(
        Effect.tap((result) => Effect.sync(() => done({ least, most: this.#timeline.now }, result))),
        Effect.onExit(() => Effect.sync(answered))
      )
    }).pipe(atOnce)
  }

  #leased(
    { machine, worker }: { readonly machine: string; readonly worker: string },
    { lease: { fence, sandboxId }, moved }: Leased,
    asked: number
  ): void {
    const seen = this.seen(sandboxId)
    if (seen === undefined) return
    const { now } = this.#timeline
    this.#rule("a sandbox is leased to one worker at a time", seen.heldUntil <= now, `${sandboxId} to ${worker}`)
    this.#rule("each lease has a higher fence", fence > seen.fence, `${sandboxId}: ${fence} after ${seen.fence}`)
    this.#rule(
      "a worker is told whether its machine has the files",
      seen.home === null || (moved === null) === (seen.home === machine),
      `${sandboxId} of ${seen.home}, to ${machine}: ${moved}`
    )
    this.#trace.add(`${worker} has the lease ${fence} of ${sandboxId}`)
    this.#trace.count("leases")
    if (fence > 1) this.#trace.count("takeovers")
    if (moved !== null) this.#trace.count("takeovers elsewhere")
    seen.fence = fence
    seen.machine = machine
    seen.worker = worker
    seen.workers.add(worker)
    this.trees.leased(sandboxId, this.#diskOf(worker), moved === null)
    seen.heldUntil = asked + LEASE
    this.#claims.taken(sandboxId, machine, { least: asked, most: now })
  }

  /** Nothing happened between question and answer, so it is known who had to be given. */
  #isGiven(worker: string, given: ReadonlyArray<SandboxId>, expected: ReadonlyArray<SandboxId>): void {
    if (given.length > 0) this.#trace.count("claims that were foreseen")
    const idle = given.filter((id) => (this.sandboxes.get(id)?.state.need ?? null) === null)
    this.#rule("no worker is given a sandbox that needs none", idle.length === 0, `${idle.join()} to ${worker}`)
    this.#rule(
      "the longest waiting sandbox is leased first, and grants take turns",
      given.toSorted().join() === expected.toSorted().join(),
      `${worker} was given ${given.join()}, not ${expected.join()}`
    )
  }

  /** Maintenance of all sandboxes together, watched. */
  get maintenance(): Maintenance["Service"] {
    const maintenance = this.#maintenance
    return Maintenance.of({
      ...maintenance,
      due: (limit, behind = null) =>
        Effect.suspend(() => {
          // The pages behind the first one follow from the contract of the port.
          const before = behind === null ? this.#duesNow() : null
          const { now } = this.#timeline
          return Effect.tap(maintenance.due(limit, behind), ({ ids }) =>
            Effect.sync(() => {
              const after = this.#duesNow()
              if (before === null || after === null || now !== this.#timeline.now || before.version !== after.version) return
              if (ids.length > 0) this.#trace.count("limits that were foreseen")
              const moments = ids.map((id) => this.sandboxes.get(id)?.table.under(this.#versions.ofCaller).next ?? Infinity)
              this.#rule(
                "what is due is told, the oldest first",
                ids.length === Math.min(limit, before.ids.length) && moments.every((at, i) => i === 0 || at >= moments[i - 1]!) &&
                  (moments.at(-1) ?? 0) <= now,
                `${ids.join()}, due are ${before.ids.join()}`
              )
            }))
        }),
      purgeEvents: (endedBefore, limit) => Effect.tap(maintenance.purgeEvents(endedBefore, limit), () => Effect.sync(() => this.#forgets()))
    })
  }

  /** Sandboxes that are due now by the caller's limits, the oldest first; `null`: a write is under way. */
  #duesNow(): { readonly version: string; readonly ids: ReadonlyArray<SandboxId> } | null {
    this.#lookAtAll()
    const all = Array.from(this.sandboxes).filter(([, { state }]) => state.lastSeq > 0)
    if (all.some(([, { writers }]) => writers > 0)) return null
    const { ofCaller } = this.#versions
    const due = all.flatMap(([id, { table }]) => {
      const { next } = table.under(ofCaller)
      return next !== null && next <= this.#timeline.now ? [{ id, at: next }] : []
    })
    return {
      version: [...all.map(([, { state }]) => state.lastSeq),
        ...Object.values(ofCaller).map((limit: Duration.Duration) => Duration.toMillis(limit))].join(),
      ids: due.toSorted((a, b) => a.at - b.at).map(({ id }) => id)
    }
  }

  /** Whatever was forgotten had ended long enough ago. */
  #forgets(): void {
    for (const [id, seen] of this.sandboxes) {
      if (this.deleted.has(id)) continue
      const purged = this.#timeline.run(Context.empty(), this.#store.purged(id))
      if (purged === seen.purged) continue
      seen.purged = purged
      this.#trace.count("logs forgotten")
      const { isOver, lastSeq, status, statusAt } = this.seen(id)?.state ?? seen.state
      const until = statusAt + Math.min(...this.#versions.inForce.map(({ retention }) => Duration.toMillis(retention)))
      this.#rule(
        "the log of a sandbox is kept for its time after its end",
        isOver && until <= this.#timeline.now && purged <= lastSeq,
        `${id} ${status}: kept until ${until}, forgotten at ${this.#timeline.now}`
      )
    }
  }

  /** The checkpoints as this process has them, watched. */
  checkpointsOf(process: Process): Checkpoints["Service"] {
    const checkpoints = this.#checkpoints
    return Checkpoints.of({
      ...checkpoints,
      put: (lease, checkpoint, content) =>
        Effect.suspend(() => {
          const stale = this.#isStale(lease)
          if (stale) this.#trace.count("puts under an old lease")
          return Effect.tap(checkpoints.put(lease, checkpoint, content), () =>
            Effect.sync(() => {
              this.#rule("a write under an old lease is refused", !stale, lease.sandboxId)
              this.trees.put(lease.sandboxId, process, lease.fence, checkpoint)
            }))
        }),
      get: (id, checkpoint) =>
        this.trees.damaged.has(`${id}/${checkpoint}`)
          ? this.#damaged(checkpoints, id, checkpoint, process)
          : checkpoints.get(id, checkpoint)
    })
  }

  /** Every other one is whole, and another: of another sandbox, or its own before. */
  #damaged(checkpoints: Checkpoints["Service"], id: SandboxId, checkpoint: number, reader: Process) {
    const others = Array.from(this.sandboxes, ([other, { state }]) => ({ id: other, checkpoint: state.checkpoint }))
    const other = checkpoint > 1 ? { id, checkpoint: checkpoint - 1 } : others.find((one) => one.id !== id && one.checkpoint > 0)
    const isOther = this.trees.spoilt.add(`${id}/${checkpoint} to ${reader.name}`).size % 2 > 0
    if (!isOther || other === undefined) return oneBitOff(checkpoints.get(id, checkpoint))
    this.#trace.count("checkpoints given out as others")
    return checkpoints.get(other.id, other.checkpoint)
  }

  /** A write that is killed on its way stays under way: its effect may show at any time. */
  #writing<A, E>(id: SandboxId, self: Effect.Effect<A, E>): Effect.Effect<A, E> {
    return Effect.suspend(() => {
      const seen = this.sandboxes.get(id)
      if (seen === undefined) return self
      if (seen.writers++ === 0) seen.writingSince = this.#timeline.now
      return Effect.onExit(self, () =>
        Effect.sync(() => {
          seen.writers -= 1
          seen.wroteSince = seen.writingSince
          seen.looked = false
          this.#look(id)
        }))
    }).pipe(atOnce)
  }

  #lookAtAll(): void {
    for (const id of this.sandboxes.keys()) this.#look(id)
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
      const before = seen.replayed.recordedAt?.epochMilliseconds ?? 0
      this.#rule("no event is dated before its predecessor", at.epochMilliseconds >= before, `${id} #${seq} ${event.type}`)
      this.#rule("an event says its own number and sandbox", told === seq && wire.includes(`"${id}"`), wire)
      seen.wires.push(wire)
      this.trees.record(seen.state, event, seen)
      seen.state.record(event, at.epochMilliseconds)
      seen.replayed = evolve(seen.replayed, event, at)
      if (this.#versions.earlierRows.has(rowKey(id, seq))) {
        this.#trace.count("rows of an earlier version")
        seen.replayed = earlierSandbox(seen.replayed)
        seen.isUnordered ||= seen.replayed.turn?.speaking !== undefined
      }
      this.queue.record(id, event, seq)
      this.#passes(seen, event, at.epochMilliseconds)
      seen.table.record(event, at)
      this.#record(seen, event)
    }
    this.queue.settled(id)
    const difference = seen.state.differs(found.value)
    this.#rule("the stored sandbox is what its log says", difference === null, `${id}: ${difference}`)
    this.#rule(
      "the stored sandbox is what the events made of it",
      Equal.equals(found.value, seen.replayed),
      `${id}: stored ${JSON.stringify(found.value)}, by the log ${JSON.stringify(seen.replayed)}`
    )
    const since = seen.writers > 0 ? seen.writingSince : seen.wroteSince
    this.#claims.told(id, seen.state, Math.min(since, this.#timeline.now), this.#timeline.now)
    for (const law of [statusesAreReachable, endsForGood, approvalsResolveOnce, policyApprovesAsTold, questionsCloseOnce, queueIsKept]) {
      this.#law(id, () => law(seen.changes, found.value))
    }
    this.#law(id, () => turnsAreReachable(seen.changes, found.value, (n) => seen.turnIds[n - 1] ??= this.#ids.derive(`${id}/turn/${n}`)))
  }

  /** Time brings what is due, and the first of it first. */
  #passes({ creation: { createdAt, id }, table }: Seen, event: SandboxEvent, at: number): void {
    if (event.type === "sandbox.status" && event.data.previous === null) {
      this.#rule("a life begins when the sandbox was asked for", createdAt.epochMilliseconds === at, id)
    }
    const { inForce } = this.#versions
    if (event.type === "approval.requested" || event.type === "question.asked") {
      const expiries = inForce.map(({ approval }) => at + Duration.toMillis(approval))
      const { epochMilliseconds: expiry } = event.data.expires_at
      this.#rule(
        "an approval or a question expires when its time is over",
        expiries.includes(expiry),
        `${id} ${expiry}, not ${expiries.join()}`
      )
    }
    const brought = broughtByTime(event)
    if (brought === null) return
    const tables = inForce.map((limits) => table.under(limits))
    this.#rule(
      "no time limit is applied before it has come",
      tables.some(({ dues }) => dues.some((due) => due.what === brought && due.at <= at)),
      `${id} ${brought}: ${JSON.stringify(tables.map(({ dues }) => dues))} at ${at}`
    )
    const firsts = tables.map((table) => table.dueBy(at)[0])
    this.#rule("of what is due at once the first is applied first", firsts.includes(brought), `${id}: ${brought} before ${firsts.join()}`)
  }

  #record(seen: Seen, event: SandboxEvent): void {
    const { id } = seen.creation
    if (isChange(event)) {
      seen.changes.push(event)
      this.#trace.add(`    ${id} #${seen.state.lastSeq} ${event.type} ${JSON.stringify(event.data)}`)
    }
    switch (event.type) {
      case "approval.resolved":
        seen.approvals.set(event.data.approval_id, event.data)
        this.#trace.count(`approvals resolved by ${event.data.by}`)
        return
      case "question.answered": {
        const { answers, by, question_id: questionId } = event.data
        seen.questions.set(questionId, event.data)
        this.#trace.count(`questions over by ${by === "user" && answers === undefined ? "dismissal" : by}`)
        const own = by !== "user" || seen.replies.get(questionId)?.has(replyText(event.data)) === true
        this.#rule("no answer is given in a person's name", own && (by === "user" || answers === undefined), `${id} ${questionId} by ${by}`)
        return
      }
      case "sandbox.restored":
        if (event.data.checkpoint !== undefined) seen.home = seen.machine
        return
      case "message.steered":
        seen.messages.push({ id: event.data.message_id, text: event.data.text })
        return
      case "turn.started":
        seen.home = seen.machine
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
        if (event.data.reason === "budget_exceeded") {
          this.#trace.count("turns that a budget ended")
          this.#rule("a turn that a budget ends was refused something", this.money.wasRefused(id), `${id} ${event.turn_id}`)
        }
        return
      case "message.updated":
        if (event.data.kind !== "text") return
        if (!seen.texts.has(event.data.message_id)) seen.messages.push({ id: event.data.message_id, text: "" })
        seen.texts.set(event.data.message_id, event.data.text)
        return
      case "sandbox.status":
        if (event.data.previous === null) this.#trace.count("sandboxes")
        if (event.data.reason === "grant_revoked") this.rights.ended(id, seen.creation.grantId)
        this.#trace.count(`sandboxes ${event.data.status}${event.data.reason === null ? "" : ` (${event.data.reason})`}`)
        return
      case "usage.updated":
        this.money.told(id, seen.cost, event.data.usage.costMicroUsd)
        seen.cost = event.data.usage.costMicroUsd
        return
      case "pull_request.updated":
        this.#trace.count(`publications ${event.data.error?.code ?? event.data.action_state}`)
        if (event.data.url !== undefined && event.data.pull_request === undefined) this.#trace.count("events of an earlier version")
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
    // A stalled worker ends no agent, and writes nothing when it goes on: its lease is another worker's.
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

  /** An agent that this process started goes on with these prompts, or was told of them. */
  recalls(id: SandboxId, process: Process, prompts: ReadonlyArray<string>): void {
    const seen = this.seen(id)
    if (seen?.worker === process.name && seen.heldUntil > this.#timeline.now) this.trees.recalls(id, prompts)
  }

  /** Whether its first boot has not ended yet. */
  isBooting(id: SandboxId): boolean {
    this.#look(id)
    return this.seen(id)?.state.status === "creating"
  }

  /** The agent is to go on with a conversation that its machine does not have. */
  resumesNothing(id: SandboxId, process: Process): void {
    const seen = this.seen(id)
    const holds = seen?.worker === process.name && seen.heldUntil > this.#timeline.now
    this.#rule("an agent goes on with a session that its machine has", !holds, id)
  }

  /** `disk`: of the machine that the agent runs on. */
  prompted(id: SandboxId, turn: string, process: Process, disk: Disk): void {
    const seen = this.seen(id)
    if (seen === undefined) return
    // A worker that stalled meanwhile may not know yet that its lease is another worker's.
    if (seen.worker === process.name && seen.state.turn?.id === turn && seen.state.isActive) this.trees.prompted(id, turn, disk)
    this.#rule("a prompt is handed to one agent once", !seen.prompted.has(turn), `${id} ${turn}`)
    this.#rule("an agent is given prompts that were sent", seen.turns.has(turn), `${id} ${turn}`)
    seen.prompted.set(turn, process)
  }

  /** The agent of a turn that this process gave it is handed a message. */
  steers(id: SandboxId, turn: string, message: { readonly id: string; readonly text: string }, process: Process): void {
    this.#look(id)
    this.queue.handed(id, turn, message, process, this.#wasStalled(process))
  }

  /** The agent of a turn took a message into it. */
  steered(id: SandboxId, turn: string, message: string): void {
    this.#look(id)
    const text = this.queue.took(id, turn, message)
    if (text !== null) this.trees.steered(id, text)
  }

  /** A fork starts without its origin's publications. */
  startsUnpublished(
    id: SandboxId,
    repos: ReadonlyArray<{ readonly repo: RepoName }>,
    trees: WorkingTrees["Service"]
  ): Effect.Effect<void> {
    return Effect.forEach(
      repos,
      ({ repo }) =>
        Effect.map(
          Effect.orDie(trees.compare({ sandboxId: id, repo }, "src/main.txt", 1_000_000)),
          ({ base, head }) =>
            this.#rule("a fork has published nothing yet", head?.ref === base?.ref, `${id} ${repo}: ${head?.ref}, from ${base?.ref}`)
        ),
      {
        discard: true
      }
    )
  }

  /** An agent was told how somebody decided, or runs what had to be approved. */
  approved(id: SandboxId, approvalId: string, approved: boolean, told?: string): void {
    const { outcome, reason } = this.seen(id)?.approvals.get(approvalId) ?? {}
    this.#rule("an agent is told what was decided", outcome === (approved ? "approved" : "denied"), `${id} ${approvalId}: ${outcome}`)
    this.#rule("an agent is told why it was denied", reason === told, `${id} ${approvalId}: ${reason}, told ${told}`)
  }

  /** A person is about to reply to a question. */
  replies(id: SandboxId, questionId: string, reply: QuestionReply): void {
    const replies = this.seen(id)?.replies
    replies?.set(questionId, (replies.get(questionId) ?? new Set()).add(replyText(reply)))
  }

  /** An agent is told the answers to its question, or that there is no answer. */
  answered(id: SandboxId, questionId: string, answers: Answers | null): void {
    const seen = this.seen(id)
    const over = seen?.questions.get(questionId)
    const told = replyText(answers === null ? {} : { answers })
    this.#rule("an agent is told what a person answered", over !== undefined && replyText(over) === told, `${id} ${questionId}: ${told}`)
    this.#rule("an agent is told an answer once", seen?.answersTold.has(questionId) === false, `${id} ${questionId}`)
    seen?.answersTold.add(questionId)
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

  /** A reader was told that what it wants next is forgotten. */
  expires(reader: Reader): void {
    reader.cursor = null
    reader.expiredAt = this.#timeline.now
  }

  /** Time limits and readers keep up once calls go through. `latest`: the newest event of each sandbox some seconds ago. */
  keepsUp(latest: ReadonlyMap<SandboxId, number>): void {
    const late = this.#timeline.now - 5_000
    for (const [id, { creation, heldUntil, prompted, state, table, worker }] of this.sandboxes) {
      const process = prompted.get(state.turn?.id ?? "")
      this.queue.keepsUp(id, process?.alive === true && process.name === worker && heldUntil > this.#timeline.now)
      this.rights.keepsUp(id, creation.grantId, state.status, state.statusAt)
      const tables = this.#versions.inForce.map((limits) => table.under(limits))
      this.#rule(
        "a time limit is applied when it has come",
        tables.some(({ next }) => next === null || next > late),
        `${id} ${JSON.stringify(tables.map(({ dues }) => dues))}`
      )
    }
    for (const { cursor, expiredAt, grantId, id } of this.readers) {
      if (this.rights.isRevoked(grantId) !== false || cursor === null && (expiredAt ?? 0) > late) continue
      const behind = latest.get(id) ?? 0
      this.#rule("a reader hears of every event within seconds", cursor !== null && cursor >= behind, `${id}: ${cursor} of ${behind}`)
    }
  }

  /**
   * A sandbox that needs a worker gets one while there are some, and a sandbox that waits for an agent gets an agent from a worker. Called
   * once a second.
   */
  needsAreMet(): void {
    const { now } = this.#timeline
    const lost = Math.max(...this.#versions.inForce.map(({ lost }) => Duration.toMillis(lost)))
    for (const [id, seen] of this.sandboxes) {
      const { need, status, turn } = seen.state
      const isAtIt = need === "turn"
      const isErrand = need === "errand"
      seen.waitsSince = (isAtIt || isErrand) && seen.heldUntil <= now ? seen.waitsSince ?? now : null
      const waits = now - (seen.waitsSince ?? now)
      // Others may be at work for as long as a few turns may take.
      this.#rule("every sandbox that needs a worker gets one", waits <= lost + (isAtIt ? 100_000 : 45_000), `${id} waits for ${waits} ms`)
      const isPending = status === "running" && turn?.state === "pending" && seen.heldUntil > now && !this.#isBusy(seen.worker)
      seen.pending = isPending ? seen.pending?.turn === turn.id ? seen.pending : { turn: turn.id, since: now } : null
      const isLate = now - (seen.pending?.since ?? now) > LEASE + lost + PATIENCE
      this.#rule("a turn begins once a worker has nothing else to do", !isLate, `${id} ${turn?.id}, of ${seen.worker}`)
    }
  }

  /** An agent of this worker is at a turn. */
  #isBusy(worker: string | null): boolean {
    return Array.from(this.sandboxes.values()).some(({ state, worker: its }) =>
      its === worker && state.isActive && state.turn?.startedAt != null
    )
  }

  /** The process has written these events, the last with this number. */
  writes(process: Process, id: SandboxId, events: ReadonlyArray<SandboxEvent>, last: number): void {
    const key = `${process.name} ${id}`
    const unanswered = this.#unanswered.get(key)
    if (unanswered === undefined || events.length === 0) return
    this.#unanswered.delete(key)
    this.#trace.count("writes after a lost answer")
    // After something else has happened, the same events may be written for another cause.
    const isAgain = unanswered.last === last - events.length && unanswered.events === JSON.stringify(events)
    this.#rule("a write whose answer was lost is not made again", !isAgain, `${key}: ${unanswered.events}`)
  }

  /** The process is told that a write failed that wrote these events. */
  losesAnswer(process: Process, id: SandboxId, events: ReadonlyArray<SandboxEvent>, last: number): void {
    // The next attempt at a checkpoint may fail for the same cause.
    const isAgain = events.every(({ data, type }) => type === "sandbox.checkpoint" && "error" in data)
    if (!isAgain) this.#unanswered.set(`${process.name} ${id}`, { events: JSON.stringify(events), last })
  }

  /** The agent of this process runs. */
  works(id: SandboxId, process: Process): void {
    const seen = this.seen(id)
    if (seen === undefined || !process.alive || this.#wasStalled(process)) return
    const late = this.#timeline.now - (seen.worker === process.name ? seen.heldUntil : 0)
    this.#rule(NO_AGENT_LATER, late <= 0, `${id} of ${process.name}: ${late} ms late`)
  }

  /** The process asks to release what is reserved for the sandbox. */
  givesBack(process: Process, id: SandboxId): void {
    const seen = this.seen(id)
    // An ended sandbox has no agent any more, also while a person who terminates it waits.
    if (seen === undefined || seen.state.completedAt !== null) return
    const { agents, state, workers } = seen
    const isWorking = state.isActive && state.turn?.startedAt != null && agents.some(({ owner, running }) => running && owner === process)
    this.#rule(
      "what is reserved for a living sandbox stays reserved",
      workers.has(process.name) && !isWorking,
      `${process.name} releases what is reserved for ${id}, ${state.status}`
    )
  }

  /** The process was told that it has these leases. */
  toldLeased(process: Process, ids: ReadonlyArray<SandboxId>): void {
    for (const id of ids) this.#rested.delete(`${process.name} ${id}`)
  }

  /** The process was told that the sandbox is at rest and its lease is given back. */
  toldRested(process: Process, id: SandboxId): void {
    this.#rested.set(`${process.name} ${id}`, this.#timeline.now)
  }

  /** The process asks for the sandbox's state. */
  asksFor(process: Process, id: SandboxId): void {
    const since = this.#rested.get(`${process.name} ${id}`)
    this.#rule(
      "a worker leaves a sandbox alone that is at rest",
      since === undefined || this.#timeline.now - since < AFTER_A_STALL || this.#wasStalled(process),
      `${process.name} ${id}`
    )
  }

  /** An agent of this worker is at work on what other turns left: whatever becomes of the worker, the others have to stay. */
  losesWork({ name }: Process): boolean {
    return Array.from(this.sandboxes.values()).some(({ state, worker }) =>
      worker === name && state.checkpoint > 0 && state.isActive && state.turn?.startedAt != null
    )
  }

  /** The work left to be done; `null`: everything is settled. */
  unsettled(): string | null {
    for (const [id, { agents, state }] of this.sandboxes) {
      if (!state.isOver) return `${id} is ${state.status}`
      if (state.isPublishing) return `${id} is to be published`
      if (agents.some(({ owner, running }) => running && owner.alive)) return `${id} has a running agent`
    }
    return this.webhooks.unsettled() ?? this.webhooks.missing()
  }

  /** The time of every key that was used before is over. */
  forgetsKeys(): void {
    this.#made.clear()
  }

  /** A sandbox that was over by then is forgotten: its log and checkpoints are gone, the sandbox and its messages stay. */
  isForgotten(ids: ReadonlyArray<SandboxId>): void {
    for (const id of ids) {
      const seen = this.seen(id)
      if (seen === undefined || this.deleted.has(id)) continue
      const { checkpoints, entries, messages } = this.#timeline.run(
        Context.empty(),
        Effect.all({
          entries: this.#store.log(id, 0, 10),
          messages: this.#store.messages(id, 0, 10),
          checkpoints: this.#checkpoints.list(id, 0, 10)
        })
      )
      this.#rule("after its time a log is forgotten", entries.length === 0 && seen.purged === seen.state.lastSeq, `${id}: ${seen.purged}`)
      this.#rule("after its time a checkpoint is forgotten", checkpoints.length === 0, `${id}: ${checkpoints.length}`)
      this.#rule("what was said in a sandbox stays", messages.length === Math.min(10, seen.messages.length), `${id}: ${messages.length}`)
    }
  }

  /** Nothing of these sandboxes is read any more. Of their checkpoints, only those are stored that live forks start with. */
  isDeleted(ids: ReadonlyArray<SandboxId>): void {
    for (const id of ids) {
      this.deleted.add(id)
      const seen = this.seen(id)
      if (seen === undefined) continue
      const { checkpoint, creation: { grantId } } = seen.state
      const { checkpoints, entries, isFound, messages } = this.#timeline.run(
        Context.empty(),
        Effect.all({
          isFound: Effect.isSuccess(this.#store.find({ grantId, id })),
          entries: this.#store.log(id, 0, 10),
          messages: this.#store.messages(id, 0, 10),
          checkpoints: this.#checkpoints.list(id, 0, 10)
        })
      )
      const left = entries.length + messages.length + checkpoints.length
      this.#rule("nothing of a deleted sandbox is read", !isFound && left === 0, `${id}: ${left}`)
      for (let n = 1; n <= checkpoint; n++) {
        const isStored = this.#timeline.run(Context.empty(), Effect.isSuccess(Stream.runDrain(this.#checkpoints.get(id, n))))
        const isStart = Array.from(this.sandboxes.values()).some(({ state: { checkpoint, creation: { origin }, status } }) =>
          origin?.sandboxId === id && origin.checkpoint === n && checkpoint === 0 && !["succeeded", "failed", "terminated"].includes(status)
        )
        this.#rule("a deleted sandbox leaves no checkpoint without a fork", !isStored || isStart, `${id}: ${n}`)
      }
    }
  }

  /** Checks the rules of everything that is over. */
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
      this.queue.end(id)
      this.#rule("no approval stays open after the end", state.approvals.length === 0, id)
      this.#rule("no question stays open after the end", state.questions.length === 0, id)
      this.#rule("no publication looks as if it went on after the end", !state.isPublishing, id)
      const messages = this.#timeline.run(Context.empty(), this.#store.messages(id, 0, 100_000))
      const inOrder = (lines: ReadonlyArray<string>) => (seen.isUnordered ? lines.toSorted() : lines).join("\n")
      const told = inOrder(messages.map((message) => `${message.id} ${message.text}`))
      // The message that the agent is writing is not whole.
      const whole = seen.messages.filter((message) => message.id !== seen.replayed.turn?.speaking)
      const said = inOrder(whole.map((message) => `${message.id} ${seen.texts.get(message.id) ?? message.text}`))
      this.#rule("messages are those of the log", told === said, `${id}\n${told}\nnot\n${said}`)
      this.#rule("a message is there once", new Set(messages.map((message) => message.id)).size === messages.length, `${id}\n${told}`)
    }
    for (const { cursor, grantId, id } of this.readers) {
      if (this.rights.isRevoked(grantId) !== false) continue
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

const tagOf = (error: unknown): string => typeof error === "object" && error !== null && "_tag" in error ? String(error._tag) : ""

/** The same bytes but for one bit of the last that is there. */
const oneBitOff = <E, R>(content: Stream.Stream<Uint8Array, E, R>) =>
  Stream.map(content, (bytes) => bytes.map((byte, i) => i === bytes.length - 1 ? byte ^ 1 : byte))

const seenFirst = (creation: Creation, { newest }: Versions): Seen => ({
  creation,
  table: new TimeTable(newest.limits),
  writers: 0,
  looked: false,
  writingSince: 0,
  wroteSince: 0,
  state: new Told(creation),
  replayed: initial(creation),
  stored: null,
  purged: 0,
  cost: 0,
  wires: [],
  changes: [],
  approvals: new Map(),
  questions: new Map(),
  replies: new Map(),
  answersTold: new Set(),
  messages: [],
  texts: new Map(),
  isUnordered: false,
  turns: new Map(),
  turnIds: [],
  applied: new Set(),
  prompted: new Map(),
  pullRequests: new Map(),
  fence: 0,
  heldUntil: 0,
  machine: null,
  home: null,
  worker: null,
  workers: new Set(),
  waitsSince: null,
  pending: null,
  agents: []
})
