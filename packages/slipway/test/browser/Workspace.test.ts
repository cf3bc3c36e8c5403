/** The page of a sandbox as a place to work in: what readers do stays theirs, and every part can be reached on a phone. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

layer(Shop.layer(), { excludeTestServices: true })("the workspace", (it) => {
  it.effect("keeps what somebody types and selected while the page around it is replaced", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, send } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[say Ready when you are.]]")
        await page.goto(`/sandboxes/${id}`)
        await page.locator("#connection", { hasText: "Live" }).waitFor()
        await Shop.turnIs(page, "Done")
        await page.getByLabel("Follow-up").fill("Half a thou")
        await page.evaluate(() => {
          const said = [...document.querySelectorAll(".item.text .item-text")].find(({ textContent }) => textContent?.includes("Ready"))
          if (said !== undefined) getSelection()?.selectAllChildren(said)
        })
        const selected = () => page.evaluate(() => String(getSelection()).trim())
        assert.strictEqual(await selected(), "Ready when you are.")

        await send(id, "[[say A word from elsewhere.]] [[slow 20 40]] [[write path=a.md content=hello]]")
        await Shop.item(page, "A word from elsewhere.").waitFor()
        await Shop.turnIs(page, "Done")
        assert.strictEqual(await page.getByLabel("Follow-up").inputValue(), "Half a thou")
        assert.strictEqual(await selected(), "Ready when you are.")
        // The changes of the turn show by themselves, and the typed message is sent without loading the page.
        await page.locator("#changes").getByRole("link", { name: "a.md" }).waitFor()
        await page.evaluate(() => document.body.dataset["loaded"] = "once")
        await page.getByLabel("Follow-up").fill("[[say Third.]]")
        await page.getByRole("button", { name: "Send" }).click()
        await page.getByText("Your message was sent.").waitFor()
        await Shop.item(page, "Third.").waitFor()
        assert.strictEqual(await page.getByLabel("Follow-up").inputValue(), "")
        assert.strictEqual(await page.evaluate(() => document.body.dataset["loaded"]), "once")
      })
    }))

  it.effect("shows one part at a time on a phone, without scripts", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[write path=docs/a.md content=hello]] [[say Written.]]")
        await Shop.loadsUntil(page, `/sandboxes/${id}`, "Done")
        const [written, file] = [Shop.item(page, "Written."), page.locator("#changes").getByRole("link", { name: "docs/a.md" })]
        assert.deepStrictEqual([await written.isVisible(), await page.getByRole("heading", { name: "Changes" }).isVisible()], [true, false])
        await page.getByRole("link", { name: "Changes", exact: true }).click()
        // The page waits for git no longer than a moment.
        const again = page.locator("#changes").getByRole("link", { name: "Load the page again" })
        while (await file.count() === 0) await again.click()
        await file.waitFor()
        assert.isFalse(await written.isVisible())
        await page.getByRole("link", { name: "Conversation", exact: true }).click()
        await written.waitFor()
        assert.isFalse(await file.isVisible())
      }, { options: { javaScriptEnabled: false, viewport: { width: 360, height: 740 } } })
    }))

  it.effect("leads back to a checkpoint, and to a fork that starts as one", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, send } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[write path=first.md content=one]]")
        await page.goto(`/sandboxes/${id}`)
        await page.locator("#checkpoint-1").waitFor()
        await send(id, "[[write path=second.md content=two]]")
        await page.locator("#changes").getByRole("link", { name: "second.md" }).waitFor()
        await page.locator("#checkpoint-2").waitFor()
        await inspect(page, "workspace")
        await page.goto(`/sandboxes/${id}?view=changes`)
        await inspect(page, "workspace-changes")

        await page.getByRole("link", { name: "Go back to checkpoint 1" }).click()
        await inspect(page, "workspace-go-back")
        await page.getByRole("button", { name: "Go back" }).click()
        await Shop.item(page, "Restored to an earlier checkpoint.").waitFor()
        await page.locator("#changes").getByRole("link", { name: "second.md" }).waitFor({ state: "detached" })
        await page.locator("#changes").getByRole("link", { name: "first.md" }).waitFor()

        await page.getByRole("link", { name: "Fork checkpoint 2" }).click()
        await page.getByLabel("What is to be done").fill("[[say Another way.]]")
        await inspect(page, "workspace-fork")
        await page.getByRole("button", { name: "Fork", exact: true }).click()
        await Shop.item(page, "Another way.").waitFor()
        await page.getByRole("link", { name: `Checkpoint 2 of ${id}` }).waitFor()
        await page.locator("#changes").getByRole("link", { name: "second.md" }).waitFor()

        // Somebody else began a turn since.
        await page.goto(`/sandboxes/${id}`)
        await page.getByRole("link", { name: "Go back to checkpoint 1" }).click()
        await send(id, "[[hang]]")
        await page.getByRole("button", { name: "Go back" }).click()
        await page.locator(".problem", { hasText: "The agent is working. Wait for it or stop it, then restore." }).waitFor()
        await inspect(page, "workspace-go-back-refused")
      })
    }))
})
