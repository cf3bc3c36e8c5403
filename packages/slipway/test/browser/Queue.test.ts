/** Messages that people send while a turn is active: they wait in sight, steer, and are taken back. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

const PHONE = { viewport: { width: 360, height: 740 } }

const waiting = async (page: Page) =>
  (await page.locator("#queue .waiting > li").allInnerTexts()).map((text) => text.replaceAll(/\s+/gu, " ").replace(/ Cancel.*$/u, ""))
const waits = (page: Page, text: string) => page.locator("#queue .waiting > li", { hasText: text }).waitFor()
const waitsNot = (page: Page, text: string) => page.locator("#queue .waiting > li", { hasText: text }).waitFor({ state: "detached" })

layer(Shop.layer(), { excludeTestServices: true })("messages during a turn", (it) => {
  it.effect("wait in sight, steer or are taken back, while the page stays as it is, and drafts survive a reload", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[say Listening.]] [[listen]] [[say Heard.]] [[hang]]")
        await page.goto(`/sandboxes/${id}`)
        await Shop.connection(page, "Live")
        await Shop.item(page, "Listening.").waitFor()
        await page.evaluate(() => document.body.dataset["loaded"] = "once")
        const prompt = page.getByLabel("Message the agent")
        const queue = async (text: string) => {
          await prompt.fill(text)
          await page.getByRole("button", { name: "Queue", exact: true }).click()
          await page.getByText("Queued.").waitFor()
          await waits(page, text.slice(0, 10))
        }
        await queue("[[say First.]]")
        await queue("[[say Second.]] <b>not bold</b> \u202eback")
        assert.deepStrictEqual(await waiting(page), [
          "Next 1 of 2 [[say First.]]",
          "Queued 2 of 2 [[say Second.]] <b>not bold</b> ⟨RIGHT-TO-LEFT OVERRIDE⟩back"
        ])
        await inspect(page, "queue")

        // A message that was taken back can be changed, and comes above the existing text.
        await prompt.fill("Half a thought")
        await page.getByRole("button", { name: "Cancel message 2" }).click()
        await page.getByText("Removed from the queue.").waitFor()
        await waitsNot(page, "Second.")
        assert.strictEqual(await prompt.inputValue(), "[[say Second.]] <b>not bold</b> \u202eback\n\nHalf a thought")
        assert.isTrue(await prompt.evaluate((field) => field === document.activeElement))
        assert.strictEqual(await page.evaluate(() => document.body.dataset["loaded"]), "once")

        await page.reload()
        await Shop.connection(page, "Live")
        assert.match(await prompt.inputValue(), /^\[\[say Second[^]*Half a thought$/u)
        await prompt.fill("[[say As you like.]]")
        await page.getByRole("button", { name: "Steer" }).click()
        await Shop.item(page, "As you like.").waitFor()
        await Shop.item(page, "Heard.").waitFor()
        assert.strictEqual(await prompt.inputValue(), "")
        await page.reload()
        await Shop.connection(page, "Live")
        assert.strictEqual(await prompt.inputValue(), "", "what was sent is no draft")

        await page.getByRole("button", { name: "Stop" }).click()
        await Shop.item(page, "First.").waitFor()
        await Shop.turnIs(page, "Done")
        assert.isFalse(await page.locator("#queue").isVisible())
        await page.getByRole("button", { name: "Send" }).waitFor()
        assert.strictEqual(await page.getByRole("button", { name: /^(?:Queue|Steer)$/u }).count(), 0)
      })
    }))

  it.effect("are sent one after the other, where the next is sent before the answer to the one before", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[say Here.]] [[hang]]")
        await page.goto(`/sandboxes/${id}`)
        await Shop.item(page, "Here.").waitFor()
        const { promise: answer, resolve } = Promise.withResolvers<undefined>()
        const sent: Array<string> = []
        await page.route(/\/messages$/u, async (route) => {
          sent.push(new URLSearchParams(route.request().postData() ?? "").get("prompt") ?? "")
          const response = await route.fetch()
          if (sent.length === 1) await answer
          await route.fulfill({ response })
        })
        const prompt = page.getByLabel("Message the agent")
        const send = async (text: string) => {
          await prompt.fill(text)
          await page.keyboard.press("Control+Enter")
        }
        await send("[[say First.]]")
        await waits(page, "First.")
        await page.keyboard.press("Control+Enter")
        await send("/stop")
        assert.deepStrictEqual(sent, ["[[say First.]]"])
        resolve(undefined)
        await Shop.item(page, "First.").waitFor()
        await Shop.turnIs(page, "Done")
        assert.deepStrictEqual(sent, ["[[say First.]]", "/stop"])
        assert.strictEqual(await prompt.inputValue(), "")
      })
    }))

  it.effect("say that no more may wait, and that a text is too long, before anything is lost", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[say Here.]] [[hang]]")
        await page.goto(`/sandboxes/${id}`)
        await Shop.connection(page, "Live")
        await Shop.item(page, "Here.").waitFor()
        const [prompt, queue] = [page.getByLabel("Message the agent"), page.getByRole("button", { name: "Queue", exact: true })]
        const isValid = () => prompt.evaluate((field) => field instanceof HTMLTextAreaElement && field.validity.valid)
        await prompt.fill("\u{1f600}".repeat(60_001))
        assert.isFalse(await isValid())
        await queue.click()
        assert.strictEqual(
          await prompt.evaluate((field) => (field as HTMLTextAreaElement).validationMessage),
          "Up to 60,000 characters (yours: 60,001)."
        )
        assert.strictEqual((await prompt.inputValue()).length, 120_002)
        await prompt.fill("\u{1f600}".repeat(60_000))
        assert.isTrue(await isValid())
        for (let n = 1; n <= 10; n++) {
          if (n > 1) await prompt.fill(`Message ${n}`)
          await queue.click()
          await page.locator("#queue", { hasText: `${n} of ${n}` }).waitFor()
        }
        await page.getByText("The queue is full (10).").waitFor()
        await inspect(page, "queue-full")
        await prompt.fill("One too many")
        await queue.click()
        await page.locator("#outcome", { hasText: "Take one back, or wait for the next turn." }).waitFor()
        assert.strictEqual(await prompt.inputValue(), "One too many")
        // By keyboard alone, and the focus stays where the reader goes on.
        await page.getByRole("button", { name: "Cancel message 10" }).focus()
        await page.keyboard.press("Enter")
        await page.getByText("The queue is full").waitFor({ state: "detached" })
        assert.strictEqual(await prompt.inputValue(), "Message 10\n\nOne too many")
        assert.isTrue(await prompt.evaluate((field) => field === document.activeElement))
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await waits(page, "One too many")
      }, { refused: [409] })
    }))

  it.effect("can be sent, seen and taken back on a phone, without scripts", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[say Here.]] [[hang]]")
        await Shop.loadsUntil(page, `/sandboxes/${id}`, "Working")
        const send = async (button: string, text: string) => {
          await page.getByLabel("Message the agent").fill(text)
          await page.getByRole("button", { name: button, exact: true }).click()
        }
        await send("Queue", "Then this")
        await page.getByText("Queued.").waitFor()
        await send("Steer", "Now this")
        await page.getByText("Steering…").waitFor()
        assert.deepStrictEqual(await waiting(page), ["Steering 1 of 2 Now this", "Queued 2 of 2 Then this"])
        const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
        assert.strictEqual(wider, 0)
        await page.getByRole("button", { name: "Cancel message 1" }).click()
        await page.getByText("Removed from the queue.").waitFor()
        assert.deepStrictEqual(await waiting(page), ["Next 1 of 1 Then this"])
      }, { options: { javaScriptEnabled: false, ...PHONE } })
    }))
})
