/** Completion while a person types, commands of the message box, and the page of repositories. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { folder, repository } from "../commands/SlipwayProcess.ts"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

const offered = (page: Page) => page.getByRole("listbox", { name: "Suggestions" }).getByRole("option")
const offers = (page: Page, ...names: ReadonlyArray<string>) =>
  page.waitForFunction(
    (wanted) => Array.from(document.querySelectorAll("#completions:not([hidden]) .what"), (name) => name.textContent).join() === wanted,
    names.join()
  )
const activeOf = (page: Page) =>
  page.evaluate(() => {
    const id = document.activeElement?.getAttribute("aria-activedescendant") ?? ""
    return document.getElementById(id)?.textContent?.trim() ?? null
  })

layer(Shop.layer(["acme/shop"]), { excludeTestServices: true })("completion", (it) => {
  it.effect("finds files of the repository for a task, by keys and by the mouse", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/new")
        const prompt = page.getByLabel("What should the agent do?")
        await page.getByLabel("Repository", { exact: true }).fill("acme/shop")
        await prompt.pressSequentially("me@example.com @S")
        await offers(page, "src/", "docs/")
        assert.strictEqual(await activeOf(page), "src/")
        await inspect(page, "complete-task")
        await page.keyboard.press("ArrowUp")
        assert.strictEqual(await activeOf(page), "docs/")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        await offers(page, "catalogue.js", "prices.js")
        await offered(page).filter({ hasText: "prices.js" }).click()
        await offered(page).first().waitFor({ state: "hidden" })
        assert.strictEqual(await prompt.inputValue(), "me@example.com @src/prices.js ")
        await prompt.pressSequentially("and @")
        await offers(page, ".gitignore", "README.md", "docs/", "src/")
        await page.keyboard.press("Escape")
        await page.keyboard.press("Enter")
        assert.strictEqual(await prompt.inputValue(), "me@example.com @src/prices.js and @\n")
        assert.strictEqual(await prompt.getAttribute("aria-controls"), null)
      })
    }))

  it.effect("finds files and commands for a message, and a message that is a command does it", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[write path=HELLO.md content=Hello]]")
        await page.goto(`/sandboxes/${id}`)
        await Shop.turnIs(page, "Done")
        const prompt = page.getByLabel("Message the agent")
        await prompt.pressSequentially("See @docs/r")
        await offers(page, "running.md")
        await page.keyboard.press("Tab")
        assert.strictEqual(await prompt.inputValue(), "See @docs/running.md ")
        await prompt.fill("")
        await prompt.pressSequentially("/")
        await offers(page, "/publish", "/stop", "/fork")
        await inspect(page, "complete-command")
        await prompt.pressSequentially("p")
        await offers(page, "/publish")
        await page.keyboard.press("Enter")
        assert.strictEqual(await prompt.inputValue(), "/publish")
        await page.keyboard.press("Control+Enter")
        await page.locator("#outcome", { hasText: "Draft pull request #1 opened." }).waitFor()
        assert.strictEqual(await prompt.inputValue(), "")

        await prompt.fill("[[say Here.]] [[hang]]")
        await page.keyboard.press("Control+Enter")
        // A turn that the agent has not begun would be cancelled.
        await Shop.item(page, "Here.").waitFor()
        await prompt.fill("/stop")
        await page.keyboard.press("Control+Enter")
        await Shop.turnIs(page, "The turn was interrupted")

        await page.locator("#checkpoints a", { hasText: "Fork" }).first().waitFor({ state: "attached" })
        await prompt.fill("/fork")
        await page.keyboard.press("Control+Enter")
        await page.getByRole("heading", { level: 1, name: /^Fork from checkpoint \d+$/u }).waitFor()
        await page.goto(`/sandboxes/${id}`)
        assert.strictEqual(await prompt.inputValue(), "")
        await prompt.fill("/frok")
        await page.keyboard.press("Control+Enter")
        await page.locator("#outcome", { hasText: "Sent to the agent. To fork, send /fork alone." }).waitFor()
      })
    }))

  it.effect("is not needed: without scripts the text is sent, and a command is done", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[hang]]")
        await Shop.loadsUntil(page, `/sandboxes/${id}`, "Working")
        await page.getByLabel("Message the agent").fill("/stop")
        await page.getByRole("button", { name: "Queue" }).click()
        await page.locator("#outcome", { hasText: "Stopping…" }).waitFor()
      }, { options: { javaScriptEnabled: false } })
    }))
})

layer(Shop.layer([]), { excludeTestServices: true })("the page of repositories", (it) => {
  it.effect("adds a folder of the machine, from which a sandbox then starts", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const place = repository(yield* folder)
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/new")
        await page.getByRole("link", { name: "Add a repository" }).click()
        await page.getByLabel("Name").fill("acme/added")
        await page.getByLabel("Folder on the service's machine").fill("https://me:secret@git.example/shop")
        await page.getByRole("button", { name: "Add repository" }).click()
        await page.getByRole("alert").filter({ hasText: "not an address" }).waitFor()
        assert.strictEqual(await page.getByLabel("Folder on the service's machine").inputValue(), "")
        await inspect(page, "repositories-refused")
        await page.getByLabel("Folder on the service's machine").fill(place)
        await page.getByRole("button", { name: "Add repository" }).click()
        await page.getByText("Repository added.").waitFor()
        await page.getByRole("row").filter({ hasText: "acme/added" }).getByText("main", { exact: true }).waitFor()
        await inspect(page, "repositories")
        await page.goto("/new")
        assert.strictEqual(await page.getByLabel("Repository", { exact: true }).inputValue(), "acme/added")
      }, { refused: [400] })
    }))
})
