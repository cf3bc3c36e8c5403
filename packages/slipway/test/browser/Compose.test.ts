import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { Browser, inspect, linkFor, signIn } from "./Browser.ts"
import * as Shop from "./Shop.ts"

const PICTURE = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
  "base64"
)

const chosen = (page: Page) =>
  Promise.all(["Model", "Effort", "Approvals"].map((name) => page.getByLabel(name, { exact: true }).inputValue()))

layer(Shop.layer(["acme/shop", "acme/docs"]), { excludeTestServices: true })("the form of a new sandbox", (it) => {
  it.effect("starts work, keeps a draft until it is sent, and remembers what was chosen", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/new")
        const [prompt, repo] = [page.getByLabel("What should the agent do?"), page.getByLabel("Repository", { exact: true })]
        await inspect(page, "new")
        await prompt.fill("[[say Hello]] <b>draft</b>")
        await repo.fill("acme/shop")
        await page.getByText("More repositories").click()
        await page.getByLabel("Repository 2").fill("acme/docs")
        await page.getByLabel("Effort").selectOption("high")
        await page.getByLabel("Approvals").selectOption("prompt")
        await page.reload()
        assert.strictEqual(await prompt.inputValue(), "[[say Hello]] <b>draft</b>")
        assert.strictEqual(await page.getByLabel("Repository 2").inputValue(), "acme/docs")
        assert.deepStrictEqual(await chosen(page), ["offline/demo", "high", "prompt"])
        await inspect(page, "new-draft")
        await page.getByRole("button", { name: "Start" }).click()
        await page.getByRole("heading", { level: 1, name: "[[say Hello]] <b>draft</b>" }).waitFor()
        await page.goto("/new")
        assert.strictEqual(await prompt.inputValue(), "")
        assert.strictEqual(await repo.inputValue(), "acme/shop")
        assert.deepStrictEqual(await chosen(page), ["offline/demo", "high", "prompt"])
      })
    }))

  it.effect("takes files that are chosen, pasted or dropped, shows them, and sends those that are left", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/new")
        const prompt = page.getByLabel("What should the agent do?")
        await prompt.fill("[[say Seen]]")
        await page.getByLabel("Repository", { exact: true }).fill("acme/shop")
        await page.getByLabel("Files").setInputFiles([{ name: "a.png", mimeType: "image/png", buffer: PICTURE }])
        await page.waitForFunction(() => (document.querySelector<HTMLImageElement>(".attach-list img")?.naturalWidth ?? 0) > 0)
        for (const [type, name] of [["paste", "b.txt"], ["drop", "c.txt"]] as const) {
          await prompt.evaluate((field, { name, type }) => {
            const data = new DataTransfer()
            data.items.add(new File(["x"], name, { type: "text/plain" }))
            const options = { bubbles: true, cancelable: true }
            field.dispatchEvent(
              type === "paste"
                ? new ClipboardEvent(type, { ...options, clipboardData: data })
                : new DragEvent(type, { ...options, dataTransfer: data })
            )
          }, { name, type })
          await page.getByRole("button", { name: `Remove ${name}` }).waitFor()
        }
        await inspect(page, "new-files")
        await page.getByRole("button", { name: "Remove b.txt" }).click()
        await page.getByRole("button", { name: "Remove b.txt" }).waitFor({ state: "detached" })
        await page.getByRole("button", { name: "Start" }).click()
        await page.getByText("Files: a.png, c.txt").waitFor()
      })
    }))

  it.effect("suggests the repositories that fit what is typed", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/new")
        await page.getByLabel("Repository", { exact: true }).fill("docs")
        await page.waitForFunction(() =>
          Array.from(document.querySelectorAll("#repositories option"), (option) => option.getAttribute("value")).join() === "acme/docs"
        )
      })
    }))

  it.effect("continues a pull request or a branch, and names the field of a branch that cannot be continued", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/new")
        await page.getByLabel("What should the agent do?").fill("[[say Hello]]")
        await page.getByLabel("Repository", { exact: true }).fill("acme/shop")
        await page.getByText("Continue a pull request or branch").click()
        const asked = page.waitForResponse((response) => response.url().includes("/new/pulls?repo=acme%2Fshop"))
        const pull = page.getByLabel("Pull request", { exact: true })
        await pull.focus()
        assert.strictEqual((await asked).status(), 200)
        await inspect(page, "new-continue")
        await pull.fill("#99")
        await page.getByRole("button", { name: "Start" }).click()
        await page.getByRole("alert").getByText("has no pull request #99").waitFor()
        assert.strictEqual(await pull.getAttribute("aria-invalid"), "true")
        await inspect(page, "new-continue-refused")
        await pull.fill("")
        await page.getByLabel("Branch to continue").fill("main")
        await page.getByRole("button", { name: "Start" }).click()
        await page.getByRole("alert").getByText("is the default branch").waitFor()
      }, { refused: [409] })
    }))

  it.effect("does all of it without scripts, and names the field that is wrong", () =>
    Effect.gen(function*() {
      const { visit } = yield* Browser
      const link = yield* linkFor()
      yield* visit(async (page) => {
        await signIn(page, link)
        await page.goto("/new")
        await page.getByLabel("What should the agent do?").fill("Try this")
        await page.getByLabel("Repository", { exact: true }).fill("no repository")
        await page.getByRole("button", { name: "Start" }).click()
        await page.getByRole("alert").filter({ hasText: "Repository: Write the repository as owner/name." }).waitFor()
        assert.strictEqual(await page.getByLabel("What should the agent do?").inputValue(), "Try this")
        await page.getByLabel("Repository", { exact: true }).fill("acme/absent")
        await page.getByRole("button", { name: "Start" }).click()
        await page.getByRole("alert").filter({ hasText: "slipway repos add acme/absent PATH" }).waitFor()
        await page.getByLabel("Repository", { exact: true }).fill("acme/shop")
        await page.getByRole("button", { name: "Start" }).click()
        await page.getByRole("heading", { level: 1, name: "Try this" }).waitFor()
      }, { options: { javaScriptEnabled: false }, refused: [400, 403] })
    }))
})
