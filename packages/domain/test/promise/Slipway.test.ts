import { assert, it } from "@effect/vitest"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import * as Stores from "@slipway/domain/memory/Stores"
import { TargetRefused, WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import { type Caller, open, type Options, type PromisedStore, SlipwayClosed, type StoresOptions } from "@slipway/domain/promise"
import { SandboxNotFound, SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { ApprovalNotFound } from "@slipway/domain/sandbox/rules/Command"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"

const by: Caller = { grantId: "g", organizationId: "o", userId: "u" }
const request = { repos: [{ fullName: "acme/shop" }], prompt: "Fix the flaky test." }
const rejection = (asked: Promise<unknown>): Promise<unknown> =>
  asked.then((value) => assert.fail(`not rejected: ${JSON.stringify(value)}`), (error: unknown) => error)

const all = async <A>(items: AsyncIterable<A>) => {
  const found: Array<A> = []
  for await (const item of items) found.push(item)
  return found
}

it("an embedder's whole day", async () => {
  let now = Date.parse("2026-11-22T08:00:00Z")
  const slipway = await open({ store: SandboxStoreMemory.layer, ids: crypto, clock: { now: () => new Date(now) } })
  const { replayed, sandbox } = await slipway.create(by, request, { idempotencyKey: "order-1" })
  assert.deepInclude(sandbox, { status: "queued", title: "Fix the flaky test.", createdAt: "2026-11-22T08:00:00.000Z" })
  assert.match(sandbox.id, /^c_[a-z2-9]{12}$/u)
  assert.isFalse(replayed)
  assert.deepStrictEqual(await slipway.create(by, request, { idempotencyKey: "order-1" }), { sandbox, replayed: true })
  now += 60_000
  const { sandbox: second } = await slipway.create(by, { ...request, prompt: "Another." })

  assert.deepStrictEqual(await slipway.get(by, sandbox.id), sandbox)
  const first = await slipway.list(by, { limit: 1 })
  assert.deepStrictEqual(first.sandboxes, [second])
  assert.deepStrictEqual(await slipway.list(by, { limit: 1, after: first.next }), { sandboxes: [sandbox], next: null })

  const refused = await rejection(
    slipway.create(by, { ...request, repos: [{ fullName: "../../etc/passwd" }] }, { idempotencyKey: "order-2" })
  )
  assert.deepInclude(refused, { _tag: "InvalidRequest", message: "repos[0].fullName: owner/name expected" })
  assert.deepInclude(await rejection(slipway.get(by, "nonsense")), { _tag: "InvalidRequest", field: "sandboxId" })
  assert.instanceOf(await rejection(slipway.get({ ...by, grantId: "another" }, sandbox.id)), SandboxNotFound)
  assert.deepInclude(await rejection(slipway.sendMessage(by, sandbox.id, "Go on.")), { _tag: "SandboxNotRunning" })
  assert.instanceOf(await rejection(slipway.approve(by, sandbox.id, "t1")), ApprovalNotFound)
  assert.deepInclude(await slipway.interrupt(by, sandbox.id), { outcome: "rejected", rejection: "no_active_turn" })

  const following = slipway.events(by, sandbox.id)[Symbol.asyncIterator]()
  assert.deepInclude((await following.next()).value, { id: "1", sandbox_id: sandbox.id, type: "sandbox.status" })
  const next = following.next()
  assert.deepInclude(await slipway.terminate(by, sandbox.id), { outcome: "applied" })
  assert.deepInclude((await next).value, { id: "2" })
  const rest = await all({ [Symbol.asyncIterator]: () => following })
  assert.strictEqual(rest.length, 1)
  assert.deepInclude(rest[0]?.data, { status: "terminated" })
  assert.deepInclude(await rejection(all(slipway.events(by, sandbox.id, { after: 99 }))), { _tag: "CursorAhead" })

  const left = all(slipway.events(by, second.id))
  await slipway.close()
  assert.isAtMost((await left).length, 1)
})

it("says after its close that it was closed, for every call", async () => {
  const slipway = await open({ stores: Stores.layer() })
  await slipway.close()
  const calls = [slipway.get(by, "c_abcdefgh2345"), slipway.list(by), slipway.access.listGrants(),
    all(slipway.events(by, "c_abcdefgh2345"))]
  for (const call of calls) {
    const error = await rejection(call)
    assert.instanceOf(error, SlipwayClosed)
    assert.match(String(error), /was closed/u)
  }
  await slipway.close()
})

/** A store of somebody who writes promises, and a worker of theirs beside it. */
const world = () => {
  const runtime = ManagedRuntime.make(SandboxStoreMemory.layer.pipe(Layer.provideMerge(HintsMemory.layer)))
  const run = <A, E>(use: (store: SandboxStore["Service"]) => Effect.Effect<A, E>) => runtime.runPromise(SandboxStore.use(use))
  const store: PromisedStore = {
    create: (request) => run((store) => store.create(request)),
    replay: (grantId, keyed, forkOf) => run((store) => store.replay(grantId, keyed, forkOf)),
    find: (key) => run((store) => store.find(key)),
    list: (grantId, query) => run((store) => store.list(grantId, query)),
    log: (id, after, limit) => run((store) => store.log(id, after, limit)),
    messages: (id, after, limit) => run((store) => store.messages(id, after, limit)),
    command: (key, command, now, keyed) => run((store) => store.command(key, command, now, keyed)),
    change: (id, by, decide, now) => run((store) => store.change(id, by, decide, now)),
    delete: (key, now) => run((store) => store.delete(key, now)),
    approvals: (id, approvalIds) => run((store) => store.approvals(id, approvalIds)),
    questions: (id, questionIds) => run((store) => store.questions(id, questionIds)),
    purged: (id) => run((store) => store.purged(id))
  }
  const work = (id: string, command: SystemCommand) =>
    run((store) =>
      Effect.gen(function*() {
        const [now, limits] = [yield* DateTime.now, yield* Policy]
        return yield* store.change(id as SandboxId, "policy", (sandbox) => decide(sandbox, command, { now, limits }), now)
      })
    )
  return { store, work, close: () => runtime.dispose() }
}

it("a store of promises: turns go on by messages, hints of other processes are followed, and it hears its caller's refusals", async () => {
  const { close, store, work } = world()
  let changed = (_sandboxId: string) => {}
  let stopped = false
  const hints: Options["hints"] = (listener) => {
    changed = listener
    return () => stopped = true
  }
  const slipway = await open({ store, ids: { seed: 1 }, hints })
  const { sandbox: { id } } = await slipway.create(by, request)
  const following = slipway.events(by, id, { after: 1 })[Symbol.asyncIterator]()
  const next = following.next()
  await work(id, { _tag: "StartBoot" })
  changed(id)
  assert.deepInclude((await next).value?.data, { status: "creating" })
  await work(id, { _tag: "FinishBoot", turnId: "turn-1" })
  await work(id, { _tag: "StartTurn", turnId: "turn-1" })
  assert.deepInclude(await rejection(slipway.sendMessage(by, id, "Too early.")), { _tag: "TurnActive" })
  const waits = await slipway.sendMessage(by, id, "And then?", { whenBusy: "queue" })
  assert.deepStrictEqual((await slipway.get(by, id)).waitingTexts, [{ id: waits.turnId, text: "And then?" }])
  assert.deepInclude(await slipway.cancelMessage(by, id, waits.turnId), { outcome: "applied" })
  assert.deepInclude(await rejection(slipway.cancelMessage(by, id, "00000000-0000-4000-8000-000000000000")), { _tag: "MessageNotFound" })
  await work(id, { _tag: "EndTurn", turnId: "turn-1", state: "succeeded" })
  const sent = await slipway.sendMessage(by, id, "Go on.", { idempotencyKey: "m1" })
  const again = await slipway.sendMessage(by, id, "Go on.", { idempotencyKey: "m1" })
  assert.deepStrictEqual([sent.outcome, again.outcome, again.turnId], ["applied", "duplicate", sent.turnId])
  assert.deepInclude((await slipway.get(by, id)).turn, { n: 2, prompt: "Go on." })
  await slipway.close()
  assert.isTrue(stopped)
  await close()
})

it("what a store rejects with reaches the caller as it is: errors of the port, and bugs", async () => {
  const { close, store } = world()
  for (const error of [new StoreUnavailable({ cause: "down" }), new TypeError("a bug")]) {
    const slipway = await open({ store: { ...store, find: () => Promise.reject(error) }, ids: { seed: 1 } })
    assert.strictEqual(await rejection(slipway.get(by, "c_222222222222")), error)
    await slipway.close()
  }
  await close()
})

it("a seed gives the same ids again, and an open that fails rejects", async () => {
  const idOf = async (ids: Options["ids"]) => {
    const slipway = await open({ store: SandboxStoreMemory.layer, ids })
    const { sandbox } = await slipway.create(by, request)
    await slipway.close()
    return sandbox.id
  }
  assert.strictEqual(await idOf({ seed: "s" }), await idOf({ seed: "s" }))
  assert.notStrictEqual(await idOf({ seed: "s" }), await idOf({ seed: "t" }))
  assert.notStrictEqual(await idOf(crypto), await idOf(crypto))
  const failing = Layer.effect(SandboxStore, Effect.fail(new StoreUnavailable({ cause: "no database" })))
  assert.instanceOf(await rejection(open({ store: failing, ids: crypto })), StoreUnavailable)
})

const Receivers = Layer.succeed(
  WebhookSender,
  WebhookSender.of({
    admit: (url) => url.startsWith("https:") ? Effect.succeed(url) : Effect.fail(new TargetRefused({ reason: "Use https." })),
    send: () => Effect.succeed({ _tag: "Answered", status: 204, retryAfter: null, body: null })
  })
)
const limits = { credential: 60, user: 60, grant: 60 }

it("an operator makes a grant and keys, and takes them back", async () => {
  const slipway = await open({ stores: Stores.layer() })
  const { access } = slipway
  const { grant, key, record } = await access.createKey({
    grant: "acme",
    label: "ci",
    scopes: ["sandboxes"],
    kind: "live",
    life: "90 days"
  })
  assert.match(key, /^sbx_live_/u)
  assert.strictEqual(Date.parse(record.expiresAt ?? "") - Date.parse(record.createdAt), 90 * 86_400_000)
  assert.deepStrictEqual(await access.listKeys(grant.id), [record])
  assert.deepInclude(await access.createGrant("acme"), { made: false, grant })

  const admitted = await access.admit(key, limits)
  assert.deepInclude(admitted?.principal, { grantId: grant.id, scopes: ["sandboxes"] })
  assert.deepInclude(admitted?.rate, { accepted: true, remaining: 59 })
  // The principal of a key is a caller.
  const { sandbox } = await slipway.create(admitted!.principal, request)
  assert.strictEqual((await slipway.get({ ...by, grantId: grant.id }, sandbox.id)).createdBy, admitted?.principal.userId)

  await access.revokeKey(record.id)
  assert.isNull(await access.admit(key, limits))
  assert.isString((await access.revokeGrant("acme")).revokedAt)
  await slipway.close()
})

it("a partner reads the feed of its claims, and registers a webhook", async () => {
  const { access, close, partners, webhooks } = await open({ stores: Layer.merge(Stores.layer(), Receivers) })
  const { grant } = await access.createGrant("partner")
  const { endpoint, secret } = await webhooks.register(grant.id, { url: "https://partner.example/hook" })
  assert.match(secret, /^whsec_/u)
  assert.deepStrictEqual(await webhooks.find(grant.id, endpoint.id), endpoint)
  const terms = { claimId: "00000000-0000-4000-8000-000000000001", grantId: grant.id, leadId: "l", variant: "v", creditAmount: 5 }
  assert.deepInclude(await partners.createClaim(terms), { recorded: "new" })
  const claimant = { recipientId: "user_1", organizationId: grant.organizationId }
  assert.deepInclude((await partners.claim(terms.claimId, claimant)).claim.claimed, claimant)
  assert.strictEqual((await partners.credits(grant.organizationId)).balance, 5)
  const { events, nextCursor } = await partners.feed({ ...by, grantId: grant.id }, { after: 0, limit: 10 })
  assert.deepStrictEqual(events.map(({ type }) => type), ["credit_claim.created", "credit_claim.claimed"])
  assert.strictEqual(nextCursor, 2)
  assert.deepStrictEqual(JSON.parse(JSON.stringify(events)), events)
  assert.isUndefined(await webhooks.remove(grant.id, endpoint.id))
  assert.deepInclude(await rejection(webhooks.find(grant.id, endpoint.id)), { _tag: "EndpointNotFound" })
  assert.deepInclude(await rejection(webhooks.register(grant.id, { url: "ftp://x" })), { _tag: "TargetRefused" })
  await close()
})

it("an invalid argument of an operator is refused by its name, and nothing is stored", async () => {
  const { access, close, partners } = await open({ stores: Stores.layer() })
  const wrong = { grant: "acme", label: "", scopes: ["everything" as "sandboxes"], kind: "live" } as const
  assert.deepInclude(await rejection(access.createKey(wrong)), { _tag: "InvalidRequest", field: "scopes[0]" })
  assert.deepInclude(await rejection(access.createGrant("")), { _tag: "InvalidRequest", field: "name" })
  assert.deepInclude(await rejection(partners.feed(by, { after: -1, limit: 1 })), { _tag: "InvalidRequest", field: "after" })
  assert.deepStrictEqual(await access.listGrants(), [])
  await close()
})

it("a part whose stores are missing is not there", async () => {
  const one = await open({ store: SandboxStoreMemory.layer, ids: crypto })
  // @ts-expect-error: one store knows no keys.
  assert.isUndefined(one.access)
  await one.close()
  const all = await open({ stores: Stores.layer() })
  // @ts-expect-error: no sender of webhooks.
  assert.isUndefined(all.webhooks)
  assert.isDefined(all.partners)
  await all.close()
})

it("the hooks of an embedder refuse a creation by its own code, and handle events where the last run stopped", async () => {
  const stores = Layer.succeedContext(await Effect.runPromise(Effect.scoped(Layer.build(Stores.layer()))))
  const positions = new Map<string, number>()
  const handled: Array<string> = []
  const waiting = new Map<number, () => void>()
  const saved = (position: number) => new Promise<void>((resolve) => waiting.set(position, resolve))
  const options = {
    stores,
    beforeCreate: async ({ createdAt, prompt }, { userId }) =>
      prompt === "Sell it." ? { code: "not_allowed", message: `Not for ${userId} since ${createdAt.slice(0, 2)}.` } : undefined,
    onEvent: {
      cursor: {
        load: async () => positions,
        save: (id, position) => {
          positions.set(id, position)
          waiting.get(position)?.()
        }
      },
      handle: async ({ id, type }) => void handled.push(`${id} ${type}`)
    }
  } satisfies StoresOptions<never>
  const [one, all] = [saved(1), saved(3)]
  const first = await open(options)
  const denied = await rejection(first.create(by, { ...request, prompt: "Sell it." }, { idempotencyKey: "once" }))
  assert.deepInclude(denied, { _tag: "CreationDenied", code: "not_allowed", message: "Not for u since 20." })
  const { sandbox } = await first.create(by, request, { idempotencyKey: "once" })
  await one
  await first.close()
  assert.deepStrictEqual([...positions], [[sandbox.id, 1]])
  const without = await open({ stores })
  await without.terminate(by, sandbox.id)
  await without.close()
  const second = await open(options)
  await all
  await second.close()
  assert.deepStrictEqual(handled, ["1 sandbox.status", "2 sandbox.status", "3 sandbox.status"])
  const handler = { onEvent: options.onEvent, ids: crypto, store: world().store }
  assert.include(String(await rejection(open(handler))), "`onEvent` needs stores with `Maintenance`")
})
