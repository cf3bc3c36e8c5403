/**
 * Pull requests of sandboxes with feedback (docs/decisions/24): people comment on them, checks of their commits fail, and what the workers
 * make of both is judged by the events alone.
 */
import type { Principal } from "@slipway/domain/access/schema/Principal"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { MemoryFeedback } from "@slipway/domain/memory/source/PullRequestFeedbackMemory"
import { FeedbackWatches } from "@slipway/domain/publishing/ports/FeedbackWatches"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import type { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import { CreateSandbox } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { type FeedbackItem, PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { type SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { headRef } from "@slipway/domain/source/schema/Naming"
import type { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

/** Draws of a seed. */
interface Chance {
  /** A whole number of this range, both ends included. */
  between(least: number, most: number): number
  /** Whether something of this probability happens. */
  is(probability: number): boolean
  pick<A>(items: ReadonlyArray<A>): A
}

/** Where a simulation notes what happened. */
interface Trace {
  add(line: string): void
  count(what: string): void
  breaks(rule: string, detail: string): void
}

/** A call of one process to a port, on which a fault may happen. */
type Call = <A, E>(
  name: string,
  self: Effect.Effect<A, E>,
  possible: { readonly error: () => E; readonly quiet?: boolean; readonly repeatable?: boolean }
) => Effect.Effect<A, E>

const unavailable = () => new StoreUnavailable({ cause: "cut" })
const busy = (operation: string) => () => new SourceHostError({ operation, detail: "it is busy", retryable: true })

/** The watches as one process has them. */
export const watchesOf = (call: Call, watches: FeedbackWatches["Service"]): FeedbackWatches["Service"] =>
  FeedbackWatches.of({
    noticed: (repo, branch, at) => call("watches.noticed", watches.noticed(repo, branch, at), { error: unavailable, repeatable: true }),
    // Watches that were claimed for a caller who does not learn of them are taken by another one, once their claim is over.
    take: (now, limit) => call("watches.take", watches.take(now, limit), { error: unavailable, quiet: true, repeatable: true }),
    record: (taken, end) => call(`watches.record ${taken.sandboxId}`, watches.record(taken, end), { error: unavailable, repeatable: true })
  })

/** The comments and checks as one process has them. */
export const feedbackOf = (call: Call, feedback: PullRequestFeedback["Service"]): PullRequestFeedback["Service"] =>
  PullRequestFeedback.of({
    read: (repo, number, options) =>
      call(`source.read #${number}`, feedback.read(repo, number, options), { error: busy("read the comments"), repeatable: true }),
    reply: (repo, number, key, text) =>
      call(`source.reply #${number}`, feedback.reply(repo, number, key, text), { error: busy("reply"), repeatable: true })
  })

/** The login of a person who may not write to the repository. */
export const STRANGER = "stranger"
/** Rounds without a person's word that these sandboxes may have. */
const ROUNDS = 1
/** After the last change, until nothing can be due any more: a minute of quiet, and some looks. */
const QUIET_MILLIS = 75_000

/** A pull request, and what was delivered to its sandboxes. */
interface Reviewed {
  readonly repo: RepoName
  readonly grantId: string
  readonly branch: string
  readonly sandboxes: Set<SandboxId>
  /** By the id of each delivered item: where. */
  readonly delivered: Map<string, string>
  /** Rounds since the last word of a person. */
  rounds: number
  isPaused: boolean
  /** Why no sandbox may go on with it; `null`: one may. */
  refusal: string | null
}

/** The systems below the processes, without faults. */
export interface Below {
  readonly memory: MemoryFeedback["Service"]
  readonly source: SourceHost["Service"]
  readonly watches: FeedbackWatches["Service"]
  readonly trace: Trace
  /** Epoch milliseconds. */
  readonly now: () => number
  readonly isRevoked: (grantId: string) => boolean
  /** Whether a budget of one of these sandboxes or grants refused anything: their feedback waits for an hour, longer than a simulation. */
  readonly isSpent: (...ids: ReadonlyArray<string>) => boolean
}

/** Knows the comments on pull requests, and which of them may be delivered. */
export class ReviewWitness {
  readonly below: Below
  /** Whether the reviewer comments no more. */
  isQuiet = false
  readonly #pulls: Array<Reviewed> = []
  /** Ids of comments that must become messages, by the branch of their pull request. */
  readonly #wanted = new Map<string, Reviewed>()
  #changedAt = 0

  constructor(below: Below) {
    this.below = below
  }

  /** The store, of which every write is seen. */
  watch(store: SandboxStore["Service"], atOnce: <A, E>(self: Effect.Effect<A, E>) => Effect.Effect<A, E>): SandboxStore["Service"] {
    return {
      ...store,
      create: (request) =>
        atOnce(Effect.tap(store.create(request), ({ replayed }) =>
          Effect.sync(() => {
            const { continues, feedback, id } = request.creation
            const of = this.#pulls.find(({ sandboxes }) => continues?.sandboxId != null && sandboxes.has(continues.sandboxId as SandboxId))
            if (replayed || of === undefined) return
            of.sandboxes.add(id)
            this.below.trace.count("finished sandboxes that a new one continued")
            this.#delivers(of, id, feedback?.delivered.at(-1)?.ids ?? [])
          }))),
      command: (key, command, now, keyed, trace) =>
        atOnce(Effect.tap(store.command(key, command, now, keyed, trace), ({ events }) => Effect.sync(() => this.#sees(key.id, events)))),
      change: (id, by, decide, now) =>
        atOnce(Effect.tap(store.change(id, by, decide, now), ({ events }) => Effect.sync(() => this.#sees(id, events))))
    }
  }

  /** A sandbox with feedback was published. */
  follows(id: SandboxId, repo: RepoName, grantId: string): Reviewed {
    const known = this.#pulls.find(({ sandboxes }) => sandboxes.has(id))
    if (known !== undefined) return known
    const pull: Reviewed = {
      repo,
      grantId,
      branch: headRef(id),
      sandboxes: new Set([id]),
      delivered: new Map(),
      rounds: 0,
      isPaused: false,
      refusal: null
    }
    this.#pulls.push(pull)
    return pull
  }

  /** A comment was written. `isWanted`: it must become a message. */
  written(pull: Reviewed, item: string, isWanted: boolean): void {
    this.#changedAt = this.below.now()
    if (isWanted) this.#wanted.set(item, pull)
  }

  /** A comment was deleted: it may be delivered, once. */
  deleted(item: string): void {
    this.#wanted.delete(item)
  }

  /** A check of a commit ended. */
  checked(): void {
    this.#changedAt = this.below.now()
  }

  #sees(id: SandboxId, events: ReadonlyArray<SandboxEvent>): void {
    const pull = this.#pulls.find(({ sandboxes }) => sandboxes.has(id))
    if (pull === undefined) return
    for (const event of events) {
      if (event.type.startsWith("feedback.")) this.#changedAt = this.below.now()
      if (event.type === "feedback.received" && event.data.sandbox_id === undefined) this.#delivers(pull, id, event.data.items)
      if (event.type === "feedback.replied") this.below.trace.count("rounds of feedback with a reply")
      if (event.type !== "feedback.paused") continue
      pull.isPaused = true
      pull.refusal = event.data.reason ?? null
      this.below.trace.count(event.data.reason === undefined ? "feedback paused after its rounds" : "feedback that no sandbox may have")
    }
  }

  #delivers(pull: Reviewed, id: SandboxId, items: ReadonlyArray<string>): void {
    const { delivered } = pull
    for (const item of items) {
      this.below.trace.count(item.startsWith("checks:") ? "failing checks delivered" : "comments delivered")
      this.#rule("a comment is delivered once", !delivered.has(item), `${item} to ${id}, and before to ${delivered.get(item)}`)
      this.#rule("comments of programs are not delivered", !item.startsWith("comment:bot-"), `${item} to ${id}`)
      this.#rule("comments of strangers are not delivered", !item.startsWith(`comment:${STRANGER}-`), `${item} to ${id}`)
      delivered.set(item, id)
    }
    const isWord = items.some((item) => !item.startsWith("checks:"))
    this.#rule("after a pause only a person's word begins a round", isWord || !pull.isPaused, `${id}: ${items.join()}`)
    pull.rounds = isWord ? 0 : pull.rounds + 1
    this.#rule("rounds without a person's word end", pull.rounds <= ROUNDS, `${id}: ${pull.rounds}`)
    pull.isPaused = false
    pull.refusal = null
  }

  /** A sentence on feedback that is not over; `null`: all is. */
  unsettled(): string | null {
    if (this.#pulls.length === 0 && this.isQuiet) return null
    if (!this.isQuiet) return "a reviewer still comments"
    for (const [item, pull] of this.#wanted) {
      const { grantId, refusal, sandboxes } = pull
      const mayWait = pull.delivered.has(item) || refusal !== null || this.below.isRevoked(grantId) ||
        this.below.isSpent(grantId, ...sandboxes)
      if (!mayWait) return `the comment ${item} on ${pull.branch} is not delivered`
    }
    return this.below.now() < this.#changedAt + QUIET_MILLIS ? "feedback may be due" : null
  }

  /** Called once all is settled. */
  end(): void {
    for (const pull of this.#pulls) {
      const open = this.open(pull)
      if (open === null) continue
      const replies = this.below.memory.items(open).filter(({ id }) => id.includes("reply"))
      this.#rule("a pull request has one reply", replies.length <= 1, `${pull.branch}: ${replies.length}`)
    }
  }

  /** The open pull request of the branch, as the host has it now. */
  open({ branch, repo }: Reviewed): PullRequest | null {
    let found: PullRequest | null = null
    Effect.runSync(Effect.ignore(Effect.map(this.below.source.findOpenPullRequest(repo, branch), (pull) => void (found = pull))))
    return found
  }

  #rule(rule: string, holds: boolean, detail: string): void {
    if (!holds) this.below.trace.breaks(rule, detail)
  }
}

/** The parts of a simulation that a reviewer needs. */
export interface Around {
  readonly reviews: ReviewWitness
  readonly chance: Chance
  readonly repository: string
  readonly grantId: string
  /** Whether people still comment. */
  readonly active: () => boolean
}

const decodeRequest = Schema.decodeSync(CreateSandbox)

/** Checks of a pull request that fail, at most. */
const FAILURES = 4

/** Commits get checks, as long as the simulation lasts. Each that fails asks for another change. */
const checks = Effect.fnUntraced(function*({ chance, reviews }: Around, pull: Reviewed) {
  const { memory, now, trace, watches } = reviews.below
  for (let n = 1; n <= FAILURES;) {
    yield* Effect.sleep(chance.between(500, 4_000))
    const open = reviews.open(pull)
    if (open === null || memory.checks.has(open.headSha)) continue
    const state = chance.is(0.8) ? "failed" : "passed"
    const at = DateTime.makeUnsafe(now())
    const summary = `[[write path=checked.txt content=${n++}]]`
    const failing = state === "passed" ? [] : [{ name: "test", url: "", summary, annotations: [], log: "" }]
    memory.checks.set(open.headSha, { headSha: open.headSha, state, at, failing })
    trace.add(`a check of ${pull.branch} has ${state}`)
    reviews.checked()
    yield* Effect.orDie(watches.noticed(pull.repo, pull.branch, at))
  }
})

/** A person comments on the pull request, edits and deletes comments; a program and a stranger do so too. */
const comments = Effect.fnUntraced(function*({ active, chance, reviews }: Around, pull: Reviewed) {
  const { memory, now, trace, watches } = reviews.below
  const notice = Effect.suspend(() => Effect.orDie(watches.noticed(pull.repo, pull.branch, DateTime.makeUnsafe(now()))))
  for (let n = 1; active();) {
    yield* Effect.sleep(chance.between(1_000, 25_000))
    const open = reviews.open(pull)
    if (open === null) continue
    const items = memory.items(open)
    const at = DateTime.makeUnsafe(now())
    const who = chance.pick(["maria", "maria", "maria", STRANGER, "bot"])
    const isBot = who === "bot"
    const isWanted = who === "maria"
    const id = `comment:${isWanted ? "" : `${who}-`}${pull.branch}-${n}`
    const author = { id: who, login: isBot ? "maria" : who, isBot }
    const body = `[[write path=asked.txt content=${n++}]]`
    const item: FeedbackItem = { id, kind: "comment", author, body, path: null, line: null, url: `${open.url}#${n}`, at, updatedAt: at }
    items.push(item)
    trace.add(`${id} is written`)
    trace.count(isBot ? "comments of programs" : isWanted ? "comments of people" : "comments of strangers")
    reviews.written(pull, id, isWanted)
    yield* chance.is(0.3) ? Effect.all([notice, notice], { discard: true }) : notice
    if (!chance.is(0.4)) continue
    yield* Effect.sleep(chance.between(500, 70_000))
    const place = items.findIndex((one) => one.id === id)
    if (chance.is(0.3)) {
      trace.count("comments deleted")
      reviews.deleted(id)
      items.splice(place, 1)
    } else {
      trace.count("comments edited")
      reviews.written(pull, id, isWanted)
      items[place] = { ...item, body: `${body} Edited.`, updatedAt: DateTime.makeUnsafe(now()) }
    }
    yield* notice
  }
})

const LIVE: ReadonlySet<string> = new Set(["queued", "creating", "running"])

/** Has a sandbox with feedback, publishes it, and reviews its pull request. */
export const reviewer = Effect.fnUntraced(function*(around: Around) {
  const { active, chance, grantId, repository, reviews } = around
  const { isRevoked, trace } = reviews.below
  const sandboxes = yield* Sandboxes
  const publishing = yield* Publishing
  const by: Principal = {
    credential: { _tag: "Key", keyId: "reviewer" },
    grantId,
    organizationId: "",
    userId: "",
    scopes: new Set(["sandboxes"]),
    test: false
  }
  const repo = RepoName.make(repository)
  const request = decodeRequest({
    repos: [{ fullName: repository }],
    prompt: "[[write path=reviewed.txt content=first]]",
    toolApprovalMode: "auto",
    feedback: { comments: "all", checks: "failing", rounds: ROUNDS, publish: true }
  })
  /** `null`: it did not work, or its grant is gone. */
  const attempt = <A, E>(self: Effect.Effect<A, E>) =>
    Effect.map(
      Effect.timeoutOption(Effect.match(self, { onFailure: () => Option.none<A>(), onSuccess: Option.some }), "20 seconds"),
      Option.flatten
    )
  for (let [pull, n]: [Reviewed | null, number] = [null, 1]; active() && pull === null && !isRevoked(grantId);) {
    yield* Effect.sleep(chance.between(500, 3_000))
    const made = yield* attempt(sandboxes.create(by, request, Option.some(IdempotencyKey.make(`reviewed-${n}`))))
    if (Option.isNone(made)) continue
    const { id } = made.value.sandbox
    const asked = yield* attempt(sandboxes.get(by, id))
    if (Option.isNone(asked)) continue
    const { publications, status, turn } = asked.value
    if (publications.every(({ number }) => number === null)) {
      // It may have ended before its changes were there.
      if (LIVE.has(status)) yield* turn?.state === "succeeded" ? attempt(publishing.publish(by, id, undefined)) : Effect.void
      else n++
      continue
    }
    pull = reviews.follows(id, repo, grantId)
    trace.count("pull requests with feedback")
    const quiet = Effect.sync(() => void (reviews.isQuiet = true))
    yield* Effect.all([checks(around, pull), Effect.andThen(comments(around, pull), quiet)], { concurrency: "unbounded", discard: true })
  }
  reviews.isQuiet = true
})
