/**
 * Feedback on pull requests becomes the next turn of their sandboxes (docs/decisions/24). Workers look at what is due; each step is
 * decided under the lock of the sandbox, so a step that was cut off is found undone or done, and nothing happens twice.
 */
import * as Cache from "effect/Cache"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { AccessStore } from "../../access/ports/AccessStore.ts"
import { MemberStore } from "../../access/ports/MemberStore.ts"
import type { Principal } from "../../access/schema/Principal.ts"
import { Ids } from "../../ids/Ids.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import { McpServerStore } from "../../mcp/ports/McpServerStore.ts"
import { Spending, type SpendingRefused } from "../../models/ports/Spending.ts"
import { ModelCatalogue } from "../../models/schema/ModelCatalogue.ts"
import { BeforeCreate } from "../../sandbox/ports/BeforeCreate.ts"
import { type SandboxNotFound, SandboxStore } from "../../sandbox/ports/SandboxStore.ts"
import { type CommandResult, type QueueFull, SandboxNotRunning } from "../../sandbox/rules/Command.ts"
import { isSettled, publicationOf, type Sandbox } from "../../sandbox/rules/Sandbox.ts"
import type { SandboxEvent } from "../../sandbox/rules/SandboxEvent.ts"
import { type RepoNotFound, type RepoRequired, selectRepo } from "../../sandbox/rules/SelectRepo.ts"
import { turnId } from "../../sandbox/rules/Turn.ts"
import { branchRulesOf } from "../../sandbox/usecases/Continuation.ts"
import { FollowedRepositories } from "../../source/ports/FollowedRepositories.ts"
import { FeedbackListener } from "../../source/ports/NewsListeners.ts"
import { type FeedbackItem, type PullFeedback, PullRequestFeedback } from "../../source/ports/PullRequestFeedback.ts"
import { PullRequests } from "../../source/ports/PullRequests.ts"
import { RepositorySettings } from "../../source/ports/RepositorySettings.ts"
import { type RepoNotAccessible, SourceHost, type SourceHostError } from "../../source/ports/SourceHost.ts"
import { isOn, sinceOf } from "../../source/rules/FeedbackState.ts"
import type { FeedbackRound, FeedbackState } from "../../source/schema/FeedbackState.ts"
import { sameRepo } from "../../source/schema/Naming.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { FeedbackWatches, type TakenWatch } from "../ports/FeedbackWatches.ts"
import {
  authorsToAsk,
  type Batch,
  decideFeedback,
  type Decision,
  deliver,
  knownChecks,
  nextStep,
  receivedOf,
  requestFeedback,
  resumeFeedback
} from "../rules/Feedback.ts"
import { messageOf, replyOf } from "../rules/FeedbackMessage.ts"
import { request as requestPublication } from "../rules/Publication.ts"
import { PublicAddress } from "../rules/PullRequestText.ts"
import { type Handed, handOver, type HandingOver } from "./HandOver.ts"

/** The key of the one reply on a pull request. */
const REPLY = "feedback"
/** Authors of one look whose permission is asked for. The next look, {@link NEXT_ASKED} later, asks for others. */
const MAX_ASKED = 50
const NEXT_ASKED = Duration.seconds(1)
/** How long the permission of an author is remembered, and the refusal: strangers may be many, and comment often. */
const ALLOWED_FOR = Duration.minutes(1)
const REFUSED_FOR = Duration.minutes(10)
/** Permissions that are remembered. */
const MAX_PERMISSIONS = 20_000
/** Looks at a host that fails are this far apart at most. */
const LONGEST_BACKOFF = Duration.hours(1)
/** Failed looks after which a round ends without a reply. */
const MAX_REPLIES = 5

/** The pull request has no failing checks, or not all of its checks are done. */
export class NoFailingChecks extends Schema.TaggedError<NoFailingChecks>()("NoFailingChecks", {}) {
  override get message() {
    return "The pull request has no failing checks, or some of its checks still run."
  }
}

/** A comment of a person on a line of a file, or on all of it. */
export interface LineNote {
  readonly path: string
  readonly line: number | null
  readonly text: string
}

/** The changes that a person asks for. */
export interface Wanted {
  /** May be left out with one repository. */
  readonly repo: RepoName | undefined
  readonly text: string
  readonly comments: ReadonlyArray<LineNote>
  /** Whether the failing checks are to be fixed. */
  readonly checks: boolean
  /** The name that others see. */
  readonly authorName: string
}

/** An author of a repository, as the key of a cache: an array of texts as JSON. */
type Asked = string

interface Dependencies extends HandingOver {
  readonly permissions: Cache.Cache<Asked, boolean, RepoNotAccessible | SourceHostError>
  readonly watches: FeedbackWatches["Service"]
  readonly port: PullRequestFeedback["Service"]
  readonly host: SourceHost["Service"]
  readonly pulls: (typeof PullRequests)["Service"]
  readonly address: (typeof PublicAddress)["Service"]
  readonly followed: Option.Option<FollowedRepositories["Service"]>
}

const change = (
  { store }: Dependencies,
  id: SandboxId,
  decide: (sandbox: Sandbox) => ReadonlyArray<SandboxEvent>
) =>
  Effect.flatMap(DateTime.now, (now) => store.change(id, "policy", (sandbox) => Result.succeed(decide(sandbox)), now)).pipe(
    Effect.map(({ sandbox }) => sandbox),
    Effect.catchTag("StaleLease", Effect.die)
  )

/** The page of the sandbox; empty: the service has no public address. */
const linkOf = ({ address }: Dependencies, id: SandboxId): string => address === null ? "" : `${address}/sandboxes/${id}`

/** Tells the pull request of the round, and ends the round. */
const tell = Effect.fnUntraced(function*(
  deps: Dependencies,
  { id, title }: Sandbox,
  { number, round, watch }: { readonly number: number; readonly round: FeedbackRound; readonly watch: TakenWatch }
) {
  const written = Effect.asSome(deps.port.reply(round.repo, number, REPLY, replyOf(round, { title, url: linkOf(deps, id) })))
  const isLast = (error: RepoNotAccessible | SourceHostError) =>
    error._tag === "RepoNotAccessible" || !error.retryable || watch.failures >= MAX_REPLIES
  const url = yield* Effect.catchIf(
    written,
    isLast,
    (error) => Effect.as(Effect.logWarning("no reply on the pull request", { reason: error.message }), Option.none<string>())
  )
  return yield* change(deps, id, ({ feedback }) =>
    feedback?.round?.turnId !== round.turnId || feedback.round.step === "turn" ? [] : [{
      type: "feedback.replied",
      data: { repo: round.repo, ...(Option.isNone(url) ? {} : { url: url.value }) }
    }])
})

const askedOf = (repo: RepoName, { id, login }: Pick<FeedbackItem["author"], "id" | "login">): Asked =>
  JSON.stringify([repo.toLowerCase(), id, login])

const permissionsOf = (host: SourceHost["Service"]) =>
  Cache.makeWith(
    (asked: Asked) => {
      const [repo, id, login] = JSON.parse(asked) as [RepoName, string, string]
      return host.mayWrite(repo, { id, login })
    },
    {
      capacity: MAX_PERMISSIONS,
      timeToLive: (exit) => Exit.isFailure(exit) ? Duration.zero : exit.value ? ALLOWED_FOR : REFUSED_FOR
    }
  )

/** The ids of the authors who may write. `isWhole`: every author is known. Otherwise the next look asks about more of them. */
const writers = Effect.fnUntraced(function*({ permissions }: Dependencies, repo: RepoName, state: FeedbackState, pull: PullFeedback) {
  const authors = authorsToAsk(state, repo, pull)
  const isKnown = yield* Effect.forEach(authors, (author) => Cache.has(permissions, askedOf(repo, author)))
  const unknown = authors.filter((_, i) => !isKnown[i])
  const left = new Set(unknown.slice(MAX_ASKED))
  const asked = authors.filter((author) => !left.has(author))
  const may = yield* Effect.forEach(asked, (author) => Cache.get(permissions, askedOf(repo, author)), { concurrency: 4 })
  return { mayWrite: new Set(asked.filter((_, i) => may[i]).map(({ id }) => id)), isWhole: left.size === 0 }
})

/** Keeps the repository among those that are polled, as long as its pull request may get feedback. */
const follow = ({ followed }: Dependencies, id: SandboxId, repo: RepoName, isWanted: boolean) =>
  Option.isNone(followed)
    ? Effect.void
    : isWanted
    ? Effect.flatMap(DateTime.now, (now) => followed.value.follow(repo, `feedback:${id}`, now))
    : followed.value.unfollow(repo, `feedback:${id}`)

/** The time of the next look; `null`: when something changes. */
const step = Effect.fnUntraced(function*(deps: Dependencies, watch: TakenWatch) {
  const { repo, sandboxId: id } = watch
  let sandbox = yield* change(deps, id, () => [])
  const number = publicationOf(sandbox, repo)?.number ?? null
  const round = sandbox.feedback?.round ?? null
  if (sandbox.feedback === null || number === null) return null
  if (round !== null && sameRepo(round.repo, repo)) {
    switch (nextStep(sandbox)) {
      case null:
        return null
      case "publish":
        yield* change(
          deps,
          id,
          (present) => nextStep(present) === "publish" ? Result.getOrElse(requestPublication(present, repo), () => []) : []
        )
        return null
      case "reply":
        sandbox = yield* tell(deps, sandbox, { number, round, watch })
    }
  }
  const state = sandbox.feedback
  if (state === null || state.round !== null || !isOn(state) || state.continuedBy !== null) {
    yield* follow(deps, id, repo, state !== null && isOn(state) && state.continuedBy === null)
    return null
  }
  const pull = yield* deps.port.read(repo, number, {
    since: sinceOf(state, repo),
    checks: state.policy.checks !== "off",
    knownChecks: knownChecks(state)
  })
  yield* follow(deps, id, repo, pull.isOpen)
  const { isWhole, mayWrite } = yield* writers(deps, repo, state, pull)
  const refused = Option.isNone(deps.spending) ? null : yield* deps.spending.value.refusal({ grantId: sandbox.grantId, sandboxId: id })
  const now = yield* DateTime.now
  let decision: Decision = { _tag: "Nothing" }
  yield* change(deps, id, (present) => {
    decision = decideFeedback(present, { repo, pull, mayWrite }, now)
    // An author who is not known yet may have said something.
    if (decision._tag === "Pause") return isWhole ? decision.events : []
    if (decision._tag !== "Deliver" || decision.isOver || refused !== null) return []
    const text = messageOf({ repo, number, url: pull.url }, decision.batch)
    return deliver(deps.ids, present, receivedOf(repo, pull.url, decision.batch, now), text)
  })
  const made = decision as Decision
  if (!isWhole && made._tag !== "Deliver") return DateTime.addDuration(now, NEXT_ASKED)
  if (made._tag === "Wait") return made.until
  if (made._tag === "Deliver" && made.isOver && refused === null) {
    return yield* handOver(deps, sandbox, { repo, number, url: pull.url, batch: made.batch })
  }
  return made._tag === "Deliver" && refused !== null ? DateTime.addDuration(now, LONGEST_BACKOFF) : null
})

const backoff = (failures: number): Duration.Duration => Duration.min(Duration.seconds(30 * 2 ** Math.min(failures, 10)), LONGEST_BACKOFF)

/** Looks, and records when to look again. */
const look = Effect.fnUntraced(function*(deps: Dependencies, watch: TakenWatch) {
  const end = yield* step(deps, watch).pipe(
    Effect.map((lookAt) => ({ lookAt, failures: 0 })),
    Effect.catchTags({
      // It was deleted.
      SandboxNotFound: () => Effect.succeed({ lookAt: null, failures: 0 }),
      RepoNotAccessible: () =>
        Effect.map(DateTime.now, (now) => ({ lookAt: DateTime.addDuration(now, LONGEST_BACKOFF), failures: watch.failures + 1 })),
      SourceHostError: ({ message, retryAfter }) =>
        Effect.logInfo("feedback could not be read or answered yet", { reason: message }).pipe(
          Effect.andThen(DateTime.now),
          Effect.map((now) => ({
            lookAt: DateTime.addDuration(
              now,
              retryAfter === undefined ? backoff(watch.failures) : Duration.seconds(Math.max(retryAfter, 1))
            ),
            failures: watch.failures + 1
          }))
        )
    })
  )
  yield* deps.watches.record(watch, end)
})

/** A person's request as items. Where pull requests have pages of ours, it becomes a review there, whose comments have the ids. */
const itemsOf = Effect.fnUntraced(function*(
  { ids, port, pulls }: Dependencies,
  by: Principal,
  repo: RepoName,
  number: number | null,
  { authorName, comments, text }: Wanted
) {
  if (text.trim() === "" && comments.length === 0) return []
  const at = yield* DateTime.now
  const key = yield* ids.uuid7
  const author = { id: by.userId, login: authorName }
  if (pulls !== null && number !== null) {
    const written = yield* pulls.review(repo, number, { key, author, text, comments, at }).pipe(
      Effect.andThen(port.read(repo, number, { since: at, checks: false, knownChecks: new Set() })),
      Effect.map(({ items }) => items.filter((item) => item.author.id === by.userId && DateTime.Equivalence(item.at, at))),
      // It was closed meanwhile: the message is sent nevertheless.
      Effect.catchTag("PullRequestRefused", () => Effect.succeed([])),
      Effect.catchTag("RepoNotAccessible", () => Effect.succeed([]))
    )
    if (written.length > 0) return written
  }
  const all = [...(text.trim() === "" ? [] : [{ path: null, line: null, text }]), ...comments]
  return all.map(({ line, path, text: body }, i): FeedbackItem => ({
    id: `request:${key}/${i}`,
    kind: path === null ? "review" : "review_comment",
    author: { ...author, isBot: false },
    body,
    path,
    line,
    url: "",
    at,
    updatedAt: at
  }))
})

/** The sandbox, or the new sandbox that goes on with its feedback. */
const present = Effect.fnUntraced(function*({ store }: Dependencies, grantId: string, asked: SandboxId) {
  let sandbox = yield* store.find({ grantId, id: asked })
  for (let next = sandbox.feedback?.continuedBy; isSettled(sandbox.status) && next != null; next = sandbox.feedback?.continuedBy) {
    sandbox = yield* store.find({ grantId, id: next })
  }
  return sandbox
})

/** A person's feedback begins a new sandbox, because this one is finished. */
const requestAnew = Effect.fnUntraced(function*(deps: Dependencies, sandbox: Sandbox, handed: Handed) {
  yield* handOver(deps, sandbox, handed)
  const { feedback } = yield* change(deps, sandbox.id, () => [])
  const made = feedback?.continuedBy ?? null
  if (made === null) return yield* new SandboxNotRunning()
  const { id, revision } = yield* deps.store.find({ grantId: sandbox.grantId, id: made })
  const commandId = deps.ids.derive(`${id}/request-changes`)
  return { commandId, revision, outcome: "applied" as const, turnId: turnId(deps.ids, id, 1), sandboxId: id }
})

const request = Effect.fnUntraced(
  function*(deps: Dependencies, by: Principal, asked: SandboxId, wanted: Wanted) {
    const { ids, port, spending, store } = deps
    const sandbox = yield* present(deps, by.grantId, asked)
    const { id } = sandbox
    const repo = yield* Effect.fromResult(selectRepo(sandbox, wanted.repo))
    const publication = publicationOf(sandbox, repo)
    const number = publication?.number ?? null
    const isOver = isSettled(sandbox.status)
    if (isOver ? number === null : sandbox.status !== "running") return yield* new SandboxNotRunning()
    const refused = Option.isNone(spending) ? null : yield* spending.value.refusal({ grantId: by.grantId, sandboxId: id })
    if (refused !== null) return yield* refused
    const found = !wanted.checks
      ? null
      : number === null
      ? yield* new NoFailingChecks()
      : yield* port.read(repo, number, { since: yield* DateTime.now, checks: true, knownChecks: new Set() })
    const checks = found?.checks ?? null
    if (wanted.checks && checks?.state !== "failed") return yield* new NoFailingChecks()
    const items = yield* itemsOf(deps, by, repo, number, wanted)
    const batch: Batch = { items, checks, round: 0 }
    const url = publication?.url ?? ""
    if (isOver && number !== null) return yield* requestAnew(deps, sandbox, { repo, number, url, batch })
    const now = yield* DateTime.now
    const command = requestFeedback(ids, receivedOf(repo, url, batch, now), messageOf({ repo, number, url }, batch), by.userId)
    const { result, turnId } = yield* store.command({ grantId: by.grantId, id }, command, now)
    if (turnId === null) return yield* Effect.die(new Error(`feedback ${result.commandId} started no turn`))
    return { ...result, turnId, sandboxId: id }
  },
  // A request waits for the active turn, and steers nothing.
  Effect.catchTags({ IdempotencyConflict: Effect.die, SteeringUnsupported: Effect.die, TurnActive: Effect.die })
)

/** Feedback on pull requests, from their hosts and from people here. */
export class Feedback extends Context.Service<Feedback, {
  /** Something of the branch's pull request may have changed; `null`: of any pull request of the repository. */
  noticed(repo: RepoName, branch: string | null): Effect.Effect<void, StoreUnavailable>
  /** Does what is due, and records when to look again. Any worker may do it, and repeat it. */
  look(watch: TakenWatch): Effect.Effect<void, StoreUnavailable>
  /**
   * Gives a person's feedback to the sandbox, after its active turn. What it changes is published. A finished sandbox with a pull request
   * is continued by a new one, whose first message it is. `sandboxId`: the sandbox that has it.
   */
  request(by: Principal, id: SandboxId, wanted: Wanted): Effect.Effect<
    CommandResult & { readonly turnId: string; readonly sandboxId: SandboxId },
    | NoFailingChecks
    | QueueFull
    | RepoNotAccessible
    | RepoNotFound
    | RepoRequired
    | SandboxNotFound
    | SandboxNotRunning
    | SourceHostError
    | SpendingRefused
    | StoreUnavailable
  >
  /** More rounds after a pause. */
  resume(by: Principal, id: SandboxId): Effect.Effect<CommandResult, SandboxNotFound | StoreUnavailable>
}>()("@slipway/domain/Feedback") {
  static readonly layer = Layer.effect(
    Feedback,
    Effect.gen(function*() {
      const host = yield* SourceHost
      const access = yield* Effect.serviceOption(AccessStore)
      const deps: Dependencies = {
        store: yield* SandboxStore,
        ids: yield* Ids,
        watches: yield* FeedbackWatches,
        permissions: yield* permissionsOf(host),
        port: yield* PullRequestFeedback,
        host,
        pulls: yield* PullRequests,
        address: yield* PublicAddress,
        spending: yield* Effect.serviceOption(Spending),
        catalogue: yield* ModelCatalogue,
        source: Option.some(host),
        access,
        members: yield* Effect.serviceOption(MemberStore),
        branchRules: branchRulesOf(access),
        beforeCreate: yield* BeforeCreate,
        settings: yield* Effect.serviceOption(RepositorySettings),
        mcpServers: yield* Effect.serviceOption(McpServerStore),
        followed: yield* Effect.serviceOption(FollowedRepositories)
      }
      return Feedback.of({
        noticed: Effect.fn("Feedback.noticed")(function*(repo, branch) {
          yield* deps.watches.noticed(repo, branch, yield* DateTime.now)
        }),
        look: Effect.fn("Feedback.look")((watch) => look(deps, watch)),
        request: Effect.fn("Feedback.request")((by, id, wanted) => request(deps, by, id, wanted)),
        resume: Effect.fn("Feedback.resume")(
          function*(by, id) {
            const command = resumeFeedback(deps.ids, by.userId)
            return (yield* deps.store.command({ grantId: by.grantId, id }, command, yield* DateTime.now)).result
          },
          Effect.catchTag("IdempotencyConflict", Effect.die)
        )
      })
    })
  )

  /** Notices news of repositories. */
  static readonly listener = Layer.effect(
    FeedbackListener,
    Effect.map(FeedbackWatches, (watches) => (news) =>
      news._tag === "Pull" || news._tag === "Missed"
        ? Effect.flatMap(DateTime.now, (now) => watches.noticed(news.repo, news._tag === "Pull" ? news.branch : null, now))
        : Effect.void)
  )
}
