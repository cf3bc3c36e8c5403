/** The page of a sandbox as a place to work in: what readers do stays theirs, and every part can be reached on a phone. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
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
        await page.getByLabel("Message the agent").fill("Half a thou")
        await page.evaluate(() => {
          const said = [...document.querySelectorAll(".item.text .item-text")].find(({ textContent }) => textContent?.includes("Ready"))
          if (said !== undefined) getSelection()?.selectAllChildren(said)
        })
        const selected = () => page.evaluate(() => String(getSelection()).trim())
        assert.strictEqual(await selected(), "Ready when you are.")

        await send(id, "[[say A word from elsewhere.]] [[slow 20 40]] [[write path=a.md content=hello]]")
        await Shop.item(page, "A word from elsewhere.").waitFor()
        await Shop.turnIs(page, "Done")
        assert.strictEqual(await page.getByLabel("Message the agent").inputValue(), "Half a thou")
        assert.strictEqual(await selected(), "Ready when you are.")
        // The changes of the turn show by themselves, and the typed message is sent without loading the page.
        await page.locator("#changes").getByRole("link", { name: "a.md" }).waitFor()
        await page.evaluate(() => document.body.dataset["loaded"] = "once")
        await page.getByLabel("Message the agent").fill("[[say Third.]]")
        await page.getByRole("button", { name: "Send" }).click()
        await page.getByText("Sent.").waitFor()
        await Shop.item(page, "Third.").waitFor()
        assert.strictEqual(await page.getByLabel("Message the agent").inputValue(), "")
        assert.strictEqual(await page.evaluate(() => document.body.dataset["loaded"]), "once")
      })
    }))

  /** Whether all of the element is on the screen. */
  const isInView = async (page: Page, selector: string) => {
    const box = await page.locator(selector).boundingBox()
    return box !== null && box.y >= 0 && box.y + box.height <= (page.viewportSize()?.height ?? 0)
  }
  const toEnd = (page: Page) => page.locator("#reel").evaluate((reel) => Math.abs(reel.scrollTop))

  it.effect("opens a long conversation at its end, follows it there, and counts new items for a reader further up", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, send } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const steps = Array.from({ length: 75 }, (_, i) => `[[say Module ${i}.]] [[shell seq 1 300]]`)
        const id = await create(`${steps.join(" ")} [[say The last word.]]`)
        await page.goto(`/sandboxes/${id}`)
        await Shop.turnIs(page, "Done")
        await page.reload()
        await Shop.connection(page, "Live")
        assert.isTrue(await isInView(page, "#message"), "the composer")
        assert.isTrue(await isInView(page, ".item.text >> nth=-1"), "the last word")
        assert.strictEqual(await toEnd(page), 0)
        // A row that is opened stays under the pointer.
        const row = page.locator(".item.tool summary").last()
        const before = await row.boundingBox()
        await row.click()
        await page.locator(".item.tool details[open] .output-box").waitFor()
        // In the frame after the click.
        await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))))
        assert.closeTo((await row.boundingBox())?.y ?? 0, before?.y ?? 0, 2)
        await row.click()
        await page.locator("#reel").evaluate((reel) => void (reel.scrollTop = 0))

        await send(id, `[[slow 10 20]] [[say ${"one word after another ".repeat(40)}]] [[say Over.]]`)
        await Shop.item(page, "Over.").waitFor()
        assert.strictEqual(await toEnd(page), 0)

        await page.locator("#reel").hover()
        await page.mouse.wheel(0, -1000)
        await page.waitForFunction(() => Math.abs(document.querySelector("#reel")?.scrollTop ?? 0) >= 999)
        await send(id, "[[say Unread.]]")
        const pill = page.getByRole("link", { name: /^↓ \d+ new$/u })
        await pill.waitFor()
        await Shop.item(page, "Unread.").waitFor()
        assert.isFalse(await isInView(page, ".item.text >> nth=-1"), "the reader stays where they are")
        await pill.click()
        assert.strictEqual(await toEnd(page), 0)
        assert.isTrue(await isInView(page, ".item.text >> nth=-1"))
        assert.isFalse(await pill.isVisible())
      })
    }))

  it.effect("leads to a read-only page, which follows the agent live and has no buttons", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, send } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[say First.]] [[write path=a.md content=hello]]", { title: "Write a note" })
        await page.goto(`/sandboxes/${id}`)
        await Shop.turnIs(page, "Done")
        await Shop.openMenu(page)
        await page.getByRole("link", { name: "Read-only page" }).click()
        await page.waitForURL(`**/sandboxes/${id}/read`)
        await Shop.connection(page, "Live")
        await Shop.item(page, "First.").waitFor()
        await page.locator("#changes").getByRole("link", { name: "a.md" }).waitFor()

        await send(id, "[[say Second.]] [[write path=b.md content=hello]] [[hang]]")
        await Shop.item(page, "Second.").waitFor()
        await page.locator("#state", { hasText: "Working" }).waitFor()
        await page.locator("#changes").getByRole("link", { name: "b.md" }).waitFor()
        assert.strictEqual(await page.locator("main").getByRole("button").count(), 0)
        assert.strictEqual(await page.locator("main").getByRole("link", { name: /Restore|Fork/u }).count(), 0)
        await inspect(page, "sandbox-read-only")
      })
    }))

  it.effect("says beside the form how a message fares", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create(`[[say ${"A long line. ".repeat(800)}]] [[hang]]`)
        await page.goto(`/sandboxes/${id}`)
        await Shop.item(page, "A long line.").waitFor()
        await page.getByLabel("Message the agent").fill("Later")
        await page.getByRole("button", { name: "Queue", exact: true }).click()
        await page.getByText("Queued.", { exact: true }).waitFor()
        assert.isTrue(await isInView(page, "#outcome p"))
      })
    }))

  it.effect("takes keys for a focused approval alone that is wholly in view", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const long = Array.from({ length: 100 }, (_, i) => `echo ${i}`).join("\n")
        const id = await create(`[[shell ${long}]] [[shell echo short]] [[say All done.]]`, Shop.ASKS)
        await page.goto(`/sandboxes/${id}`)
        const cards = page.locator(".approval")
        await cards.filter({ hasText: "echo 99" }).waitFor()
        const sent: Array<string> = []
        page.on("request", (request) => void (request.method() === "POST" && sent.push(request.url())))
        await cards.first().focus()
        await page.keyboard.press("a")
        await page.keyboard.press("d")
        assert.deepStrictEqual(sent, [], "its end is not seen")
        assert.isTrue(await isInView(page, ".approval .actions"), "its buttons are")
        await cards.getByRole("button", { name: "Approve echo" }).click()
        await cards.filter({ hasText: "echo short" }).waitFor()
        await page.locator("body").evaluate(() => document.activeElement instanceof HTMLElement && document.activeElement.blur())
        sent.length = 0
        await page.keyboard.press("a")
        assert.deepStrictEqual(sent, [], "it has no focus")
        await page.locator(".approval form:not([aria-busy=true])").waitFor()
        await cards.first().focus()
        await page.keyboard.press("a")
        await Shop.item(page, "All done.").waitFor()
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
        const changes = page.getByRole("heading", { name: "Changes" })
        assert.deepStrictEqual([await written.isVisible(), await changes.isVisible()], [true, false])
        await page.getByRole("link", { name: "Changes", exact: true }).click()
        // The page waits for git no longer than a moment.
        const again = page.locator("#changes").getByRole("link", { name: "Load the page again" })
        while (await file.count() === 0) await again.click()
        await file.waitFor()
        assert.isFalse(await written.isVisible())
        await page.getByRole("link", { name: "Chat", exact: true }).click()
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
        await page.locator("#checkpoint-1").waitFor({ state: "attached" })
        await send(id, "[[write path=second.md content=two]]")
        await page.locator("#changes").getByRole("link", { name: "second.md" }).waitFor()
        await page.locator("#checkpoint-2").waitFor({ state: "attached" })
        await inspect(page, "workspace")
        await page.goto(`/sandboxes/${id}?view=changes`)
        await inspect(page, "workspace-changes")

        await page.getByRole("link", { name: "Checkpoints" }).click()
        await page.locator("#checkpoints").getByRole("link", { name: "Restore checkpoint 1" }).click()
        await inspect(page, "workspace-go-back")
        await page.getByRole("button", { name: "Restore" }).click()
        await Shop.item(page, "Restored to an earlier checkpoint.").waitFor()
        await page.locator("#changes").getByRole("link", { name: "second.md" }).waitFor({ state: "detached" })
        await page.locator("#changes").getByRole("link", { name: "first.md" }).waitFor()

        await page.locator("#conversation").getByRole("link", { name: "Fork checkpoint 2" }).click()
        await page.getByLabel("What should the agent do?").fill("[[say Another way.]]")
        await inspect(page, "workspace-fork")
        await page.getByRole("button", { name: "Fork", exact: true }).click()
        await Shop.item(page, "Another way.").waitFor()
        await Shop.openMenu(page)
        await page.getByRole("link", { name: `Checkpoint 2 of ${id}` }).waitFor()
        await page.locator("#changes").getByRole("link", { name: "second.md" }).waitFor()

        // Somebody else began a turn since.
        await page.goto(`/sandboxes/${id}`)
        await page.locator("#conversation").getByRole("link", { name: "Restore checkpoint 1" }).click()
        await send(id, "[[hang]]")
        await page.getByRole("button", { name: "Restore" }).click()
        await page.locator(".problem", { hasText: "The agent is working. Wait for it or stop it, then restore." }).waitFor()
        await inspect(page, "workspace-go-back-refused")
      })
    }))
})
