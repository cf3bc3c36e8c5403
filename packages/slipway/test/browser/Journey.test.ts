/** The whole way from a sign-in link to a merged pull request. `SLIPWAY_RECORDINGS` keeps each as a trace: docs/testing.md. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { Browser, keysOf, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

const TASK = "[[write path=first.md content=one]] [[shell echo two]] [[say Ready for a look.]]"
const MORE = "[[write path=second.md content=two]] [[say Both are there.]]"

/** A press of a mouse or a finger fails the test. */
const forbidPointer = (page: Page) =>
  page.addInitScript(() => addEventListener("pointerdown", () => reportError(new Error("a pointer was used")), true))

const pathOf = (page: Page) => new URL(page.url()).pathname

layer(Shop.layer(), { excludeTestServices: true })("from the sign-in link to a merged pull request", (it) => {
  it.effect("leads the keyboard alone", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      yield* visit(async (page) => {
        const { keyboard } = page
        const { tabTo } = keysOf(page)
        const approve = async (text: string, reach: (button: string) => Promise<void>) => {
          const card = page.locator(".approval", { hasText: text })
          // In the moment after it appeared it takes no press.
          await card.locator("form:not([aria-busy=true])").waitFor()
          await reach((await card.locator("button[value=approve]").textContent() ?? "").trim())
          await keyboard.press("a")
          await card.waitFor({ state: "detached" })
        }
        await forbidPointer(page)
        await page.goto(link)
        await page.waitForFunction(() => document.activeElement?.id === "sign-in")
        await keyboard.press("Enter")
        await page.waitForURL("**/sandboxes")

        await keyboard.press("n")
        await tabTo("compose-approvals")
        await keyboard.press("ArrowDown")
        assert.strictEqual(await page.locator("#compose-approvals").inputValue(), "prompt")
        await tabTo("compose-prompt", "Shift+Tab")
        await keyboard.type(TASK)
        await keyboard.press("Meta+Enter")
        await page.waitForURL("**/sandboxes/c_*")

        const byLetter = () => keyboard.press("j")
        await approve("first.md", byLetter)
        await approve("echo two", byLetter)
        await Shop.item(page, "Ready for a look.").waitFor()
        await Shop.turnIs(page, "Done")
        await keyboard.press("r")
        await keyboard.type(MORE)
        await keyboard.press("Control+Enter")
        // From the message, where letters are text.
        await approve("second.md", (button) => tabTo(button, "Shift+Tab"))
        await Shop.item(page, "Both are there.").waitFor()
        await Shop.turnIs(page, "Done")

        await page.locator("#commands button", { hasText: "Publish" }).waitFor()
        await keyboard.press("p")
        await keyboard.press("Enter")
        const view = page.locator("#commands a", { hasText: "View #" })
        await view.waitFor()
        await tabTo((await view.innerText()).trim())
        await keyboard.press("Enter")
        await page.waitForURL("**/local/acme/shop/pulls/*")
        await page.locator(".diff .added", { hasText: "two" }).waitFor()
        await tabTo("Merge…")
        await keyboard.press("Enter")
        await page.waitForURL("**/merge?*")
        await tabTo("Merge into main")
        await keyboard.press("Enter")
        await page.getByText("Merged.", { exact: true }).waitFor()
        assert.strictEqual(await page.locator("#state").innerText(), "Merged")
      }, { recording: "keyboard" })
    }))

  it.effect("needs no JavaScript", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      yield* visit(async (page) => {
        const press = (name: string) => page.getByRole("button", { name, exact: true }).click()
        const approve = async (sandbox: string, text: string) => {
          await Shop.loadsUntil(page, sandbox, "Needs your approval")
          const card = page.locator(".approval", { hasText: text })
          while (await card.count() === 0) await page.goto(sandbox)
          await card.locator("button[value=approve]").click()
          await page.getByText("Approved.", { exact: true }).waitFor()
        }
        await signIn(page, link)
        await page.waitForURL("**/sandboxes")
        await page.getByLabel("What should the agent do?").fill(TASK.replace("first", "third"))
        await page.getByLabel("Approvals").selectOption("prompt")
        await press("Start")
        await page.waitForURL("**/sandboxes/c_*")
        const sandbox = pathOf(page)
        await approve(sandbox, "third.md")
        await approve(sandbox, "echo two")
        await Shop.loadsUntil(page, sandbox, "Ready for a look.")
        await Shop.loadsUntil(page, sandbox, "Done")
        await page.getByLabel("Message the agent").fill(MORE.replace("second", "fourth"))
        await press("Send")
        await approve(sandbox, "fourth.md")
        await Shop.loadsUntil(page, sandbox, "Both are there.")
        while (await page.locator("#commands button", { hasText: "Publish" }).count() === 0) await page.goto(sandbox)
        await page.locator("#commands button", { hasText: "Publish" }).click()
        await page.getByText(/Draft pull request #\d+ opened\./u).waitFor()
        await page.locator("#commands").getByRole("link", { name: /View #\d+/u }).click()
        await page.waitForURL("**/local/acme/shop/pulls/*")
        await page.getByRole("link", { name: "Merge…", exact: true }).click()
        await press("Merge into main")
        await page.getByText("Merged.", { exact: true }).waitFor()
        assert.strictEqual(await page.locator("#state").innerText(), "Merged")
      }, { recording: "no-javascript", options: { javaScriptEnabled: false } })
    }))
})
