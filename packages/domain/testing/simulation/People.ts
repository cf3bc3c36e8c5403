/** What people do: create, follow, decide, send, interrupt, publish, end; at any moment, some of it twice or to somebody else's sandbox. */
import { DateTime, Effect, Option, Schema, Stream } from "effect"
import type { Principal } from "../../src/access/Principal.ts"
import { Files } from "../../src/files/Files.ts"
import type { PartnerFact } from "../../src/partner/PartnerEvent.ts"
import { Partners } from "../../src/partner/Partners.ts"
import { PartnerStore } from "../../src/partner/PartnerStore.ts"
import { Publishing } from "../../src/publishing/Publishing.ts"
import type { Decision } from "../../src/sandbox/Approval.ts"
import { CreateSandbox } from "../../src/sandbox/CreateSandbox.ts"
import { IdempotencyKey } from "../../src/sandbox/Idempotency.ts"
import type { Sandbox } from "../../src/sandbox/Sandbox.ts"
import { Sandboxes } from "../../src/sandbox/Sandboxes.ts"
import { SandboxEvents } from "../../src/sandbox/SandboxEvents.ts"
import type { ListPosition } from "../../src/sandbox/SandboxStore.ts"
import type { SandboxId } from "../../src/SandboxId.ts"
import type { Chance } from "./Chance.ts"
import type { Trace } from "./Trace.ts"
import type { Reader, Witness } from "./Witness.ts"

/** What the people of a simulation work on. */
export const REPOSITORIES = ["acme/shop", "acme/site"] as const
/** For whom they work. */
const GRANTS = ["grant-1", "grant-2"] as const

const principalOf = (grantId: string): Principal => ({
  credential: { _tag: "Key", keyId: `key of ${grantId}` },
  grantId,
  organizationId: `organization of ${grantId}`,
  userId: "user_1",
  scopes: new Set(["sandboxes"]),
  test: false
})

/** What everybody in one simulation shares. */
export interface Scene {
  readonly chance: Chance
  readonly witness: Witness
  readonly trace: Trace
  /** Whether people still ask for things; they go on reading in any case. */
  readonly active: () => boolean
}

const decodeRequest = Schema.decodeSync(CreateSandbox)

/** A script for the agent: what it says, edits and suffers. */
const script = (chance: Chance, n: number): string =>
  Array.from({ length: chance.between(1, 3) }, () =>
    chance.weighted([
      [4, `[[say hello ${n}]]`],
      [8, `[[write path=file-${chance.between(1, 3)}.txt content=line ${n}]]`],
      [1, "[[delete path=README.md]]"],
      [3, `[[slow ${chance.between(1, 8)} ${chance.between(1, 900)}]]`],
      [1, "[[hang]]"],
      [1, "[[crash]]"],
      [1, "[[error it did not work]]"],
      [1, "[[recall]]"],
      [1, `no directive ${n}`]
    ]) ?? "").join(" ")

const seconds = (chance: Chance, most: number) => Effect.suspend(() => Effect.sleep(chance.between(1, most * 1000)))

/** Asks again while the store is away: a client cannot know more than that. */
const patiently = (chance: Chance) => <A, E extends { readonly _tag: string }, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.catchIf(
    self,
    (error) => error._tag === "StoreUnavailable",
    () => Effect.andThen(seconds(chance, 1), Effect.suspend(() => patiently(chance)(self)))
  )

/** One person with one sandbox. */
export const person = Effect.fnUntraced(function*({ active, chance: shared, trace, witness }: Scene, n: number) {
  const chance = shared.fork()
  const sandboxes = yield* Sandboxes
  const publishing = yield* Publishing
  const files = yield* Files
  const asking = patiently(chance)
  const by = principalOf(chance.pick(GRANTS))
  const stranger = principalOf(GRANTS.find((grantId) => grantId !== by.grantId) ?? "")
  let prompts = 0
  const must = (rule: string, holds: boolean, detail: string) => {
    if (!holds) trace.breaks(rule, detail)
  }
  /** Refusals that say what is so. Any other one is wrong. */
  const unless = <A, E extends { readonly _tag: string }, R>(self: Effect.Effect<A, E, R>, ...tags: ReadonlyArray<E["_tag"]>) =>
    Effect.catch(self, (error) => {
      must("nobody is refused without a reason", tags.includes(error._tag), `${error._tag}, not one of ${tags.join()}`)
      return Effect.succeed(null)
    })

  yield* seconds(chance, 15)
  const request = decodeRequest({
    repos: chance.is(0.3)
      ? REPOSITORIES.map((fullName) => ({ fullName }))
      : [{ fullName: chance.is(0.04) ? "acme/gone" : chance.pick(REPOSITORIES) }],
    prompt: script(chance, n),
    toolApprovalMode: chance.is(0.6) ? "prompt" : "auto"
  })
  const key = chance.is(0.8) ? Option.some(IdempotencyKey.make(`key-${chance.between(1, 2)}-${n}`)) : Option.none()
  const create = asking(sandboxes.create(by, request, key))
  const both = yield* Effect.all([create, ...(Option.isSome(key) && chance.is(0.4) ? [create] : [])], { concurrency: 2 })
  const id = both[0].sandbox.id
  must(
    "equal requests with one key have one sandbox",
    both.every(({ sandbox }) => sandbox.id === id),
    both.map(({ sandbox }) => sandbox.id).join()
  )

  // ---------------------------------------------------------------------------------------------------------------
  const decide = Effect.fnUntraced(function*(approvalId: string, decision: Decision) {
    const answer = yield* asking(sandboxes.decideApproval(by, id, approvalId, decision))
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

  const decider = Effect.gen(function*() {
    const isAbsent = chance.is(0.2)
    while (active() && !isAbsent) {
      yield* seconds(chance, 4)
      const { approvals } = yield* asking(sandboxes.get(by, id))
      for (const { approval_id } of approvals) {
        if (chance.is(0.3)) continue
        const one = decide(approval_id, chance.is(0.6) ? "approve" : "deny")
        yield* chance.is(0.3) ? Effect.all([one, decide(approval_id, chance.is(0.5) ? "approve" : "deny")], { concurrency: 2 }) : one
      }
    }
  })

  const send = Effect.gen(function*() {
    const prompt = script(chance, 100 * n + ++prompts)
    const key = chance.is(0.6) ? Option.some(IdempotencyKey.make(`message-${prompts}`)) : Option.none()
    const sent = yield* unless(asking(sandboxes.sendMessage(by, id, prompt, key)), "SandboxNotRunning", "TurnActive")
    if (sent === null) return
    trace.add(`person-${n} sent ${sent.turnId}: ${sent.outcome}`)
    if (Option.isNone(key)) return
    must("an accepted message becomes a turn", witness.seen(id)?.turns.get(sent.turnId) === prompt, `${id} ${sent.turnId}: ${prompt}`)
    if (!chance.is(0.4)) return
    yield* seconds(chance, 5)
    const again = yield* asking(sandboxes.sendMessage(by, id, prompt, key))
    must(
      "an equal message with one key is one turn",
      again.turnId === sent.turnId && again.outcome === "duplicate",
      `${id} ${again.turnId}`
    )
    const changed = yield* Effect.flip(asking(sandboxes.sendMessage(by, id, `${prompt}!`, key)))
    must("a key conflicts with another request", changed._tag === "IdempotencyConflict", `${id}: ${changed._tag}`)
  })

  const replay = Effect.gen(function*() {
    if (Option.isNone(key)) return
    const again = yield* create
    must("equal requests with one key have one sandbox", again.replayed && again.sandbox.id === id, `${id}, ${again.sandbox.id}`)
    const changed = yield* Effect.flip(asking(sandboxes.create(by, { ...request, prompt: "something else" }, key)))
    must("a key conflicts with another request", changed._tag === "IdempotencyConflict", `${id}: ${changed._tag}`)
  })

  const publish = unless(
    Effect.suspend(() => asking(publishing.publish(by, id, chance.pick(request.repos).fullName))),
    "NothingToPublish",
    "RepoNotAccessible",
    "SandboxNotRunning",
    "SourceHostError"
  )

  const look = unless(
    Effect.suspend(() => asking(files.list(by, id, { repo: chance.pick(request.repos).fullName, path: "" }))),
    "AgentDisconnected",
    "FileNotFound",
    "SandboxNotRunning"
  )

  const terminate = Effect.tap(asking(sandboxes.terminate(by, id)), () => Effect.sync(() => witness.mustEnd.add(id)))

  const pages = Effect.gen(function*() {
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

  const trespass = Effect.gen(function*() {
    const refused = yield* Effect.all([
      Effect.flip(asking(sandboxes.get(stranger, id))),
      Effect.flip(asking(sandboxes.terminate(stranger, id))),
      Effect.flip(asking(sandboxes.messages(stranger, id, { after: 0, limit: 10 }))),
      Effect.flip(asking(files.list(stranger, id, { repo: undefined, path: "" }))),
      Effect.flip(asking(SandboxEvents.use((events) => events.list(stranger, id, { after: 0, limit: 10 }))))
    ])
    must(
      "nothing of one grant is visible to another",
      refused.every(({ _tag }) => _tag === "SandboxNotFound"),
      `${id}: ${refused.map(({ _tag }) => _tag).join()}`
    )
  })

  const deeds = Effect.gen(function*() {
    while (active()) {
      yield* seconds(chance, 8)
      if (!active()) return
      yield* chance.weighted<Effect.Effect<unknown, unknown, SandboxEvents>>([
        [6, send],
        [3, asking(sandboxes.interrupt(by, id))],
        [1, look],
        [4, publish],
        [1, Effect.all([publish, publish], { concurrency: 2 })],
        [0.6, terminate],
        [0.3, Effect.all([terminate, terminate], { concurrency: 2 })],
        [1, replay],
        [1, pages],
        [1, trespass]
      ]) ?? Effect.void
    }
  })

  yield* Effect.all([deeds, decider, decider, reader(chance, trace, witness, by, id), reader(chance, trace, witness, by, id)], {
    concurrency: "unbounded"
  })
})

/** Follows a log for ever, with connections that are cut, and holds what it gets against what was written. */
const reader = Effect.fnUntraced(function*(chance: Chance, trace: Trace, witness: Witness, by: Principal, id: SandboxId) {
  const events = yield* SandboxEvents
  const place: Reader = { id, cursor: chance.is(0.5) ? null : 0 }
  const name = `reader-${witness.readers.push(place)}`

  const take = (entries: ReadonlyArray<{ readonly seq: number; readonly wire: string }>) => {
    for (const { seq, wire } of entries) {
      if (seq !== (place.cursor ?? 0) + 1) trace.breaks("a reader gets every event once, in order", `${id}: ${seq} after ${place.cursor}`)
      if (wire !== witness.seen(id)?.wires[seq - 1]) trace.breaks("a reader gets what was written", `${id}: ${wire}`)
      place.cursor = seq
    }
  }

  const connection = Effect.gen(function*() {
    trace.add(`${name} of ${id} after ${place.cursor}`)
    const following = yield* events.follow(by, id, place.cursor)
    if (following.nothingLeft) return "ended"
    // As a server's own beat does: a lost hint costs a second.
    yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(1000), Effect.sync(following.wake))))
    const cutAfter = chance.is(0.3) ? chance.between(1, 6) : Number.POSITIVE_INFINITY
    yield* following.frames.pipe(
      Stream.take(cutAfter),
      Stream.runForEach((frame) =>
        Effect.sync(() => {
          if (frame._tag === "Snapshot") place.cursor = frame.sandbox.lastSeq
          if (frame._tag === "Entries") take(frame.entries)
        })
      )
    )
    trace.count("connections cut or ended")
    return "again"
  })

  for (;;) {
    const end = yield* Effect.catchTag(Effect.scoped(connection), "StoreUnavailable", () => Effect.succeed("again"))
    do yield* seconds(chance, 3)
    while (end === "ended" && witness.seen(id)?.state.lastSeq === place.cursor)
  }
})

/** Tells facts to the feeds, some twice, and reads them in pages. */
export const partner = Effect.fnUntraced(function*({ active, chance: shared, trace }: Scene) {
  const chance = shared.fork()
  const store = yield* PartnerStore
  const partners = yield* Partners
  const asking = patiently(chance)
  const told = new Map<string, Set<string>>(GRANTS.map((grantId) => [grantId, new Set()]))
  const fact = (taskId: string, occurredAt: DateTime.Utc): PartnerFact => ({
    type: "task.started",
    data: { claimId: "01890a5d-ac96-774b-bcce-b302099a8057", leadId: "lead", variant: "variant", occurredAt, taskId, projectId: null }
  })
  for (let n = 1; active(); n++) {
    yield* seconds(chance, 6)
    const at = yield* DateTime.now
    const tell = GRANTS.filter(() => chance.is(0.6)).map((grantId) => ({
      grantId,
      fact: fact(`${grantId}-${chance.between(Math.max(1, n - 2), n)}`, at)
    }))
    yield* asking(store.record(Effect.succeed({ result: null, tell }), at))
    for (const { fact, grantId } of tell) if (fact.type === "task.started") told.get(grantId)?.add(fact.data.taskId)
  }
  for (const grantId of GRANTS) {
    const seen: Array<string> = []
    for (let after = 0;;) {
      const { events, nextCursor } = yield* asking(partners.feed(principalOf(grantId), { after, limit: 3 }))
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
})
