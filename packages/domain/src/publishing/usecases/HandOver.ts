/**
 * Gives feedback on the pull request of a finished sandbox to a new one (docs/decisions/24). The new sandbox is made first, under a key of
 * the finished one; then the finished one records it. So a repetition after a death in between finds the same new sandbox.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { AccessStore } from "../../access/ports/AccessStore.ts"
import type { MemberStore } from "../../access/ports/MemberStore.ts"
import type { Principal } from "../../access/schema/Principal.ts"
import { presentRights } from "../../access/usecases/PresentRights.ts"
import type { Sandbox } from "../../sandbox/rules/Sandbox.ts"
import * as SandboxCreation from "../../sandbox/usecases/SandboxCreation.ts"
import { SourceHostError } from "../../source/ports/SourceHost.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import { type Batch, handOver as handOverEvents, pauseFor, receivedOf, successorState } from "../rules/Feedback.ts"
import { messageOf } from "../rules/FeedbackMessage.ts"

/** How long feedback waits after a refusal before the next attempt. */
const REFUSED_WAIT = Duration.hours(1)
/** How long it waits while the grant has as many sandboxes as it may have. */
const FULL_WAIT = Duration.minutes(1)

/** The ports of handing over. */
export interface HandingOver extends SandboxCreation.Dependencies {
  /** Without them every creator keeps the rights of the grant. */
  readonly access: Option.Option<AccessStore["Service"]>
  readonly members: Option.Option<MemberStore["Service"]>
}

/** The feedback, and where it is. */
export interface Handed {
  readonly repo: RepoName
  readonly number: number
  readonly url: string
  readonly batch: Batch
}

const principalOf = ({ access, members }: HandingOver, { createdBy: userId, grantId }: Sandbox) => {
  const rest = { keyId: "feedback", test: false }
  const own: Principal = { ...rest, credential: { _tag: "Key", keyId: "feedback" }, grantId, organizationId: "", userId, scopes: new Set() }
  return Option.isNone(access) || Option.isNone(members)
    ? Effect.succeed(own)
    : presentRights({ access: access.value, members: members.value }, { ...rest, grantId, userId, work: "sandbox" })
}

/** The new sandbox, or why there is none now. */
const create = Effect.fnUntraced(function*(deps: HandingOver, sandbox: Sandbox, { batch, number, repo, url }: Handed) {
  const by = yield* principalOf(deps, sandbox)
  if ("code" in by) return { reason: by.message, wait: REFUSED_WAIT }
  const prompt = messageOf({ repo, number, url }, batch)
  return yield* SandboxCreation.createSuccessor(deps, by, {
    of: sandbox,
    repo,
    pullRequest: number,
    prompt,
    feedback: (turnId, at) => successorState(sandbox, receivedOf(repo, url, batch, at), { turnId, at })
  }).pipe(
    Effect.map(({ sandbox: made }) => made),
    Effect.catchTags({
      BudgetExceeded: () => Effect.succeed({ reason: null, wait: REFUSED_WAIT }),
      NoCredits: () => Effect.succeed({ reason: null, wait: REFUSED_WAIT }),
      ConcurrencyLimitExceeded: () => Effect.succeed({ reason: null, wait: FULL_WAIT }),
      SourceUnreadable: ({ detail, retryAfter }) =>
        Effect.fail(new SourceHostError({ operation: "branch", detail, retryable: true, retryAfter }))
    }),
    Effect.catch((error) =>
      error._tag === "RepoNotAccessible" || error._tag === "SourceHostError" || error._tag === "StoreUnavailable"
        ? Effect.fail(error)
        : Effect.succeed({ reason: error.message, wait: REFUSED_WAIT })
    )
  )
})

/**
 * Makes the new sandbox and records it in the finished one. Returns the time of the next attempt where there is none; a refusal that only a
 * person can end pauses the feedback with its reason.
 */
export const handOver = Effect.fn("Feedback.handOver")(function*(deps: HandingOver, sandbox: Sandbox, handed: Handed) {
  const made = yield* create(deps, sandbox, handed)
  const now = yield* DateTime.now
  const change = (decide: Parameters<typeof deps.store.change<never>>[2]) =>
    Effect.catchTag(deps.store.change(sandbox.id, "policy", decide, now), "StaleLease", Effect.die)
  if ("wait" in made) {
    const { reason } = made
    if (reason !== null) yield* change((present) => Result.succeed(pauseFor(present, handed.repo, reason)))
    return DateTime.addDuration(now, made.wait)
  }
  const received = receivedOf(handed.repo, handed.url, handed.batch, now)
  yield* change((present) => Result.succeed(handOverEvents(present, received, made)))
  return null
})
