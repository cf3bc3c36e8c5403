import { assert, layer } from "@effect/vitest"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { Ids } from "@slipway/domain/ids/Ids"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { type Received, start, status } from "@slipway/machine/testing/WebhookReceiver"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { Webhook } from "standardwebhooks"
import { Browser, inspect, linkFor, memberNamed, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

const service = Shop.layer(["acme/shop"], { SLIPWAY_WEBHOOK_PRIVATE: "true" })

const ownGrant = Effect.map(
  Effect.flatMap(AccessStore, ({ listGrants }) => listGrants),
  (grants) => grants.find(({ name }) => name === "default")?.id ?? ""
)

/** Tells the grant's feed of a new claim. */
const tell = Effect.gen(function*() {
  const claimId = yield* (yield* Ids).uuid7
  yield* (yield* PartnerStore).createClaim({ claimId, grantId: yield* ownGrant, leadId: "lead", variant: "b", creditAmount: 1 })
})

const endpoints = Effect.gen(function*() {
  return yield* (yield* WebhookStore).list(yield* ownGrant)
})

/** A partner's check of a request: fails unless the secret signed it; the event otherwise. */
const verified = ({ body, headers }: Received, secret: string): any =>
  new Webhook(secret).verify(body.toString(), Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)])))

const headingOf = (page: Page) => page.getByRole("heading", { level: 1 }).innerText()

/** Loads the page again until it says so. */
const comesToShow = async (page: Page, text: string) => {
  while (!(await page.locator("main").innerText()).includes(text)) await page.reload()
}

const register = async (page: Page, url: string) => {
  await page.goto("/webhooks")
  await page.getByLabel("Address").fill(url)
  await page.getByRole("button", { name: "Register endpoint" }).click()
  return await secretOf(page)
}
const secretOf = async (page: Page) => {
  const secret = await page.getByLabel("Secret").inputValue()
  assert.match(secret, /^whsec_/u)
  return secret
}

const isGone = async (page: Page, secret: string) =>
  assert.notInclude(
    await page.evaluate(() =>
      document.documentElement.outerHTML + Array.from(document.querySelectorAll("input"), ({ value }) => value).join()
    ),
    secret
  )

layer(service, { excludeTestServices: true })("the pages of webhooks", (it) => {
  it.effect("take a partner from the first secret to events that it verifies, through trouble, to a new secret and the end", () =>
    Effect.gen(function*() {
      const { server, visit } = yield* Browser
      const link = yield* linkFor()
      const receiver = yield* start()
      const run = Effect.runPromiseWith(yield* Effect.context<AccessStore | Ids | PartnerStore>())
      const url = `http://127.0.0.1:${receiver.port}/hook`
      yield* visit(async (page, context) => {
        await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: server.url })
        await signIn(page, link)
        await page.getByRole("link", { name: "Settings" }).click()
        await page.getByRole("link", { name: "Webhooks" }).click()
        assert.strictEqual(await headingOf(page), "Webhooks")
        await inspect(page, "webhooks-none")

        // Its secret is shown once.
        const first = await register(page, url)
        await inspect(page, "webhook-registered")
        await page.getByRole("button", { name: "Copy" }).click()
        await page.getByText("Copied").waitFor()
        assert.strictEqual(await page.evaluate(() => navigator.clipboard.readText()), first)
        await page.reload()
        assert.strictEqual(await headingOf(page), "Endpoint")
        await isGone(page, first)
        await page.goBack()
        await isGone(page, first)
        await page.goForward()
        await isGone(page, first)

        // An event is delivered, and the receiver knows where it is from.
        const there = page.url()
        await run(tell)
        const delivered = await run(receiver.next)
        assert.deepStrictEqual([delivered.path, verified(delivered, first).sequence], ["/hook", 1])
        await comesToShow(page, "delivered answered 204")
        await page.getByRole("row").filter({ hasText: "1 credit_claim.created" }).waitFor()

        // The receiver is in trouble, and out of it again.
        receiver.answers.push(status(500, { "retry-after": "600" }, "<b>no</b> room"))
        await run(tell)
        const refused = await run(receiver.next)
        await comesToShow(page, "failed answered 500")
        await page.getByText("1 failed attempt at the next event").waitFor()
        await page.getByText("Response").click()
        await page.getByText("<b>no</b> room").waitFor()
        await inspect(page, "webhook-retrying")
        await page.getByRole("button", { name: "Try again now" }).click()
        await page.getByRole("status").filter({ hasText: "Resuming" }).waitFor()
        const retried = await run(receiver.next)
        assert.deepStrictEqual(verified(retried, first), verified(refused, first))
        assert.strictEqual(retried.headers["webhook-id"], refused.headers["webhook-id"])

        // An event is asked for once more.
        await page.goto(there)
        await page.getByRole("button", { name: "Send again: event 1" }).click()
        await page.getByRole("status").filter({ hasText: "Sending the event again" }).waitFor()
        assert.strictEqual((await run(receiver.next)).headers["webhook-id"], delivered.headers["webhook-id"])
        await comesToShow(page, "manual")

        // A new secret; the old one stays valid.
        await page.getByRole("link", { name: "Replace the secret" }).click()
        await inspect(page, "webhook-rotate")
        await page.getByRole("button", { name: "Replace secret" }).click()
        const second = await secretOf(page)
        assert.notStrictEqual(second, first)
        await page.getByText("The old secret stays valid for 24 hours.").waitFor()
        await inspect(page, "webhook-rotated")
        await page.getByRole("link", { name: "Done" }).click()
        await page.waitForURL(there)
        await page.goBack()
        await isGone(page, second)
        await page.goto(there)
        receiver.answers.push(status(410))
        await run(tell)
        const signedTwice = await run(receiver.next)
        for (const secret of [first, second]) assert.strictEqual(verified(signedTwice, secret).sequence, 3)

        // It said that it is gone; it is not.
        await comesToShow(page, "returned 410 Gone")
        await inspect(page, "webhook-disabled")
        await page.goto("/webhooks")
        await page.getByText("disabled").waitFor()
        await inspect(page, "webhooks")
        await page.getByRole("link", { name: url }).click()
        await page.getByRole("button", { name: "Enable" }).click()
        assert.strictEqual((await run(receiver.next)).headers["webhook-id"], signedTwice.headers["webhook-id"])
        await comesToShow(page, "event 3")

        await page.getByRole("link", { name: "Remove" }).click()
        await inspect(page, "webhook-remove")
        await page.getByRole("link", { name: "Cancel" }).click()
        await page.waitForURL(there)
        await page.getByRole("link", { name: "Remove" }).click()
        await page.getByRole("button", { name: "Remove endpoint" }).click()
        await page.getByRole("status").filter({ hasText: "Endpoint removed" }).waitFor()
        await page.getByText("No webhooks yet.").waitFor()
      })
      assert.strictEqual(receiver.received.length, 6)
    }))

  it.effect("do all of it without scripts", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      const receiver = yield* start()
      const run = Effect.runPromiseWith(yield* Effect.context<AccessStore | Ids | PartnerStore>())
      yield* visit(async (page) => {
        await signIn(page, link)
        const first = await register(page, `http://127.0.0.1:${receiver.port}/plain`)
        assert.strictEqual(await page.getByRole("button", { name: "Copy" }).count(), 0)
        await run(tell)
        verified(await run(receiver.next), first)
        await page.getByRole("link", { name: "Done" }).click()
        await comesToShow(page, "delivered answered 204")
        await page.getByRole("button", { name: "Send again" }).click()
        verified(await run(receiver.next), first)
        await page.getByRole("link", { name: "Replace the secret" }).click()
        await page.getByRole("button", { name: "Replace secret" }).click()
        assert.notStrictEqual(await secretOf(page), first)
        await page.getByRole("link", { name: "Done" }).click()
        await page.getByRole("link", { name: "Remove" }).click()
        await page.getByRole("button", { name: "Remove endpoint" }).click()
        await page.getByText("Endpoint removed").waitFor()
      }, { options: { javaScriptEnabled: false } })
    }))

  it.effect("choose events of sandboxes, and show each attempt at one with its sandbox", () =>
    Effect.gen(function*() {
      const { server, visit } = yield* Browser
      const link = yield* linkFor()
      const receiver = yield* start()
      const run = Effect.runPromiseWith(yield* Effect.context<never>())
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/webhooks")
        await page.getByLabel("Address").fill(`http://127.0.0.1:${receiver.port}/sandboxes`)
        const choices = page.getByRole("group", { name: "Events of sandboxes" }).getByRole("checkbox")
        const feed = page.getByRole("group", { name: "Events of the feed" }).getByRole("checkbox")
        for (const one of await feed.all()) await one.uncheck()
        for (const one of await choices.all()) assert.isFalse(await one.isChecked())
        await page.getByRole("checkbox", { name: "sandbox.failed" }).check()
        await page.getByRole("checkbox", { name: "sandbox.ended" }).check()
        await inspect(page, "webhooks-notifications")
        await page.getByRole("button", { name: "Register endpoint" }).click()
        const secret = await secretOf(page)
        await page.getByRole("link", { name: "Done" }).click()
        await page.getByText("sandbox.failed").first().waitFor()

        receiver.answers.push(status(503))
        const made = await fetch(`${server.url}/api/public/v1/sandboxes`, {
          method: "POST",
          headers: { authorization: `Bearer ${server.key}`, "content-type": "application/json" },
          body: JSON.stringify({ repos: [{ fullName: "acme/shop" }], prompt: "[[say Hello]]", title: "Told" })
        })
        const { id } = await made.json()
        await fetch(`${server.url}/api/public/v1/sandboxes/${id}/terminate`, {
          method: "POST",
          headers: { authorization: `Bearer ${server.key}` }
        })
        const refused = verified(await run(receiver.next), secret)
        assert.deepStrictEqual([refused.sandbox.id, refused.sandbox.title], [id, "Told"])
        await comesToShow(page, "failed answered 503")
        await page.getByRole("link", { name: id }).waitFor()
        await inspect(page, "webhook-notification-failed")
        await page.getByRole("button", { name: "Try again now" }).click()
        assert.deepStrictEqual(verified(await run(receiver.next), secret), refused)
        await comesToShow(page, "delivered answered 204")
        await inspect(page, "webhook-notification-delivered")
      })
    }))

  it.effect("say in the form what is wrong with an address, and keep what was filled in", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      const before = yield* endpoints
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/webhooks")
        const address = page.getByLabel("Address")
        await address.fill(`ftp://hooks.example.com/${"long-".repeat(40)}`)
        await page.getByRole("checkbox", { name: "task.started" }).uncheck()
        await page.getByRole("button", { name: "Register endpoint" }).click()
        await page.getByRole("alert").waitFor()
        assert.include(await address.inputValue(), "ftp://hooks.example.com/")
        assert.isFalse(await page.getByRole("checkbox", { name: "task.started" }).isChecked())
        assert.isTrue(await page.getByRole("checkbox", { name: "conversion.paid" }).isChecked())
        await inspect(page, "webhook-refused")
      }, { refused: [400] })
      assert.deepStrictEqual(yield* endpoints, before)
    }))

  it.effect("stay readable with long addresses and many types, and are not for members", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      yield* memberNamed("ada")
      const [owner, member] = [yield* linkFor(), yield* linkFor("ada")]
      yield* visit(async (page) => {
        await signIn(page, owner)
        await page.goto("/webhooks")
        await page.getByLabel("Address").fill(`https://hooks.example.com/${"a".repeat(500)}`)
        await page.getByRole("checkbox", { name: "task.started" }).uncheck()
        await page.getByRole("button", { name: "Register endpoint" }).click()
        await inspect(page, "webhook-registered-long")
        await page.getByRole("link", { name: "Done" }).click()
        await inspect(page, "webhook-first")
        await page.goto("/webhooks")
        await inspect(page, "webhooks-long")
        await page.goto("/webhooks/none")
        await inspect(page, "webhook-not-found")
      }, { refused: [404] })
      yield* visit(async (page) => {
        await signIn(page, member)
        assert.strictEqual(await page.getByRole("link", { name: "Webhooks" }).count(), 0)
        await page.goto("/webhooks")
        assert.strictEqual(await headingOf(page), "Webhooks are for owners")
        await inspect(page, "webhooks-member")
      }, { refused: [403] })
    }))
})
