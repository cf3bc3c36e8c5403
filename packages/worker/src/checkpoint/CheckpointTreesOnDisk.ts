/**
 * `CheckpointTrees` of the newest readable checkpoint, without a lease, an agent or records. Each has an id that no sandbox ever had,
 * so no session uses it as its own trees. The reaper removes trees that an ended process left.
 */
import { AgentDisconnected, CheckpointTrees } from "@slipway/domain/files/ports/RemoteTrees"
import { OnBehalfOf, type TreeKey, type TreesUnavailable, UnknownCommit, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import { type Checkpoint as Listed, CheckpointNotFound, Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import type { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { sameRepo } from "@slipway/domain/source/schema/Naming"
import { Clock, type Context, Deferred, Duration, Effect, Layer, Schedule, type Scope, Semaphore } from "effect"
import { untilAvailable } from "../shared/LeasedSandbox.ts"
import { removeHere } from "../shared/ReleaseSandbox.ts"
import * as Checkpoint from "./Checkpoint.ts"
import * as CheckpointFormat from "./CheckpointFormat.ts"

/** How long a reader waits for trees (docs/decisions/15). */
const WAIT = Duration.seconds(10)
/** The most sandboxes with trees for readers on this machine. */
const KEPT = 16
/** The most bytes of all checked-out commits. Trees with readers stay even above this limit. */
export const KEPT_BYTES = 8 * 2 ** 30
/** Trees without readers are removed after this time. */
const UNUSED = Duration.minutes(20)
const LOOK = Duration.minutes(1)
/** Restores at once, of different grants, beside the boots. */
const AT_ONCE = 4
/** Checkpoints listed at once. */
const PAGE = 40
/** A restore that takes longer would delay others. */
const WITHIN = Duration.minutes(5)
/** The most restores of one grant, waiting or under way. Further readers must retry. */
const WAITING_OF_GRANT = 8

interface Kept {
  readonly id: SandboxId
  readonly made: Deferred.Deferred<void, AgentDisconnected>
  isMade: boolean
  bytes: number
  /** Readers that use the trees or wait for them. */
  readers: number
  /** Epoch milliseconds. */
  usedAt: number
}

type CannotLearn = AgentDisconnected | CheckpointNotFound | TreesUnavailable | UnknownCommit

interface Grant {
  readonly turn: Semaphore.Semaphore
  waiting: number
}

/** The trees of this machine for readers, and the work on them. */
interface State {
  readonly trees: WorkingTrees["Service"]
  readonly ids: Ids["Service"]
  readonly checkpoints: Checkpoints["Service"]
  readonly scope: Scope.Scope
  readonly context: Context.Context<Checkpoints | SandboxHost | SourceHost | WorkingTrees>
  readonly atOnce: Semaphore.Semaphore
  readonly grants: Map<string, Grant>
  /** By sandbox and checkpoint, the most recently used last. */
  readonly kept: Map<string, Kept>
  /** By tree and commit. */
  readonly learning: Map<string, Deferred.Deferred<void, CannotLearn>>
  /** The ids of all trees that are kept or being removed. */
  readonly own: Set<SandboxId>
}

const remove = ({ kept, own }: State, name: string, { id }: Kept) =>
  Effect.suspend(() => {
    kept.delete(name)
    return removeHere(id)
  }).pipe(
    // The trees are orphans then, and the reaper removes them.
    Effect.catchCause((cause) => Effect.logWarning("trees that were restored for readers are left", cause)),
    Effect.ensuring(Effect.sync(() => own.delete(id)))
  )

/** Removes trees without readers, the longest unused first, while `isWanted` holds. */
const removeWhile = Effect.fnUntraced(function*(state: State, isWanted: (oldest: Kept) => boolean) {
  for (const [name, one] of state.kept) if (one.readers === 0 && one.isMade && isWanted(one)) yield* remove(state, name, one)
})

const bytes = ({ kept }: State) => Array.from(kept.values()).reduce((sum, one) => sum + one.bytes, 0)
const trim = (state: State) => removeWhile(state, () => state.kept.size > KEPT || bytes(state) > KEPT_BYTES)

const restored = Effect.fnUntraced(function*(
  { checkpoints, trees }: State,
  { checkpoint, grantId, id: of, repos }: Sandbox,
  id: SandboxId
) {
  const sources = yield* Checkpoint.sourcesOf(repos)
  const attempt = (number: number) =>
    CheckpointFormat.read(checkpoints.get(of, number), { sandboxId: of, grantId, checkpoint: number }).pipe(
      Effect.flatMap((opened) => trees.restore(id, opened.trees, sources)),
      Effect.scoped
    )
  const { made } = yield* Checkpoint.firstWhole(of, yield* Checkpoint.upTo(of, checkpoint), attempt)
  return made.reduce((sum, tree) => sum + tree.bytes, 0)
})

/** Runs one restore of a grant at a time, so that one grant cannot delay all others. */
const inTurn = <E, R>({ atOnce, grants }: State, grantId: string, work: Effect.Effect<void, E, R>) => {
  const grant = grants.get(grantId) ?? { turn: Semaphore.makeUnsafe(1), waiting: 0 }
  grants.set(grantId, grant)
  // Counted before the work starts, so that the next reader sees it.
  grant.waiting++
  return work.pipe(
    atOnce.withPermits(1),
    grant.turn.withPermits(1),
    Effect.ensuring(Effect.sync(() => {
      grant.waiting--
      if (grant.waiting === 0) grants.delete(grantId)
    }))
  )
}

const begin = Effect.fnUntraced(function*(state: State, id: SandboxId, name: string, sandbox: Sandbox, usedAt: number) {
  const { grantId } = sandbox
  const one: Kept = { id, made: Deferred.makeUnsafe(), isMade: false, bytes: 0, readers: 0, usedAt }
  state.own.add(id)
  state.kept.set(name, one)
  const making = restored(state, sandbox, id).pipe(
    // The disk is full or almost full: only trees with readers stay.
    Effect.catchTag("TreesUnavailable", () => Effect.andThen(removeWhile(state, () => true), restored(state, sandbox, id))),
    Effect.timeout(WITHIN),
    Effect.provideService(OnBehalfOf, grantId),
    Effect.tapCause((cause) => Effect.logWarning("a checkpoint could not be restored for readers", cause)),
    Effect.matchCauseEffect({
      onFailure: () => Effect.andThen(Deferred.fail(one.made, new AgentDisconnected()), remove(state, name, one)),
      onSuccess: (bytes) =>
        Effect.gen(function*() {
          one.bytes = bytes
          one.isMade = true
          yield* Deferred.succeed(one.made, undefined)
          yield* trim(state)
        })
    })
  )
  yield* inTurn(state, grantId, making).pipe(
    Effect.annotateLogs({ sandboxId: sandbox.id, checkpoint: sandbox.checkpoint }),
    Effect.provide(state.context),
    RootSpan.within("CheckpointTrees.restore"),
    Effect.forkIn(state.scope)
  )
  return one
})

/** The checkpoints of a sandbox that have the commit, newest first. */
const having = Effect.fnUntraced(function*({ checkpoints }: State, of: SandboxId, { repo }: TreeKey, commit: string) {
  const all: Array<Listed> = []
  for (let page: ReadonlyArray<Listed> = all;;) {
    page = yield* untilAvailable(checkpoints.list(of, page.at(-1)?.checkpoint ?? 0, PAGE))
    all.push(...page)
    if (page.length < PAGE) break
  }
  return all.filter(({ repos }) => repos.some((saved) => saved.sha === commit && sameRepo(saved.repo, repo)))
    .map(({ checkpoint }) => checkpoint).reverse()
})

const learned = Effect.fnUntraced(function*(state: State, of: SandboxId, tree: TreeKey, commit: string) {
  const found = yield* having(state, of, tree, commit)
  if (found.length === 0) return yield* new UnknownCommit({ commits: [commit] })
  const attempt = (number: number) =>
    CheckpointFormat.read(state.checkpoints.get(of, number), { sandboxId: of, grantId: null, checkpoint: number }).pipe(
      Effect.flatMap((opened) => state.trees.learn(tree.sandboxId, opened.trees)),
      Effect.scoped
    )
  yield* Checkpoint.firstWhole(of, found, attempt)
})

/** Starts to add the commit, unless that is already under way. */
const beginLearning = Effect.fnUntraced(function*(state: State, of: SandboxId, tree: TreeKey, commit: string) {
  const { grants, learning } = state
  const name = `${tree.sandboxId}/${tree.repo}/${commit}`
  const known = learning.get(name)
  if (known !== undefined) return known
  const grantId = yield* OnBehalfOf
  if ((grants.get(grantId)?.waiting ?? 0) >= WAITING_OF_GRANT) return yield* new AgentDisconnected()
  const done = Deferred.makeUnsafe<void, CannotLearn>()
  learning.set(name, done)
  const work = learned(state, of, tree, commit).pipe(
    Effect.catchTag("TreesUnavailable", () => Effect.andThen(removeWhile(state, () => true), learned(state, of, tree, commit))),
    Effect.timeout(WITHIN),
    Effect.provideService(OnBehalfOf, grantId),
    Effect.catchTags({
      NoneLeft: () => new CheckpointNotFound(),
      // The trees are gone meanwhile, or it takes too long.
      FileNotFound: () => new AgentDisconnected(),
      TimeoutError: () => new AgentDisconnected()
    }),
    Effect.tapCause((cause) => Effect.logWarning("commits of a checkpoint could not be added for readers", cause)),
    Effect.catchDefect(() => new AgentDisconnected()),
    Effect.exit,
    Effect.flatMap((exit) =>
      Effect.suspend(() => {
        // Removed first, because a reader may ask again as soon as it has the answer.
        learning.delete(name)
        return Deferred.done(done, exit)
      })
    )
  )
  yield* inTurn(state, grantId, Effect.asVoid(work)).pipe(
    Effect.annotateLogs({ sandboxId: of }),
    Effect.provide(state.context),
    RootSpan.within("CheckpointTrees.learn"),
    Effect.forkIn(state.scope)
  )
  return done
})

const learn = Effect.fnUntraced(function*(state: State, of: SandboxId, tree: TreeKey, commits: ReadonlyArray<string>) {
  const begun = yield* Effect.forEach(commits, (commit) => beginLearning(state, of, tree, commit))
  yield* Effect.forEach(begun, (done) => Deferred.await(done), { discard: true }).pipe(
    Effect.timeoutOrElse({ duration: WAIT, orElse: () => Effect.fail(new AgentDisconnected()) })
  )
})

const find = Effect.fnUntraced(function*(state: State, sandbox: Sandbox) {
  const { grants, kept } = state
  const name = `${sandbox.id}/${sandbox.checkpoint}`
  const now = yield* Clock.currentTimeMillis
  // The id is made before the lookup, so that two readers at once find the same trees.
  const id = SandboxId.make(`c_${yield* state.ids.random(ID_ALPHABET, 12)}`)
  const one = yield* Effect.acquireRelease(
    Effect.suspend(() => {
      const known = kept.get(name)
      if (known !== undefined) return Effect.succeed(known)
      const waiting = grants.get(sandbox.grantId)?.waiting ?? 0
      return waiting < WAITING_OF_GRANT ? begin(state, id, name, sandbox, now) : new AgentDisconnected()
    }).pipe(Effect.tap((one) =>
      Effect.sync(() => {
        one.readers++
        one.usedAt = now
        kept.delete(name)
        kept.set(name, one)
      })
    )),
    (one) =>
      Effect.suspend(() => {
        one.readers--
        return Effect.forkIn(Effect.provide(trim(state), state.context), state.scope)
      })
  )
  yield* Effect.timeoutOrElse(Deferred.await(one.made), { duration: WAIT, orElse: () => Effect.fail(new AgentDisconnected()) })
  return one.id
})

const make = Effect.gen(function*() {
  const state: State = {
    trees: yield* WorkingTrees,
    ids: yield* Ids,
    checkpoints: yield* Checkpoints,
    scope: yield* Effect.scope,
    context: yield* Effect.context<Checkpoints | SandboxHost | SourceHost | WorkingTrees>(),
    atOnce: yield* Semaphore.make(AT_ONCE),
    grants: new Map(),
    kept: new Map(),
    learning: new Map(),
    own: new Set()
  }
  yield* Effect.flatMap(
    Clock.currentTimeMillis,
    (now) => removeWhile(state, ({ usedAt }) => usedAt + Duration.toMillis(UNUSED) < now)
  ).pipe(
    Effect.provide(state.context),
    Effect.repeat(Schedule.spaced(LOOK)),
    Effect.forkScoped
  )
  return CheckpointTrees.of({
    has: (id) => state.own.has(id),
    learn: Effect.fn("CheckpointTrees.learn")((of, tree, commits) => learn(state, of, tree, commits)),
    find: Effect.fn("CheckpointTrees.find")((sandbox) => find(state, sandbox))
  })
})

export const layer = Layer.effect(CheckpointTrees, make)
