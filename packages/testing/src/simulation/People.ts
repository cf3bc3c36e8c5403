/**
 * The actions of people: create, follow, decide, send, interrupt, publish, end; at any moment, some of them twice or to somebody else's
 * sandbox.
 */
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Files } from "@slipway/domain/files/usecases/Files"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { MemoryRepositories } from "@slipway/domain/memory/files/MemoryRepositories"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { NOTIFICATION_TYPES } from "@slipway/domain/partner/schema/NotificationType"
import type { PartnerFact } from "@slipway/domain/partner/schema/PartnerEvent"
import { Partners } from "@slipway/domain/partner/usecases/Partners"
import { Webhooks } from "@slipway/domain/partner/usecases/Webhooks"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import type { ListPosition } from "@slipway/domain/sandbox/ports/SandboxStore"
import { type ApprovalDecision, coveredKind } from "@slipway/domain/sandbox/rules/Approval"
import type { WhenBusy } from "@slipway/domain/sandbox/rules/MessageQueue"
import { type QuestionReply, type QuestionRequest, replyText } from "@slipway/domain/sandbox/rules/Question"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import type { ApprovalRequest } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { CreateSandbox } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { SandboxEvents } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as MovedBranch from "../branches/MovedBranch.ts"
import type { Chance } from "../chance/Chance.ts"
import type { Faults } from "./Faults.ts"
import { OpenStreams, type Servers } from "./Servers.ts"
import type { Trace } from "./Trace.ts"
import type { Reader, Witness } from "./Witness.ts"

/** The repositories of a simulation. */
export const REPOSITORIES = ["acme/shop", "acme/site"] as const
/** The names of those for whom they work. */
export const GRANTS = ["grant-1", "grant-2"] as const

/** The address of an endpoint that never answers. */
export const DEAD = "https://dead.example/"

/** The holder of a key of this name. The servers know which key that is, and find out what it opens. */
const principalOf = (holder: string, grantId: string): Principal => ({
  credential: { _tag: "Key", keyId: holder },
  grantId,
  organizationId: "",
  userId: "",
  scopes: new Set(["sandboxes"]),
  test: false
})

/** State that all people in one simulation share. */
export interface Scene {
  readonly chance: Chance
  readonly witness: Witness
  readonly trace: Trace
  readonly servers: Servers
  readonly repositories: MemoryRepositories["Service"]
  /** For whom they work, by id. */
  readonly grants: ReadonlyArray<string>
  /** The model that costs something; the default is free. */
  readonly paidModel: string
  readonly hasWebhooks: boolean
  /** Requests with a key, to be repeated much later. */
  readonly keyed: Array<Keyed>
  /** Whether people still ask for things; they go on reading in any case. */
  readonly active: () => boolean
  /** How long after a turn something of its sandbox ends by itself; milliseconds. */
  readonly moments: ReadonlyArray<number>
}

/** A creation that had a key. */
export interface Keyed {
  readonly by: Principal
  readonly request: CreateSandbox
  readonly key: Option.Option<IdempotencyKey>
  readonly id: SandboxId
}

const decodeRequest = Schema.decodeSync(CreateSandbox)

/** A script for the agent: what it says, edits and suffers. */
const script = (chance: Chance, n: number): string =>
  Array.from({ length: chance.between(1, 3) }, () =>
    chance.weighted([
      [4, `[[say hello ${n}]]`],
      [8, `[[write path=file-${chance.between(1, 3)}.txt content=line ${n}]]`],
      [2, `[[ask Which of ${n}? | first | second || multiple=true What else? | a | b | c]]`],
      [1, "[[delete path=README.md]]"],
      [3, `[[slow ${chance.between(1, 8)} ${chance.between(1, 900)}]]`],
      [1, "[[hang]]"],
      [1, "[[crash]]"],
      [1, "[[error it did not work]]"],
      [1, "[[recall]]"],
      [0.5, "[[listen]]"],
      [1, `no directive ${n}`]
    ]) ?? "").join(" ")

const seconds = (chance: Chance, most: number) => Effect.suspend(() => Effect.sleep(chance.between(1, most * 1000)))

/** Asks again while the store or the source host is away: a client cannot know more than that. */
const patiently = (chance: Chance) => <A, E extends { readonly _tag: string }, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.catchIf(
    self,
    (error) => error._tag === "StoreUnavailable" || error._tag === "SourceUnreadable",
    () => Effect.andThen(seconds(chance, 1), Effect.suspend(() => patiently(chance)(self)))
  )

/** Messages at once: more than have a place. */
const CROWD = 12

/** The id of a message that was never sent. */
const NO_MESSAGE = "00000000-0000-4000-8000-000000000000"

/** Forks that come of one sandbox that a person asked for, at most. */
const FORKS = 2

/** In some seeds the part of a creation that continues a person's branch, which then moves. */
const continued = Effect.fnUntraced(function*({ repositories, trace }: Scene, chance: Chance, n: number, repo: string) {
  const repository = repositories.find(RepoName.make(repo))
  if (repository === undefined || !chance.is(0.3)) return {}
  const branch = MovedBranch.begin(repository, n)
  yield* Effect.forkScoped(MovedBranch.moving({ chance, repository, trace }, { branch, n }))
  return { continue: { repo, branch } }
})

/** One person with one sandbox and what is forked of it. */
export const person = Effect.fnUntraced(function*(scene: Scene, n: number) {
  const { trace } = scene
  const chance = scene.chance.fork()
  const sandboxes = yield* Sandboxes
  const asking = patiently(chance)
  const by = principalOf(`person-${n}`, chance.pick(scene.grants))
  const must = (rule: string, holds: boolean, detail: string) => {
    if (!holds) trace.breaks(rule, detail)
  }
  yield* seconds(chance, 15)
  const repos = chance.is(0.3)
    ? REPOSITORIES.map((fullName) => ({ fullName }))
    : [{ fullName: chance.is(0.04) ? "acme/gone" : chance.pick(REPOSITORIES) }]
  const request = decodeRequest({
    repos,
    ...yield* continued(scene, chance.fork(), n, repos[0]?.fullName ?? ""),
    prompt: script(chance, n),
    toolApprovalMode: chance.is(0.6) ? "prompt" : "auto",
    ...(chance.is(0.5) ? { model: scene.paidModel } : {}),
    // A few requests to a model come to so much. It is within the operator's limits of each seed.
    ...(n % 4 === 3 ? { budgetMicroUsd: 8_000, environment: { PERSON: String(n) } } : {})
  })
  const key = chance.is(0.8) ? Option.some(IdempotencyKey.make(`key-${chance.between(1, 2)}-${n}`)) : Option.none()
  const create = asking(sandboxes.create(by, request, key))
  const both = yield* Effect.all([create, ...(Option.isSome(key) && chance.is(0.4) ? [create] : [])], { concurrency: 2 }).pipe(
    Effect.catchTag("BudgetExceeded", () => Effect.succeed(null))
  )
  if (both === null) return
  const id = both[0].sandbox.id
  must(
    "equal requests with one key have one sandbox",
    both.every(({ sandbox }) => sandbox.id === id),
    both.map(({ sandbox }) => sandbox.id).join()
  )

  if (Option.isSome(key)) scene.keyed.push({ by, request, key, id })

  const replay = Effect.gen(function*() {
    if (Option.isNone(key)) return
    const again = yield* create
    must("equal requests with one key have one sandbox", again.replayed && again.sandbox.id === id, `${id}, ${again.sandbox.id}`)
    const changed = yield* Effect.flip(asking(sandboxes.create(by, { ...request, prompt: "something else" }, key)))
    must("a key conflicts with another request", changed._tag === "IdempotencyConflict", `${id}: ${changed._tag}`)
  })

  yield* owner(scene, { by, id, repos: request.repos, n, asked: { forks: 0, prompts: 0 }, more: [[1, replay]] })
}, Effect.scoped)

type Deed = Effect.Effect<unknown, unknown, Publishing | Sandboxes | Scope.Scope>

interface Owned {
  readonly by: Principal
  readonly id: SandboxId
  readonly repos: Sandbox["repos"]
  /** Whose it is. */
  readonly n: number
  /** By that person. */
  readonly asked: { forks: number; prompts: number }
  /** Other actions of the person, and their frequency. */
  readonly more: ReadonlyArray<readonly [number, Deed]>
}

/** One person at work on one sandbox. */
interface Work extends Owned {
  readonly scene: Scene
  readonly chance: Chance
  readonly sandboxes: Sandboxes["Service"]
  readonly publishing: Publishing["Service"]
  readonly asking: ReturnType<typeof patiently>
  /** Breaks the rule unless it holds. */
  readonly must: (rule: string, holds: boolean, detail: string) => void
  /** `null` for a refusal with one of these tags, which all say what is so. Any other refusal breaks a rule. */
  readonly unless: <A, E extends { readonly _tag: string }, R>(
    self: Effect.Effect<A, E, R>,
    ...tags: ReadonlyArray<E["_tag"]>
  ) => Effect.Effect<A | null, never, R>
}

/** The actions of a person on a sandbox, as long as faults happen. Two readers follow it until it is deleted. */
const owner = Effect.fnUntraced(function*(scene: Scene, owned: Owned) {
  const { active, trace, witness } = scene
  const chance = scene.chance.fork()
  const sandboxes = yield* Sandboxes
  const publishing = yield* Publishing
  const asking = patiently(chance)
  const must = (rule: string, holds: boolean, detail: string) => {
    if (!holds) trace.breaks(rule, detail)
  }
  const unless: Work["unless"] = (self, ...tags) =>
    Effect.catch(self, (error) => {
      must("no request is refused without a reason", tags.includes(error._tag), `${error._tag}, not one of ${tags.join()}`)
      return Effect.succeed(null)
    })
  const work: Work = { ...owned, scene, chance, sandboxes, publishing, asking, must, unless }
  const { by, id, more } = work
  const decider = deciderOf(work)
  const { crowd, send, takeBack } = messagesOf(work)
  const publish = publishOf(work)
  const look = lookOf(work)
  const terminate = Effect.tap(asking(sandboxes.terminate(by, id)), () => Effect.sync(() => witness.mustEnd.add(id)))
  const pages = pagesOf(work)
  const trespass = trespassOf(work)
  const { fork, goBack } = restoresOf(work)
  const wake = wakeOf(work, { fork, goBack, publish, send })

  const deeds = Effect.gen(function*() {
    while (active()) {
      yield* seconds(chance, 8)
      if (!active()) return
      yield* chance.weighted<Deed>([
        [6, send],
        [0.7, crowd],
        [3, takeBack],
        [3, asking(sandboxes.interrupt(by, id))],
        [1, look],
        [4, publish],
        [1, Effect.all([publish, publish], { concurrency: 2 })],
        [0.6, terminate],
        [0.3, Effect.all([terminate, terminate], { concurrency: 2 })],
        ...more,
        [1.5, wake],
        [1, goBack],
        [0.7, fork],
        [1, pages],
        [0.4, renameOf(work)],
        [1, trespass]
      ]) ?? Effect.void
    }
  })

  yield* Effect.all([deeds, decider, decider, reader(scene, chance, by, id), reader(scene, chance, by, id)], {
    concurrency: "unbounded"
  })
})

/** Decides what the agent asks for and answers its questions, unless the person is absent. */
const deciderOf = ({ asking, by, chance, id, must, n, sandboxes, scene: { active, trace, witness } }: Work) => {
  const decide = Effect.fnUntraced(function*(approvalId: string, asked: ApprovalDecision) {
    const { decision } = asked
    // The decision has no other kind, and a denial comes with its reason: never refused.
    const answer = yield* asking(sandboxes.decideApproval(by, id, approvalId, asked))
    const stands = witness.seen(id)?.approvals.get(approvalId)
    const own = stands?.by === "user" && stands.outcome === (decision === "approve" ? "approved" : "denied")
    const told = answer.outcome === "rejected" ? answer.rejection : answer.outcome
    trace.add(`person-${n} ${decision} ${approvalId}: ${told}`)
    trace.count(`decisions ${told}`)
    must(
      "the first decision wins and the others are told",
      own === (answer.outcome !== "rejected"),
      `${approvalId} ${decision}: ${told}, but it is ${stands?.outcome} by ${stands?.by}`
    )
  })

  const reply = Effect.fnUntraced(function*(questionId: string, given: QuestionReply) {
    witness.replies(id, questionId, given)
    // The answers are of the request: never refused.
    const answer = yield* asking(sandboxes.answerQuestion(by, id, questionId, given))
    const stands = witness.seen(id)?.questions.get(questionId)
    const own = stands?.by === "user" && replyText(stands) === replyText(given)
    const told = answer.outcome === "rejected" ? answer.rejection : answer.outcome
    trace.add(`person-${n} ${replyText(given)} ${questionId}: ${told}`)
    trace.count(`answers ${told}`)
    must(
      "the first answer wins and the others are told",
      own === (answer.outcome !== "rejected"),
      `${questionId} ${replyText(given)}: ${told}, but it is over by ${stands?.by}`
    )
  })

  const replyTo = ({ questions }: QuestionRequest): QuestionReply => {
    if (chance.is(0.2)) return { dismiss: true }
    const [first, ...others] = questions.map(({ id, multiple, options }) => {
      const labels = options.map(({ label }) => label)
      const chosen = multiple ? labels.filter(() => chance.is(0.6)) : [chance.pick(labels.length === 0 ? [""] : labels)]
      return [id, chosen.length === 0 || chance.is(0.2) ? { text: `Mine, ${n}.` } : { labels: chosen }] as const
    })
    return first === undefined ? { dismiss: true } : { answers: Object.fromEntries([first, ...others.filter(() => chance.is(0.8))]) }
  }

  const decision = (approves: number, approval: ApprovalRequest): ApprovalDecision => {
    const goesOn = chance.is(0.3)
    return chance.is(approves)
      ? { decision: "approve", ...(goesOn && coveredKind(approval) !== null ? { scope: "turn" } : {}) }
      : { decision: "deny", ...(goesOn ? { reason: `Not ${n}.` } : {}) }
  }

  return Effect.gen(function*() {
    const isAbsent = chance.is(0.2)
    while (active() && !isAbsent) {
      yield* seconds(chance, 4)
      const { approvals, turn } = yield* asking(sandboxes.get(by, id))
      for (const request of turn?.questions ?? []) {
        if (chance.is(0.3)) continue
        const one = reply(request.question_id, replyTo(request))
        yield* chance.is(0.3) ? Effect.all([one, reply(request.question_id, replyTo(request))], { concurrency: 2 }) : one
      }
      for (const approval of approvals) {
        if (chance.is(0.3)) continue
        const one = decide(approval.approval_id, decision(0.6, approval))
        yield* chance.is(0.3) ? Effect.all([one, decide(approval.approval_id, decision(0.5, approval))], { concurrency: 2 }) : one
      }
    }
  })
}

/** Messages that a person sends and takes back. */
const messagesOf = (work: Work) => {
  const { asked, asking, by, chance, id, must, n, sandboxes, scene, unless } = work
  const { active, trace, witness } = scene
  const sendOne = Effect.fnUntraced(function*(whenBusy: WhenBusy) {
    const prompt = script(chance, 100 * n + ++asked.prompts)
    const key = chance.is(0.6) ? Option.some(IdempotencyKey.make(`message-${asked.prompts}`)) : Option.none()
    const busy = whenBusy === "reject" ? "TurnActive" : "QueueFull"
    const sent = yield* unless(asking(sandboxes.sendMessage(by, id, prompt, key, whenBusy)), "SandboxNotRunning", "BudgetExceeded", busy)
    if (sent === null) return false
    trace.add(`person-${n} sent ${sent.turnId} (${whenBusy}): ${sent.outcome}`)
    witness.seen(id)
    const message = witness.queue.sent(id, sent.turnId)
    must(
      "an accepted message is a turn, or waits as it was asked to",
      message?.text === prompt && (!message.waited || whenBusy !== "reject" && message.steers === (whenBusy === "steer")),
      `${id} ${sent.turnId} (${whenBusy}): ${JSON.stringify(message)}`
    )
    if (Option.isNone(key) || !chance.is(0.4)) return true
    yield* seconds(chance, 5)
    const again = yield* asking(sandboxes.sendMessage(by, id, prompt, key, whenBusy))
    must(
      "an equal message with one key is one turn",
      again.turnId === sent.turnId && again.outcome === "duplicate",
      `${id} ${again.turnId}`
    )
    const changed = yield* Effect.flip(asking(sandboxes.sendMessage(by, id, `${prompt}!`, key, whenBusy)))
    must("a key conflicts with another request", changed._tag === "IdempotencyConflict", `${id}: ${changed._tag}`)
    return true
  })
  const send = Effect.suspend(() => sendOne(chance.weighted<WhenBusy>([[2, "reject"], [3, "queue"], [3, "steer"]]) ?? "reject"))

  /** More than may wait. */
  const crowd = Effect.gen(function*() {
    for (let left = CROWD; left > 0 && active() && (yield* sendOne(chance.is(0.3) ? "steer" : "queue")); left--) continue
  })

  const takeBack = Effect.gen(function*() {
    witness.seen(id)
    const sent = witness.queue.all(id)
    const waiting = sent.filter(({ fate }) => fate === "waits")
    const among = waiting.length > 0 && chance.is(0.8) ? waiting : chance.is(0.3) ? sent : []
    if (among.length === 0) return
    const message = chance.is(0.05) ? NO_MESSAGE : chance.pick(among).id
    witness.queue.unwanted(id, message)
    const cancel = Effect.suspend(() => asking(sandboxes.cancelMessage(by, id, message))).pipe(
      Effect.map(({ outcome }) => ({ outcome, refusal: null })),
      Effect.catch((error) => Effect.succeed({ outcome: error._tag, refusal: error._tag })),
      Effect.tap(({ outcome, refusal }) =>
        Effect.sync(() => {
          trace.add(`person-${n} takes back ${message}: ${outcome}`)
          trace.count(`messages taken back ${outcome}`)
          witness.seen(id)
          witness.queue.tookBack(id, message, refusal)
        })
      )
    )
    yield* chance.is(0.3) ? Effect.all([cancel, cancel], { concurrency: 2 }) : cancel
  })

  return { crowd, send, takeBack }
}

const publishOf = ({ asking, by, chance, id, publishing, repos, unless }: Work) =>
  unless(
    Effect.suspend(() => asking(publishing.publish(by, id, chance.pick(repos).fullName))),
    "BranchMoved",
    "MergeConflict",
    "NothingToPublish",
    "RepoNotAccessible",
    "SandboxNotRunning",
    "SourceHostError"
  )

const lookOf = ({ asking, by, chance, id, repos, scene: { servers }, unless }: Work) =>
  unless(
    Effect.suspend(() => {
      const repo = chance.pick(repos).fullName
      return asking(servers.ask(by, `files ${id}`, (own) => Files.use((files) => files.list(own, id, { repo, path: "" }))))
    }),
    "AgentDisconnected",
    "FileNotFound",
    "SandboxNotRunning"
  )

const pagesOf = ({ asking, by, id, must, sandboxes }: Work) =>
  Effect.gen(function*() {
    const found: Array<SandboxId> = []
    for (let after: ListPosition | null = null;;) {
      const page: ReadonlyArray<Sandbox> = yield* asking(sandboxes.list(by, { after, limit: 2, status: null, repo: null }))
      found.push(...page.map((sandbox) => sandbox.id))
      const last: Sandbox | undefined = page.at(-1)
      if (last === undefined) break
      after = { createdAt: last.createdAt, id: last.id }
    }
    must("a list shows each sandbox once", new Set(found).size === found.length && found.includes(id), found.join())
  })

/** Gives the sandbox a title. Only this person does, one deed after the other. */
const renameOf = ({ asking, by, chance, id, must, sandboxes, scene: { trace } }: Work) =>
  Effect.gen(function*() {
    const title = `Title ${chance.between(1, 2)}`
    const { outcome } = yield* asking(sandboxes.rename(by, id, title))
    trace.count(`renames ${outcome}`)
    const found = yield* asking(sandboxes.get(by, id))
    must("a sandbox has the title that its person gave it last", found.title === title, `${id}: ${found.title}, not ${title}`)
  })

/** Asks for the sandbox as a person of another grant. */
const trespassOf = ({ asking, by, id, must, n, sandboxes, scene: { grants, servers, witness } }: Work) => {
  const stranger = principalOf(`stranger-${n}`, grants.find((grantId) => grantId !== by.grantId) ?? "")
  return Effect.gen(function*() {
    if (witness.rights.isRevoked(stranger.grantId) !== false) return
    const refused = yield* Effect.all([
      Effect.flip(asking(sandboxes.get(stranger, id))),
      Effect.flip(asking(sandboxes.terminate(stranger, id))),
      Effect.flip(asking(sandboxes.messages(stranger, id, { after: 0, limit: 10 }))),
      Effect.flip(
        asking(servers.ask(stranger, `files ${id}`, (own) => Files.use((files) => files.list(own, id, { repo: undefined, path: "" }))))
      ),
      Effect.flip(
        asking(
          servers.ask(stranger, `log ${id}`, (own) => SandboxEvents.use((events) => events.list(own, id, { after: 0, limit: 10 })))
        )
      )
    ])
    must(
      "nothing of one grant is visible to another",
      refused.every(({ _tag }) => _tag === "SandboxNotFound"),
      `${id}: ${refused.map(({ _tag }) => _tag).join()}`
    )
  })
}

/** An action at the moment when the sandbox or its agent is about to end, or its lease is given back. */
const wakeOf = (
  { chance, id, scene: { active, moments, witness } }: Work,
  { fork, goBack, publish, send }: Readonly<Record<"fork" | "goBack" | "publish" | "send", Deed>>
) =>
  Effect.suspend(() => {
    const { idleSince = null } = witness.seen(id)?.state ?? {}
    const at = (idleSince ?? 0) + chance.pick(moments) + chance.between(-30, 60)
    return Effect.andThen(
      Effect.flatMap(DateTime.now, (now) => Effect.sleep(Math.max(0, Math.min(at - now.epochMilliseconds, 10_000)))),
      Effect.suspend(() =>
        active() ? chance.weighted<Deed>([[3, send], [1, publish], [1, goBack], [0.5, fork]]) ?? Effect.void : Effect.void
      )
    )
  })

/** Goes back to checkpoints of the sandbox, and forks them. */
const restoresOf = (work: Work) => {
  const { asked, asking, by, chance, id, must, n, repos, sandboxes, scene, unless } = work
  const { trace, witness } = scene
  const checkpointOf = () => chance.between(1, (witness.seen(id)?.state.checkpoint ?? 0) + (chance.is(0.1) ? 1 : 0))

  const goBack = Effect.gen(function*() {
    const answer = yield* unless(asking(sandboxes.restore(by, id, checkpointOf())), "CheckpointNotFound", "SandboxNotRunning")
    if (answer !== null) trace.count(`restores ${answer.rejection ?? answer.outcome}`)
  })

  const fork: Deed = Effect.gen(function*() {
    if (asked.forks >= FORKS) return
    const key = Option.some(IdempotencyKey.make(`fork-${n}-${++asked.forks}`))
    const request = {
      ...{ prompt: script(chance, 1000 * n + asked.forks), metadata: {} },
      ...(chance.is(0.5) ? {} : { checkpoint: checkpointOf() })
    }
    const forking = unless(asking(sandboxes.fork(by, id, request, key)), "BudgetExceeded", "CheckpointNotFound", "NoCheckpoint")
    const [one, other] = yield* Effect.all([forking, chance.is(0.3) ? forking : Effect.succeed(null)], { concurrency: 2 })
    if (one === null) return
    must("equal requests with one key have one sandbox", other === null || other.sandbox.id === one.sandbox.id, `${one.sandbox.id}`)
    trace.count("forks")
    yield* owner(scene, { asked, by, id: one.sandbox.id, more: [], n, repos }).pipe(
      Effect.tapError((error) => Effect.sync(() => trace.breaks("no request is refused without a reason", String(error)))),
      Effect.forkScoped
    )
  })

  return { fork, goBack }
}

/** Follows a log until its sandbox is deleted, with connections that are cut, and holds what it gets against what was written. */
const reader = Effect.fnUntraced(function*(scene: Scene, chance: Chance, by: Principal, id: SandboxId) {
  const { servers, trace, witness } = scene
  const place: Reader = { id, grantId: by.grantId, cursor: chance.is(0.5) ? null : 0, expiredAt: null }
  const name = `reader-${witness.readers.push(place)}`

  const take = (entries: ReadonlyArray<{ readonly seq: number; readonly wire: string }>) => {
    for (const { seq, wire } of entries) {
      // Events that were forgotten before they were read: 0 is the oldest that is kept.
      if (place.cursor === 0) place.cursor = Math.min(seq - 1, witness.seen(id)?.purged ?? 0)
      if (seq !== (place.cursor ?? 0) + 1) trace.breaks("a reader gets every event once, in order", `${id}: ${seq} after ${place.cursor}`)
      if (wire !== witness.seen(id)?.wires[seq - 1]) trace.breaks("a reader gets what was written", `${id}: ${wire}`)
      place.cursor = seq
    }
  }

  /** Served as a server does it: with a beat of its own, so that a lost hint costs a second, and until the right to it is gone. */
  const connection = servers.ask(by, `stream ${id} after ${place.cursor}`, (own, isHeard) =>
    Effect.gen(function*() {
      const events = yield* SandboxEvents
      const key = own.credential._tag === "Key" ? own.credential.keyId : ""
      trace.add(`${name} of ${id} after ${place.cursor}`)
      const following = yield* events.follow(own, id, place.cursor)
      if (following.nothingLeft) {
        const { lastSeq } = following.sandbox
        if (place.cursor !== lastSeq && (place.cursor !== 0 || witness.seen(id)?.purged !== lastSeq)) {
          trace.breaks("a reader hears of every event that is kept", `${id}: nothing after ${place.cursor} of ${lastSeq}`)
        }
        place.cursor = lastSeq
        return "ended"
      }
      yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(1000), Effect.sync(following.wake))))
      const cutAfter = chance.is(0.3) ? chance.between(1, 6) : Number.POSITIVE_INFINITY
      const frames = following.frames.pipe(
        Stream.take(cutAfter),
        Stream.takeWhile(isHeard),
        Stream.runForEach((frame) =>
          Effect.sync(() => {
            if (frame._tag !== "Idle") witness.rights.streams(key, by.grantId, `${name} ${frame._tag}`)
            if (frame._tag === "Snapshot") place.cursor = frame.sandbox.lastSeq
            if (frame._tag === "Entries") take(frame.entries)
          })
        )
      )
      yield* Effect.raceFirst(frames, OpenStreams.use((streams) => streams.untilRevoked(own)))
      trace.count("connections cut or ended")
      return "again"
    }))

  for (;;) {
    const end = yield* Effect.suspend(() => connection).pipe(
      Effect.catchTag("StoreUnavailable", () => Effect.succeed("again")),
      Effect.catchTag("SandboxNotFound", () =>
        Effect.sync(() => {
          if (!witness.deleted.has(id)) trace.breaks("a sandbox is found until it is deleted", id)
          return "deleted"
        })),
      Effect.catchTag("CursorExpired", () =>
        Effect.sync(() => {
          trace.count("cursors that expired")
          const { purged = 0 } = witness.seen(id) ?? {}
          if (place.cursor === null || place.cursor === 0 || place.cursor >= purged) {
            trace.breaks("a cursor expires with the events behind it", `${id}: ${place.cursor}, forgotten are ${purged}`)
          }
          witness.expires(place)
          return "again"
        }))
    )
    if (end === "deleted") return
    do yield* seconds(chance, 3)
    while (end === "ended" && witness.seen(id)?.state.lastSeq === place.cursor)
  }
})

/** Takes a grant back, however often it takes. */
export const revokeGrant = Effect.fnUntraced(function*({ chance, trace, witness }: Scene, grant: string) {
  const access = yield* Access
  const done = witness.rights.revokes(grant)
  yield* patiently(chance)(access.revokeGrant(grant))
  trace.add(`the grant ${grant} is revoked`)
  done()
})

/** The operator revokes keys and grants, in the middle of all other actions. */
export const operator = Effect.fnUntraced(function*(scene: Scene, faults: Faults) {
  const { active, grants, servers, trace, witness } = scene
  const chance = scene.chance.fork()
  const access = yield* Access
  const asking = patiently(chance)
  while (active()) {
    yield* seconds(chance, 25)
    if (!active()) break
    const holder = servers.holders.length === 0 ? null : chance.pick(servers.holders)
    const key = holder === null ? null : servers.keyOf(holder)
    if (chance.is(0.3) && faults.happens("grantRevoked", "operator")) {
      yield* revokeGrant(scene, chance.pick(grants))
    } else if (key !== null && faults.happens("keyRevoked", "operator")) {
      const done = witness.rights.revokes(key.id)
      yield* asking(access.revokeKey(key.id))
      trace.add(`the key ${key.id} of ${holder} is revoked`)
      done()
    }
  }
})

/** Tells facts to the feeds, some twice, reads them in pages, and has them brought to receivers of its own. */
export const partner = Effect.fnUntraced(function*({ active, chance: shared, grants, hasWebhooks, servers, trace, witness }: Scene) {
  const chance = shared.fork()
  const store = yield* PartnerStore
  const partners = yield* Partners
  const asking = patiently(chance)
  const { rights, webhooks } = witness
  const told = new Map<string, Set<string>>(grants.map((grantId) => [grantId, new Set()]))
  const types = ["task.started", "project.connected"] as const
  const fact = (taskId: string, occurredAt: DateTime.Utc): PartnerFact => ({
    type: "task.started",
    data: { claimId: "01890a5d-ac96-774b-bcce-b302099a8057", leadId: "lead", variant: "variant", occurredAt, taskId, projectId: null }
  })
  const isGood = (grantId: string) => rights.isRevoked(grantId) === false
  const asPartner = <A, E>(
    grantId: string,
    name: string,
    request: (webhooks: Webhooks["Service"], grantId: string) => Effect.Effect<A, E>
  ) => servers.ask(principalOf(`partner of ${grantId}`, grantId), name, (own) => Webhooks.use((webhooks) => request(webhooks, own.grantId)))
  let receivers = 0

  const register = Effect.fnUntraced(function*(grantId: string) {
    const url = `https://receiver-${++receivers}.example/`
    yield* asking(
      asPartner(
        grantId,
        "register",
        (webhooks, own) => webhooks.register(own, { url, types: chance.is(0.5) ? null : [chance.pick(types), ...NOTIFICATION_TYPES] })
      )
    ).pipe(
      Effect.catchTag("TooManyEndpoints", () => Effect.void)
    )
  })

  /** The actions of a partner on one of its endpoints. */
  const manage = Effect.fnUntraced(function*(grantId: string) {
    const own = webhooks.endpoints.filter((endpoint) => endpoint.grantId === grantId && !endpoint.isRemoved)
    if (own.length === 0) return
    const { id } = chance.pick(own)
    const deed = chance.weighted([[3, "enable"], [1, "remove"], [1, "rotate"], [2, "redeliver"]] as const)
    const manages = asPartner(grantId, `${deed} ${id}`, (webhooks, own): Effect.Effect<unknown, { readonly _tag: string }> => {
      switch (deed) {
        case "remove":
          return webhooks.remove(own, id)
        case "rotate":
          return webhooks.rotateSecret(own, id)
        case "redeliver":
          return Effect.flatMap(
            Effect.sync(() => witness.feedOf(grantId)),
            (events) => events.length === 0 ? Effect.void : webhooks.redeliver(own, id, chance.pick(events).id)
          )
        default:
          return webhooks.enable(own, id)
      }
    })
    yield* Effect.catch(asking(manages), ({ _tag }) =>
      Effect.sync(() => {
        // A removal whose answer was lost is done.
        if (_tag !== "EndpointNotFound") trace.breaks("no request is refused without a reason", `${deed} of a webhook: ${_tag}`)
      }))
  })

  for (let n = 1; active(); n++) {
    yield* seconds(chance, 6)
    const at = yield* DateTime.now
    const good = grants.filter(isGood)
    if (hasWebhooks && good.length > 0 && chance.is(0.2)) yield* register(chance.pick(good)).pipe(Effect.timeoutOption("20 seconds"))
    if (good.length > 0 && chance.is(0.4)) yield* manage(chance.pick(good)).pipe(Effect.timeoutOption("20 seconds"))
    const tell = grants.filter(() => chance.is(0.6)).map((grantId) => ({
      grantId,
      fact: fact(`${grantId}-${chance.between(Math.max(1, n - 2), n)}`, at)
    }))
    yield* asking(store.record(Effect.succeed({ result: null, tell }), at))
    for (const { fact, grantId } of tell) if (fact.type === "task.started") told.get(grantId)?.add(fact.data.taskId)
  }
  for (const grantId of grants.filter(isGood)) {
    const seen: Array<string> = []
    for (let after = 0;;) {
      const { events, nextCursor } = yield* asking(partners.feed(principalOf(`partner of ${grantId}`, grantId), { after, limit: 3 }))
      for (const event of events) {
        if (event.sequence !== ++after) trace.breaks("a feed counts from 1 without gaps", `${grantId}: ${event.sequence}`)
        if (event.type === "task.started") seen.push(event.data.taskId)
      }
      if (events.length === 0) break
      after = nextCursor
    }
    trace.count("feeds read")
    const expected = [...told.get(grantId) ?? []].toSorted().join()
    if (seen.toSorted().join() !== expected) {
      trace.breaks("a feed tells each fact of its grant once", `${grantId}: ${seen.join()} for ${expected}`)
    }
  }
  // People do not wait for days: they retry a failed delivery at once.
  for (;;) {
    yield* Effect.sleep(2_000)
    for (const { grantId, id, isRemoved, url } of webhooks.endpoints) {
      if (url === DEAD || isRemoved || !isGood(grantId) || !webhooks.isBehind(id)) continue
      yield* Effect.ignore(asking(asPartner(grantId, `enable ${id}`, (webhooks, own) => webhooks.enable(own, id))))
    }
  }
})
