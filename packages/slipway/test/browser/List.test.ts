import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

const HOSTILE = "</a><script>alert(1)</script> [x](javascript:alert(1)) \u202e\u001b[31m"

const stateIs = (page: Page, title: string, state: string) =>
  page.getByRole("row").filter({ hasText: title }).locator(".state", { hasText: state }).waitFor()

layer(Shop.layer(), { excludeTestServices: true })("the list of sandboxes", (it) => {
  it.effect("shows what changes without being loaded again, and keeps what was chosen meanwhile", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/sandboxes")
        await inspect(page, "sandboxes-first")
        await page.setViewportSize({ width: 390, height: 844 })
        assert.isTrue(await page.locator("#compose").isVisible())
        await create("[[hang]]", { title: "Kept" })
        await page.reload()
        await stateIs(page, "Kept", "Working")
        await page.getByLabel("Select Kept").check()
        await create("[[write path=a.md content=a]]", { title: "Asks", ...Shop.ASKS })
        await stateIs(page, "Asks", "Needs you")
        await page.waitForFunction(() => document.title.startsWith("(1) Sandboxes"))
        await create("[[say Done.]]", { title: "Done" })
        await stateIs(page, "Done", "Ready")
        await create("[[say Hello]]", { title: HOSTILE })
        await stateIs(page, "<script>alert(1)</script>", "Ready")
        assert.isTrue(await page.getByLabel("Select Kept").isChecked())
        assert.match(await page.locator("tbody time").first().innerText(), /just now|minute/u)
        await inspect(page, "sandboxes-states")

        await page.getByLabel("Search titles and messages").fill("kep")
        await page.getByRole("button", { name: "Filter" }).click()
        await page.waitForURL("**/sandboxes?search=kep&repo=")
        assert.strictEqual(await page.locator("[data-item]").count(), 1)
        await page.getByLabel("Select Kept").check()
        await page.getByRole("button", { name: "End selected…" }).click()
        await inspect(page, "terminate-chosen")
        await page.getByRole("button", { name: "End", exact: true }).click()
        await page.getByText("Stopping…").waitFor()
        await stateIs(page, "Kept", "Ended")
      })
    }))

  it.effect("folds the composer to a link on a phone once it has sandboxes, and has the rail beside every page that is wide enough", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[say Hello]]", { title: "Beside all pages" })
        await page.goto("/sandboxes")
        await page.getByRole("row").filter({ hasText: "Beside all pages" }).waitFor()
        const start = page.getByRole("link", { name: "+ New", exact: true })
        // Lower than the page: the link stays in view.
        await page.setViewportSize({ width: 390, height: 480 })
        assert.isFalse(await page.locator("#compose").isVisible())
        const { bottom, right } = await start.evaluate((link) => link.getBoundingClientRect())
        assert.isTrue(bottom > 420 && bottom < 480 && right > 340 && right < 390, `at ${bottom}, ${right}`)
        await inspect(page, "sandboxes-folded")
        await page.setViewportSize({ width: 390, height: 844 })
        await start.click()
        await page.waitForURL("**/new")
        await page.locator("#compose").waitFor()

        for (const [path, name] of [["/keys", "keys-rail"], ["/nope", "not-found-rail"]] as const) {
          await page.setViewportSize({ width: 1440, height: 900 })
          await page.goto(path)
          const beside = page.locator(`.rail a[href="/sandboxes/${id}"]`)
          await beside.waitFor()
          const [rail, main] = [await page.locator("body > header").boundingBox(), await page.getByRole("main").boundingBox()]
          assert.isTrue(rail !== null && main !== null && rail.x + rail.width <= main.x, `${path} beside its rail`)
          await inspect(page, name)
          await page.setViewportSize({ width: 1199, height: 900 })
          assert.isFalse(await beside.isVisible())
        }
      }, { refused: [404] })
      const again = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, again)
        await page.goto("/sandboxes")
        assert.isFalse(await page.locator("#compose").isVisible())
        assert.isTrue(await page.getByRole("link", { name: "+ New", exact: true }).isVisible())
      }, { options: { javaScriptEnabled: false, viewport: { width: 390, height: 844 } } })
    }))

  it.effect("is used with single keys, which are off while somebody types and can be turned off", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await create("[[hang]]", { title: "By keys, the older one" })
        const id = await create("[[write path=k.md content=k]] [[write path=l.md content=l]]", { title: "By keys", ...Shop.ASKS })
        await page.goto("/sandboxes?search=by+keys")
        const focused = () => page.evaluate(() => document.activeElement?.textContent?.trim() ?? "")
        await page.getByRole("main").getByRole("link", { name: "By keys", exact: true }).waitFor()
        await page.keyboard.press("j")
        assert.strictEqual(await focused(), "By keys")
        await page.keyboard.press("j")
        assert.notStrictEqual(await focused(), "By keys")
        await page.keyboard.press("k")
        assert.strictEqual(await focused(), "By keys")
        await page.keyboard.press("/")
        await page.keyboard.type("jk?a")
        assert.strictEqual(await page.getByLabel("Search titles and messages").inputValue(), "jk?a")
        await page.getByLabel("Search titles and messages").blur()
        await page.keyboard.press("?")
        await page.getByRole("dialog", { name: "Keys" }).waitFor()
        await inspect(page, "keys-help")
        await page.getByLabel("Enable shortcuts").uncheck()
        await page.keyboard.press("Escape")
        await page.keyboard.press("/")
        assert.notStrictEqual(await page.evaluate(() => document.activeElement?.id), "search")
        await page.keyboard.press("?")
        await page.getByLabel("Enable shortcuts").check()
        await page.getByRole("button", { name: "Close" }).click()

        await page.goto(`/sandboxes/${id}`)
        await page.locator(".approval", { hasText: "k.md" }).waitFor()
        await page.locator(".approval form:not([aria-busy=true])").waitFor()
        await page.keyboard.press("j")
        await page.keyboard.press("a")
        await page.locator(".approval", { hasText: "l.md" }).locator("form:not([aria-busy=true])").waitFor()
        await page.keyboard.press("j")
        await page.keyboard.press("d")
        await Shop.turnIs(page, "Done")
        const tools = (await page.locator("#conversation").innerText()).toLowerCase()
        assert.include(tools, "denied")
        assert.strictEqual(await page.locator(".approval").count(), 0)
      })
    }))

  it.effect("leads to pages by keys, and to what can be done with a sandbox, without doing what cannot be undone", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const focused = () => page.evaluate(() => document.activeElement?.textContent?.trim() ?? "")
        await page.goto("/settings")
        for (const [keys, path] of [["gp", "/pulls"], ["gu", "/usage"], ["gk", "/keys"], ["gs", "/sandboxes"]] as const) {
          for (const key of keys) await page.keyboard.press(key)
          await page.waitForURL(`**${path}`)
        }
        await page.keyboard.press("n")
        assert.strictEqual(await page.evaluate(() => document.activeElement?.id), "compose-prompt")
        await page.goto("/pulls")
        await page.keyboard.press("n")
        await page.waitForURL("**/new")

        const id = await create("[[write path=a.md content=a]] [[write path=b.md content=b]]", { title: "Keys of a sandbox" })
        await page.goto(`/sandboxes/${id}`)
        await Shop.turnIs(page, "Done")
        await page.locator("#changes").getByRole("link", { name: "b.md" }).waitFor()
        await page.keyboard.press("]")
        await page.keyboard.press("]")
        assert.strictEqual(await focused(), "b.md")
        await page.keyboard.press("[")
        assert.strictEqual(await focused(), "a.md")
        await page.keyboard.press("p")
        assert.strictEqual(await focused(), "Publish draft PR")
        assert.strictEqual(await page.locator("[action$='/pull-request'][aria-busy]").count(), 0)
        await page.keyboard.press("e")
        assert.strictEqual(await focused(), "End sandbox…")
        await page.keyboard.press("Escape")
        await page.keyboard.press("i")
        await page.keyboard.press("r")
        await page.keyboard.type("[[hang]] nrpe")
        await page.keyboard.press("Control+Enter")
        await page.getByRole("button", { name: "Stop" }).waitFor()
        await page.getByLabel("Message the agent").blur()
        assert.strictEqual(new URL(page.url()).pathname, `/sandboxes/${id}`)
        await page.keyboard.press("i")
        await Shop.turnIs(page, "Interrupted")

        await page.goto(`/sandboxes/${id}/changes`)
        const file = () => page.evaluate(() => document.activeElement?.querySelector(".path")?.textContent)
        await page.keyboard.press("]")
        assert.strictEqual(await file(), "a.md")
        await page.keyboard.press("]")
        assert.strictEqual(await file(), "b.md")
        await page.keyboard.press("[")
        assert.strictEqual(await file(), "a.md")
      })
    }))

  it.effect("finds sandboxes, pages and what is on the page from anywhere, and gives the focus back", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[say Hello]]", { title: `Found ${HOSTILE}` })
        await page.goto(`/sandboxes/${id}`)
        await Shop.turnIs(page, "Done")
        const field = page.getByRole("combobox", { name: "Search sandboxes, pages and actions" })
        const chosen = () => page.locator("[role=option][aria-selected=true]").innerText()
        await page.getByLabel("Message the agent").focus()
        await page.keyboard.press("Control+k")
        await page.getByRole("option", { name: "Found" }).waitFor()
        await inspect(page, "palette")
        await page.keyboard.press("ArrowDown")
        const second = await chosen()
        await page.keyboard.press("ArrowUp")
        assert.notStrictEqual(await chosen(), second)
        await page.keyboard.press("Escape")
        assert.strictEqual(await page.evaluate(() => document.activeElement?.id), "prompt")

        // An action is not done by its name: its button gets the focus.
        await page.keyboard.press("Control+k")
        await field.fill("end sand")
        await page.keyboard.press("Enter")
        await page.waitForURL(`**/sandboxes/${id}/terminate`)
        await page.goBack()
        await page.keyboard.press("Control+k")
        await field.fill("publish")
        assert.match(await chosen(), /^Publish draft PR/u)
        await page.keyboard.press("Enter")
        assert.strictEqual(await page.evaluate(() => document.activeElement?.textContent), "Publish draft PR")
        assert.strictEqual(await page.locator("[action$='/pull-request'][aria-busy]").count(), 0)

        await page.keyboard.press("Control+k")
        await field.fill("pull req")
        await page.keyboard.press("Enter")
        await page.waitForURL("**/pulls")
        await page.getByRole("link", { name: "Search" }).click()
        await field.fill("found </a>")
        await page.getByRole("option", { name: "Found" }).waitFor()
        await page.keyboard.press("Enter")
        await page.waitForURL(`**/sandboxes/${id}`)
      })
    }))

  it.effect("finds a sandbox by a word of a message, in the list and from anywhere", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        const id = await create("[[say The xylophone was out of tune.]]", { title: "Music" })
        await page.goto(`/sandboxes/${id}`)
        await Shop.turnIs(page, "Done")
        await page.goto("/sandboxes")
        await page.getByLabel("Search titles and messages").fill("xylo")
        await page.keyboard.press("Enter")
        await page.locator(`#row-${id}`, { hasText: "The xylophone was out of tune." }).waitFor()
        assert.strictEqual(await page.locator("[data-item]").count(), 1)
        await inspect(page, "sandboxes-found")
        await page.goto("/pulls")
        await page.keyboard.press("Control+k")
        await page.getByRole("combobox", { name: "Search sandboxes, pages and actions" }).fill("tune xylophone")
        await page.getByRole("option", { name: "Music" }).waitFor()
        await page.keyboard.press("Enter")
        await page.waitForURL(`**/sandboxes/${id}`)
      })
    }))

  it.effect("archives a sandbox and shows it again, from its page and from the list, and deletes an ended one after asking", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create, terminate } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        const row = page.getByRole("row").filter({ hasText: "Put away" })
        const told = (text: string) => page.getByRole("status").filter({ hasText: text }).waitFor()
        await signIn(page, link)
        const id = await create("[[say Hello]]", { title: "Put away" })
        await page.goto(`/sandboxes/${id}`)
        await Shop.openMenu(page)
        await page.getByRole("link", { name: "Archive…" }).click()
        await inspect(page, "sandbox-archive")
        await page.getByRole("button", { name: "Archive", exact: true }).click()
        await told("Archived.")
        assert.strictEqual(await row.count(), 0)

        await page.getByRole("link", { name: "Archived" }).click()
        await row.waitFor()
        await inspect(page, "sandboxes-archived")
        await page.getByLabel("Select Put away").check()
        await page.getByRole("button", { name: "Unarchive selected…" }).click()
        await inspect(page, "sandbox-unarchive")
        await page.getByRole("button", { name: "Unarchive", exact: true }).click()
        await told("In the list again.")
        await row.waitFor()

        // Only an ended one is deleted.
        await page.getByLabel("Select Put away").check()
        await page.getByRole("button", { name: "Delete selected…" }).click()
        await page.getByRole("button", { name: "Delete", exact: true }).click()
        await inspect(page, "sandbox-delete-refused")
        await terminate(id)
        await page.goto("/sandboxes")
        await stateIs(page, "Put away", "Ended")
        await page.goto(`/sandboxes/${id}`)
        await Shop.openMenu(page)
        await page.getByRole("link", { name: "Delete sandbox…" }).click()
        await inspect(page, "sandbox-delete")
        await page.getByRole("button", { name: "Delete", exact: true }).click()
        await told("Deleted.")
        assert.strictEqual(await row.count(), 0)
        await page.goto(`/sandboxes/${id}`)
        await inspect(page, "sandbox-deleted")
      }, { refused: [404, 409] })
    }))

  it.effect("does all of it without scripts", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const { create } = yield* Shop.api
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await create("[[hang]]", { title: "No scripts" })
        await page.goto("/sandboxes")
        await page.getByLabel("What should the agent do?").fill("From the list")
        await page.getByLabel("Repository", { exact: true }).fill("acme/shop")
        await page.getByRole("button", { name: "Start" }).click()
        await page.getByRole("heading", { level: 1, name: "From the list" }).waitFor()
        await page.goto("/sandboxes?search=no+scripts")
        await page.getByLabel("Select No scripts").check()
        await page.getByRole("button", { name: "End selected…" }).click()
        await page.getByRole("button", { name: "End", exact: true }).click()
        await page.getByText("Stopping…").waitFor()
        assert.strictEqual(await page.getByRole("button", { name: "Notify me" }).count(), 0)
        await page.getByRole("link", { name: "Search" }).click()
        await page.getByLabel("Search titles and messages").waitFor()
      }, { options: { javaScriptEnabled: false } })
    }))
})
